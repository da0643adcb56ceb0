"""What a server answers, as text: bounded, with everything that is no text named in words.

Blocks of a tool's result, of a prompt and of a resource all become an `Answer`. Nothing here is
shown as anything but text, and nothing is fetched: a link to a resource stays a link.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from app.amounts import bytes_words
from app.tools.bounds import (
    MAX_ATTACHED_CHARACTERS,
    MAX_BLOCKS,
    MAX_RESULT_CHARACTERS,
    its_words,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` goes into the chat and the prompt. `whole`: the text in full where that was too long,
    to be kept as a file; it is bounded too. `is_error`: the tool says that it failed."""

    text: str
    whole: str = ""
    is_error: bool = False


def answer(blocks: Iterable[Any], structured: Any = None, *, is_error: bool = False) -> Answer:
    """An answer of `mcp` content blocks; `structured` speaks where they say nothing."""
    blocks = list(blocks)
    parts = [part for block in blocks[:MAX_BLOCKS] for part in _parts(block)]
    if len(blocks) > MAX_BLOCKS:
        parts.append(f"[{len(blocks) - MAX_BLOCKS:,} more parts were dropped]")
    if structured is not None and not any(part.strip() for part in parts):
        parts = [json.dumps(structured, ensure_ascii=False, indent=1)]
    return bounded("\n\n".join(parts), is_error=is_error)


def bounded(text: str, *, is_error: bool = False) -> Answer:
    """A text as an answer, its rest apart where it is long."""
    text = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if len(text) <= MAX_RESULT_CHARACTERS:
        return Answer(text or "(empty)", "", is_error)
    n_more = len(text) - MAX_RESULT_CHARACTERS
    words = f"[{n_more:,} more characters are in the attached file, which the model doesn't see]"
    whole = text[:MAX_ATTACHED_CHARACTERS]
    if len(text) > MAX_ATTACHED_CHARACTERS:
        n_lost = len(text) - MAX_ATTACHED_CHARACTERS
        words = f"{words[:-1]}; {n_lost:,} more were dropped]"
    return Answer(f"{text[:MAX_RESULT_CHARACTERS]}\n\n{words}", whole, is_error)


def _parts(block: Any) -> Iterator[str]:
    kind = getattr(block, "type", "")
    if kind == "text":
        yield block.text
    elif kind in ("image", "audio"):
        yield _named(kind, block.mime_type, _size(block.data))
    elif kind == "resource_link":
        yield f"[Link to a resource: {its_words(block.uri)}]"
    elif kind == "resource":
        yield from resource_parts(block.resource)
    else:
        yield f"[Something of the kind “{its_words(kind)}”, which can't be shown]"


def resource_parts(contents: Any) -> Iterator[str]:
    """The contents of a resource: its text, or the name of what it is."""
    text = getattr(contents, "text", None)
    if text is not None:
        yield text
        return
    kind = contents.mime_type or "a file"
    yield _named(f"file {its_words(contents.uri)}", kind, _size(contents.blob))


def _size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


def _named(what: str, mime_type: str, size_bytes: int) -> str:
    return f"[{what.capitalize()}, {its_words(mime_type)}, {bytes_words(size_bytes)}: not text]"
