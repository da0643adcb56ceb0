"""A desk that writes down what the window asks of it, and a bridge whose signals tests emit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partialmethod
from pathlib import Path
from typing import Any

from app.bridge import Bridge
from app.chat.desk import Desk
from app.chat.events import EngineStateChanged, Noticed, SettingsChanged, TokenHeld
from app.chat.settings.settings import SettingRefused, Settings, changed
from app.engine.protocol.loading_messages import Device, Loaded, MemoryPart
from app.hub.downloads.progress import DownloadProgress
from models.records import Attachment, Conversation, Folder, Message, MessageCounts, Role, Weights

NOON = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


class FakeBridge(Bridge):
    """The real one, whose signals are emitted by hand."""


class FakeDesk:
    """Every call is one tuple in `calls`: the method's name, then its arguments.

    What the real desk would not take is not taken here: an unknown name is an AttributeError,
    arguments that do not fit are a TypeError.
    """

    def __init__(self, bridge: FakeBridge, data_dir: Path = Path("data")) -> None:
        self.bridge = bridge
        self.data_dir = data_dir
        self.calls: list[tuple[Any, ...]] = []
        self.conversation = Conversation("c0", "New chat", created_at=NOON, updated_at=NOON)
        self.messages: tuple[Message, ...] = ()
        self.attachments: tuple[Attachment, ...] = ()
        self.conversations: tuple[Conversation, ...] = ()
        self.folders: tuple[Folder, ...] = ()
        self.engine_state = EngineStateChanged("stopped")
        self.settings = Settings()
        self.is_generating = False
        self.offline = False
        self.devices: tuple[Device, ...] = ()
        self.is_waiting = False
        self.weights_path = ""
        self.is_temporary = False
        self.has_temporary = False
        self.weights: list[Weights] = []
        self.takes_messages = True
        self.takes_texts = True
        self.saved: list[Callable[[], None]] = []
        self.log: list[tuple[str, str]] = []
        self.downloads: tuple[DownloadProgress, ...] = ()
        self.downloads_trouble = ""
        self.download_folder = data_dir / "weights"
        self.download_followers: list[Callable[[tuple[DownloadProgress, ...]], None]] = []
        self.is_stepping = False
        self.held_token: TokenHeld | None = None

    def known_weights(self) -> list[Weights]:
        return self.weights

    def weights_for_menu(self) -> list[Weights]:
        return self.weights

    def follow_downloads(
        self, follower: Callable[[tuple[DownloadProgress, ...]], None]
    ) -> Callable[[], None]:
        self.download_followers.append(follower)
        return lambda: self.download_followers.remove(follower)

    def show_downloads(self, *downloads: DownloadProgress) -> None:
        """They are these now; whoever follows is told."""
        self.downloads = downloads
        for follower in list(self.download_followers):
            follower(downloads)

    def log_lines(self) -> list[tuple[str, str]]:
        return self.log

    def send(self, text: str) -> bool:
        self.calls.append(("send", text))
        return self.takes_messages

    def _take(self, name: str, *args: Any, saved: Callable[[], None], **named: Any) -> bool:
        """What saves a text: taken or refused, as the test says; `saved` is the test's to call."""
        inspect.signature(getattr(Desk, name)).bind(self, *args, saved=saved, **named)
        self.calls.append((name, *args, *([named] if named else ())))
        if self.takes_texts:
            self.saved.append(saved)
        return self.takes_texts

    edit_message = partialmethod(_take, "edit_message")
    edit_and_send = partialmethod(_take, "edit_and_send")
    insert_message = partialmethod(_take, "insert_message")
    begin_reply = partialmethod(_take, "begin_reply")

    def set_setting(self, name: str, value: Any) -> None:
        self.calls.append(("set_setting", name, value))
        try:
            self.settings = changed(self.settings, name, value)
        except SettingRefused as refused:
            self.bridge.emit_event(Noticed("error", str(refused)))
            return
        self.bridge.emit_event(SettingsChanged(frozenset({name})))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        real = inspect.getattr_static(Desk, name, None)
        if not inspect.isfunction(real):
            raise AttributeError(f"{'' if real is None else 'Set '}Desk.{name}")
        signature = inspect.signature(real)

        def record(*args: Any, **named: Any) -> None:
            signature.bind(self, *args, **named)
            self.calls.append((name, *args, *([named] if named else ())))

        return record

    def called(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of each call of `name`."""
        return [call[1:] for call in self.calls if call[0] == name]


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
