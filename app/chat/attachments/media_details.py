"""What is stored beside a picture or a sound, as far as it makes sense: an import may say anything
there."""

from __future__ import annotations

from typing import Annotated

import msgspec

from models.records import Attachment

Side = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class Shown(msgspec.Struct, frozen=True):
    """What was done to the picture that was given: `given` is its width and height before."""

    given: tuple[Side, Side] | None = None
    notes: tuple[str, ...] = ()


class MediaDetails(msgspec.Struct, frozen=True):
    width: Side | None = None
    height: Side | None = None
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e7)] | None = None
    media_type: str = ""
    shown: Shown = Shown()

    @property
    def size(self) -> tuple[int, int] | None:
        """Of a picture, in pixels."""
        return (self.width, self.height) if self.width and self.height else None


def media_details(attachment: Attachment) -> MediaDetails:
    """Nothing of what is stored where a part of it makes no sense."""
    try:
        return msgspec.convert(attachment.details, MediaDetails)
    except msgspec.ValidationError:
        return MediaDetails()
