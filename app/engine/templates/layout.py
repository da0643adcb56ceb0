"""Where each message went in a rendered prompt.

A template is rendered twice: with the contents, and with a marker in place of each. Between
the markers stands the scaffold, and laid over the real text it shows where contents begin
and end, also where the template trimmed them:

    scaffold   <user>⟨m0⟩</user>\\n<bot>
    rendered   <user>Hello</user>\\n<bot>        with the content " Hello "
    span                ^^^^^ m0
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from app.engine.protocol.media_messages import SHOWN


@dataclass(frozen=True, slots=True)
class MessageSpan:
    """Characters [start, end) are the content (kind m), the reasoning (r) or the calls (c) of a
    message, or the definitions of tools (t), which are of none."""

    kind: str
    index: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Layout:
    """`ordinary`: character ranges that hold control-token text which is only text.
    `is_known`: whether the scaffold could be laid over all of the text. `media`: at which character
    which picture stands."""

    text: str
    spans: list[MessageSpan]
    ordinary: list[tuple[int, int]]
    is_known: bool
    media: list[tuple[int, int]] = field(default_factory=list)


_HIDDEN: Final = "[ci]"
"""What placeholders stand for: control text, pictures."""


def lay_over(
    rendered: str, scaffold: str, contents: dict[str, str], open_mark: str, close_mark: str
) -> Layout:
    """Find the contents in `rendered`. `contents` maps marker names (m0, r0) to their texts."""
    pieces = re.split(f"{open_mark}([mr][0-9]+){close_mark}", scaffold)
    names, scaffolds = pieces[1::2], pieces[0::2]
    if not scaffold or not rendered.startswith(scaffolds[0]):
        return Layout(rendered, [], [], is_known=False)
    position = len(scaffolds[0])
    spans: list[MessageSpan] = []
    for number, name in enumerate(names):
        is_last = number == len(names) - 1
        end = _end_of_content(
            rendered, position, contents.get(name, ""), scaffolds[number + 1], is_last
        )
        if end is None:
            return Layout(rendered, spans, [], is_known=False)
        spans.append(MessageSpan(name[0], int(name[1:]), position, end))
        position = end + len(scaffolds[number + 1])
    return Layout(rendered, spans, [], is_known=position == len(rendered))


def _end_of_content(
    rendered: str, start: int, content: str, following: str, is_last: bool
) -> int | None:
    """Where a content that begins at `start` ends, so that `following` comes after it."""
    for form in (content, content.strip(), content.lstrip(), content.rstrip()):
        end = start + len(form)
        fits = rendered.startswith(form, start) and rendered.startswith(following, end)
        if fits and (not is_last or end + len(following) == len(rendered)):
            return end
    if is_last:
        end = len(rendered) - len(following)
        return end if end >= start and rendered.endswith(following) else None
    end = rendered.find(following, start) if following else -1
    return end if end >= 0 else None


def restore(layout: Layout, controls: list[str], open_mark: str, close_mark: str) -> Layout:
    """Put control text back where its placeholders are, and a character for each picture; move the
    spans along."""
    pieces = re.split(f"{open_mark}({_HIDDEN}[0-9]+){close_mark}", layout.text)
    if len(pieces) == 1:
        return layout
    text = pieces[0]
    ordinary: list[tuple[int, int]] = []
    media: list[tuple[int, int]] = []
    shifts: list[tuple[int, int]] = []  # (position in the old text, shift from there on)
    old = len(text)
    for name, following in zip(pieces[1::2], pieces[2::2], strict=True):
        number = int(name[1:])
        if name[0] == "i":
            media.append((len(text), number))
            hidden = SHOWN
        else:
            hidden = controls[number]
            ordinary.append((len(text), len(text) + len(hidden)))
        text += hidden + following
        old += len(open_mark) + len(name) + len(close_mark)
        shifts.append((old, len(text) - len(following) - old))
        old += len(following)

    def moved(position: int) -> int:
        shift = 0
        for from_position, by in shifts:
            if from_position > position:
                break
            shift = by
        return position + shift

    spans = [MessageSpan(s.kind, s.index, moved(s.start), moved(s.end)) for s in layout.spans]
    return Layout(text, spans, ordinary, layout.is_known, media)
