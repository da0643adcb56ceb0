"""How a text becomes tokens, merge by merge: what llama.cpp does at once, done slowly.

**Byte-level BPE** ("gpt2" in a GGUF). The text is cut into words (`word_split.py`), and each word
into single bytes. Then, over and over: of all neighbours that stand in the list of merges take
the pair that stands there first, and join it. The list was learned once, from much text: the pair
that was most frequent came first. So a merge's rank says how common it was.

    merges    0: h e    1: l l    2: he ll    3: hell o

    h e l l o      the neighbours "h e" (rank 0) and "l l" (rank 1) are in the list: rank 0 wins
    he l l o       now "l l" (1)
    he ll o        now "he ll" (2), which could not be made before its parts were there
    hell o         now "hell o" (3)
    hello          no neighbours are left: this is one token

**SentencePiece** ("llama"). There is no list of merges: any two neighbours may be joined if the
result is in the vocabulary, and the result with the best score goes first. It starts from
characters and not bytes, spaces are written as ▁ and take part like letters. What is left over
and not in the vocabulary is spelled in byte tokens: *byte fallback*.

**Unigram** ("t5") merges nothing: it looks for the cut with the best sum of scores
(`unigram.py`). A step here is one token of that cut, joined from its characters.

Before all this, texts of user-defined tokens (and of control tokens, where they count as such)
are taken out of the text whole.

What must hold: a replay is shown only if it ends in the IDs that llama.cpp gave for this text.
WordPiece is not replayed, nor is Unigram where the file's table of characters changes the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from app.gguf.vocabulary import BYTE, CONTROL, UNKNOWN, USER_DEFINED, FileVocabulary
from app.insight.tokenizer.unigram import SPACE, best_cut, normalised
from app.insight.tokenizer.word_split import TAKES_WHOLE_WORDS, split_words

MAX_CHARACTERS: Final = 4000
"""Longer texts are tokenised but not replayed."""

NO_FILE: Final = "Merges are read from the GGUF file, and this model has none."
TOO_LONG: Final = f"Merges are replayed for texts of up to {MAX_CHARACTERS:,} characters."
NOT_THE_SAME: Final = (
    "Replaying the merges of this text didn't give llama.cpp's tokens, so they aren't shown."
)


class NotReplayed(Exception):  # noqa: N818 - an outcome with a sentence for the user
    """Why there is no replay, in a sentence."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the text between two steps. `token_id`: the token that it is so far; None for
    what is none by itself. `word`: parts of different words are never joined. `is_whole`: it was
    found in the text as a whole, and nothing happens to it."""

    data: bytes
    token_id: int | None
    word: int
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """The parts [at, at + taken) become `into`. A merge has a `rank` (BPE) or a `score`
    (SentencePiece); a step without either spells a character in bytes."""

    at: int
    taken: int
    into: tuple[Part, ...]
    rank: int | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """`words_from`: "rule" (the vocabulary's own, called `rule`), "text" (SentencePiece knows no
    words), "sum" (Unigram) or "tokens" (the rule is not known here: each of llama.cpp's tokens is
    replayed by itself)."""

    start: tuple[Part, ...]
    steps: tuple[Step, ...]
    words_from: str
    rule: str = ""

    def parts_after(self, count: int) -> list[Part]:
        """What the text looks like after so many steps."""
        parts = list(self.start)
        for step in self.steps[:count]:
            parts[step.at : step.at + step.taken] = step.into
        return parts

    @property
    def ids(self) -> list[int | None]:
        """The tokens in the end."""
        return [part.token_id for part in self.parts_after(len(self.steps))]


def replay(
    text: str,
    ids: Sequence[int],
    vocabulary: FileVocabulary,
    *,
    special: bool = False,
    controls: Collection[int] = (),
) -> Replay:
    """The steps from a text to `ids`, which llama.cpp gave for it. Raises NotReplayed.

    `special`: control tokens counted as tokens. `controls`: what llama.cpp takes for control
    tokens beside those that the file calls so ("</s>" is one whatever the file says).

    First as the vocabulary's rules say. Where that ends elsewhere (a rule that is not known here,
    a newer Unicode), each token of llama.cpp's is replayed by itself. That shows the very same
    merges: no merge crossed the border of a token, or it would not be there, so those inside
    came in the same order.
    """
    if vocabulary.model not in KINDS:
        name = vocabulary.model or "no name"
        raise NotReplayed(
            "Merges can be replayed for BPE (gpt2), SentencePiece (llama) and Unigram (t5), but "
            f"this vocabulary is of another kind: {name}."
        )
    if len(text) > MAX_CHARACTERS:
        raise NotReplayed(TOO_LONG)
    pieces = partition(text, vocabulary, special=special, controls=controls)
    for found in _attempts(pieces, ids, vocabulary):
        if found is not None and found.ids == list(ids):
            return found
    raise NotReplayed(NOT_THE_SAME)


def _attempts(
    pieces: Sequence[str | int], ids: Sequence[int], vocabulary: FileVocabulary
) -> Iterator[Replay | None]:
    if vocabulary.model == UNIGRAM:
        yield _by_the_best_sum(pieces, vocabulary)
        return
    merger = _MERGERS[vocabulary.model]
    yield _by_the_rules(pieces, merger(vocabulary))
    yield _by_token(ids, merger(vocabulary))


# --- merging --------------------------------------------------------------------------------------


def merge(
    parts: Sequence[str], cost: Callable[[str, str], float]
) -> Iterator[tuple[int, str, float]]:
    """Join neighbours, the cheapest first and of equal ones the leftmost, until none can be.

    `cost` is infinite for what may not be joined. Yields (place, joined text, cost) of each merge.

    >>> ranks = {"h e": 0, "l l": 1, "he ll": 2, "hell o": 3}
    >>> cost = lambda left, right: ranks.get(f"{left} {right}", math.inf)
    >>> [(at, text) for at, text, _ in merge("hello", cost)]
    [(0, 'he'), (1, 'll'), (0, 'hell'), (0, 'hello')]
    """
    parts = list(parts)
    # One cost per pair of neighbours: costs[i] is that of joining parts[i] and parts[i + 1].
    costs = [cost(left, right) for left, right in pairwise(parts)]
    while costs:
        best = min(costs)
        if best == math.inf:
            return
        at = costs.index(best)  # the leftmost of equal ones
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
        # The pair is gone, and both of its neighbours stand beside something new.
        del costs[at]
        if at > 0:
            costs[at - 1] = cost(parts[at - 1], parts[at])
        if at < len(costs):
            costs[at] = cost(parts[at], parts[at + 1])
        yield at, parts[at], best


class _Bpe:
    """Byte-level BPE. Its texts spell each byte as one visible character: the file's tokens do
    too, so that a space is "Ġ"."""

    def __init__(self, vocabulary: FileVocabulary) -> None:
        self._ranks = vocabulary.ranks
        self.vocabulary = vocabulary

    def cost(self, left: str, right: str) -> float:
        return self._ranks.get(f"{left} {right}", math.inf)

    def pieces(self, text: str, is_first: bool) -> list[str] | None:
        words = split_words(text, self.vocabulary.pre)
        return None if words is None else [spelled(word.encode()) for word in words]

    def is_taken_whole(self, piece: str) -> bool:
        return self.vocabulary.pre in TAKES_WHOLE_WORDS and piece in self.vocabulary.ids

    def data(self, text: str) -> bytes:
        return unspelled(text)

    def step(self, at: int, part: Part, cost: float) -> Step:
        return Step(at, 2, (part,), rank=int(cost))


class _SentencePiece:
    """Spaces take part as ▁. The best score is the lowest cost."""

    def __init__(self, vocabulary: FileVocabulary) -> None:
        self._ids, self._scores = vocabulary.ids, vocabulary.scores
        self.vocabulary = vocabulary

    def cost(self, left: str, right: str) -> float:
        token_id = self._ids.get(left + right)
        if token_id is None:
            return math.inf
        score = self._scores[token_id] if token_id < len(self._scores) else 0.0
        return math.inf if math.isnan(score) else -score

    def pieces(self, text: str, is_first: bool) -> list[str]:
        """The whole text is one word; some vocabularies put a space before it."""
        has_prefix = is_first and self.vocabulary.add_space_prefix
        return [(" " * has_prefix + text).replace(" ", SPACE)]

    def is_taken_whole(self, _piece: str) -> bool:
        return False

    def data(self, text: str) -> bytes:
        return text.replace(SPACE, " ").encode()

    def step(self, at: int, part: Part, cost: float) -> Step:
        return Step(at, 2, (part,), score=-cost)


_Merger = _Bpe | _SentencePiece
_MERGERS: Final[dict[str, type[_Bpe] | type[_SentencePiece]]] = {
    "gpt2": _Bpe,
    "llama": _SentencePiece,
}
UNIGRAM: Final = "t5"
KINDS: Final = frozenset((*_MERGERS, UNIGRAM))


# --- from a text to its steps ---------------------------------------------------------------------


class _Script:
    """Collects parts and steps, word after word; `at` is where the next part comes to stand once
    all before it is done."""

    def __init__(self, merger: _Merger) -> None:
        self._merger = merger
        self._start: list[Part] = []
        self._steps: list[Step] = []
        self._at = 0
        self._word = 0

    def add_whole(self, token_id: int, data: bytes) -> None:
        self._start.append(Part(data, token_id, self._word, is_whole=True))
        self._at += 1
        self._word += 1

    def add_word(self, text: str) -> None:
        """A word's characters, and the merges that join them."""
        merger, ids = self._merger, self._merger.vocabulary.ids

        def part(piece: str) -> Part:
            return Part(merger.data(piece), ids.get(piece), self._word)

        if merger.is_taken_whole(text):
            self.add_whole(ids[text], merger.data(text))
            return
        parts = list(text)
        self._start += map(part, parts)
        for at, joined, cost in merge(parts, merger.cost):
            parts[at : at + 2] = [joined]
            self._steps.append(merger.step(self._at + at, part(joined), cost))
        # What is no token is spelled in bytes, once all merges are made.
        for piece in parts:
            self._at += 1 if piece in ids else self._fall_back(part(piece))
        self._word += 1

    def add_bytes(self, data: bytes) -> None:
        """A character that is spelled in bytes."""
        part = Part(data, None, self._word)
        self._start.append(part)
        self._at += self._fall_back(part)
        self._word += 1

    def _fall_back(self, part: Part) -> int:
        """How many parts there are now in its place."""
        ids = self._merger.vocabulary.ids
        names = [byte_name(byte) for byte in part.data]
        if not all(name in ids for name in names):
            return 1
        into = tuple(
            Part(bytes((byte,)), ids[name], part.word)
            for byte, name in zip(part.data, names, strict=True)
        )
        self._steps.append(Step(self._at, 1, into))
        return len(into)

    def replay(self, words_from: str) -> Replay:
        rule = self._merger.vocabulary.pre
        return Replay(tuple(self._start), tuple(self._steps), words_from, rule)


