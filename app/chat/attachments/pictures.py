"""Pictures and sounds that somebody attaches: told apart by their first bytes, read within bounds,
made ready by the picture process.

What is kept of a picture is what the model is shown: upright, on white, none of its sides longer
than the setting says, and nothing of what the file told beside it. A sound is kept as it is.
"""

from __future__ import annotations

import dataclasses
from concurrent.futures import CancelledError
from typing import Final

from app.amounts import bytes_words
from app.chat.attachments.kinds import AUDIO, PICTURE
from app.chat.attachments.sounds import length_s, sound_type
from app.chat.attachments.text_files import FileRefused, TextFile, read_text_file
from app.pictures.client import Pictures
from app.pictures.kinds import HEAD_BYTES, is_svg, picture_type
from app.pictures.messages import FIRST_FRAME, FIRST_PAGE, ON_WHITE, PicturePrepared, PictureRefused
from app.reading.document import DocumentRefused
from app.reading.files import opened, read_bytes, shown_name

MAX_PICTURE_BYTES: Final = 60_000_000
MAX_SOUND_BYTES: Final = 25_000_000
PASTED_NAME: Final = "Pasted picture"
_KINDS: Final = {"too_large": "Too large", "unknown": "Not a picture", "timeout": "Takes too long"}
_NOTES: Final = {
    FIRST_FRAME: "only the first frame of the animation is attached",
    FIRST_PAGE: "only the first page is attached",
    ON_WHITE: "what is transparent is white for the model",
}


def read_media(path: str, pictures: Pictures, longest: int) -> TextFile | None:
    """A picture or a sound, ready to be attached; None for what is neither. Raises FileRefused.
    It waits for the picture process: never on the window's thread."""
    name = shown_name(path)
    try:
        with opened(path, name, 1 << 62) as file:
            head = file.read(HEAD_BYTES)
        if media_type := picture_type(head):
            if media_type == "image/heic":
                sentence = f"“{name}” is a HEIC photo, which can't be read. Export it as JPEG."
                raise FileRefused(name, "HEIC photo", sentence)
            return picture_file(name, read_bytes(path, name, MAX_PICTURE_BYTES), pictures, longest)
        if media_type := sound_type(head):
            return sound_file(name, media_type, read_bytes(path, name, MAX_SOUND_BYTES))
    except DocumentRefused as why:
        raise FileRefused(name, why.kind, why.sentence) from why
    if is_svg(head):
        note = f"“{name}” is an SVG drawing. It is attached as its source text, not as a picture."
        return dataclasses.replace(read_text_file(path), note=note)
    return None


def picture_file(
    name: str,
    data: bytes,
    pictures: Pictures,
    longest: int,
    raw_size: tuple[int, int] = (0, 0),
) -> TextFile:
    """Raises FileRefused. `raw_size`: `data` is so many RGBA pixels, from the clipboard."""
    try:
        found = pictures.prepare(data, longest, raw_size).result()
    except PictureRefused as why:
        kind = _KINDS.get(why.kind, "Damaged")
        raise FileRefused(name, kind, f"“{name}” {why.sentence}") from why
    except CancelledError:
        raise FileRefused(name, "Closing", f"“{name}” wasn't attached.") from None
    return TextFile(
        name,
        "",
        len(found.data),
        kind=PICTURE,
        details=details_of(found),
        note=_note(name, found.notes),
        file=(found.media_type, found.data),
    )


def details_of(found: PicturePrepared) -> dict[str, object]:
    """`shown`: what was done to the picture that was given, where something was."""
    shown: dict[str, object] = {}
    if (found.given_width, found.given_height) != (found.width, found.height):
        shown["given"] = [found.given_width, found.given_height]
    if found.notes:
        shown["notes"] = found.notes
    details = {"width": found.width, "height": found.height, "media_type": found.media_type}
    return details | ({"shown": shown} if shown else {})


def sound_file(name: str, media_type: str, data: bytes) -> TextFile:
    if not media_type.endswith(("wav", "mpeg", "flac")):
        sentence = f"“{name}” can't be attached: save it as WAV, MP3 or FLAC."
        raise FileRefused(name, "Not supported", sentence)
    seconds = length_s(media_type, data)
    details: dict[str, object] = {"media_type": media_type}
    if seconds is not None:
        details["seconds"] = round(seconds, 2)
    return TextFile(name, "", len(data), kind=AUDIO, details=details, file=(media_type, data))


def _note(name: str, notes: list[str]) -> str:
    words = [_NOTES[each] for each in notes if each in _NOTES]
    return f"“{name}”: {'; '.join(words)}." if words else ""


def too_many(size: int, most: int) -> str:
    """Of pictures that no one prompt could hold."""
    return (
        f"The pictures and sounds of one message may have {bytes_words(most)} together; with this "
        f"one it would be {bytes_words(size)}. Remove some."
    )
