"""Servers elsewhere that answer in the engine's place: where they are, and what they can.

A model of such a server has no file: where the desk has a path of weights it has the text
`engine://<engine id>/<model id>` (`remote_path`).

What a server can is found out when its address is tried and again when a model of it is loaded.
Each ability is either there, or `missing` has the sentence why not: views grey out by it, and
requests that need it fail with it. Nothing about a server is known but what it said itself.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from app.engine.protocol.frames import FEW, MANY, Amount, Count, Name, Sentence, WireMessage, Word

SCHEME: Final = "engine://"

ServerKind = Literal[
    "llama-server",
    "cutaway",
    "vllm",
    "sglang",
    "ollama",
    "lm-studio",
    "llama-cpp-python",
    "openai",
]
KIND_NAMES: Final[dict[ServerKind, str]] = {
    "llama-server": "llama-server",
    "cutaway": "Cutaway",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "ollama": "Ollama",
    "lm-studio": "LM Studio",
    "llama-cpp-python": "llama-cpp-python",
    "openai": "OpenAI-compatible server",
}

Ability = Literal[
    # what a reply can be asked for with
    "chat",
    "text",  # a plain document is continued
    "ids",  # a prompt of token IDs
    "continue",  # a reply is continued, or branched at a token
    "thinking",  # it can be chosen whether and how the model thinks
    "template",  # a chat template of one's own
    "tools",
    "grammar",
    "json_schema",
    "images",
    "audio",
    "seed",
    "stop_ids",
    "min_tokens",
    "ban_end_token",
    "banned_strings",
    "context_policy",  # old turns are left out by the engine
    "reasoning_budget",
    "repeatable",
    "order",  # the stages' own order
    # what it tells
    "logprobs",  # of each token and of alternatives
    "token_ids",
    "prompt_logprobs",
    "cached_tokens",
    "timings",
    "tokenize",
    "count",
    "rendered_prompt",
    "vocabulary",
    # what only the engine in this program has
    "stages",  # what each stage did
    "step",
    "drafts",
    "adapters",
    "cuts",
    "cache",
    "lanes",
    "inside",
    "embedding",
    "machine",
    "beams",
    "vectors",
    "draws",
    "saved",
    "threads",
    "devices",
]


class EngineAddress(WireMessage, frozen=True, tag=True):
    """A server that the user entered. `id` never changes; `url` is as `app.hub.engines.address`
    checked it. `key_name`: what its key is called in the keyring; empty: it has none."""

    id: Word
    name: Name
    url: Name
    key_name: Name = ""


class RemoteModel(WireMessage, frozen=True, tag=True):
    """What a server says of one of its models. 0 or None: it doesn't say."""

    id: Name
    n_ctx: Count = 0
    n_ctx_train: Count = 0
    n_params: Amount = 0
    n_vocab: Count = 0
    size_bytes: Amount = 0
    has_images: bool | None = None
    has_audio: bool | None = None
    is_loaded: bool | None = None


class Lack(WireMessage, frozen=True, tag=True):
    """What a server cannot do, or does not take, and the sentence why."""

    name: Word
    sentence: Sentence


class EngineOffer(WireMessage, frozen=True, tag=True):
    """What answers at an address, and what it can.

    `missing`: abilities that are not there. `stages`: names of sampler stages (`stage_rules`), or
    "name.field", that the server does not take. `n_logprobs`: so
    many alternatives of each token at most. `model_id`: what this offer is about, where a model is
    loaded. `notes`: what else one should know.
    """

    engine_id: Word
    name: Name
    kind: ServerKind
    version: Word = ""
    models: Annotated[list[RemoteModel], MANY] = msgspec.field(default_factory=list)
    missing: Annotated[list[Lack], FEW] = msgspec.field(default_factory=list)
    stages: Annotated[list[Lack], FEW] = msgspec.field(default_factory=list)
    n_logprobs: Count = 0
    model_id: Name = ""
    notes: Annotated[list[Sentence], FEW] = msgspec.field(default_factory=list)

    def can(self, ability: Ability) -> bool:
        return not self.why_not(ability)

    def why_not(self, ability: Ability) -> str:
        """A sentence; empty: it is there."""
        return _why(self.missing, ability)

    def why_not_stage(self, stage: str, field: str = "") -> str:
        """A sentence; empty: the server takes this stage, or this field of it."""
        return _why(self.stages, stage) or _why(self.stages, f"{stage}.{field}")

    @property
    def speaks_llama(self) -> bool:
        """It has llama-server's own fields and questions."""
        return self.kind in ("llama-server", "cutaway")

    @property
    def kind_name(self) -> str:
        """What people call this kind of server."""
        return KIND_NAMES[self.kind]


def _why(lacks: list[Lack], name: str) -> str:
    return next((lack.sentence for lack in lacks if lack.name == name), "")


def remote_path(engine_id: str, model_id: str) -> str:
    """What stands where weights have a path.

    >>> remote_path("e1", "org/name")
    'engine://e1/org/name'
    """
    return f"{SCHEME}{engine_id}/{model_id}"


def model_name(model_id: str) -> str:
    """What a model is called on screen: llama-server names one by its file, with all folders.

    >>> model_name("/models/tiny-Q4_0.gguf"), model_name("org/name")
    ('tiny-Q4_0', 'org/name')
    """
    is_path = model_id.startswith("/") or model_id[1:3] == ":\\"
    name = model_id.replace("\\", "/").rpartition("/")[2] if is_path else model_id
    return name.removesuffix(".gguf") or model_id


def is_remote(path: str) -> bool:
    return path.startswith(SCHEME)


def engine_and_model(path: str) -> tuple[str, str]:
    """The engine's id and the model's; both empty where it is no such path.

    >>> engine_and_model("engine://e1/org/name"), engine_and_model("/a.gguf")
    (('e1', 'org/name'), ('', ''))
    """
    engine_id, slash, model_id = path.removeprefix(SCHEME).partition("/")
    return (engine_id, model_id) if is_remote(path) and slash and engine_id else ("", "")
