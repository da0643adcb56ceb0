"""A zip archive with a document's parts in it: read by name, in memory, within bounds.

What must hold: nothing is unpacked to disk, so that names like `../../x`, `/etc/x` and links mean
nothing; and no part is read that says it is larger than allowed. Python's zipfile never gives more
of a part than its directory entry says.
"""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from typing import BinaryIO, Final
from urllib.parse import unquote

from app.reading.document import DocumentRefused

MAX_PARTS: Final = 20_000
MAX_PART_BYTES: Final = 96_000_000
MAX_ALL_BYTES: Final = 512_000_000
"""Of the parts that are text; pictures and sounds are never looked at."""
_TEXTS: Final = (".xml", ".rels", ".opf", ".ncx", ".xhtml", ".html", ".htm", ".css", ".txt")


class Archive:
    """Raises DocumentRefused where the file is damaged, protected, or a bomb."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._name = name
        try:
            self._zip = zipfile.ZipFile(file)
            entries = self._zip.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
            raise damaged(name) from error
        if len(entries) > MAX_PARTS:
            raise unpacks_too_large(name)
        self._sizes = {entry.filename: entry.file_size for entry in entries}
        texts = [e.file_size for e in entries if e.filename.lower().endswith(_TEXTS)]
        if sum(texts) > MAX_ALL_BYTES:
            raise unpacks_too_large(name)

    def __contains__(self, part: str) -> bool:
        return part in self._sizes

    @property
    def parts(self) -> list[str]:
        return list(self._sizes)

    def read(self, part: str, max_bytes: int = MAX_PART_BYTES) -> bytes:
        """All of a part; b"" where there is none."""
        if part not in self._sizes:
            return b""
        if self._sizes[part] > max_bytes:
            raise unpacks_too_large(self._name)
        try:
            return self._zip.read(part)
        except RuntimeError as error:  # zipfile's word for an encrypted part
            if isinstance(error, NotImplementedError):
                raise damaged(self._name) from error
            raise protected(self._name) from error
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError) as error:
            raise damaged(self._name) from error


def beside(part: str, target: str) -> str:
    """The part that a part means by a path relative to its folder, or from the root.

    >>> beside("OEBPS/content.opf", "text/ch%201.xhtml"), beside("a/b.xml", "/word/document.xml")
    ('OEBPS/text/ch 1.xhtml', 'word/document.xml')
    """
    path = unquote(target.partition("#")[0])
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(part), path)).lstrip("/")


def damaged(name: str) -> DocumentRefused:
    sentence = f"“{name}” can't be read: the file is damaged. Save or download it again."
    return DocumentRefused("Damaged", sentence)


def protected(name: str) -> DocumentRefused:
    sentence = f"“{name}” is protected with a password. Save a copy without it."
    return DocumentRefused("Protected with a password", sentence)


def unpacks_too_large(name: str) -> DocumentRefused:
    sentence = f"“{name}” unpacks to more than can be read. Attach only the part that matters."
    return DocumentRefused("Too large unpacked", sentence)
