"""The machine of the loaded file: its blocks, where the time of a step goes, what flash attention
is worth.

The blocks come from the file's header, beside the window; which layers have a window only the
engine can say of some files, so those come in a second answer. Measurements are asked for by a
person, one at a time: a newer one ends an older one. What must hold: an answer is about the weights
that were loaded when it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.chat.inspection.questions import NO_WEIGHTS, Newest, Questions
from app.chat.surroundings import Still
from app.chat.weights.header_files import HeaderFiles
from app.chat.weights.loading import Loader
from app.engine.protocol.inside_messages import GraphOffer, ReadGraph
from app.engine.protocol.machine_messages import (
    CompareFlash,
    FlashCompared,
    ProfileStep,
    StepProfiled,
)
from app.insight.inside.machine import Machine, machine_of

if TYPE_CHECKING:
    from app.library.header_shown import HeaderShown

Say = Callable[[str], None]
HowFar = Callable[[int, int], None]


class Machines:
    """None of these waits. `failed` gets a sentence."""

    def __init__(self, loader: Loader, questions: Questions, headers: HeaderFiles) -> None:
        self._loader = loader
        self._questions = questions
        self._headers = headers
        self._kept: tuple[object, Machine] | None = None
        self._newest = Newest(questions)

    def read(self, then: Callable[[Machine], None], failed: Say, *, still: Still) -> None:
        """The blocks of the loaded file. `then` is called once more where the engine had to be
        asked which layers have the window; where it can't tell, the first answer stays."""
        loaded = self._loader.loaded
        if loaded is None or self._loader.is_loading:
            failed(NO_WEIGHTS)
            return
        if self._kept is not None and self._kept[0] is loaded:
            then(self._kept[1])
            return

        def counts() -> bool:
            return self._loader.loaded is loaded and still()

        def take(shown: HeaderShown) -> None:
            machine = machine_of(shown.header, shown.tensors, missing=shown.missing)
            if machine.knows_windows:
                self._kept = (loaded, machine)
                then(machine)
                return
            then(machine)

            def take_windows(offer: GraphOffer) -> None:
                known = machine_of(
                    shown.header,
                    shown.tensors,
                    window_layers=frozenset(offer.window_layers),
                    missing=shown.missing,
                )
                self._kept = (loaded, known)
                then(known)

            self._questions.ask(
                ReadGraph(0), GraphOffer, take_windows, lambda _sentence: None, still=counts
            )

        self._headers.read(Path(loaded.path), take, failed, still=counts)

    def profile(
        self,
        ids: Sequence[int],
        then: Callable[[StepProfiled], None],
        failed: Say,
        progress: HowFar,
        *,
        still: Still,
    ) -> None:
        """Where the time of the step goes that reads the last of `ids`. `progress`: tokens before
        it, while they are read."""
        self._newest.begin()
        command = ProfileStep(0, list(ids))
        self._newest.request_id = self._questions.ask(
            command, StepProfiled, then, failed, still=still, progress=progress
        )

    def compare_flash(
        self,
        ids: Sequence[int],
        then: Callable[[FlashCompared], None],
        failed: Say,
        progress: HowFar,
        *,
        still: Still,
    ) -> None:
        """This text with flash attention and without. `progress`: tokens read, of both times."""
        self._newest.begin()
        command = CompareFlash(0, list(ids))
        self._newest.request_id = self._questions.ask(
            command, FlashCompared, then, failed, still=still, progress=progress
        )

    def stop(self) -> None:
        """End the measurement that runs, if one does: nobody is called."""
        self._newest.begin()
