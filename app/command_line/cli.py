"""`main.py ask`: one answer on stdout, without a window.

It uses the same client, supervisor and engine as the window, takes no lock and writes
nothing. Errors are one sentence on stderr and an exit code that is not 0, never a traceback:

    0 answered · 1 failed · 2 wrong arguments · 130 stopped by Ctrl-C · 141 nobody reads stdout
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, TextIO

from app.command_line.output import AskOutput, JsonLines, PlainText
from app.command_line.settings import AskSettings, read_settings_file, resolved
from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.client.supervisor import Ending, EngineEvent, StateChanged
from app.engine.protocol.frames import clean_text
from app.engine.protocol.loading_messages import Loaded, LoadOptions
from app.engine.protocol.messages import (
    Failed,
    Finished,
    Generate,
    ReadVocabulary,
    Stopped,
    Summary,
    VocabularyTable,
)
from app.engine.protocol.pieces import Pieces
from app.engine.protocol.prompt_messages import Prompt, TextPrompt
from app.engine.protocol.request_rules import check_request
from app.paths import typed_path
from app.refusal import Refusal, bad_setting

FAILED: Final = 1
WRONG_ARGUMENTS: Final = 2
INTERRUPTED: Final = 130
NOBODY_READS: Final = 141

_SHOWN_PATH: Final = 200
_LAST_WAIT_S: Final = 1.0

_NO_WEIGHTS: Final = (
    "No model is installed. Pass a GGUF file with --gguf FILE, or run “make run” once to "
    "install the included SmolLM2 135M."
)


def main(argv: Sequence[str]) -> int:
    """Answer and return the exit code."""
    try:
        _make_streams_safe()
        return _run(_parse(argv))
    except Refusal as refused:
        _say(refused.sentence)
        return WRONG_ARGUMENTS if refused.kind == "bad_setting" else FAILED
    except _LeftAtOnce:
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
    except Exception as error:  # noqa: BLE001 - a fault of ours is one sentence, too
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        _say(f"Something went wrong ({what}). Try again, or report this.")
        return FAILED
    finally:
        _leave(sys.stderr)


# --- arguments --------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """argparse that says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        sentence = message[:1].upper() + message[1:].rstrip(".")
        raise bad_setting(f"{sentence}. See main.py ask --help.")


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="main.py ask", description="Answer one message, without a window.")
    add = parser.add_argument
    add("text", help="the message; - reads it from stdin")
    add("--gguf", metavar="FILE", help="model to use (default: the included one)")
    add("--system", metavar="S", help="system prompt")
    add("--seed", type=int, metavar="N", help="random seed, for reproducible answers")
    add("--temperature", "--temp", type=float, metavar="T", help="0: always the best token")
    add("--top-k", type=int, metavar="K", help="keep the K best candidates (0: all)")
    add(
        "--top-p",
        type=float,
        metavar="P",
        help="keep the smallest set with total probability P (1: off)",
    )
    add(
        "--min-p",
        type=float,
        metavar="P",
        help="keep tokens with at least P times the best probability (0: off)",
    )
    add("--repeat-penalty", type=float, metavar="R", help="1: off")
    add("--max-tokens", type=int, metavar="N", help="0: until the context is full")
    add("--stop", action="append", metavar="S", help="end before this text (may be repeated)")
    add(
        "--stop-in-reasoning",
        action="store_const",
        const=True,
        help="apply --stop to the reasoning, too",
    )
    add(
        "--reasoning-tags",
        action="append",
        metavar="TAGS",
        help="additional reasoning tags, like '<think>…</think>' (may be repeated)",
    )
    add(
        "--stop-id",
        action="append",
        type=int,
        metavar="N",
        help="end at this token, by its ID (may be repeated)",
    )
    add("--threads", type=int, metavar="N", help="number of threads (0: automatic)")
    add("--ctx", type=int, metavar="N", help="size of the context in tokens (0: automatic)")
    add("--gpu-layers", type=int, metavar="N", help="layers on the GPU (-1: automatic)")
    add("--kv-type", metavar="T[,T]", help="type of the cache, or of K and V: f16, q8_0, q4_0, …")
    add("--flash-attention", choices=("auto", "on", "off"), help="default: auto")
    add("--lora", action="append", metavar="FILE[:SCALE]", help="adapter (may be repeated)")
    add("--policy", choices=("stop", "drop_oldest"), help="if the prompt is too long")
    add("--grammar-file", metavar="FILE", help="GBNF grammar for the answer")
    add("--json-schema", metavar="FILE", help="JSON schema for the answer")
    add("--ban", action="append", metavar="S", help="text that never appears (may be repeated)")
    add("--min-tokens", type=int, metavar="N", help="minimum number of tokens in the answer")
    add("--template", metavar="FILE", help="chat template (Jinja) in place of the file's own")
    add("--template-name", metavar="NAME", help="one of the file's own chat templates")
    add(
        "--repeatable",
        action="store_true",
        help="same settings and seed give the same answer to the last bit",
    )
    add("--score-prompt", action="store_true", help="with --json: score the tokens of the prompt")
    add("--raw", action="store_true", help="continue the text as it is, without a chat template")
    add("--settings", metavar="FILE", help="JSON object of settings, see docs/settings.md")
    add("--json", action="store_true", help="one JSON object per line, with every token")
    add("--offline", action="store_true", help="open no connection (ask never does)")
    add("--data-dir", metavar="DIR", help="accepted for uniformity; ask stores nothing")
    add("--scripted", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    options.text = _argument_text(options.text)
    options.system = None if options.system is None else _argument_text(options.system)
    for several in ("stop", "ban", "reasoning_tags"):
        texts = getattr(options, several)
        setattr(options, several, None if texts is None else [_argument_text(s) for s in texts])
    return options


def _argument_text(text: str) -> str:
    """What was typed, also where the locale cannot say it: arguments are bytes, and here they
    are UTF-8. Bytes that are none become U+FFFD."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # half a character, typed on Windows
        return clean_text(text)


def _settings(options: argparse.Namespace) -> AskSettings:
    """The defaults, then the settings file, then the options."""
    file = None
    if options.settings is not None:
        path = Path(_named_file(options.settings, "--settings"))
        try:
            file = read_settings_file(path)
        except OSError as error:
            sentence = f"The settings file {path} can't be read: {error.strerror}."
            raise Refusal("not_readable", sentence) from error
    return resolved(options, file)


def _weights(options: argparse.Namespace) -> str:
    """Path of the weights. Raises Refusal if there are none."""
    if options.scripted is not None:
        return _named_file(options.scripted, "--scripted")
    if options.gguf is not None:
        return _named_file(options.gguf, "--gguf")
    from app.gguf import starter

    found = starter.find()
    if found is None:
        raise Refusal("missing_file", _NO_WEIGHTS)
    return str(found.path)


def _named_file(name: str, option: str) -> str:
    """The absolute path of what is there; links stay, since files in parts are known by name."""
    if not name:
        raise bad_setting(f"{option} needs a file name.")
    path = typed_path(name)
    try:
        path.stat()
    except OSError as error:
        shown = str(path) if len(str(path)) <= _SHOWN_PATH else f"{str(path)[:_SHOWN_PATH]}…"
        raise Refusal(
            "missing_file", f"File not found: “{shown}”. Check the path given with {option}."
        ) from error
    return str(path)


def _prompt(options: argparse.Namespace, settings: AskSettings) -> Prompt:
    text = _stdin_text() if options.text == "-" else options.text
    if options.raw:
        if options.system:
            raise bad_setting("--raw takes no system prompt. Remove --system.")
        if settings.messages or settings.reply_start or settings.prompt_fields:
            raise bad_setting("--raw takes no messages and no template.")
        if not text:
            raise bad_setting("No text to continue.")
        return TextPrompt(text)
    if not text.strip():
        raise bad_setting("The message is empty. Write some text.")
    return settings.chat_prompt(text)


def _stdin_text() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    except OSError as error:
        sentence = f"The text can't be read from stdin: {error.strerror}."
        raise Refusal("not_readable", sentence) from error


# --- the run ----------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
    settings = _settings(options)
    request = settings.generate(_prompt(options, settings), with_trace=options.json)
    check_request(request)  # before the weights load for it
    weights = _weights(options)
    command = child_command("engine")
    if options.scripted is not None:
        command = child_command("scripted", str(options.scripted))
    output: AskOutput = JsonLines(sys.stdout) if options.json else PlainText(sys.stdout, sys.stderr)
    talk = _Talk(command, output)
    try:
        if code := talk.load(weights, settings.load_options()):
            return code
        if options.json:
            output.pieces = talk.read_pieces()
        return talk.answer(request)
    finally:
        talk.close()


class _LeftAtOnce(KeyboardInterrupt):
    """The second Ctrl-C: nothing is waited for any more."""


class _CtrlC:
    """Put among the endings by the user."""


@dataclass(frozen=True)
class _CannotPrint:
    """Put among the endings when stdout takes nothing more, or a line of it cannot be made."""

    error: Exception


class _Talk:
    """One engine, its endings in a queue, and the user's Ctrl-C.

    What arrives is printed on the engine's thread, in order: one thread less to wake for each
    token, on a machine whose cores are busy with the next one.
    """

    def __init__(self, command: list[str], output: AskOutput) -> None:
        self._output = output
        self._is_read = True
        # Only a SimpleQueue may be put into by a signal handler.
        self._endings: queue.SimpleQueue[Ending | _CtrlC | _CannotPrint] = queue.SimpleQueue()
        self._engine = Engine(command, self._on_event, on_quiet=self._on_quiet)
        self._interrupts = 0
        self._old_handler = signal.signal(signal.SIGINT, self._on_ctrl_c)

    def load(self, path: str, options: LoadOptions) -> int:
        """Return the exit code, 0 if the weights have loaded."""
        ending = self._follow(self._engine.load(path, options))
        if isinstance(ending, Finished) and isinstance(ending.result, Loaded):
            self._output.loaded(ending.result)
        return self._code(ending)

    def read_pieces(self) -> Pieces | None:
        ending = self._follow(self._engine.request(ReadVocabulary(0)))
        if isinstance(ending, Finished) and isinstance(ending.result, VocabularyTable):
            return Pieces(ending.result)
        return None

    def answer(self, generate: Generate) -> int:
        """Stream the reply; return the exit code."""
        ending = self._follow(self._engine.generate(generate))
        summary = ending.partial if isinstance(ending, Failed) else ending.result
        if isinstance(summary, Summary):
            self._output.summary(summary)
        return self._code(ending)

    def _code(self, ending: Ending) -> int:
        if isinstance(ending, Failed):
            self._output.failed(ending)
            _say(ending.sentence)
            return FAILED
        return INTERRUPTED if isinstance(ending, Stopped) else 0

    def close(self) -> None:
        """Whoever reads stdout may take nothing and so hold the engine's thread."""
        self._engine.close(_LAST_WAIT_S if self._interrupts > 1 else None)
        signal.signal(signal.SIGINT, self._old_handler)

    def _on_ctrl_c(self, *_: object) -> None:
        """The first one stops the request, which then ends in order, so that no line is cut
        in the middle; a second one is not waited for."""
        self._interrupts += 1
        if self._interrupts > 1:
            raise _LeftAtOnce
        self._endings.put(_CtrlC())

    def _on_event(self, event: EngineEvent) -> None:
        """Called on the engine's thread."""
        if isinstance(event, Finished | Stopped | Failed):
            self._endings.put(event)
        elif self._is_read and not isinstance(event, StateChanged):
            self._tell(lambda: self._output.event(event))

    def _on_quiet(self) -> None:
        """Called on the engine's thread: what has come is told."""
        if self._is_read:
            self._tell(self._output.flush)

    def _tell(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - raised where somebody waits for the ending
            self._is_read = False
            self._endings.put(_CannotPrint(error))

    def _follow(self, request_id: int) -> Ending:
        """Wait until the request ends; Ctrl-C stops it."""
        if self._interrupts:
            raise KeyboardInterrupt
        while True:
            ending = self._endings.get()
            if isinstance(ending, _CtrlC):
                self._engine.stop(request_id)
            elif isinstance(ending, _CannotPrint):
                raise ending.error
            elif ending.id == request_id:
                return ending


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
