"""What a tool is called to the model: letters, digits, `_` and `-`, once among all servers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

MAX_LENGTH: Final = 64
_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_-]+")


def sanitised(name: str) -> str:
    """
    >>> sanitised("get weather!"), sanitised("<|im_end|>"), sanitised("時間")
    ('get_weather', 'im_end', 'tool')
    """
    return _NOT_ALLOWED.sub("_", name).strip("_")[:MAX_LENGTH] or "tool"


def unique_names(tools: Sequence[tuple[str, str]]) -> list[str]:
    """A name for each (server, tool), in order: the tool's own where it is the only one of that
    name, else with the server's before it.

    >>> unique_names([("files", "read"), ("web", "read"), ("time", "now")])
    ['files_read', 'web_read', 'now']
    """
    plain = [sanitised(tool) for _server, tool in tools]
    seen = Counter(plain)
    names: list[str] = []
    for (server, _tool), name in zip(tools, plain, strict=True):
        wanted = name if seen[name] == 1 else sanitised(f"{sanitised(server)}_{name}")
        found, number = wanted, 2
        while found in names:
            found, number = f"{wanted[: MAX_LENGTH - 4]}_{number}", number + 1
        names.append(found)
    return names
