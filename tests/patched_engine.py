"""An engine's process in which something goes otherwise: run as a program, or forked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent


def engine_with(patch: str) -> list[str]:
    """The argv of one that runs this first. `serving` and `Scheduler` are there to be changed, and
    `fail`, which raises what nobody foresaw."""
    return [sys.executable, __file__, patch]


def main(patch: str) -> int:
    from app.engine.process import child, serving
    from app.engine.process.scheduling.scheduler import Scheduler

    exec(patch, {"serving": serving, "Scheduler": Scheduler, "fail": _fail})
    return child.main()


def _fail(*_: Any, **__: Any) -> NoReturn:
    raise KeyError("what nobody foresaw")


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    raise SystemExit(main(sys.argv[1]))
