"""The script of the scripted engine: its JSON as typed structs, and its made-up vocabulary.

    {"load": {"ms": 200},
     "replies": [{"match": "weather",
                  "tokens": [{"text": "Sun", "probability": 0.8, "ms": 5}, {"text": "ny."}]},
                 {"text": "A whole reply, cut into words.", "ms": 25}]}

A reply whose `match` is part of the last message of the user, or of a tool that answered it, is
used first; else replies come in order. Anything that is not in these structs is refused with its
place in the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from app.engine.protocol.loading_messages import Device
from app.engine.protocol.tool_messages import CALLED, Part


class ScriptError(Exception):
    """The script cannot be read. The text says where and why."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the script's structs: what it does not know it refuses."""


class ScriptFailure(_Part, frozen=True, forbid_unknown_fields=True):
    kind: str
    sentence: str
    evidence: str = ""


class ScriptCall(_Part, frozen=True, forbid_unknown_fields=True):
    """A call of a tool. `arguments`: an object, or the text that stands for one. Without an `id` it
    gets one. It is written between `<tool_call>` tags, word by word."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str = ""

    @property
    def arguments_text(self) -> str:
        given = self.arguments
        return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)

    @property
    def text(self) -> str:
        name = json.dumps(self.name, ensure_ascii=False)
        return f'<tool_call>\n{{"name": {name}, "arguments": {self.arguments_text}}}\n</tool_call>'


class ScriptToken(_Part, frozen=True, forbid_unknown_fields=True):
    """One token, or something that happens instead of one.

    Tokens: `text` or `hex`, `ms` before it, `probability`, `rank`, `alternatives` as
    [[text, probability], ...], `repeat` times; `stages` as [[name, left, probability], ...],
    `removed_by` (an index into them for each alternative, 255: none), `uniform`, `drafted`,
    `draft_probability`, `rejected` as [[text, draft probability], ...] and what the weights gave
    the first of them (`rejected_probability`);
    `withheld`: no text of it is shown, since `take_back` (a number of tokens) follows.
    Happenings: `call` (this call is whole now), `take_back`, `signal` ("SEGV"), `exit`, `fail`,
    `hang` (true: until killed or terminated; "hard": refuses to be terminated), `stderr`
    and `log` (a line), `garbage` (hex bytes on the wire), `note` ([kind, sentence]).
    """

    text: str | None = None
    hex: str | None = None
    ms: float | None = None
    probability: float | None = None
    rank: int = 1
    alternatives: list[tuple[str, float]] = []
    stages: list[tuple[str, int, float]] = []
    removed_by: list[Annotated[int, msgspec.Meta(ge=0, le=255)]] = []
    uniform: float | None = None
    drafted: bool = False
    draft_probability: float | None = None
    rejected: list[tuple[str, float]] = []
    rejected_probability: float = 0.01
    withheld: bool = False
    take_back: int = 0
    part: Part = "content"
    repeat: int = 1
    signal: str | None = None
    exit: int | None = None
    fail: ScriptFailure | None = None
    hang: bool | str = False
    stderr: str | None = None
    log: str | None = None
    garbage: str | None = None
    note: tuple[str, str] | None = None
    call: ScriptCall | None = None

    @property
    def piece(self) -> bytes | None:
        """The token's bytes, or None for a happening."""
        if self.hex is not None:
            return bytes.fromhex(self.hex)
        return None if self.text is None else self.text.encode("utf-8", "replace")


class ScriptPrefill(_Part, frozen=True, forbid_unknown_fields=True):
    """`tokens` None: as many as the prompt has in the made-up vocabulary."""

    tokens: int | None = None
    ms: float = 0
    chunks: int = 1


