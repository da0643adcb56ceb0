"""A recording desk that keeps a chat's own level of settings as the real one does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from recording_desk import FakeBridge, FakeDesk, loaded

from app.chat.events import EngineStateChanged, LevelsChanged
from app.chat.settings.resolved import IN_CHAIN, Resolved, resolve
from app.chat.settings.sampler_links import OFF, Link, Links, links_of, values_of_links
from app.chat.settings.settings import SettingRefused, Settings, as_stored, checked
from app.engine.protocol.messages import Tokens
from app.engine.protocol.stages import Stage
from models.records import Preset

NOON = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


class SamplingDesk(FakeDesk):
    def __init__(self, bridge: FakeBridge) -> None:
        super().__init__(bridge)
        self.own: dict[str, Any] = {}
        self.settings = Settings(temperature=0.8)
        self.presets: tuple[Preset, ...] = ()
        self.applied: Preset | None = None
        self.engine_state = EngineStateChanged("ready", loaded=loaded(n_vocab=1000, fast_hash="w1"))
        self.ids: dict[str, list[int]] = {}

    # What the sampling panel reads.

    def resolved_settings(self, values: Mapping[str, Any] | None = None) -> Resolved:
        return resolve(self.settings, None, self.own if values is None else values)

    def sampling_links(self) -> Links:
        return links_of(self.resolved_settings(), self.own)

    def sets_own_chain(self) -> bool:
        return bool({*IN_CHAIN, "chain", OFF} & self.own.keys())

    def applied_preset(self) -> tuple[Preset | None, bool]:
        return self.applied, True

    def growing_trace(self, _message_id: str) -> None:
        return None

    def words_of(self, _hash: str | None) -> None:
        return None

    # What it does.

    def put(self, values: Mapping[str, Any]) -> None:
        self.own = dict(values)
        self.bridge.emit_event(LevelsChanged("chat"))

    def set_sampling_links(self, links: Sequence[Link], undo: str = "") -> str:
        self.calls.append(("set_sampling_links", tuple(links), undo))
        try:
            self.put(values_of_links(links, self.own, self.resolved_settings))
        except SettingRefused as refused:
            return str(refused)
        return ""

    def reset_sampling_links(self) -> None:
        gone = {*IN_CHAIN, "chain", OFF}
        self.put({name: value for name, value in self.own.items() if name not in gone})

    def set_at_level(self, level: str, name: str, value: Any) -> None:
        self.calls.append(("set_at_level", level, name, value))
        self.put({**self.own, name: as_stored(checked(name, value))})

    def tokenize(
        self,
        text: str,
        then: Callable[[Tokens], None],
        failed: Callable[[str], None],
        *,
        inside: bool = False,
    ) -> None:
        assert inside, "a bias is for what stands behind other text"
        if text in self.ids:
            then(Tokens(self.ids[text], [text.encode()] * len(self.ids[text])))
        else:
            failed("This needs loaded weights. Load some first.")

    def asked(self) -> list[Stage]:
        """What the next reply would be drawn with."""
        sampling = self.resolved_settings().settings.sampling()
        return [*sampling.filters, sampling.select]


def preset(name: str, **value: Any) -> Preset:
    return Preset(f"p-{name}", name, NOON, NOON, value, 0)