def _by_the_rules(pieces: Sequence[str | int], merger: _Merger) -> Replay | None:
    script, is_first, vocabulary = _Script(merger), True, merger.vocabulary
    for piece in pieces:
        if isinstance(piece, int):
            script.add_whole(piece, vocabulary.tokens[piece].encode())
            is_first = True  # after a token like this a new text begins
            continue
        words = merger.pieces(piece, is_first)
        if words is None:
            return None
        is_first = False
        for word in words:
            script.add_word(word)
    return script.replay("rule" if vocabulary.model == "gpt2" else "text")


def _by_the_best_sum(pieces: Sequence[str | int], vocabulary: FileVocabulary) -> Replay:
    """A step for each token that has more than one character."""
    start: list[Part] = []
    steps: list[Step] = []
    at = 0
    for piece in pieces:
        if isinstance(piece, int):
            start.append(Part(vocabulary.tokens[piece].encode(), piece, 0, is_whole=True))
            at += 1
            continue
        for text, token_id in best_cut(normalised(piece, vocabulary), vocabulary):
            characters = [_spoken(character) for character in text]
            known = vocabulary.unknown_id if token_id is None else token_id
            score = None if token_id is None else vocabulary.scores[token_id]
            is_alone = len(text) == 1
            start += [Part(data, known if is_alone else None, 0) for data in characters]
            if not is_alone:
                joined = Part(b"".join(characters), known, 0)
                steps.append(Step(at, len(text), (joined,), score=score))
            at += 1
    return Replay(tuple(start), tuple(steps), "sum", vocabulary.pre)


