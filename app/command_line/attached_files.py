"""Texts and documents that `ask` is given: read, and put before the message as in a chat."""

from __future__ import annotations

import argparse
import contextlib
import sys
from datetime import UTC, datetime

from app.chat.attachments.attached_text import with_attachments
from app.chat.attachments.documents import read_file
from app.chat.attachments.text_files import FileRefused, encoding_label
from app.reading.client import Reading
from app.refusal import bad_setting
from models.records import Attachment


def add_attach_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--attach",
        action="append",
        metavar="FILE",
        help="text or document (PDF, DOCX, ODT, EPUB, HTML, XLSX, PPTX …) that goes along "
        "(may be repeated)",
    )


def attached_to(options: argparse.Namespace) -> list[Attachment]:
    """What was given, in order. Raises Refusal."""
    names = options.attach or ()
    if names and options.raw:
        raise bad_setting("--raw takes no attached files. Remove them.")
    return [_read(name) for name in names]


def with_attached(text: str, attached: list[Attachment]) -> str:
    """The message as the prompt has it."""
    return with_attachments(text, attached) if attached else text


def _read(path: str) -> Attachment:
    try:
        file = read_file(path, Reading())
    except FileRefused as why:
        raise bad_setting(str(why)) from why
    label = encoding_label(file.guess.encoding) if file.guess is not None else ""
    note = file.note or (f"“{file.name}” was read as {label}." if label else "")
    if note:
        with contextlib.suppress(OSError):  # nobody need take it
            print(note, file=sys.stderr)  # noqa: T201
    return Attachment(
        file.name, "", file.name, file.text, file.size_bytes, datetime.now(UTC), kind=file.kind
    )
