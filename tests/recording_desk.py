"""A desk that writes down what the window asks of its parts, and a bridge that tests speak by."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.bridge import Bridge
from app.chat.desk import Desk
from app.chat.events import EngineStateChanged, Noticed, ServerChanged, SettingsChanged
from app.chat.server.log import RequestLog
from app.chat.settings.settings import Settings, changed
from app.chat.surroundings import Surroundings
from app.chat.weights.projectors import Taking
from app.engine.protocol.loading_messages import Loaded, MemoryPart
from app.engine.protocol.thinking_messages import ThinkingOffer
from app.hub.downloads.progress import DownloadProgress
from app.insight.time.lanes import LaneRecord
from app.refusal import Refusal
from models.records import Conversation, Message, MessageCounts, Role, Weights

NOON = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


class FakeBridge(Bridge):
    """The real one; tests say what is told."""


@cache
def real_parts() -> dict[str, object]:
    """The parts of a desk that never starts, by their names there."""
    desk = Desk(
        open_store=pytest.fail,
        engine_factory=pytest.fail,
        post=lambda _action: None,
        emit=lambda _event: None,
        data_dir=Path("nowhere"),
    )
    desk.shutdown()
    parts = {name: part for name, part in vars(desk).items() if not name.startswith("_")}
    return {name: p for name, p in parts.items() if type(p).__module__.startswith("app.chat.")}


class FakePart:
    """Stands where a part of the desk does and knows its names: any other is an AttributeError,
    arguments that do not fit are a TypeError. A call is recorded. What stands there to be read, and
    what a method answers (which is not recorded then), is assigned."""

    def __init__(self, desk: FakeDesk, name: str, real: object) -> None:
        vars(self).update(_desk=desk, _name=name, _real=real)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        signature = self._signature(name)
        if signature is None:
            raise AttributeError(f"Set desk.{self._name}.{name}")

        def record(*args: Any, **named: Any) -> None:
            signature.bind(self, *args, **named)
            self._desk.record(f"{self._name}.{name}", *args, **named)

        return record

    def __setattr__(self, name: str, value: Any) -> None:
        signature = self._signature(name)
        if signature is not None:
            value = _checked(signature, value)
        vars(self)[name] = value

    def _signature(self, name: str) -> inspect.Signature | None:
        """Of a method; None: it is no method."""
        if name not in _names_of(self._name):
            raise AttributeError(f"desk.{self._name} has no {name}")
        return _signature_in(type(self._real), name)


@cache
def _names_of(part: str) -> frozenset[str]:
    return frozenset(dir(real_parts()[part]))


@cache
def _signature_in(kind: type, name: str) -> inspect.Signature | None:
    method = inspect.getattr_static(kind, name, None)
    return inspect.signature(method) if inspect.isfunction(method) else None


def _checked(signature: inspect.Signature, answer: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        signature.bind(None, *args, **named)
        return answer(*args, **named)

    return call


def _nothing(*_: object) -> None: ...


class FakeDesk:
    """The parts, as `FakePart`s. Every call is one tuple in `calls`: the part's and the method's
    name (`tree.edit`), then its arguments."""

    def __init__(self, bridge: FakeBridge, data_dir: Path = Path("data")) -> None:
        self.bridge = bridge
        self.data_dir = data_dir
        self.offline = False
        self.calls: list[tuple[Any, ...]] = []
        self.weights: list[Weights] = []
        self.takes_messages = True
        self.takes_texts = True
        self.saved: list[Callable[[], None]] = []
        self.log: list[tuple[str, str]] = []
        self.download_followers: list[Callable[[tuple[DownloadProgress, ...]], None]] = []
        for name, real in real_parts().items():
            setattr(self, name, FakePart(self, name, real))
        self.shelf.open = Conversation("c0", "New chat", created_at=NOON, updated_at=NOON)
        self.shelf.path = ()
        self.shelf.conversations = ()
        self.folders.all = ()
        self.temporary.is_open = self.temporary.is_begun = False
        self.attachments.of_open = ()
        self.replies.is_generating = self.replies.is_waiting = False
        self.replies.send = self._send
        self.step.is_on = False
        self.step.held_token = self.meter.last = None
        self.summaries.is_writing = lambda _conversation_id: False
        self.thinking.offer = ThinkingOffer()
        self.thinking.chosen = self.thinking.chosen_at = self.thinking.thoughts = ""
        self.thinking.limit, self.thinking.scope = 0, "chat"
        self.loader.state = EngineStateChanged("stopped")
        self.loader.devices = ()
        self.loader.loaded = self.loader.remote = None
        self.presets.all = ()
        self.vectors.all = ()
        self.vectors.making = ""
        self.vectors.name_of = lambda path: Path(path).stem
        self.projectors.of = self.projectors.choices = lambda _path: ()
        self.projectors.used = lambda _path: None
        self.projectors.may_need_one = lambda _path: False
        self.projectors.repository = lambda _path: ""
        self.projectors.taking = lambda _kind: Taking()
        self.lanes.record = LaneRecord()
        self.server.state = ServerChanged("off")
        self.server.is_on = False
        self.server.key = ""
        self.server.log = RequestLog(Surroundings(_nothing, _nothing, None), None, bool, _nothing)
        self.server.opened = SimpleNamespace(
            row=None,
            has_own=False,
            is_on_screen=False,
            engine_name="",
            keep=_nothing,
            close=_nothing,
        )
        self.loader.path = ""
        self.loader.known_weights = self.local.for_menu = lambda: self.weights
        self.loader.log_lines = lambda: self.log
        self.settings.now = Settings()
        self.embedder.known = tuple
        self.draft_parts.of_earlier = tuple
        self.settings.is_read = True
        self.settings.set = self._set
        self.downloads.all = ()
        self.downloads.trouble = ""
        self.downloads.folder = data_dir / "weights"
        self.downloads.follow = self._follow_downloads
        self.local.follow = lambda follower: lambda: None
        self.tools.all = ()
        self.tools.known = lambda: ()
        self.tools.offered = lambda _chat: ()
        self.next_reply.changes = lambda _chat: {}
        self.tool_calls.asked = None
        self.aloud.is_possible = True
        self.aloud.is_reading = False
        self.engines.all = ()
        self.engines.follow = lambda follower: lambda: None
        for part, method in (
            (self.tree, "edit"),
            (self.tree, "edit_and_send"),
            (self.tree, "insert"),
            (self.replies, "begin_with"),
        ):
            setattr(part, method, partial(self._take, f"{part._name}.{method}"))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in real_parts() and name in vars(self):
            raise AttributeError(f"desk.{name} is a part: it stays")
        vars(self)[name] = value

    def record(self, name: str, *args: Any, **named: Any) -> None:
        self.calls.append((name, *args, *([named] if named else ())))

    def called(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of each call of `name`, which must be there."""
        part, method = name.split(".")
        assert getattr(self, part)._signature(method) is not None, f"{name} is no method"
        return [call[1:] for call in self.calls if call[0] == name]

    def show_downloads(self, *downloads: DownloadProgress) -> None:
        """They are these now; whoever follows is told."""
        self.downloads.all = downloads
        for follower in list(self.download_followers):
            follower(downloads)

    def _follow_downloads(
        self, follower: Callable[[tuple[DownloadProgress, ...]], None]
    ) -> Callable[[], None]:
        self.download_followers.append(follower)
        return lambda: self.download_followers.remove(follower)

    def _send(self, text: str) -> bool:
        self.record("replies.send", text)
        return self.takes_messages

    def _take(self, name: str, *args: Any, saved: Callable[[], None], **named: Any) -> bool:
        """What saves a text: taken or refused, as the test says; `saved` is the test's to call."""
        self.record(name, *args, **named)
        if self.takes_texts:
            self.saved.append(saved)
        return self.takes_texts

    def _set(self, name: str, value: Any) -> None:
        self.record("settings.set", name, value)
        try:
            self.settings.now = changed(self.settings.now, name, value)
        except Refusal as refused:
            self.bridge.emit_event(Noticed("error", refused.sentence))
            return
        self.bridge.emit_event(SettingsChanged(frozenset({name})))


