"""Any file that somebody attaches: a document is read by its process, all else as text."""

from __future__ import annotations

from app.chat.attachments.text_files import FileRefused, TextFile, read_text_file
from app.reading.client import Reading
from app.reading.document import HTML, DocumentRefused, Progress
from app.reading.files import shown_name
from app.reading.kinds import is_document


def read_file(
    path: str, reading: Reading, progress: Progress = lambda done, total: None
) -> TextFile:
    """Raises FileRefused. May take as long as a document may."""
    try:
        if not is_document(path):
            return read_text_file(path)
        document = reading.read(path, progress)
    except DocumentRefused as why:
        raise FileRefused(shown_name(path), why.kind, why.sentence) from why
    return TextFile(
        document.name,
        document.text,
        document.size_bytes,
        kind="document",
        details=document.details,
        note=document.note,
        source=path if document.media_type == HTML else "",
    )
