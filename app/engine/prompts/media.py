"""Pictures and sounds among the tokens of a prompt.

A picture becomes cells that hold no token. So that all that knows cells by their IDs (what two
prompts share, what is parked, saved, forked) need not know of pictures, each such cell has an ID of
its own, below -1, made from a hash of what was seen and by which projector. Pictures differ in all
of their IDs, and one has the same in each prompt, in each run.

    -2 - v, and v has 30 bits      1 hhhhhhhhhhhhh hhhhhhhhhhhhhhhh     the first cell
                                   0 hhhhhhhhhhhhh pppppppppppppppp     the second
                                   0 hhhhhhhhhhhhh hhhhhhhhhhhhhhhh     all others

h are bits of the hash. p says how many positions the whole takes, 0: as many as it has cells. With
M-RoPE (Qwen-VL) a picture of 4 by 6 cells takes 6 positions; what comes behind must know that, also
where the picture itself has long been forgotten.

What must hold: whatever goes on from a beginning never begins inside a picture (`whole_length`).
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from app.engine.protocol.media_messages import (
    MAX_MEDIA,
    MAX_MEDIA_BYTES,
    Media,
    MediaKind,
    MediaSpan,
    ProjectorOffer,
)
from app.engine.protocol.prompt_messages import ChatPrompt, Prompt
from app.refusal import Refusal


class Ids(Protocol):
    """A list of token IDs, or an array of them."""

    def __len__(self) -> int: ...
    def __getitem__(self, at: int, /) -> Any: ...


MAX_POSITIONS: Final = 0xFFFF
_FIRST: Final = 1 << 29
_BITS: Final = _FIRST - 1


@dataclass(frozen=True, slots=True)
class Run:
    """Tokens [start, end) are one piece of a picture, and take `n_positions`. `has_axes`: they
    stand at its first position, and lie beside each other on other axes."""

    start: int
    end: int
    n_positions: int
    has_axes: bool = False

    @property
    def n_saved(self) -> int:
        """How many fewer positions than cells."""
        return self.end - self.start - self.n_positions


def media_ids(digest: bytes, count: int, n_positions: int = 0) -> list[int]:
    """The IDs of `count` cells of what has this hash; they take `n_positions` (0: one each).

    >>> runs_of([7, *media_ids(b"a picture", 24, 6), 8])
    [Run(start=1, end=25, n_positions=6, has_axes=True)]
    """
    if not 0 <= n_positions <= MAX_POSITIONS or count < 1:
        raise ValueError("no such picture")
    values = array("I", hashlib.shake_256(digest).digest(4 * count))
    ids = [-2 - (value & _BITS) for value in values]
    ids[0] = -2 - (values[0] & _BITS | _FIRST)
    if count > 1:
        ids[1] = -2 - (values[1] & _BITS & ~MAX_POSITIONS | n_positions)
    return ids


def is_media(token_id: int) -> bool:
    return token_id < -1


def is_inside(token_id: int) -> bool:
    """Whether a picture has begun before this cell of it.

    >>> [is_inside(i) for i in (5, -1, *media_ids(b"a picture", 3))]
    [False, False, False, True, True]
    """
    return token_id < -1 and not (-2 - token_id) & _FIRST


def runs_of(ids: Sequence[int]) -> list[Run]:
    """The pieces of pictures in a prompt, in order; the last one may lack its end."""
    runs: list[Run] = []
    start = -1
    for at, token_id in enumerate(ids):
        if start >= 0 and not is_inside(token_id):
            runs.append(_run(ids, start, at))
            start = -1
        if token_id < -1 and start < 0:
            start = at
    return [*runs, _run(ids, start, len(ids))] if start >= 0 else runs


def _run(ids: Sequence[int], start: int, end: int) -> Run:
    told = (-2 - int(ids[start + 1])) & MAX_POSITIONS if end - start > 1 else 0
    return Run(start, end, told or end - start, told > 0)


def whole_length(ids: Ids, length: int) -> int:
    """At most `length`, so that the rest does not begin inside a picture.

    >>> whole_length([7, *media_ids(b"a picture", 3), 8], 3)
    1
    """
    while 0 < length < len(ids) and is_inside(int(ids[length])):
        length -= 1
    return length


# --- what a prompt is built of ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands in the prompt for a part of a picture: tokens as they are, or cells. `chunk`:
    what the vectors of the cells are computed from."""

    ids: list[int]
    is_cells: bool = False
    columns: int = 0
    rows: int = 0
    chunk: object = None


See = Callable[[Media], Sequence[Seen]]
"""Looks at a picture. Raises Refusal where it cannot be seen."""


def span_of(media: Media, seen: Seen, start: int) -> MediaSpan:
    """Where the cells went."""
    return MediaSpan(start, len(seen.ids), media.id, seen.columns, seen.rows, media.kind)


def known_spans(ids: Sequence[int], known: Mapping[int, MediaSpan]) -> list[MediaSpan]:
    """The pictures that are whole in these tokens, where they are known by their first cell."""
    found = []
    for run in runs_of(ids):
        span = known.get(int(ids[run.start]))
        if span is not None and span.count == run.end - run.start:
            found.append(msgspec.structs.replace(span, start=run.start))
    return found


def by_first_cell(ids: Sequence[int], spans: Iterable[MediaSpan]) -> dict[int, MediaSpan]:
    return {int(ids[span.start]): span for span in spans}


def see_nothing(_: Media) -> Sequence[Seen]:
    raise refuse_unseen("image", None)


def refuse_unseen(kind: MediaKind, offer: ProjectorOffer | None) -> Refusal:
    """Why a picture or a sound cannot be part of a prompt, and what would do."""
    what, do = ("pictures", "see") if kind == "image" else ("audio", "hear")
    it = "picture" if kind == "image" else "audio"
    if offer is None:
        return Refusal(
            "no_projector",
            f"The loaded model can't {do} {what}: no projector is loaded with it. Choose its "
            f"projector file (mmproj) in the model's settings and reload it, or remove the {it}.",
        )
    if offer.why:
        return Refusal(
            "no_projector",
            f"The loaded model can't {do} {what}, because its projector couldn't be loaded. "
            f"{offer.why} Or remove the {it}.",
        )
    return Refusal(
        "no_projector",
        f"The loaded model can't {do} {what}: its projector ({offer.kind}) is not made for that. "
        f"Choose another model, or remove the {it}.",
    )


def media_of(prompt: Prompt) -> list[Media]:
    """All that a prompt's messages bring along."""
    messages = prompt.messages if isinstance(prompt, ChatPrompt) else []
    return [media for message in messages for media in message.media]


def check_media(media: Iterable[Media], offer: ProjectorOffer | None) -> None:
    """Raise Refusal for what nobody can look at, before anything is decoded."""
    found = list(media)
    if len(found) > MAX_MEDIA:
        raise Refusal(
            "bad_media",
            f"The chat has {len(found):,} pictures and sounds, but at most {MAX_MEDIA} can be "
            "given to a model at once. Remove some.",
        )
    for each in found:
        can = offer is not None and not offer.why
        can = can and (offer.images if each.kind == "image" else offer.audio)  # type: ignore[union-attr]
        if not can:
            raise refuse_unseen(each.kind, offer)
        if len(each.data) > MAX_MEDIA_BYTES:
            raise Refusal(
                "bad_media",
                f"A file of {len(each.data) / 2**20:.0f} MB is too large: pictures and sounds can "
                f"have at most {MAX_MEDIA_BYTES / 2**20:.0f} MB. Make it smaller.",
            )
