"""A session whose chats outlive it: its KV state is saved in a folder, as that of the window is."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from native_session import NativeSession

from app.engine.process.cache.keeping import Keeping
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.protocol.messages import Finished, Log, Note, Summary
from app.engine.protocol.saved_messages import KEY_BYTES, SavedFolder

KEY = bytes(range(KEY_BYTES))
CAP_BYTES = 1 << 30
PATIENCE_S = 60.0


class SavedSession(NativeSession):
    """Each one is another run of the engine on the same weights. `end` it like the engine ends."""

    def __init__(
        self,
        weights: Weights,
        log: NativeLog,
        folder: Path,
        *,
        key: bytes = KEY,
        cap_bytes: int = CAP_BYTES,
        may_write: bool = True,
        **options: Any,
    ) -> None:
        self._news = threading.Event()
        saved = SavedFolder(os.fsencode(folder), key, cap_bytes, may_write)
        super().__init__(weights, log, saved=saved, wake=self._news.set, **options)

    @property
    def keeping(self) -> Keeping:
        return self.scheduler.keeping

    def chat(self, ids: list[int], name: str = "a", length: int = 4, **fields: Any) -> Summary:
        """One reply in a chat that is stored."""
        fields = {"is_stored": True, **fields}
        request_id = self.add(ids, max_tokens=length, conversation=name, **fields)
        deadline = time.monotonic() + PATIENCE_S
        while not any(isinstance(e, Finished) for e in self.of(request_id)):
            self._news.clear()
            self.run()
            if not self.scheduler.open_ids:
                break
            if not self.scheduler.has_work:
                assert self._news.wait(deadline - time.monotonic())
        ending = self.ending(request_id)
        assert isinstance(ending, Finished), ending
        assert isinstance(ending.result, Summary)
        return ending.result

    def save(self) -> None:
        assert self.keeping.save_all(time.monotonic() + PATIENCE_S)

    def wait_for_scan(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.keeping.states.is_scanning:
            assert self._news.wait(deadline - time.monotonic())
            self._news.clear()

    def wait_for_news(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.keeping.states.has_news:
            assert self._news.wait(deadline - time.monotonic())
            self._news.clear()

    def end(self) -> None:
        self.keeping.close()

    def notes(self) -> list[str]:
        return [event.sentence for event in self.events if isinstance(event, Note)]

    def log_lines(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Log)]
