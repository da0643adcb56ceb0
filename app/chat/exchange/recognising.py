"""Whether a file is an export of Cutaway, by its first bytes.

Nothing is opened that is no plain file, and nothing beyond the beginning is read: what the file
holds otherwise is for `importing` to say.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Final

from app.chat.exchange.json_format import FORMAT

SUFFIX: Final = ".json"

_LOOKED_AT: Final = 4096
_FORMAT: Final = re.compile(
    rb'\A(?:\xef\xbb\xbf)?\s*\{[^{}]*?"format"\s*:\s*"%b"' % FORMAT.encode()
)


def is_export(path: str) -> bool:
    """False also where it cannot be read. Never waits for a pipe."""
    if not path.lower().endswith(SUFFIX):
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        return _FORMAT.match(os.read(descriptor, _LOOKED_AT)) is not None
    except OSError:
        return False
    finally:
        os.close(descriptor)
