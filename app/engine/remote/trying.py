"""What answers at an address: which program, which models, what it can.

Asked are, in this order, what only one of them has:

    GET /props              llama-server (its README): default_generation_settings, build_info
    GET /version            vLLM ("OpenAI-Compatible Server": the models' owned_by is "vllm")
    GET /get_model_info     SGLang ("Native APIs"; since 0.5 also /model_info, /server_info)
    GET /api/version        Ollama (its api.md)
    GET /api/v0/models      LM Studio ("REST API v0")
    GET /v1/models          everything that speaks OpenAI's protocol

`/v1/models` is asked first: without it there is no model to choose, and its `owned_by` mostly names
the program, so that others are not asked in vain. All of an answer is untrusted: what is of the
wrong type is not there, and nothing is longer than its bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from app.engine.protocol.remote_messages import (
    EngineAddress,
    EngineOffer,
    Lack,
    RemoteModel,
    ServerKind,
)
from app.engine.remote.kinds import KINDS, lacks_of, stage_lacks
from app.engine.remote.target import Target
from app.hub.address import is_readable_by_others
from app.refusal import Refusal

if TYPE_CHECKING:
    from app.hub.engines.calls import Server
    from app.hub.gate import Gate

S = TypeVar("S", bound=msgspec.Struct)
MAX_MODELS: Final = 2_000
MAX_ID: Final = 512
_MAX_VERSION: Final = 80
_PROBE_S: Final = 10.0
_MOST: Final = 2**31 - 1

CLEAR: Final = (
    "The key of “{}” is sent unencrypted: its address begins with http://. Use https:// outside "
    "your own network."
)
_OLLAMA_ABILITIES: Final = {
    "tools": "{} can't call tools.",
    "thinking": "{} doesn't think before it answers.",
}
"""By the names of its capabilities, which are ours as well."""

_OWNERS: Final[dict[str, ServerKind]] = {
    "llamacpp": "llama-server",
    "cutaway": "cutaway",
    "vllm": "vllm",
    "sglang": "sglang",
    "library": "ollama",
    "me": "llama-cpp-python",
}
"""`owned_by` of a model, by program."""


def ask_server(gate: Gate, address: EngineAddress, key: str | None) -> EngineOffer:
    """What an address offers. Waits; raises ServerFault, and CalledOff where its call was."""
    from app.hub.engines.calls import Server

    return Look(Server(gate, address.name, address.url, key), address).offer()


def target_of(server: Server, address: EngineAddress, model_id: str) -> Target:
    """One of its models, ready to be asked. Raises ServerFault and Refusal."""
    return Look(server, address).target(model_id)


class Look:
    """One look at a server. One thread."""

    def __init__(self, server: Server, address: EngineAddress) -> None:
        self._server = server
        self._address = address
        self._models: list[RemoteModel] = []
        self._parameters: frozenset[str] | None = None
        self._template = self._bos = self._eos = ""
        self._n_slots = 1
        self._version = ""
        self._notes: list[str] = []
        self._n_logprobs: int | None = None
        self.kind: ServerKind = "openai"

    def offer(self, model_id: str = "") -> EngineOffer:
        """Raises ServerFault."""
        listed = self._server.get("/v1/models", deadline_s=_PROBE_S)
        rows = list(_rows(listed))
        if not isinstance(listed, dict) or not isinstance(listed.get("data"), list):
            from app.hub.engines.faults import unreadable

            raise unreadable(self._address.name, "/v1/models has no list")
        self._models = [_model(row) for row in rows]
        self.kind = self._kind_of(rows)
        if self._server.has_key and is_readable_by_others(self._address.url):
            self._notes.append(CLEAR.format(self._address.name))
        kind, name = self.kind, self._address.name
        return EngineOffer(
            engine_id=self._address.id,
            name=name,
            kind=kind,
            version="".join(c for c in self._version[:_MAX_VERSION] if c.isprintable()),
            models=self._models,
            missing=lacks_of(kind, name),
            stages=stage_lacks(kind, name, self._parameters),
            n_logprobs=KINDS[kind].most_logprobs,
            model_id=model_id,
            notes=self._notes,
        )

    def target(self, model_id: str) -> Target:
        """Raises ServerFault; Refusal where the server has no such model."""
        offer = self.offer(model_id)
        if self.kind == "ollama":
            offer = self._shown_by_ollama(offer, model_id)
        model = next((each for each in self._models if each.id == model_id), None)
        if model is None:
            raise Refusal(
                "missing_file",
                f"“{self._address.name}” has no model “{model_id}” any more. Choose another one "
                "from the model menu.",
            )
        lacks = [*offer.missing, *_lacks_of_model(model, offer)]
        return Target(
            self._address,
            _with(offer, missing=lacks),
            model,
            self._parameters,
            self._template,
            self._n_slots,
            bos_text=self._bos,
            eos_text=self._eos,
        )

    def _shown_by_ollama(self, offer: EngineOffer, model_id: str) -> EngineOffer:
        """What it says of one model (its api.md, "Show Model Information")."""
        from app.hub.engines.faults import ServerFault

        try:
            told = self._server.post("/api/show", {"model": model_id}, deadline_s=_PROBE_S)
        except ServerFault as fault:
            if fault.kind == "unreachable":
                raise
            return offer
        told = told if isinstance(told, dict) else {}
        info, can = told.get("model_info"), told.get("capabilities")
        info = info if isinstance(info, dict) else {}
        trained = (v for k, v in info.items() if str(k).endswith(".context_length"))
        self._models = [
            _with(
                each,
                n_ctx_train=_count(next(trained, 0)),
                n_params=_count(info.get("general.parameter_count"), 2**53),
                has_images="vision" in can if isinstance(can, list) else None,
            )
            if each.id == model_id
            else each
            for each in self._models
        ]
        lacks = [
            Lack(ability, words.format(f"“{model_id}”"))
            for ability, words in _OLLAMA_ABILITIES.items()
            if isinstance(can, list) and ability not in can
        ]
        return _with(offer, missing=[*offer.missing, *lacks], models=self._models)

    # --- which program --------------------------------------------------------------------------

    def _kind_of(self, rows: Sequence[dict[str, Any]]) -> ServerKind:
        owners = {str(row.get("owned_by", "")).lower() for row in rows}
        named = {kind for owner, kind in _OWNERS.items() if owner in owners}
        asks: dict[ServerKind, Any] = {
            "llama-server": self._is_llama_server,
            "vllm": self._is_vllm,
            "sglang": self._is_sglang,
            "ollama": self._is_ollama,
            "lm-studio": self._is_lm_studio,
        }
        if named in ({"llama-cpp-python"}, {"cutaway"}):
            return next(iter(named))
        # What the list of models names comes first: the others may answer anything anywhere.
        for kind in sorted(asks, key=lambda each: each not in named):
            if asks[kind]():
                found: ServerKind = kind
                return found
        return "openai"

    def _get(self, path: str) -> dict[str, Any] | None:
        """An answer of a question that not all of them know."""
        from app.hub.engines.faults import ServerFault

        try:
            found = self._server.get(path, deadline_s=_PROBE_S)
        except ServerFault as fault:
            if fault.kind == "unreachable":
                raise
            return None
        return found if isinstance(found, dict) else None

    def _is_llama_server(self) -> bool:
        props = self._get("/props")
        settings = props.get("default_generation_settings") if props is not None else None
        if props is None or not isinstance(settings, dict):
            return False
        self._version = _text(props.get("build_info"))
        self._template = _text(props.get("chat_template"), 1 << 20)
        self._bos, self._eos = _text(props.get("bos_token")), _text(props.get("eos_token"))
        self._n_slots = max(_count(props.get("total_slots")), 1)
        params = settings.get("params", settings)
        if isinstance(params, dict) and "top_k" in params:
            names = {str(each) for each in params}
            # Not among the settings that it lists, and in every version that lists these.
            self._parameters = frozenset(names | {"dry_sequence_breakers", "min_keep"})
        n_ctx = _count(settings.get("n_ctx"))
        modalities = props.get("modalities")
        modalities = modalities if isinstance(modalities, dict) else {}
        self._models = [
            _with(
                each,
                n_ctx=n_ctx or each.n_ctx,
                has_images=_known(modalities.get("vision"), each.has_images),
                has_audio=_known(modalities.get("audio"), each.has_audio),
                is_loaded=True,
            )
            for each in self._models
        ]
        return True

    def _is_vllm(self) -> bool:
        told = self._get("/version")
        version = _text(told.get("version")) if told is not None else ""
        has_lengths = any(each.n_ctx for each in self._models)
        if not version or not has_lengths:
            return False
        self._version = version
        return True

    def _is_sglang(self) -> bool:
        told = self._get("/get_model_info") or self._get("/model_info")
        if told is None or "model_path" not in told:
            return False
        info = self._get("/get_server_info") or self._get("/server_info") or {}
        self._version = _text(info.get("version"))
        return True

    def _is_ollama(self) -> bool:
        told = self._get("/api/version")
        version = _text(told.get("version")) if told is not None else ""
        self._version = version
        return bool(version)

    def _is_lm_studio(self) -> bool:
        told = self._get("/api/v0/models")
        rows = {str(row["id"]): row for row in _rows(told) if "max_context_length" in row}
        if not rows:
            return False
        found = []
        for each in self._models:
            row = rows.get(each.id, {})
            if row.get("type") == "embeddings":
                continue
            state = row.get("state")
            found.append(
                _with(
                    each,
                    n_ctx=_count(row.get("loaded_context_length")),
                    n_ctx_train=_count(row.get("max_context_length")),
                    has_images=row["type"] == "vlm" if "type" in row else each.has_images,
                    is_loaded=state == "loaded" if isinstance(state, str) else None,
                )
            )
        self._models = found
        return True


def _rows(listed: Any) -> Iterator[dict[str, Any]]:
    data = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(data, list):
        return
    for row in data[:MAX_MODELS]:
        name = row.get("id") if isinstance(row, dict) else None
        if isinstance(name, str) and name.strip() and len(name) <= MAX_ID and name.isprintable():
            yield row


def _lacks_of_model(model: RemoteModel, offer: EngineOffer) -> Iterator[Lack]:
    """What it is known not to take. Of what nobody tells, only trying tells."""
    name = f"“{model.id}”"
    if model.has_images is False and offer.can("images"):
        yield Lack("images", f"{name} takes no pictures. Use a model that sees.")
    if model.has_audio is False and offer.can("audio"):
        yield Lack("audio", f"{name} takes no sounds. Use a model that hears.")


def _takes(row: dict[str, Any], ours: str, theirs: Sequence[str]) -> bool | None:
    """What a row says of its input: OpenRouter and Cutaway `architecture.input_modalities`,
    llama-server, LM Studio and Mistral `capabilities`, as a list or an object."""
    architecture, can = row.get("architecture"), row.get("capabilities")
    listed = architecture.get("input_modalities") if isinstance(architecture, dict) else None
    if isinstance(listed, list):
        return ours in listed
    if isinstance(can, dict):
        return next((can[name] for name in theirs if isinstance(can.get(name), bool)), None)
    if isinstance(can, list) and any(name in can for name in theirs):
        return True
    return None


def _known(value: Any, otherwise: bool | None) -> bool | None:
    return value if isinstance(value, bool) else otherwise


def _model(row: dict[str, Any]) -> RemoteModel:
    """A row of `/v1/models`: vLLM and SGLang tell `max_model_len`, llama-server `meta`."""
    meta = row.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    n_ctx = _count(row.get("max_model_len")) or _count(row.get("context_length"))
    return RemoteModel(
        id=row["id"],
        n_ctx=n_ctx or _count(meta.get("n_ctx")),
        n_ctx_train=_count(meta.get("n_ctx_train")),
        n_params=_count(meta.get("n_params"), 2**53),
        n_vocab=_count(meta.get("n_vocab")),
        size_bytes=_count(meta.get("size"), 2**53),
        has_images=_takes(row, "image", ("vision", "multimodal")),
        has_audio=_takes(row, "audio", ("audio",)),
    )


def _with(told: S, **fields: Any) -> S:
    return msgspec.structs.replace(told, **fields)


def _count(value: Any, most: int = _MOST) -> int:
    """0 for what is no number, or none that can be."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= most else 0


def _text(value: Any, most: int = _MAX_VERSION) -> str:
    return value[:most] if isinstance(value, str) else ""
