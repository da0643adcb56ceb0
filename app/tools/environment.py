"""What a tool server sees of our environment: what programs need to start, and nothing else.

Keys of other services, tokens and settings of ours stay here; whatever a server needs besides is
added to it by name. The list stands in docs/tools.md; a test compares it with what a child sees.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

PASSED_ON: Final = (
    (
        *("APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT"),
        *("PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT"),
        *("TEMP", "TMP", "USERNAME", "USERPROFILE"),
    )
    if sys.platform == "win32"
    else ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
)


def environment(added: Mapping[str, str], ours: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a server; `added` are those of its own."""
    ours = os.environ if ours is None else ours
    found = {name: ours[name] for name in PASSED_ON if name in ours}
    # A shell function in a variable would be run by whoever starts a shell.
    found = {name: value for name, value in found.items() if not value.startswith("()")}
    return found | dict(added)
