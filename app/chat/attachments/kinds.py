"""The kinds of attachments, as they are stored. Nothing else is here: the first paint needs it."""

from __future__ import annotations

from typing import Final

PICTURE: Final = "picture"
AUDIO: Final = "audio"
MEDIA: Final = frozenset({PICTURE, AUDIO})
"""Their bytes go to the model, and their text is empty."""
