"""Servers on loopback that say what a test has them say: each kind's shapes, and every fault.

    with ScriptedServer(vllm()) as server:
        server.answers["/v1/chat/completions"] = Stream(sse(delta("Hi"), finish("stop"), DONE))

An answer is a dict (JSON), a `Reply`, a `Stream`, a list of these, one after the other, or what
makes one of the body; a path without one gets 404. What was asked is in `requests`.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

DONE: Final = b"data: [DONE]\n\n"
HOLD: Final = "hold"
"""In a stream: nothing more comes until the server is released, or ends."""


@dataclass(frozen=True)
class Asked:
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stream:
    """`parts` one by one, each flushed. `is_cut`: the connection ends before the body does."""

    parts: Sequence[bytes | str]
    kind: str = "text/event-stream"
    is_cut: bool = False


def sse(*events: dict[str, Any] | bytes) -> list[bytes]:
    return [e if isinstance(e, bytes) else f"data: {json.dumps(e)}\n\n".encode() for e in events]


def chunk(choice: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    choices = [] if choice is None else [{"index": 0, "finish_reason": None, **choice}]
    return {"object": "chat.completion.chunk", "model": "m", "choices": choices, **fields}


def delta(content: str | None = None, logprobs: Any = None, **fields: Any) -> dict[str, Any]:
    said = {} if content is None else {"content": content}
    return chunk({"delta": said | fields, "logprobs": logprobs})


def finish(reason: str, **fields: Any) -> dict[str, Any]:
    return chunk({"delta": {}, "finish_reason": reason, **fields})


def usage(prompt: int, completion: int, **fields: Any) -> dict[str, Any]:
    told = {"prompt_tokens": prompt, "completion_tokens": completion, **fields}
    return chunk(None, usage=told)


def token(text: str, logprob: float, *top: tuple[str, float], **fields: Any) -> dict[str, Any]:
    """An entry of `logprobs.content`."""
    return {
        "token": text,
        "bytes": list(text.encode()),
        "logprob": logprob,
        "top_logprobs": [
            {"token": other, "bytes": list(other.encode()), "logprob": nats} for other, nats in top
        ],
        **fields,
    }


def logprobs(*tokens: dict[str, Any]) -> dict[str, Any]:
    return {"content": list(tokens)}


class ScriptedServer:
    """`answers` may be changed at any time."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.answers: dict[str, Any] = dict(answers or {})
        self.requests: list[Asked] = []
        self.ended = threading.Event()
        """A client has closed the connection of a stream."""
        self._arrived = threading.Condition()
        self._is_released = threading.Event()
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: Any) -> None: ...

            def do_GET(self) -> None:
                scripted.serve(self, None)

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", "0"))
                scripted.serve(self, json.loads(self.rfile.read(size) or b"null"))

        self._httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._httpd.daemon_threads = True
        self._httpd.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._thread = threading.Thread(
            target=self._httpd.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._httpd.server_address[1]}"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_released.set()
        self._httpd.shutdown()
        self._httpd.server_close()
        self._thread.join()

    def release(self) -> None:
        self._is_released.set()

    def wait_for(self, path: str, n: int = 1) -> Asked:
        """Until it was asked for that so often."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.asked(path)) >= n, 10)
        return self.asked(path)[-1]

    def asked(self, path: str) -> list[Asked]:
        return [each for each in self.requests if each.path == path]

    def serve(self, handler: BaseHTTPRequestHandler, body: Any) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self._arrived:
            self.requests.append(Asked(handler.path, headers, body))
            self._arrived.notify_all()
        answer = self.answers.get(handler.path, Reply(404, b'{"detail":"Not Found"}'))
        if callable(answer):
            answer = answer(body)
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        with contextlib.suppress(ConnectionError):
            if isinstance(answer, Stream):
                self._stream(handler, answer)
            elif isinstance(answer, Reply):
                self._whole(handler, answer)
            else:
                kind = {"Content-Type": "application/json"}
                self._whole(handler, Reply(200, json.dumps(answer).encode(), kind))

    def _whole(self, handler: BaseHTTPRequestHandler, answer: Reply) -> None:
        handler.send_response(answer.status)
        headers = {"Content-Type": "application/json", **answer.headers}
        for name, value in {**headers, "Content-Length": str(len(answer.body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(answer.body)

    def _stream(self, handler: BaseHTTPRequestHandler, answer: Stream) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", answer.kind)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        try:
            for part in answer.parts:
                if isinstance(part, str):
                    self._hold(handler)
                else:
                    handler.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                    handler.wfile.flush()
            if answer.is_cut:
                handler.close_connection = True
            else:
                handler.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            self.ended.set()
            raise

    def _hold(self, handler: BaseHTTPRequestHandler) -> None:
        """Until it is released, or the client has gone (a read ends then)."""
        handler.connection.settimeout(0.01)
        while not self._is_released.is_set():
            try:
                if handler.connection.recv(1) == b"":
                    self.ended.set()
                    raise ConnectionResetError
            except TimeoutError:
                continue


# --- what each kind says of itself ----------------------------------------------------------------


def models(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": [{"object": "model", "created": 0, **row} for row in rows]}


def plain(*ids: str) -> dict[str, Any]:
    """OpenAI's own protocol and nothing else."""
    rows = [{"id": each, "owned_by": "somebody"} for each in ids or ("m",)]
    return {"/v1/models": models(*rows)}


