"""The slots of the engine at work, for whoever watches: asked for now and then, kept in one record.

Nothing here belongs to a conversation. What must hold: one question at a time; what an engine that
is gone has told is forgotten, since the next one counts from 0.
"""

from __future__ import annotations

from collections.abc import Callable

from app.chat.inspection.questions import Questions
from app.chat.surroundings import ALWAYS
from app.chat.weights.loading import Loader
from app.engine.protocol.lane_messages import Lanes, ReadLanes
from app.insight.time.lanes import LaneRecord


class LaneWatch:
    def __init__(self, loader: Loader, questions: Questions) -> None:
        self.record = LaneRecord()
        self._loader = loader
        self._questions = questions
        self._of: object = None
        self._is_asked = False

    def read(self, then: Callable[[], None]) -> bool:
        """Bring the record up to date, then call `then`; also where there is nothing to be had.
        False: the question before is still open, and nobody is called."""
        loaded = self._loader.loaded
        if self._of is not loaded:
            self.record.forget()
            self._of = loaded
            self._is_asked = False
        if self._loader.remote is not None:
            then()
            return True
        if self._is_asked:
            return False
        self._is_asked = True

        def take(told: Lanes) -> None:
            if self._of is loaded:
                self._is_asked = False
                self.record.take(told)
                then()

        def fail(_sentence: str) -> None:
            if self._of is loaded:
                self._is_asked = False
                then()

        self._questions.ask(ReadLanes(0, self.record.since), Lanes, take, fail, still=ALWAYS)
        return True
