"""The part of the desk for whoever asks whether weights fit, and what is free.

It only delegates; `app.chat.desk` tells what holds for every method. Answers come later, on the
owner's thread; `then` gets the path (or key) that was asked about, and the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from app.chat.weights.fits import Fits
from app.chat.weights.loading import Loader
from app.engine.protocol.loading_messages import LoadOptions

if TYPE_CHECKING:
    from app.engine.planning.fit import Fit, Returning
    from app.engine.planning.load_plan import Machine
    from app.gguf.header import Header


class FitDoor:
    """Mixed into `Desk`, which makes what is declared here."""

    _fits: Fits
    _loader: Loader

    def machine(self) -> Machine:
        """All devices, with what was free on them when it was looked for last."""
        return self._fits.machine()

    def returning_memory(self) -> Returning:
        """What the loaded weights give back when others take their place."""
        return self._fits.returning()

    def look_at_memory(self) -> None:
        """Ask anew what is free on each device; MemoryChanged follows if that is clearly another
        amount. A reply goes on undisturbed."""
        self._fits.look()

    def load_options_of(self, path: str) -> LoadOptions:
        """How these weights would be loaded now."""
        return self._loader.options_of(path)

    def rough_fit(self, size_bytes: int) -> Fit:
        """By the size of all parts alone, at once; it says that it is rough."""
        return self._fits.rough(size_bytes)

    def judge_files(self, paths: Iterable[str], then: Callable[[str, Fit], None]) -> None:
        """Judge files as they would be loaded now; of a split set the first part. `then` is called
        once for each. What cannot be read does not fit, and says why."""
        self._fits.files(paths, then)

    def judge_file(
        self, path: str, then: Callable[[str, Fit], None], options: LoadOptions | None = None
    ) -> None:
        """Judge one file, with these options or as it would be loaded now. A newer question with
        the same `then` ends this one."""
        self._fits.file(path, then, options)

    def judge_headers(
        self,
        headers: Sequence[Header],
        key: str,
        then: Callable[[str, Fit], None],
        options: LoadOptions | None = None,
    ) -> None:
        """Judge weights that are elsewhere, by the headers of all their parts."""
        self._fits.headers(headers, key, then, options)

    def stop_judging(self, then: Callable[[str, Fit], None]) -> None:
        """Nobody is called any more."""
        self._fits.stop(then)