class ScriptReply(_Part, frozen=True, forbid_unknown_fields=True):
    """`text` is shorthand for `tokens`: cut into words, `ms` each; `probabilities` go round, and
    so do `prompt_probabilities` over the prompt's tokens, where scores of it are asked for.
    `calls`: of tools, behind all else; they are made where the request offers tools, and the reply
    ends with them."""

    tokens: list[ScriptToken] = []
    match: str | None = None
    text: str = ""
    ms: float = 1
    probabilities: list[float] = []
    prompt_probabilities: list[float] = []
    prefill: ScriptPrefill = ScriptPrefill()
    stop_reason: str = "end_token"
    calls: list[ScriptCall] = []

    def without_calls(self) -> ScriptReply:
        return msgspec.structs.replace(self, calls=[])

    @property
    def ending(self) -> str:
        return CALLED if self.calls and self.stop_reason == "end_token" else self.stop_reason

    def steps(self) -> Iterator[ScriptToken]:
        """All tokens and happenings in order, with their delays filled in."""
        for index, word in enumerate(split_words(self.text)):
            cycle = self.probabilities
            probability = cycle[index % len(cycle)] if cycle else None
            yield ScriptToken(text=word, ms=self.ms, probability=probability)
        for token in self.tokens:
            filled = token if token.ms is not None else msgspec.structs.replace(token, ms=self.ms)
            for _ in range(token.repeat):
                yield filled
        for call in self.calls:
            for word in split_words(call.text):
                yield ScriptToken(text=word, ms=self.ms, part="call")
            yield ScriptToken(call=call)


class ScriptLoad(_Part, frozen=True, forbid_unknown_fields=True):
    """How a load goes: `ms` in all, in `steps`; then it fails, exits, dies, hangs, or ends
    in Loaded with the fields of `loaded` in place of the made-up ones. Where `match` (a part of
    the path) and `above_n_ctx` do not fit, nothing happens to it and it ends in Loaded.
    `at_draft`, `at_projector`: it has come to the draft model or the projector when it happens."""

    ms: float = 50
    steps: int = 5
    fail: ScriptFailure | None = None
    exit: int | None = None
    signal: str | None = None
    at_draft: bool = False
    at_projector: bool = False
    hang: bool | str = False
    loaded: dict[str, Any] = {}
    match: str = ""
    above_n_ctx: int = 0

    def happens_to(self, path: str, n_ctx: int | None, projector: str = "") -> bool:
        if self.at_projector and not projector:
            return False
        return self.match in path and (not self.above_n_ctx or (n_ctx or 0) > self.above_n_ctx)


class ScriptHello(_Part, frozen=True, forbid_unknown_fields=True):
    protocol: int | None = None
    version: str = "1"
    devices: list[Device] = []
    notes: list[str] = []
    ms: float = 0


class ScriptMeasured(_Part, frozen=True, forbid_unknown_fields=True):
    """What timing one step gives, after `ms`."""

    step_ms: tuple[float, ...] = (2.0,)
    replay_ms: tuple[float, ...] = (40.0,)
    ms: float = 0


class ScriptPassages(_Part, frozen=True, forbid_unknown_fields=True):
    """How making vectors of passages goes: `ms` for each question, then made-up vectors, or a
    failure."""

    ms: float = 0
    fail: ScriptFailure | None = None


class ScriptInside(_Part, frozen=True, forbid_unknown_fields=True):
    """How looking inside goes: `ms` in `chunks` of the text that are read, then the answer of a
    made-up network, or a failure. `missing`: names of arrays, each with the reason why this network
    does not offer it."""

    ms: float = 0
    chunks: int = 1
    fail: ScriptFailure | None = None
    missing: dict[str, str] = {}


class ScriptThinking(_Part, frozen=True, forbid_unknown_fields=True):
    """What the made-up chat format offers about reasoning (see `ThinkingOffer`)."""

    choices: list[str] = []
    auto: str = ""
    variables: list[str] = []
    has_reasoning: bool = False


class ScriptProjector(_Part, frozen=True, forbid_unknown_fields=True):
    """What a projector that is loaded with the weights makes of pictures: so many `tokens` of each,
    after `ms`; `why`: it cannot be loaded."""

    kind: str = "scripted"
    images: bool = True
    audio: bool = False
    tokens: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 16
    image_size: int = 224
    size_bytes: int = 1_000_000
    ms: float = 0
    why: str = ""


