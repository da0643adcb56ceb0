"""A recording desk that keeps a chat's own level of settings as the real one does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from recording_desk import FakeBridge, FakeDesk, loaded

from app.chat.events import EngineStateChanged, LevelsChanged
from app.chat.settings.resolved import IN_CHAIN, Resolved, resolve
from app.chat.settings.sampler_links import OFF, Link, links_of, values_of_links
from app.chat.settings.settings import Settings, as_stored, checked
from app.chat.surroundings import Still
from app.engine.protocol.messages import Tokens
from app.engine.protocol.stages import Stage
from app.refusal import Refusal
from models.records import Preset

NOON = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


class SamplingDesk(FakeDesk):
    def __init__(self, bridge: FakeBridge) -> None:
        super().__init__(bridge)
        self.own: dict[str, Any] = {}
        self.applied: Preset | None = None
        self.ids: dict[str, list[int]] = {}
        self.settings.now = Settings(temperature=0.8)
        self.loader.state = EngineStateChanged("ready", loaded=loaded(n_vocab=1000, fast_hash="w1"))
        self.growing.trace_of = self.words.of = lambda _which: None
        self.presets.all = ()
        self.presets.applied = lambda: (self.applied, True)
        self.levels.resolved = self.resolved
        self.levels.change = self._change
        self.chain.links = lambda: links_of(self.resolved(), self.own)
        self.chain.is_own = lambda: bool({*IN_CHAIN, "chain", OFF} & self.own.keys())
        self.chain.put = self._put_links
        self.chain.reset = self._reset_links
        self.questions.tokenize = self._tokenize

    def resolved(self, values: Mapping[str, Any] | None = None) -> Resolved:
        """With what the chat sets, or with these values in its place."""
        return resolve(self.settings.now, None, self.own if values is None else values)

    def put(self, values: Mapping[str, Any]) -> None:
        self.own = dict(values)
        self.bridge.emit_event(LevelsChanged("chat"))

    def _put_links(self, links: Sequence[Link], undo: str = "") -> str:
        self.record("chain.put", tuple(links), undo)
        try:
            self.put(values_of_links(links, self.own, self.resolved))
        except Refusal as refused:
            return refused.sentence
        return ""

    def _reset_links(self) -> None:
        gone = {*IN_CHAIN, "chain", OFF}
        self.put({name: value for name, value in self.own.items() if name not in gone})

    def _change(self, level: str, name: str, value: Any) -> None:
        self.record("levels.change", level, name, value)
        self.put({**self.own, name: as_stored(checked(name, value))})

    def _tokenize(
        self,
        text: str,
        then: Callable[[Tokens], None],
        failed: Callable[[str], None],
        *,
        still: Still,
        inside: bool = False,
    ) -> None:
        assert still()
        assert inside, "a bias is for what stands behind other text"
        if text in self.ids:
            then(Tokens(self.ids[text], [text.encode()] * len(self.ids[text])))
        else:
            failed("This needs a loaded model. Load one first.")

    def asked(self) -> list[Stage]:
        """What the next reply would be drawn with."""
        sampling = self.resolved().settings.sampling()
        return [*sampling.filters, sampling.select]


def preset(name: str, **value: Any) -> Preset:
    return Preset(f"p-{name}", name, NOON, NOON, value, 0)
