"""Segments of a prompt become token IDs, and each token knows where it came from."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol


class TemplateWords(Protocol):
    """What rendering a prompt needs to know of the vocabulary."""

    @property
    def control_texts(self) -> list[str]: ...

    @property
    def bos_text(self) -> str: ...

    @property
    def eos_text(self) -> str: ...


class PromptVocabulary(TemplateWords, Protocol):
    """What tokenising a prompt needs to know of the vocabulary."""

    def tokenize(self, text: str, special: bool = False, add_bos: bool = False) -> list[int]: ...

    def piece(self, token_id: int, /) -> bytes: ...

    @property
    def bos_id(self) -> int | None: ...

    @property
    def add_bos(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class PromptPart:
    """Tokens [start, end) come from `origin`: scaffold, a role, attachment, or text (a plain
    document)."""

    start: int
    end: int
    origin: str
    message_id: str | None = None


Origin = tuple[int, int, str, str | None]
"""Characters [start, end) of the rendered text, and where they come from."""


def present_controls(texts: Sequence[str], vocabulary: TemplateWords) -> list[str]:
    """Control texts that occur in the messages, longest first so that it wins."""
    whole = "\0".join(texts)
    return sorted(
        (c for c in set(vocabulary.control_texts) if c and c in whole), key=lambda c: (-len(c), c)
    )


def split_control(text: str, vocabulary: PromptVocabulary) -> Iterator[tuple[str, bool]]:
    """(piece, whether it is the text of a control token) in order."""
    controls = present_controls([text], vocabulary)
    if not controls:
        yield text, False
        return
    pattern = re.compile("(" + "|".join(map(re.escape, controls)) + ")")
    for index, piece in enumerate(pattern.split(text)):
        if piece:
            yield piece, index % 2 == 1


_LEADS: Final = ("\n", "a", ".")


class PromptTokenizer:
    """Collects IDs and parts, segment after segment."""

    def __init__(self, vocabulary: PromptVocabulary, *, has_begun: bool = False) -> None:
        """`has_begun`: something stands before the first segment already."""
        self.vocabulary = vocabulary
        self.ids: list[int] = []
        self.parts: list[PromptPart] = []
        self.retokenized: list[str] = []
        self.returned: list[str] = []
        self._has_begun = has_begun

    def spell(self, ids: list[int]) -> str | None:
        """The text that IDs spell, without a character that they only begin (see `tail`); None
        where it is no UTF-8."""
        try:
            data = self._spell_bytes(ids)
            return data[: len(data) - len(unfinished(data))].decode("utf-8")
        except (UnicodeDecodeError, IndexError):
            return None

    def tail(self, ids: list[int]) -> bytes:
        """The first bytes of a character that IDs begin and do not end."""
        data = b""
        for token_id in reversed(ids):
            data = self.vocabulary.piece(token_id) + data
            if len(data) >= MAX_TAIL:
                break
        return unfinished(data)

    def without_tail(self, ids: list[int]) -> list[int] | None:
        """The IDs that spell whole characters; None where one token ends a character and begins
        the next."""
        n_bytes, end = len(self.tail(ids)), len(ids)
        while n_bytes > 0:
            end -= 1
            n_bytes -= len(self.vocabulary.piece(ids[end]))
        return ids[:end] if n_bytes == 0 else None

    def add(
        self,
        text: str,
        origin: str,
        message_id: str | None,
        *,
        ordinary: bool = False,
        whole: bool = False,
    ) -> None:
        """Tokenise one segment of one origin.

        `ordinary`: control-token text in it is text. `whole`: it holds no such text, so even a
        user-defined token that llama.cpp finds in any text may stay.
        """
        if not text:
            return
        if not ordinary:
            ids = self._segment(text, special=True)
        elif whole:
            ids = self._segment(text, special=False)
        else:
            ids = self._spelled_out(text)
        self.add_ids(ids, origin, message_id)

    def add_ids(self, ids: list[int], origin: str, message_id: str | None) -> None:
        start = len(self.ids)
        self.ids += ids
        self._add_part(start, len(self.ids), origin, message_id)

    def add_mixed(self, text: str, offset: int, origins: list[Origin]) -> None:
        """Tokenise a segment of the rendered text that begins at character `offset`.

        A token belongs to where most of its bytes come from: of `▁Hello` in “User: Hello” only
        the space is the template's.
        """
        if not text:
            return
        ids = self._segment(text, special=True)
        start = len(self.ids)
        self.ids += ids
        self._share_out(ids, start, text, _byte_borders(text, offset, origins, "scaffold"))

    def share_out(self, text: str, origins: list[Origin], otherwise: str) -> None:
        """Say anew where the tokens of `text`, which is all that there is but for a BOS, come
        from; what is nobody's is `otherwise`."""
        self.parts = [part for part in self.parts[:1] if part.origin == "scaffold"]
        start = self.parts[0].end if self.parts else 0
        borders = _byte_borders(text, 0, origins, otherwise)
        self._share_out(self.ids[start:], start, text, borders)

    def _share_out(self, ids: list[int], start: int, text: str, borders: list[Border]) -> None:
        border, at_byte = 0, -self._extra_bytes(ids, text)
        for number, token_id in enumerate(ids, start):
            end_byte = at_byte + len(self.vocabulary.piece(token_id))
            while border + 1 < len(borders) and borders[border + 1][0] <= max(at_byte, 0):
                border += 1
            origin, message_id = _most_of(borders, border, max(at_byte, 0), end_byte)
            self._add_part(number, number + 1, origin, message_id)
            at_byte = end_byte

    def _extra_bytes(self, ids: list[int], text: str) -> int:
        """Bytes that the vocabulary put before the text: a space of its own."""
        pieces = b"".join(self.vocabulary.piece(i) for i in ids)
        return max(0, len(pieces) - len(text.encode()))

    def _add_part(self, start: int, end: int, origin: str, message_id: str | None) -> None:
        if start == end:
            return
        last = self.parts[-1] if self.parts else None
        if last and (last.origin, last.message_id, last.end) == (origin, message_id, start):
            self.parts[-1] = replace(last, end=end)
        else:
            self.parts.append(PromptPart(start, end, origin, message_id))

    def _segment(self, text: str, special: bool) -> list[int]:
        """Tokenise the next segment. Before the first one stands exactly one BOS, either the
        template's or, where the vocabulary wants one, ours."""
        if self._has_begun:
            return self._tokenize_middle(text, special)
        bos_text = self.vocabulary.bos_text
        self.begin(has_bos=special and bool(bos_text) and text.lstrip().startswith(bos_text))
        return self.vocabulary.tokenize(text, special=special)

    def begin(self, *, has_bos: bool = False) -> None:
        """What comes next is no text, or has its BOS: nothing else stands before it."""
        vocabulary = self.vocabulary
        if self._has_begun:
            return
        self._has_begun = True
        if vocabulary.add_bos and vocabulary.bos_id is not None and not has_bos:
            self.add_ids([vocabulary.bos_id], "scaffold", None)

    def _tokenize_middle(self, text: str, special: bool) -> list[int]:
        """Tokenise text that stands inside the prompt.

        Some vocabularies put a space before every text that they are given, as if it began a
        sentence. Then a lead is tokenised with it and cut off again.
        """
        tokenize, wanted = self.vocabulary.tokenize, text.encode()
        ids = tokenize(text, special=special)
        if self._spell_bytes(ids) == wanted:
            return ids
        for lead in _LEADS:
            led = tokenize(lead + text, special=special)
            for cut in range(1, min(4, len(led)) + 1):
                if self._spell_bytes(led[cut:]) == wanted:
                    return led[cut:]
        return ids

    def add_inside(self, text: str, origin: str, message_id: str | None) -> None:
        """Tokenise what somebody wrote: control-token text in it stays text."""
        for piece, is_control in split_control(text, self.vocabulary):
            self.add(piece, origin, message_id, ordinary=True, whole=not is_control)

    def _spell_bytes(self, ids: list[int]) -> bytes:
        return b"".join(self.vocabulary.piece(i) for i in ids)

    def _spelled_out(self, text: str) -> list[int]:
        """The text of a control token as ordinary tokens.

        llama.cpp finds some tokens in any text; then the text is cut after its first character,
        and so are its parts, until no token spells a control text.
        """
        ids = self._segment(text, special=False)
        controls = {control.encode() for control in self.vocabulary.control_texts}
        if len(text) < 2 or not any(self.vocabulary.piece(i) in controls for i in ids):
            return ids
        return [*self._spelled_out(text[:1]), *self._spelled_out(text[1:])]


