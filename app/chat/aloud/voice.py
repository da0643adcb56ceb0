"""One voice: a thread that has sentences said one after the other by a child process each.

What must hold: at most one child at a time, and each is waited for; `stop` ends it at once with all
that it has begun, and nothing is said after it; a program that hangs is ended, and so is one whose
complaints nobody could read (its pipe is full then). Nobody waits for what a program leaves behind,
as a service that it has started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from app.chat.aloud.speakers import Speaker, environment_of

PATIENCE_S: Final = 20.0
S_PER_CHAR: Final = 0.6
"""The slowest voice takes less; whatever takes longer hangs."""
END_S: Final = 2.0
MOST_EVIDENCE: Final = 65_536


class Voice:
    """Made for one reading. Called on its thread: `began`, with the number of each sentence;
    `ended`, once, when all are said and no more will come, or with why one could not be said."""

    def __init__(
        self, speaker: Speaker, began: Callable[[int], None], ended: Callable[[str], None]
    ) -> None:
        self._speaker = speaker
        self._began = began
        self._ended = ended
        self._waiting: deque[tuple[int, str]] = deque()
        self._changed = threading.Condition()
        self._child: subprocess.Popen[bytes] | None = None
        self._now: tuple[int, str] | None = None
        self._is_paused = self._is_whole = self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="read-aloud", daemon=True)
        self._thread.start()

    def say(self, number: int, sentence: str) -> None:
        with self._changed:
            self._waiting.append((number, sentence))
            self._changed.notify_all()

    def end(self) -> None:
        """No more sentences are coming."""
        with self._changed:
            self._is_whole = True
            self._changed.notify_all()

    def pause(self) -> None:
        """Be silent now; `go_on` begins with the sentence that was interrupted."""
        with self._changed:
            self._is_paused = True
            self._silence()

    def go_on(self) -> None:
        with self._changed:
            self._is_paused = False
            self._changed.notify_all()

    def skip(self) -> None:
        """To the next sentence."""
        with self._changed:
            if self._now is not None:
                self._now = None
                self._silence()
            elif self._waiting and self._is_paused:
                self._waiting.popleft()

    def stop(self) -> None:
        """Be silent now and for ever."""
        with self._changed:
            self._is_stopped = True
            self._waiting.clear()
            self._silence()
            self._changed.notify_all()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _silence(self) -> None:
        """With the lock held: what is being said ends."""
        if self._child is not None:
            _kill(self._child)

    # --- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        why = ""
        while not why and (said := self._next()) is not None:
            number, sentence = said
            self._began(number)
            why = self._say_one(sentence)
            if why and self._speaker.else_command:
                self._speaker = replace(
                    self._speaker, command=self._speaker.else_command, else_command=()
                )
                why = self._say_one(sentence)
            with self._changed:
                is_interrupted = self._is_paused and self._now is not None
                if is_interrupted and not self._is_stopped:
                    self._waiting.appendleft(said)
                if self._now is None or self._is_paused or self._is_stopped:
                    why = ""  # it was ended on purpose
                self._now = None
        with self._changed:
            is_stopped = self._is_stopped
        if not is_stopped:
            self._ended(why)

    def _next(self) -> tuple[int, str] | None:
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._is_stopped
                    or (not self._is_paused and (bool(self._waiting) or self._is_whole))
                )
            )
            if self._is_stopped or not self._waiting:
                return None
            self._now = self._waiting.popleft()
            return self._now

    def _say_one(self, sentence: str) -> str:
        """Why it could not be said."""
        speaker = self._speaker
        with self._changed:
            if self._is_stopped or self._is_paused or self._now is None:
                return ""
            try:
                self._child = subprocess.Popen(
                    speaker.command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env=environment_of(speaker),
                    creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
                    process_group=None if sys.platform == "win32" else 0,
                )
            except OSError as error:
                return f"{speaker.program} couldn't be started ({error.strerror or error})."
            child = self._child
        with child:
            try:
                self._give(child, sentence)
                child.wait(PATIENCE_S + S_PER_CHAR * len(sentence))
            except subprocess.TimeoutExpired:
                _kill(child)
                return f"{speaker.program} didn't respond."
            finally:
                with self._changed:
                    self._child = None
            if child.returncode < 0 or not child.returncode:
                self._hush(speaker, was_killed=child.returncode < 0)
                return ""
            return f"{speaker.program} failed: {_last_line(child) or child.returncode}."

    @staticmethod
    def _give(child: subprocess.Popen[bytes], sentence: str) -> None:
        """No pipe is too small for a sentence (`spoken.MAX_CHARS`), so nobody waits here."""
        assert child.stdin is not None
        with suppress(OSError):  # it has ended already
            child.stdin.write(sentence.encode("utf-8", "replace") + b"\n")
        with suppress(OSError):
            child.stdin.close()

    @staticmethod
    def _hush(speaker: Speaker, *, was_killed: bool) -> None:
        """A service goes on after the program that asked it has ended."""
        if was_killed and speaker.on_stop:
            with suppress(OSError, subprocess.SubprocessError):
                subprocess.run(
                    speaker.on_stop,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=END_S,
                    check=False,
                )


def _kill(child: subprocess.Popen[bytes]) -> None:
    """With what it has begun: the program may be a script around the real one."""
    with suppress(OSError):
        if sys.platform == "win32":
            child.kill()
        else:
            os.killpg(child.pid, signal.SIGKILL)


def _last_line(child: subprocess.Popen[bytes]) -> str:
    """Of what it complained about, now that it has ended."""
    assert child.stderr is not None
    with suppress(OSError):
        if sys.platform != "win32":  # where nothing else writes there
            os.set_blocking(child.stderr.fileno(), False)
        lines = os.read(child.stderr.fileno(), MOST_EVIDENCE).decode("utf-8", "replace").split("\n")
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
    return ""
