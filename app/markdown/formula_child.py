"""The process that sets mathematics: TeX comes in as JSON lines, drawings go out.

ziamath is pure Python and takes tens of milliseconds for a formula; a hostile one may take
for ever. So it runs in a process of its own, which its parent ends when it takes too long.
No Qt here. Started as `main.py --child=formulas`; it ends when its standard input does.

    {"id": 1, "tex": "x^2", "is_display": false}
    → {"id": 1, "svg": "<svg …", "top": -11.7, "width": 39.9, "height": 14.0}
    or {"id": 1}, where the formula cannot be set.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
from typing import IO, Any, Final

SIZE: Final = 24
"""Pixels per em of the drawings."""
INK: Final = "#010203"
"""The colour that stands for that of the text around."""
MAX_MEMORY: Final = 1 << 30
MAX_EM: Final = 300

# Scripts that the mathematical font does not have would come out as empty boxes.
_NOT_IN_FONT = re.compile(
    "[\u0530-\u1dff\u2e80-\uabff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_BOX = re.compile(r'viewBox="(-?[\d.]+) (-?[\d.]+) (-?[\d.]+) (-?[\d.]+)"')


def drawing(tex: str, *, is_display: bool) -> dict[str, Any]:
    """The drawing of a formula, its baseline at 0; empty where there is none. Never raises."""
    if _NOT_IN_FONT.search(tex):
        return {}
    import ziamath

    ziamath.config.svg2 = False
    try:
        svg = ziamath.Latex(tex, size=SIZE, color=INK, inline=not is_display).svg()
        box = _BOX.search(svg)
        _left, top, width, height = map(float, box.groups() if box else ())
    except Exception:  # noqa: BLE001 - whatever it stumbles over, the source is shown
        return {}
    if not (0 < width < MAX_EM * SIZE and 0 < height < MAX_EM * SIZE):
        return {}
    return {"svg": svg, "top": top, "width": width, "height": height}


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer each line in turn until there are no more."""
    for line in requests:
        try:
            request = json.loads(line)
            found = drawing(str(request["tex"]), is_display=bool(request["is_display"]))
            answer = {"id": request["id"], **found}
        except (ValueError, KeyError, TypeError, MemoryError):
            return
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # What a library prints must not end up between the answers.
    sys.stdout = sys.stderr
    _be_modest()
    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin.buffer, answers)
    return 0


def _be_modest() -> None:
    """Behind the engine in the queue for a core, and bounded."""
    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