class Script(_Part, frozen=True, forbid_unknown_fields=True):
    hello: ScriptHello = ScriptHello()
    load: ScriptLoad = ScriptLoad()
    replies: list[ScriptReply] = []
    loop: bool = True
    measured: ScriptMeasured = ScriptMeasured()
    passages: ScriptPassages = ScriptPassages()
    inside: ScriptInside = ScriptInside()
    thinking: ScriptThinking = ScriptThinking()
    projector: ScriptProjector = ScriptProjector()


_scripts: Final = msgspec.json.Decoder(Script)


def read_script(path: str | Path) -> Script:
    """Read and check a script file. Raises ScriptError."""
    try:
        script = _scripts.decode(Path(path).read_bytes())
        for reply in script.replies:
            for token in reply.tokens:
                bytes.fromhex((token.hex or "") + (token.garbage or ""))
    except OSError as error:
        raise ScriptError(f"The script {path} can't be read: {error.strerror}.") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise ScriptError(f"The script {path} is not understood: {error}.") from error
    return script


_WORDS: Final = re.compile(r" ?\w+| ?[^\w\s]+|\s+(?!\S)|\s+")


def split_words(text: str) -> list[str]:
    """Cut text into pieces that join to it again.

    >>> split_words("Hi, you two.")
    ['Hi', ',', ' you', ' two', '.']
    """
    return _WORDS.findall(text)


CLOSING: Final = b"</think>"
"""What stands between reasoning and answer where the script says no more than that."""
CONTROL_PIECES: Final = (b"<|end|>", b"<|system|>", b"<|user|>", b"<|assistant|>", b"<|tool|>")
CONTROL_ATTRIBUTE: Final = 8
BYTE_ATTRIBUTE: Final = 32
NORMAL_ATTRIBUTE: Final = 4
"""llama.cpp's token attributes, as far as the made-up vocabulary has them."""


class ScriptVocabulary:
    """Control pieces, the 256 bytes, and every word of the script; the same in each process.

    A word that is not in it becomes its bytes, so any text has IDs and comes back whole.
    """

    def __init__(self, script: Script) -> None:
        self.pieces: list[bytes] = [*CONTROL_PIECES, *(bytes([value]) for value in range(256))]
        self._first_byte = len(CONTROL_PIECES)
        self._ids = {piece: index for index, piece in enumerate(self.pieces)}
        for reply in script.replies:
            for word in (*split_words(reply.match or ""), *split_words(reply.text)):
                self._add(word.encode("utf-8", "replace"))
            for call in reply.calls:
                for word in split_words(call.text):
                    self._add(word.encode("utf-8", "replace"))
            for token in reply.tokens:
                self._add(token.piece or b"")
                for text, _ in token.alternatives:
                    self._add(text.encode("utf-8", "replace"))
        if any(token.part == "reasoning" for reply in script.replies for token in reply.tokens):
            self._add(CLOSING)

    def _add(self, piece: bytes) -> None:
        if piece and piece not in self._ids:
            self._ids[piece] = len(self.pieces)
            self.pieces.append(piece)

    @property
    def first_word(self) -> int:
        """The ID behind those of control pieces and bytes."""
        return self._first_byte + 256

    def attributes(self) -> list[int]:
        """llama.cpp's attribute of each token."""
        return [
            CONTROL_ATTRIBUTE
            if index < self._first_byte
            else BYTE_ATTRIBUTE
            if index < self._first_byte + 256
            else NORMAL_ATTRIBUTE
            for index in range(len(self.pieces))
        ]

    def id_of(self, piece: bytes) -> int:
        """The ID of a piece that is in the vocabulary (every piece of the script is)."""
        return self._ids[piece]

    def tokenize(self, text: str) -> list[int]:
        """IDs of a text; control pieces in it are ordinary text."""
        ids: list[int] = []
        for word in split_words(text):
            piece = word.encode("utf-8", "replace")
            known = self._ids.get(piece)
            if known is not None and known >= self._first_byte:
                ids.append(known)
            else:
                ids += [self._first_byte + value for value in piece]
        return ids
