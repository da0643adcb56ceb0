"""Control vectors that are made here, of two groups of examples, and kept in the data folder.

A file is named once and never written again: replies that were steered by it know it by its path
and its content. So another name for it stands beside the files (`names.json`), and a deleted file
is only moved aside until the app closes, with a way back. What must hold: nothing here waits; the
disk is asked on threads of its own.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from app.chat.conversations.shelf import Shelf, new_id
from app.chat.events import Noticed, VectorsListed, VectorsWanted
from app.chat.inspection.questions import Newest, Questions
from app.chat.replies.prompts import clean_message
from app.chat.settings.levels import Levels
from app.chat.surroundings import ALWAYS, Surroundings, now
from app.chat.weights.file_work import answer, begin
from app.chat.weights.loading import Loader
from app.engine.protocol.adapter_messages import (
    MakeVector,
    VectorMade,
    VectorMethod,
    check_groups,
)
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, Prompt, TextPrompt
from app.gguf.vector_file import KnownVector, VectorFacts, read_vector, write_vector
from app.refusal import Refusal

FOLDER: Final = "control-vectors"
NAMES: Final = "names.json"
ASIDE: Final = ".deleted-"
MAX_NAME_LENGTH: Final = 80
MAX_EXAMPLE_LENGTH: Final = 20_000
MAX_FILES: Final = 500
THREAD: Final = "control-vectors"
NOT_WRITTEN: Final = "The control vector couldn't be saved. Check the free space on the disk."
NOT_EXPORTED: Final = "“{name}” couldn't be exported. Choose another folder."
DELETED: Final = "The control vector “{name}” was deleted."
UNNAMED: Final = "Enter a name for the control vector."

Say = Callable[[str], None]
T = TypeVar("T")


def examples_in(text: str) -> list[str]:
    """One example a line; empty lines are nothing. A line break within one is typed as \\n.

    >>> examples_in("Hello\\n\\n  Good\\\\nday ")
    ['Hello', 'Good\\nday']
    """
    lines = (line.strip() for line in text.splitlines())
    return [line.replace("\\n", "\n") for line in lines if line]


class ControlVectors:
    """`making`: the name of the one that is being made, or nothing."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        loader: Loader,
        questions: Questions,
        levels: Levels,
        data_dir: Path,
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._levels = levels
        self._folder = data_dir / FOLDER
        self._newest = Newest(questions)
        self._questions = questions
        self.making = ""
        self.all: tuple[KnownVector, ...] = ()
        self._before: threading.Thread | None = None
        """What the disk is asked last: each act waits for the one before."""

    # --- making -----------------------------------------------------------------------------------

    def make(
        self,
        name: str,
        positive: Sequence[str],
        negative: Sequence[str],
        method: VectorMethod,
        then: Callable[[KnownVector], None],
        failed: Say,
        progress: Callable[[int, int], None],
        *,
        is_chat: bool,
    ) -> None:
        """Ask the engine, beside whatever it writes, and keep what it finds. `is_chat`: examples
        are messages, read with the chat's own system prompt and template; else bare text.
        `progress`: examples that have been read, of all."""
        self.stop()
        name = _one_line(name)
        positive, negative = list(map(clean_message, positive)), list(map(clean_message, negative))
        if refusal := self._refusal(name, positive, negative, method):
            failed(refusal)
            return
        is_newest = self._newest.begin()
        self.making = name
        loaded = self._loader.loaded

        def end(sentence: str) -> None:
            self.making = ""
            failed(sentence)

        def take(made: VectorMade) -> None:
            assert loaded is not None
            facts = VectorFacts(
                name,
                loaded.architecture,
                self._loader.weights_name or loaded.name,
                loaded.fast_hash,
                made.method,
                now().isoformat(timespec="seconds"),
                is_chat,
                tuple(positive),
                tuple(negative),
                tuple(made.separation),
            )
            self._keep(facts, made, then, end)

        command = MakeVector(
            0,
            self._prompts(positive, is_chat=is_chat),
            self._prompts(negative, is_chat=is_chat),
            method,
        )
        self._newest.request_id = self._questions.ask(
            command, VectorMade, take, end, still=is_newest, progress=progress
        )

    def _refusal(
        self, name: str, positive: list[str], negative: list[str], method: VectorMethod
    ) -> str:
        if not self._around.can_write:
            return self._around.store_state.sentence or NOT_WRITTEN
        if not name:
            return UNNAMED
        try:
            check_groups(positive, negative, method)
        except Refusal as refused:
            return refused.sentence
        longest = max(map(len, [*positive, *negative]))
        if longest > MAX_EXAMPLE_LENGTH:
            return f"An example can have at most {MAX_EXAMPLE_LENGTH:,} characters."
        return ""

    def _prompts(self, texts: Sequence[str], *, is_chat: bool) -> list[Prompt]:
        if not is_chat:
            return [TextPrompt(text) for text in texts]
        settings = self._levels.resolved().settings
        system = settings.system_prompt.strip()
        first = [ChatMessage("system", settings.system_prompt)] if system else []
        return [
            ChatPrompt([*first, ChatMessage("user", text)], template=settings.template)
            for text in texts
        ]

    def _keep(
        self, facts: VectorFacts, made: VectorMade, then: Callable[[KnownVector], None], failed: Say
    ) -> None:
        numbers, width = made.directions.data, 4 * made.n_embd
        rows = [numbers[at : at + width] for at in range(0, len(numbers), width)]
        path = self._folder / f"{_file_name(facts.name)}-{new_id()[:8]}.gguf"

        def work() -> KnownVector:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_vector(path, facts, rows)
            return KnownVector(str(path), facts.name, facts)

        def taken(known: KnownVector) -> None:
            self.making = ""
            self.all = (known, *self.all)
            self._tell()
            then(known)

        # It is on the disk, whatever has been asked for since.
        answer(self._around, self._begin(work), taken, failed, lambda _: NOT_WRITTEN, ALWAYS)

    def stop(self) -> None:
        """Make it no longer: nobody is called."""
        self._newest.begin()
        self.making = ""

    # --- the list ---------------------------------------------------------------------------------

    def list(self) -> None:
        """Read the folder anew; VectorsListed answers."""

        def work() -> tuple[KnownVector, ...]:
            names = _read_names(self._folder)
            found = []
            for path in sorted(self._folder.glob("*.gguf"))[:MAX_FILES]:
                if path.name.startswith(ASIDE):
                    continue
                with suppress(Refusal):  # what is none is not shown
                    facts = read_vector(path)
                    found.append(KnownVector(str(path), names.get(path.name, facts.name), facts))
            return tuple(sorted(found, key=lambda each: each.facts.made_at, reverse=True))

        def take(found: tuple[KnownVector, ...]) -> None:
            self.all = found
            self._tell()

        answer(self._around, self._begin(work), take, self._say, str, ALWAYS)  # what lies there

    def show(self) -> None:
        """Bring them on screen, with the form for another one."""
        self._around.emit(VectorsWanted())

    def name_of(self, path: str) -> str:
        """What people call a file: one made here, or any other."""
        known = next((each for each in self.all if each.path == path), None)
        return known.name if known is not None else Path(path).stem

    def rename(self, path: str, name: str) -> None:
        name = _one_line(name)
        if not name or not self._around.may_write():
            return
        self.all = tuple(
            dataclasses.replace(each, name=name) if each.path == path else each for each in self.all
        )
        self._tell()

        def work() -> None:
            # Of those that are not listed now, too: deleted a moment ago, or not read yet.
            names = {**_read_names(self._folder), Path(path).name: name}
            unfinished = self._folder / f"{NAMES}.unfinished"
            unfinished.write_text(json.dumps(names, ensure_ascii=False), encoding="utf-8")
            unfinished.replace(self._folder / NAMES)

        self._do(work, NOT_WRITTEN)

    def delete(self, path: str) -> None:
        """Take it off the list; the file lies aside, so that it can come back."""
        known = next((each for each in self.all if each.path == path), None)
        if known is None or not self._around.may_write():
            return
        self.all = tuple(each for each in self.all if each is not known)
        self._tell()
        file, aside = Path(path), Path(path).with_name(ASIDE + Path(path).name)
        self._do(lambda: file.replace(aside), NOT_WRITTEN)

        def bring_back() -> None:
            self.all = (known, *self.all)
            self._tell()
            self._do(lambda: aside.replace(file), NOT_WRITTEN)

        self._shelf.offer_undo(f"vector {path}", DELETED.format(name=known.name), bring_back)

    def export(self, path: str, target: Path) -> None:
        """Copy it to a file of somebody's choice."""
        sentence = NOT_EXPORTED.format(name=self.name_of(path))
        self._do(lambda: shutil.copyfile(path, target), sentence)

    def close(self) -> None:
        """The app ends: what was deleted and not brought back goes."""
        if self._around.can_write:
            for path in self._folder.glob(f"{ASIDE}*"):
                with suppress(OSError):
                    path.unlink()

    def _do(self, work: Callable[[], object], sentence: str) -> None:
        done = self._begin(work)
        answer(
            self._around, done, lambda _done: None, self._say, lambda _: sentence, ALWAYS
        )  # it has been done, or has failed

    def _begin(self, work: Callable[[], T]) -> Future[T]:
        """After what was begun before: a file that is deleted and brought back is there."""
        before = self._before

        def in_turn() -> T:
            if before is not None:
                before.join()
            return work()

        future, self._before = begin(in_turn, THREAD)
        return future

    def _say(self, sentence: str) -> None:
        self._around.emit(Noticed("error", sentence))

    def _tell(self) -> None:
        self._around.emit(VectorsListed(self.all))


def _read_names(folder: Path) -> dict[str, str]:
    try:
        found = json.loads((folder / NAMES).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    is_object = isinstance(found, dict)
    return {k: _one_line(v) for k, v in found.items() if isinstance(v, str)} if is_object else {}


def _one_line(name: str) -> str:
    return " ".join(clean_message(name).split())[:MAX_NAME_LENGTH]


def _file_name(name: str) -> str:
    """
    >>> _file_name("More: happy/sad"), _file_name("…")
    ('more-happy-sad', 'vector')
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "vector"
