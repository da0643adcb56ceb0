"""What is wrong with a file that shall be imported, in one sentence."""

from __future__ import annotations

from models.store.errors import StoreError


class FileRefused(StoreError):  # noqa: N818 - an outcome with a sentence for the user
    """Raised while the store reads the file too: a StoreError keeps its words there."""