def _spoken(character: str) -> bytes:
    return b" " if character == SPACE else character.encode()


def _by_token(ids: Sequence[int], merger: _Merger) -> Replay | None:
    script, at, vocabulary = _Script(merger), 0, merger.vocabulary
    while at < len(ids):
        run = _byte_run(ids, at, vocabulary)
        if run:
            script.add_bytes(run)
            at += len(run)
            continue
        token_id = ids[at]
        if not 0 <= token_id < len(vocabulary.tokens):
            return None
        text = vocabulary.tokens[token_id]
        if _is_reached(text, token_id, merger):
            script.add_word(text)
        else:
            is_own = vocabulary.types[token_id] in (CONTROL, USER_DEFINED, UNKNOWN)
            script.add_whole(token_id, text.encode() if is_own else merger.data(text))
        at += 1
    return script.replay("tokens")


def _is_reached(text: str, token_id: int, merger: _Merger) -> bool:
    """Whether merges alone lead from its characters to this token."""
    if merger.vocabulary.types[token_id] in (CONTROL, USER_DEFINED, UNKNOWN):
        return False
    parts = list(text)
    for at, joined, _ in merge(parts, merger.cost):
        parts[at : at + 2] = [joined]
    return parts == [text] and merger.vocabulary.ids.get(text) == token_id


