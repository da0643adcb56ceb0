"""What is asked of the engine, read from the fields that all endpoints for replies share."""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath, PureWindowsPath
from typing import Final, Literal

import msgspec

from app.engine.protocol.bounds import BadSetting, shown_text
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import (
    ChatMessage,
    ChatPrompt,
    IdsPrompt,
    Prompt,
    TextPrompt,
)
from app.engine.protocol.remote_messages import engine_and_model
from app.engine.protocol.request_rules import MAX_STOPS, MAX_TOKENS, check_request
from app.engine.protocol.stages import Sampling
from app.server.errors import NO_MODEL, ApiError, bad_request
from app.server.fields import Fields
from app.server.options import ANY_NAME, ServerOptions
from app.server.sampling import check_sampling, seeds_of, sent_as

MAX_CHOICES: Final = 16
MAX_SCORES: Final = 20
MAX_MESSAGES: Final = 4096
MAX_PARTS: Final = 1024
"""Of one message's content."""

LONGEST_TOKEN: Final = 64
"""Characters: longer ones are rare, so a text with so many for each token does not fit."""
HARMLESS: Final = (
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
)
"""Fields that say something to whoever runs a service, and change no reply."""

DEFAULT_NAMES: Final = ("default", "local", "cutaway")
"""What a client may call the loaded model, whatever it is."""


@dataclass(frozen=True, slots=True)
class Asked:
    """`scores`: how many alternatives are told of each token; None: no log-probabilities are."""

    generates: list[Generate]
    model: str
    is_streaming: bool = False
    with_usage: bool = False
    scores: int | None = None
    with_timings: bool = False
    prefix: list[str] = field(default_factory=list)
    """Of each choice: what its text begins with (`echo`)."""


def model_name(loaded: Loaded) -> str:
    """What the loaded model is called here: its file's name, or what its own server calls it.

    >>> from types import SimpleNamespace
    >>> model_name(SimpleNamespace(path="/models/Qwen3-4B-Q4_K_M.gguf"))
    'Qwen3-4B-Q4_K_M'
    >>> model_name(SimpleNamespace(path="engine://e1/Qwen/Qwen3-4B"))
    'Qwen/Qwen3-4B'
    """
    _, remote_id = engine_and_model(loaded.path)
    if remote_id:
        return remote_id
    path = PureWindowsPath(loaded.path) if "\\" in loaded.path else PurePath(loaded.path)
    return path.stem if path.suffix.lower() == ".gguf" else path.name


def check_model(fields: Fields, loaded: Loaded | None, names: Sequence[str]) -> Loaded:
    """The loaded model, if it is what the request names. `names`: what else it is called here.
    Raises ApiError."""
    wanted = fields.text("model", "")
    if loaded is None:
        raise ApiError(503, NO_MODEL, code="not_loaded", retry_after_s=5)
    name = model_name(loaded)
    known = (name, f"{name}.gguf", loaded.path, loaded.name, *DEFAULT_NAMES, *names, "")
    if wanted not in known and ANY_NAME not in names:
        sentence = (
            f"The model “{shown_text(wanted)}” isn't loaded. The loaded model is called “{name}”; "
            "“default” always names it. For a program that can't send another name, add this one "
            "to the server's model names in Cutaway."
        )
        raise ApiError(404, sentence, "model", "model_not_found")
    return loaded


def read_generates(
    fields: Fields,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    options: ServerOptions,
    loaded: Loaded,
    *,
    max_tokens: int,
    stop: list[str],
    scores: int | None,
    conversation: str,
) -> list[Generate]:
    """`n` choices of each prompt. Raises ApiError for what no engine could do."""
    _check_size(prompts, loaded.n_ctx)
    count = fields.whole("n", 1, 1, MAX_CHOICES)
    if count * len(prompts) > MAX_CHOICES:
        name = "n" if len(prompts) == 1 else "prompt"
        raise fields.refuse(name, f"One request may have at most {MAX_CHOICES} replies.")
    check_sampling(sampling)
    if scores is not None and loaded.remote is not None and not loaded.remote.can("logprobs"):
        raise fields.refuse("logprobs", loaded.remote.why_not("logprobs"))
    reuse = fields.flag("cache_prompt", True)
    fields.only("id_slot", (-1,), "Slots can't be chosen here; leave id_slot out.")
    fields.skip(HARMLESS)
    generates = [
        Generate(
            0,
            prompt,
            msgspec.structs.replace(sampling, seed=seed),
            max_tokens=max_tokens,
            stop=stop,
            conversation=conversation,
            reply_id=str(uuid.uuid4()),
            alternatives=max(options.alternatives, scores or 0),
            record_stages=options.record_stages,
            reuse_prefix=reuse,
            deadline_s=options.limits.reply_s,
            is_guest=options.is_guest,
        )
        for prompt in prompts
        for seed in seeds_of(fields, count)
    ]
    try:
        check_request(generates[0])
    except BadSetting as error:
        raise bad_request(error.sentence, sent_as(sampling, error.field)) from error
    return generates


def _check_size(prompts: Sequence[Prompt], n_ctx: int) -> None:
    for prompt in prompts:
        if isinstance(prompt, ChatPrompt):
            check_length(sum(len(message.content) for message in prompt.messages), n_ctx)
        elif isinstance(prompt, TextPrompt):
            check_length(len(prompt.text), n_ctx)
        elif isinstance(prompt, IdsPrompt):
            check_length(len(prompt.token_ids), n_ctx, of="tokens")


def check_length(
    count: int, n_ctx: int, *, of: Literal["characters", "tokens"] = "characters"
) -> None:
    """What can't fit is not even tokenised: the composer waits for the same thread. `n_ctx` 0:
    nobody knows. Raises ApiError."""
    if n_ctx and count > n_ctx * (LONGEST_TOKEN if of == "characters" else 1):
        sentence = (
            f"The text has {count:,} {of}, more than the context window of {n_ctx:,} tokens holds."
        )
        raise bad_request(sentence, code="context_length_exceeded")


def read_max_tokens(fields: Fields, *names: str) -> int:
    """The first of these that is given; 0: no limit (-1 says so)."""
    found = 0
    for name in names:
        value = fields.whole(name, -1, -1, MAX_TOKENS)
        if value == 0:
            raise fields.refuse(name, f"{name} must be at least 1, or -1 for no limit.")
        found = found or max(value, 0)
    return found


def read_stop(fields: Fields, name: str = "stop") -> list[str]:
    stop = fields.texts(name, most=MAX_STOPS)
    if not all(stop):
        raise fields.refuse(name, f"{name} holds an empty text. Remove it.")
    return stop


def conversation_of(messages: Sequence[ChatMessage]) -> str:
    """A name for the chat that these begin: it stays the same as the chat grows."""
    digest = hashlib.blake2b(digest_size=8)
    for message in itertools.takewhile(lambda m: m.role != "assistant", messages):
        digest.update(f"{message.role}\0{message.content}\0".encode())
        for media in message.media:
            digest.update(hashlib.blake2b(media.data).digest())
    return f"served {digest.hexdigest()}"
