"""The vocabulary that a GGUF file holds, as it stands there: texts, types, scores, merges.

llama.cpp makes its tokeniser of these. What is read here is for looking at: the order of merges
and the scores are nothing that the engine says of itself.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from app.gguf.header import read_header

NORMAL: Final = 1
UNKNOWN: Final = 2
CONTROL: Final = 3
USER_DEFINED: Final = 4
UNUSED: Final = 5
BYTE: Final = 6

_PREFIX: Final = "tokenizer.ggml."
_ARRAYS: Final = ("tokens", "token_type", "scores", "merges")
_DEADLINE_S: Final = 20.0
_ID: Final = "_token_id"
_USUAL_IDS: Final[dict[str, dict[str, int]]] = {
    "llama": {"bos": 1, "eos": 2, "unknown": 0},
    "gpt2": {"bos": 11, "eos": 11},
    "t5": {"eos": 1, "unknown": 2, "padding": 0},
    "bert": {"bos": 101, "unknown": 100, "seperator": 102, "padding": 0, "mask": 103},
}
"""What llama.cpp takes for a special token that the file does not name (`llama-vocab.cpp`)."""
_MAX_HELD_BYTES: Final = 256 << 20


@dataclass(frozen=True)
class FileVocabulary:
    """`model`: which algorithm ("gpt2" is byte-level BPE, "llama" SentencePiece), `pre`: the rules
    by which words are cut first. `tokens`, `types` and `scores` are by ID (no scores in BPE),
    `merges` ("h e") by rank. `merges_spaces`: several spaces count as one (Unigram).
    `special`: IDs by what they are for ("bos", "eos", "eot", …). `add_bos`, `add_eos`: whether the
    file says so; None where it does not."""

    model: str
    pre: str
    tokens: tuple[str, ...]
    types: bytes
    scores: array[float]
    merges: tuple[str, ...]
    add_space_prefix: bool
    merges_spaces: bool = False
    unknown_id: int | None = None
    special: Mapping[str, int] = field(default_factory=dict)
    add_bos: bool | None = None
    add_eos: bool | None = None

    @cached_property
    def control_texts(self) -> list[str]:
        """Texts of the tokens that are no text of a reply."""
        hidden = (UNKNOWN, CONTROL)
        found = (self.tokens[i] for i, kind in enumerate(self.types) if kind in hidden)
        return [text for text in dict.fromkeys(found) if text]

    @property
    def bos_text(self) -> str:
        return self._special_text("bos")

    @property
    def eos_text(self) -> str:
        return self._special_text("eos")

    @property
    def other_tokens(self) -> dict[str, str]:
        """Texts of further special tokens, by the names that templates know them by."""
        names = {"pad_token": "padding", "sep_token": "seperator"}
        found = {name: self._special_text(what) for name, what in names.items()}
        # As in the engine: the one that is unknown by its type, whatever a key says.
        unknown = self.types.find(UNKNOWN)
        found["unk_token"] = self.tokens[unknown] if unknown >= 0 else ""
        return {name: text for name, text in found.items() if text}

    def _special_text(self, what: str) -> str:
        place = self.special.get(what, -1)
        return self.tokens[place] if 0 <= place < len(self.tokens) else ""

    @cached_property
    def mark(self) -> VocabularyMark:
        digest = hashlib.blake2b(self.types, digest_size=16)
        for text in self.tokens:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(4, "little") + data)
        return VocabularyMark(
            self.model,
            len(self.tokens),
            digest.digest(),
            tuple(sorted(self.special.items())),
            (self.add_bos, self.add_eos),
        )

    @cached_property
    def ids(self) -> dict[str, int]:
        """Text → ID; of equal texts the last one, as in llama.cpp."""
        return {text: token_id for token_id, text in enumerate(self.tokens)}

    @cached_property
    def ranks(self) -> dict[str, int]:
        """Merge ("h e") → rank, 0 is the first to be made; of equal ones the first."""
        count = len(self.merges)
        return {self.merges[at]: at for at in range(count - 1, -1, -1)}

    @cached_property
    def whole_ids(self) -> tuple[int, ...]:
        """Tokens that are looked for in a text as a whole, those of the longest text first."""
        kinds = (UNKNOWN, CONTROL, USER_DEFINED)
        found = [i for i, kind in enumerate(self.types) if kind in kinds and self.tokens[i]]
        return tuple(sorted(found, key=lambda i: -len(self.tokens[i].encode())))

    @cached_property
    def rank_of_token(self) -> array[int]:
        """By ID: the rank of the first merge that makes this token, −1 where none does."""
        found = array("i", [-1]) * len(self.tokens)
        for rank in range(len(self.merges) - 1, -1, -1):
            left, _, right = self.merges[rank].partition(" ")
            token_id = self.ids.get(left + right)
            if token_id is not None:
                found[token_id] = rank
        return found


@dataclass(frozen=True, slots=True)
class VocabularyMark:
    """A vocabulary in short: two that are the same have the same mark. `digest` is of all texts and
    types in their order."""

    model: str
    n_tokens: int
    digest: bytes
    special: tuple[tuple[str, int], ...]
    adds: tuple[bool | None, bool | None]


_COUNTING: Final = {"bos": "begin", "eos": "end", "eot": "end-of-turn"}


def difference(one: VocabularyMark, other: VocabularyMark) -> str:
    """What `other` has otherwise, in words; empty: their IDs mean the same. A token's ID then is
    the same text in both, and both begin and end with the same ones, so that what one of them
    drafts the other can check.

    Padding, masks and the like never stand in a reply: they may differ.
    """
    if not other.n_tokens:
        return "no vocabulary"
    if one.model != other.model:
        return f"a different kind of tokeniser ({other.model or 'unknown'})"
    if one.n_tokens != other.n_tokens:
        return f"{other.n_tokens:,} tokens, not {one.n_tokens:,}"
    if one.digest != other.digest:
        return "different tokens"
    mine, theirs = dict(one.special), dict(other.special)
    for name, words in _COUNTING.items():
        if mine.get(name) != theirs.get(name):
            return f"a different {words} token"
    if one.adds != other.adds:
        return "different rules for start and end tokens"
    return ""


def read_vocabulary(path: Path | str) -> FileVocabulary:
    """Read it, or raise HeaderRefused. Takes a second for 262,144 tokens: not for a thread that
    paints."""
    kept = frozenset(_PREFIX + name for name in _ARRAYS)
    values = read_header(
        path,
        keep_arrays=kept,
        deadline_s=_DEADLINE_S,
        max_held_bytes=_MAX_HELD_BYTES,
    ).metadata

    def items(name: str, kind: type) -> list[Any]:
        """Those of an array, which are all of one kind."""
        found = values.get(_PREFIX + name)
        return found if isinstance(found, list) and found and isinstance(found[0], kind) else []

    tokens = tuple(items("tokens", str))
    types, scores = items("token_type", int), items("scores", float)
    model = str(values.get(_PREFIX + "model", ""))
    unknown = values.get(_PREFIX + "unknown_token_id")
    special = _USUAL_IDS.get(model, {}) | {
        key.removeprefix(_PREFIX).removesuffix(_ID): value
        for key, value in values.items()
        if key.startswith(_PREFIX) and key.endswith(_ID) and isinstance(value, int)
    }

    def flag(name: str) -> bool | None:
        value = values.get(_PREFIX + name)
        return value if isinstance(value, bool) else None

    return FileVocabulary(
        model=model,
        pre=str(values.get(_PREFIX + "pre", "")),
        tokens=tokens,
        types=_types(types, len(tokens)),
        scores=array("f", scores if len(scores) == len(tokens) else ()),
        merges=tuple(items("merges", str)),
        add_space_prefix=bool(values.get(_PREFIX + "add_space_prefix", model == "llama")),
        merges_spaces=bool(values.get(_PREFIX + "remove_extra_whitespaces", False)),
        unknown_id=unknown if isinstance(unknown, int) else None,
        special=special,
        add_bos=flag("add_bos_token"),
        add_eos=flag("add_eos_token"),
    )


def _types(types: list[int], count: int) -> bytes:
    """One byte per token; a type that is none counts as normal, and so does a missing one."""
    known = [kind if NORMAL <= kind <= BYTE else NORMAL for kind in types[:count]]
    return bytes(known + [NORMAL] * (count - len(known)))
