"""Pictures and sounds as servers take them: in the request, as OpenAI's API reference has them.

{"type": "image_url", "image_url": {"url": "data:image/png;base64,…"}}
{"type": "input_audio", "input_audio": {"data": "…", "format": "wav"}}
"""

from __future__ import annotations

import base64
import re
from typing import Any, Final

from app.engine.protocol.media_messages import Media
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, Prompt
from app.engine.protocol.remote_messages import EngineOffer
from app.media_types import media_type_of
from app.refusal import Refusal

_SOUNDS: Final = {"audio/wav": "wav", "audio/mpeg": "mp3"}
_OF_MEDIA: Final = re.compile(
    r"image|picture|vision|audio|multi-?modal|mmproj|modalit"
    r"|(be|valid|expected) (a )?string|unmarshal array",
    re.IGNORECASE,
)
"""The last are of servers whose messages are texts alone."""
_REJECTED: Final = (400, 422)
_TOO_LARGE, _OTHER_TYPE = 413, 415
_LATER: Final = (429, 503)
_NO_SOUND: Final = "Sounds are sent to servers as WAV or MP3 only. Attach one of these."
_UNREADABLE: Final = "An attached picture can't be read, so it can't be sent. Remove it."


def has_media(prompt: Prompt) -> bool:
    return isinstance(prompt, ChatPrompt) and any(each.media for each in prompt.messages)


def refused_media(name: str, prompt: Prompt, status: int, evidence: str) -> Refusal | None:
    """What a server's refusal means that is about the pictures, or sounds, of this prompt."""
    said = evidence.partition(": ")[2].rstrip(".")
    is_unsaid = not said and status in _REJECTED
    is_of_it = status in (_TOO_LARGE, _OTHER_TYPE) or is_unsaid or _OF_MEDIA.search(said)
    if not has_media(prompt) or status in _LATER or not is_of_it:
        return None
    words = f" It says: “{said}”." if said else ""
    todo = "Remove them, or use a model that takes them."
    if status == _TOO_LARGE:
        todo = "They are too large for it: remove some, or attach smaller ones."
    sentence = f"“{name}” refused the chat with its pictures or sounds.{words} {todo}"
    return Refusal("unsupported", sentence, evidence)


def with_media(message: ChatMessage, offer: EngineOffer) -> list[dict[str, Any]]:
    """A message's content in parts. Raises Refusal where the server is known to take no such."""
    parts: list[dict[str, Any]] = []
    at = 0
    for media in message.media:
        why_not = offer.why_not("images" if media.kind == "image" else "audio")
        if why_not:
            raise Refusal("unsupported", why_not)
        _add_text(parts, message.content[at : media.at])
        at = max(at, media.at)
        parts.append(_part(media))
    _add_text(parts, message.content[at:])
    return parts


def as_one(
    first: str | list[dict[str, Any]], second: str | list[dict[str, Any]], between: str
) -> str | list[dict[str, Any]]:
    """The content of two messages as that of one."""
    if isinstance(first, str) and isinstance(second, str):
        return first + between + second
    return [*_as_parts(first), *_as_parts(second)]


def _as_parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not isinstance(content, str):
        return content
    return [{"type": "text", "text": content}] if content else []


def _add_text(parts: list[dict[str, Any]], text: str) -> None:
    if text:
        parts.append({"type": "text", "text": text})


def _part(media: Media) -> dict[str, Any]:
    media_type, data = media_type_of(media.data), base64.b64encode(media.data).decode()
    if media.kind == "audio":
        if media_type not in _SOUNDS:
            raise Refusal("bad_media", _NO_SOUND)
        return {
            "type": "input_audio",
            "input_audio": {"data": data, "format": _SOUNDS[media_type]},
        }
    if not media_type.startswith("image/"):
        raise Refusal("bad_media", _UNREADABLE)
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
