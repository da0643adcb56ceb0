"""What the download queue is given: what is asked for, where it is kept, and how it waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from models.records import Download


class Wish(Protocol):
    """What is asked for: `app.hub.client.HubFile`, as far as it is needed here."""

    @property
    def repo_id(self) -> str: ...
    @property
    def revision(self) -> str: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def sizes(self) -> tuple[int, ...]: ...
    @property
    def sha256s(self) -> tuple[str, ...]: ...
    @property
    def missing(self) -> tuple[str, ...]: ...


class Book(Protocol):
    """Where downloads are kept. `then` and `failed` are called on the owner's thread."""

    def create(
        self, download: Download, then: Callable[[], None], failed: Callable[[str], None]
    ) -> None: ...

    def change(self, download_id: str, changes: Mapping[str, Any]) -> None: ...

    def drop(self, download_id: str) -> None: ...


class Clockwork(Protocol):
    """`app.chat.alarms.Alarms`: calls on the owner's thread, later."""

    def set(self, key: str, delay_s: float, action: Callable[[], None]) -> None: ...

    def set_once(self, key: str, delay_s: float, action: Callable[[], None]) -> None: ...

    def cancel(self, key: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Links:
    """How addresses are made; `endpoint` is the hub that is asked now."""

    endpoint: Callable[[], str]
    headers_for: Callable[[str], Mapping[str, str]]
    token_refused: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Wishes:
    """The user's settings: how many run at once, and bytes per second for all (0: no limit)."""

    at_once: Callable[[], int]
    bytes_s: Callable[[], float]
