"""Pictures and sounds of a request, as the attachments of its messages."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from app.chat.attachments.attached_text import AT
from app.chat.attachments.kinds import AUDIO, PICTURE
from app.chat.conversations.shelf import new_id
from app.engine.protocol.media_messages import Media
from app.engine.protocol.prompt_messages import ChatMessage
from app.media_types import media_type_of, picture_size
from models.records import Attachment, File

NAMES: Final = {"image": "Picture", "audio": "Sound"}


def brought_by(
    said: ChatMessage, message_id: str, conversation_id: str, at: datetime
) -> tuple[tuple[Attachment, ...], dict[str, File]]:
    """A message's attachments, and the bytes of each. They keep their places among its words."""
    files: dict[str, File] = {}
    found = []
    for place, media in enumerate(said.media):
        attachment = _attachment(media, place, message_id, conversation_id, at)
        files[attachment.id] = (str(attachment.details["media_type"]), media.data)
        found.append(attachment)
    return tuple(found), files


def _attachment(
    media: Media, place: int, message_id: str, conversation_id: str, at: datetime
) -> Attachment:
    return Attachment(
        id=new_id(),
        conversation_id=conversation_id,
        name=f"{NAMES[media.kind]} {place + 1}",
        text="",
        size_bytes=len(media.data),
        created_at=at,
        message_id=message_id,
        position=place,
        kind=AUDIO if media.kind == "audio" else PICTURE,
        details={"media_type": media_type_of(media.data), AT: media.at, **_size(media)},
    )


def _size(media: Media) -> dict[str, int]:
    size = picture_size(media.data)
    return {"width": size[0], "height": size[1]} if size is not None and all(size) else {}