def conversation(number: int, title: str, days_ago: float = 0, **fields: Any) -> Conversation:
    when = NOON - timedelta(days=days_ago, seconds=number)
    return Conversation(f"c{number}", title, created_at=when, updated_at=when, **fields)


def message(number: int, role: Role, content: str, **fields: Any) -> Message:
    fields.setdefault("counts", MessageCounts())
    return Message(
        id=f"m{number}",
        conversation_id="c1",
        parent_id=f"m{number - 1}" if number > 1 else None,
        role=role,
        content=content,
        created_at=NOON,
        **fields,
    )


def loaded(**fields: Any) -> Loaded:
    values: dict[str, Any] = {
        "path": "/weights/smollm2.gguf",
        "name": "SmolLM2 135M",
        "architecture": "llama",
        "description": "llama 134M Q4_1",
        "size_bytes": 98_000_000,
        "n_params": 134_515_008,
        "n_layer": 30,
        "n_embd": 576,
        "n_head": 9,
        "n_head_kv": 3,
        "n_vocab": 49_152,
        "n_ctx": 4096,
        "n_ctx_train": 8192,
        "n_ubatch": 512,
        "n_threads": 2,
        "n_gpu_layers": 0,
        "flash_attention": True,
        "type_k": "f16",
        "type_v": "f16",
        "has_template": True,
        "add_bos": False,
        "eog_ids": [2],
        "memory": [
            MemoryPart("CPU", "weights", 97 * 2**20),
            MemoryPart("CPU", "kv", 180 * 2**20),
            MemoryPart("CPU", "compute", 97 * 2**20),
        ],
        "kv_bytes_per_token": 46_080,
        "load_s": 0.3,
        "notes": [],
    }
    return Loaded(**values | fields)
