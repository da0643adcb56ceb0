"""The engine process, from its first line to its last.

Its first act is to take fd 1 for frames: native code that aborts prints on stdout. Only then
are llama.cpp and numpy loaded, in this order. Started as `main.py --child=engine`.
"""

from __future__ import annotations

import os
import sys

from app.engine.protocol import wire


def main() -> int:
    """Serve the parent on the other end of stdin and stdout; return the exit code."""
    commands, frames = wire.begin_child()
    os.environ["GGML_NO_BACKTRACE"] = "1"
    # A thread that waits for the GIL should get it well within one step of a fast device.
    sys.setswitchinterval(0.001)
    try:
        from app.engine.process.native import native  # noqa: F401  (before anybody takes numpy)
        from app.engine.process.serving import Serving
    except (ImportError, OSError, RuntimeError) as error:
        sys.stderr.write(f"llama.cpp cannot be loaded, so there is no engine: {error}\n")
        return 3
    return Serving(commands, frames).run()
