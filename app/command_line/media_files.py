"""Pictures and sounds that a command is given: read, checked, put before the text of the message.

Nothing is loaded for what could not be taken: a file that is none is refused first, and a model
without a projector as soon as that is known.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import msgspec

from app.amounts import bytes_words
from app.command_line.run import named_file
from app.engine.prompts.media_taken import why_not_taken
from app.engine.protocol.loading_messages import BESIDE, Loaded
from app.engine.protocol.media_messages import (
    MAX_MEDIA,
    MAX_MEDIA_BYTES,
    MAX_SENT_BYTES,
    Media,
    MediaKind,
)
from app.engine.protocol.prompt_messages import ChatPrompt
from app.media_types import READ_HERE, media_type_of
from app.refusal import Refusal, bad_setting

NONE: Final = "none"
_OPTIONS: Final[dict[str, tuple[MediaKind, str]]] = {
    "image": ("image", "PNG, JPEG, GIF or BMP"),
    "audio": ("audio", "WAV, MP3 or FLAC"),
}


def add_media_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--image", action="append", metavar="FILE", help="picture to look at (may be repeated)")
    add("--audio", action="append", metavar="FILE", help="sound to hear (may be repeated)")


def media_of(options: argparse.Namespace) -> list[Media]:
    """What was given, pictures first. Raises Refusal."""
    found: list[Media] = []
    size_bytes = 0
    for option, (kind, kinds) in _OPTIONS.items():
        for name in getattr(options, option) or ():
            if len(found) == MAX_MEDIA:
                raise bad_setting(f"At most {MAX_MEDIA} pictures and sounds can be given.")
            found.append(_read(name, option, kind, kinds, len(found) + 1))
            size_bytes += len(found[-1].data)
            if size_bytes > MAX_SENT_BYTES:
                most = bytes_words(MAX_SENT_BYTES)
                raise bad_setting(f"All pictures and sounds together may have at most {most}.")
    if found and options.raw:
        raise bad_setting("--raw takes no pictures and no sounds. Remove them.")
    return found


def _read(name: str, option: str, kind: MediaKind, kinds: str, number: int) -> Media:
    path = Path(named_file(name, f"--{option}"))
    try:
        with path.open("rb") as file:
            data = file.read(MAX_MEDIA_BYTES + 1)
    except OSError as error:
        raise Refusal("not_readable", f"“{path}” can't be read: {error.strerror}.") from error
    if len(data) > MAX_MEDIA_BYTES:
        most = bytes_words(MAX_MEDIA_BYTES)
        raise bad_setting(f"“{path.name}” is too large: a file may have at most {most}.")
    media_type = media_type_of(data)
    if not media_type.startswith(f"{kind}/") or media_type not in READ_HERE:
        raise bad_setting(f"“{path.name}” can't be read with --{option}. Use {kinds}.")
    return Media(f"file-{number}", kind, data)


def with_media(prompt: ChatPrompt, media: list[Media]) -> ChatPrompt:
    """Before the text of the last message of the user."""
    messages = list(prompt.messages)
    at = max(place for place, each in enumerate(messages) if each.role == "user")
    messages[at] = msgspec.structs.replace(messages[at], media=media)
    return msgspec.structs.replace(prompt, messages=messages)


def projector_path(options: argparse.Namespace, *, is_needed: bool) -> str:
    """What a load is asked for: the file that was named; else, where it `is_needed`, the one that
    lies beside the model. Raises Refusal."""
    if options.projector == NONE:
        return ""
    if options.projector is not None:
        return named_file(options.projector, "--projector")
    return BESIDE if is_needed else ""


def check_taken(loaded: Loaded, media: list[Media]) -> None:
    """Raise Refusal where the loaded model doesn't take them."""
    for each in media:
        sentence = why_not_taken(loaded, each.kind)
        if sentence:
            hint = " Or name its projector with --projector FILE." if not loaded.projector else ""
            raise Refusal("no_projector", f"{sentence}{hint}")