def _byte_run(ids: Sequence[int], at: int, vocabulary: FileVocabulary) -> bytes:
    """The bytes of one character that begins at `ids[at]` in byte tokens; empty for other ones."""
    found = b""
    for token_id in ids[at : at + 4]:
        is_known = 0 <= token_id < len(vocabulary.tokens)
        if not is_known or vocabulary.types[token_id] != BYTE:
            break
        byte = _BYTE_OF_NAME.get(vocabulary.tokens[token_id])
        if byte is None or (found and byte & 0xC0 != 0x80):
            break
        found += bytes((byte,))
    return found


def partition(
    text: str, vocabulary: FileVocabulary, *, special: bool, controls: Collection[int] = ()
) -> list[str | int]:
    """The text with the tokens that are looked for in it as a whole taken out, the longest ones
    first: strings and IDs in order.

    User-defined tokens are found in any text, control tokens only where they count as tokens.
    """
    found: list[str | int] = [text] if text else []
    for token_id in vocabulary.whole_ids:
        is_own = vocabulary.types[token_id] == USER_DEFINED and token_id not in controls
        token = vocabulary.tokens[token_id]
        if (special or is_own) and token in text:
            found = list(_taken_out(found, token, token_id))
    return found


def _taken_out(pieces: Iterable[str | int], token: str, token_id: int) -> Iterator[str | int]:
    for piece in pieces:
        if isinstance(piece, int):
            yield piece
            continue
        for number, between in enumerate(piece.split(token)):
            if number:
                yield token_id
            if between:
                yield between


# --- how files write bytes ------------------------------------------------------------------------


def byte_name(byte: int) -> str:
    """
    >>> byte_name(10)
    '<0x0A>'
    """
    return f"<0x{byte:02X}>"


_BYTE_OF_NAME: Final = {byte_name(byte): byte for byte in range(256)}


def _spelling() -> dict[int, str]:
    """GPT-2's table: printable bytes of Latin-1 stand for themselves, the other 68 for characters
    from U+0100 on. So every byte has a visible character, and no merge holds a space."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {
        byte: chr(0x100 + number) for number, byte in enumerate(others)
    }


_SPELLED: Final = _spelling()
_UNSPELLED: Final = {character: byte for byte, character in _SPELLED.items()}


def spelled(data: bytes) -> str:
    """
    >>> spelled(b" the\\n")
    'ĠtheĊ'
    """
    return "".join(map(_SPELLED.__getitem__, data))


def unspelled(text: str) -> bytes:
    """Back to bytes; what is none of the table's stays as it is.

    >>> unspelled("ĠtheĊ"), unspelled("€")
    (b' the\\n', b'\\xe2\\x82\\xac')
    """
    return b"".join(
        bytes((_UNSPELLED[each],)) if each in _UNSPELLED else each.encode() for each in text
    )