def llama_server(template: str = "{{ messages }}") -> dict[str, Any]:
    """llama.cpp's `tools/server/README.md`: GET /props, GET /v1/models."""
    params = dict.fromkeys(
        (
            *("seed", "temperature", "dynatemp_range", "dynatemp_exponent", "top_k", "top_p"),
            *("min_p", "top_n_sigma", "xtc_probability", "xtc_threshold", "typical_p"),
            *("repeat_last_n", "repeat_penalty", "presence_penalty", "frequency_penalty"),
            *("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"),
            *("mirostat", "mirostat_tau", "mirostat_eta", "samplers"),
        ),
        0,
    )
    meta = {"n_vocab": 49152, "n_ctx_train": 8192, "n_params": 134515008, "size": 96576768}
    return {
        "/v1/models": models({"id": "m", "owned_by": "llamacpp", "meta": meta}),
        "/props": {
            "default_generation_settings": {"n_ctx": 4096, "params": params},
            "total_slots": 2,
            "chat_template": template,
            "modalities": {"vision": False},
            "build_info": "b6999-abcdef",
        },
    }


def cutaway() -> dict[str, Any]:
    """`docs/server.md`."""
    meta = {"n_ctx": 8192, "n_ctx_train": 8192}
    return {"/v1/models": models({"id": "m", "owned_by": "cutaway", "meta": meta})}


def vllm() -> dict[str, Any]:
    """vLLM's "OpenAI-Compatible Server": GET /version, GET /v1/models."""
    row = {"id": "m", "owned_by": "vllm", "root": "m", "parent": None, "max_model_len": 8192}
    return {"/v1/models": models(row), "/version": {"version": "0.12.0"}}


def sglang() -> dict[str, Any]:
    """SGLang's "Native APIs": GET /get_model_info, /get_server_info."""
    row = {"id": "m", "owned_by": "sglang", "root": "m", "max_model_len": 32768}
    return {
        "/v1/models": models(row),
        "/get_model_info": {"model_path": "m", "tokenizer_path": "m", "is_generation": True},
        "/get_server_info": {"version": "0.5.6", "max_total_num_tokens": 100000},
    }


def ollama() -> dict[str, Any]:
    """Ollama's `docs/api.md` (GET /api/version) and `docs/openai.md`."""
    return {
        "/v1/models": models({"id": "m", "owned_by": "library"}),
        "/api/version": {"version": "0.13.1"},
    }


def lm_studio() -> dict[str, Any]:
    """LM Studio's "REST API v0": GET /api/v0/models."""
    rows: Iterable[dict[str, Any]] = (
        {
            "id": "m",
            "type": "llm",
            "publisher": "p",
            "arch": "qwen3",
            "state": "loaded",
            "max_context_length": 40960,
            "loaded_context_length": 4096,
        },
        {"id": "e", "type": "embeddings", "state": "not-loaded", "max_context_length": 2048},
    )
    ids = [{"id": row["id"], "owned_by": "organization_owner"} for row in rows]
    return {"/v1/models": models(*ids), "/api/v0/models": {"object": "list", "data": [*rows]}}


def llama_cpp_python() -> dict[str, Any]:
    """llama-cpp-python's `llama_cpp/server/app.py`."""
    return {"/v1/models": models({"id": "m", "owned_by": "me", "permissions": []})}
