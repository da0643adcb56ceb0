"""Composition root: parse the arguments, build, show, run, shut down in reverse.

What must hold:

* The hidden `--child=…` arguments are answered before Qt or anything heavy is imported:
  a child must set its environment before llama.cpp's library loads, and stay small.
* The window is painted and takes keys before anything but Qt is imported. The store, the
  engine and the last used weights start after the first paint (`Desk.start`).
* Everything is wired here, in one visible place; nobody reaches for a global.
* Whatever was started is closed in reverse order, within bounded time, also on SIGTERM
  and SIGINT.
"""

from __future__ import annotations

import sys

CHILD = "--child="


def main(argv: list[str]) -> int:
    """Run what the arguments ask for and return the exit code."""
    if argv and argv[0].startswith(CHILD):
        return run_child(argv[0].removeprefix(CHILD), argv[1:])
    if argv and argv[0] == "ask":
        from app import cli

        return cli.main(argv[1:])
    if argv and argv[0] == "bench":
        from app import bench

        return bench.main(argv[1:])
    return run_window(argv)


def run_child(kind: str, arguments: list[str]) -> int:
    """Be one of the program's own children; the kind was chosen by `client.child_command`."""
    if kind == "engine":
        from app.engine import child

        return child.main() or 0
    if kind == "scripted" and arguments:
        from app.engine import scripted

        return scripted.main(arguments[0]) or 0
    if kind == "templates":
        from app.engine import templates

        return templates.main() or 0
    print(f"There is no child of the kind {kind!r}.", file=sys.stderr)  # noqa: T201
    return 2


def run_window(argv: list[str]) -> int:
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
