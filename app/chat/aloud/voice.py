"""One voice: a thread that has sentences said one after the other by a child process each.

What must hold: at most one child at a time, and each is waited for; `stop` ends it at once, and
nothing is said after it; a program that hangs is ended.
"""

from __future__ import annotations

import subprocess
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
            with suppress(OSError):
                self._child.kill()

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
                )
            except OSError as error:
                return f"{speaker.program} couldn't be started ({error.strerror or error})."
            child = self._child
        evidence = b""
        try:
            _, evidence = child.communicate(
                sentence.encode("utf-8", "replace") + b"\n",
                timeout=PATIENCE_S + S_PER_CHAR * len(sentence),
            )
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return f"{speaker.program} didn't respond."
        finally:
            with self._changed:
                self._child = None
        if child.returncode < 0 or not child.returncode:
            self._hush(speaker, was_killed=child.returncode < 0)
            return ""
        lines = evidence.decode("utf-8", "replace").strip().splitlines()
        return f"{speaker.program} failed: {lines[-1][:200] if lines else child.returncode}."

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
