"""The vocabulary that a GGUF file holds, as it stands there: texts, types, scores, merges.

llama.cpp makes its tokeniser of these. What is read here is for looking at: the order of merges
and the scores are nothing that the engine says of itself.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
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
_MAX_HELD_BYTES: Final = 256 << 20


@dataclass(frozen=True)
class FileVocabulary:
    """`model`: which algorithm ("gpt2" is byte-level BPE, "llama" SentencePiece), `pre`: the rules
    by which words are cut first. `tokens`, `types` and `scores` are by ID (no scores in BPE),
    `merges` ("h e") by rank. `merges_spaces`: several spaces count as one (Unigram)."""

    model: str
    pre: str
    tokens: tuple[str, ...]
    types: bytes
    scores: array[float]
    merges: tuple[str, ...]
    add_space_prefix: bool
    merges_spaces: bool = False
    unknown_id: int | None = None

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


def read_vocabulary(path: Path | str) -> FileVocabulary:
    """Read it, or raise HeaderRefused. Takes a second for 262,144 tokens: not for a thread that
    paints."""
    kept = frozenset(_PREFIX + name for name in _ARRAYS)
    values = read_header(
        path, keep_arrays=kept, deadline_s=_DEADLINE_S, max_held_bytes=_MAX_HELD_BYTES
    ).metadata

    def items(name: str, kind: type) -> list[Any]:
        found = values.get(_PREFIX + name)
        is_sound = isinstance(found, list) and all(isinstance(item, kind) for item in found)
        return found if is_sound and isinstance(found, list) else []

    tokens = tuple(items("tokens", str))
    types, scores = items("token_type", int), items("scores", float)
    model = str(values.get(_PREFIX + "model", ""))
    unknown = values.get(_PREFIX + "unknown_token_id")
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
    )


def _types(types: list[int], count: int) -> bytes:
    """One byte per token; a type that is none counts as normal, and so does a missing one."""
    known = [kind if NORMAL <= kind <= BYTE else NORMAL for kind in types[:count]]
    return bytes(known + [NORMAL] * (count - len(known)))
