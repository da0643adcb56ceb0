"""How many threads the next step uses: the user's number is the ceiling, the governor steers below
it, and a repeatable reply gets exactly the user's."""

from __future__ import annotations

from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.governor import Governor, ThreadChange


class Threads:
    """The threads of one context. Changes take effect with the next step."""

    def __init__(self, weights: Weights, *, governed: bool) -> None:
        self._weights = weights
        self._wanted = weights.n_threads
        self._governor = _governor_of(weights) if governed else None
        self._is_fixed = False

    def set_by_user(self, n_threads: int) -> None:
        self._wanted = n_threads
        if self._governor is not None:
            self._governor.set_ceiling(n_threads)
        self._weights.set_threads(n_threads)

    def begin(self, *, repeatable: bool) -> None:
        """A reply begins: fix the threads for it, or let them be steered again."""
        self._is_fixed = repeatable
        steered = self._wanted if self._governor is None else self._governor.n_threads
        n_threads = self._wanted if repeatable else steered
        if n_threads != self._weights.n_threads:
            self._weights.set_threads(n_threads)

    @property
    def wants_processor_time(self) -> bool:
        """Whether the next steps' share of the processor is to be measured."""
        governor = None if self._is_fixed else self._governor
        return governor is not None and not governor.knows_machine

    @property
    def is_trying(self) -> bool:
        """Whether steps of the usual shape are wanted, to compare numbers of threads by."""
        return self._governor is not None and not self._is_fixed and self._governor.is_trying

    def after_step(
        self, rows: int, cells: int, elapsed_s: float, now: float, processor_s: float | None
    ) -> ThreadChange | None:
        """A step in which everybody wrote is over. Returns what changed, if anything."""
        if self._governor is None or self._is_fixed:
            return None
        change = self._governor.after_step(rows, cells, elapsed_s, now, processor_s)
        if change is not None:
            self._weights.set_threads(change.n_threads)
        return change


def _governor_of(weights: Weights) -> Governor | None:
    """Where all layers are on a device, the processor's threads hardly matter."""
    loaded = weights.loaded
    if loaded.n_gpu_layers > loaded.n_layer:
        return None
    growth = loaded.kv_bytes_per_token / max(loaded.size_bytes, 1)
    return Governor(weights.n_threads, growth=growth)