def inside_ids(text: str, vocabulary: PromptVocabulary) -> list[int]:
    """The IDs of what somebody wrote, where it stands behind another text: no BOS, and no space
    that the vocabulary would put before it."""
    tokenizer = PromptTokenizer(vocabulary, has_begun=True)
    tokenizer.add_inside(text, "text", None)
    return tokenizer.ids


MAX_TAIL: Final = 3
"""A character has at most four bytes."""


def unfinished(data: bytes) -> bytes:
    """The bytes at the end that begin a character and may still become one.

    >>> unfinished("a🙂".encode()[:-1]), unfinished(b"a\\xff")
    (b'\\xf0\\x9f\\x99', b'')
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-MAX_TAIL:])
    return decoder.getstate()[0]


Border = tuple[int, str, str | None]
"""The first byte of what comes from one place; it ends where the next one begins."""


def _most_of(borders: list[Border], first: int, at: int, end: int) -> tuple[str, str | None]:
    """Where most of the bytes [at, end) come from; of equals a message goes before the template,
    then the first one. `first` is the border that `at` is in."""
    best, most = borders[first], (0, False)
    for number in range(first, len(borders)):
        border = borders[number]
        start = max(border[0], at)
        stop = min(borders[number + 1][0], end) if number + 1 < len(borders) else end
        if start >= end:
            break
        share = (stop - start, border[1] != "scaffold")
        if stop > start and share > most:
            best, most = border, share
    return best[1], best[2]


def _byte_borders(text: str, offset: int, origins: list[Origin], otherwise: str) -> list[Border]:
    """[(first byte, origin, message_id)] that cover a segment, in order."""
    borders: list[Border] = [(0, otherwise, None)]
    for start, end, origin, message_id in origins:
        start, end = max(start - offset, 0), min(end - offset, len(text))
        if start < end:
            borders.append((len(text[:start].encode()), origin, message_id))
            borders.append((len(text[:end].encode()), otherwise, None))
    return borders
