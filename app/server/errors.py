"""What is refused, in the form that the client's library reads.

OpenAI's: {"error": {"message", "type", "param", "code"}}; Anthropic's: {"type": "error", "error":
{"type", "message"}}. Both libraries raise by the HTTP status and show the message.
"""

from __future__ import annotations

from typing import Any, Final

from app.engine.protocol.messages import Failed

ANTHROPIC_PATH: Final = "/v1/messages"

_OPENAI_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
_ANTHROPIC_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


class ApiError(Exception):
    """A request that gets no answer, with the sentence why. `param` names the field that it is
    about; `retry_after_s`: when to try again, 0: not said."""

    def __init__(
        self,
        status: int,
        sentence: str,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int = 0,
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    def body(self, path: str) -> dict[str, Any]:
        """In the form of what was asked."""
        if path.startswith(ANTHROPIC_PATH):
            usual = "invalid_request_error" if self.status < 500 else "api_error"
            kind = _ANTHROPIC_TYPES.get(self.status, usual)
            return {"type": "error", "error": {"type": kind, "message": self._named()}}
        usual = "invalid_request_error" if self.status < 500 else "server_error"
        kind = _OPENAI_TYPES.get(self.status, usual)
        error = {"message": self._named(), "type": kind, "param": self.param, "code": self.code}
        return {"error": error}

    @property
    def headers(self) -> dict[str, str]:
        return {"retry-after": str(self.retry_after_s)} if self.retry_after_s else {}

    def _named(self) -> str:
        """The sentence, with the field's name where it has it in other words."""
        if self.param is None or self.param in self.sentence:
            return self.sentence
        return f"{self.param}: {self.sentence}"


def bad_request(sentence: str, param: str | None = None, code: str | None = None) -> ApiError:
    """400: what was asked cannot be done as it was asked."""
    return ApiError(400, sentence, param, code)


NO_MODEL: Final = "No model is loaded. Load one in Cutaway, then try again."
UNLOADED: Final = "The model was unloaded before the reply was finished. Try again."
STOPPED: Final = "The reply was stopped in Cutaway."
CLOSING: Final = "Cutaway's server was turned off before the reply was finished."

_STATUS_OF_KIND: Final = {
    "bad_setting": 400,
    "bad_template": 400,
    "prompt_too_long": 400,
    "not_a_chat_model": 400,
    "unsupported": 400,
    "no_candidate": 400,
    "no_projector": 400,
    "bad_media": 400,
    "not_loaded": 503,
    "out_of_memory": 503,
    "busy": 503,
}


def of_failure(failed: Failed) -> ApiError:
    """What the engine could not do. `evidence` of a bad setting is its field's name."""
    status = _STATUS_OF_KIND.get(failed.kind, 500)
    code = "context_length_exceeded" if failed.kind == "prompt_too_long" else failed.kind
    param = failed.evidence if failed.kind == "bad_setting" and failed.evidence.isascii() else None
    return ApiError(status, failed.sentence, _short(param), code)


def _short(param: str | None) -> str | None:
    return param if param and len(param) <= 80 and "\n" not in param else None
