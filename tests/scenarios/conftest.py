"""The whole window, built as `main.py` builds it, driven by keys and clicks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from own_look import kept_look
from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QCheckBox, QStyle, QStyleOptionButton, QWidget

import main
from models.records import Message, Role
from ui.chat.composer import MessageEdit

Widget = TypeVar("Widget", bound=QObject)
PATIENCE_MS = 20_000


class Person:
    """Somebody at the keyboard, who waits for what happens and never sleeps."""

    def __init__(self, qtbot: Any, app: main.App) -> None:
        self.qtbot = qtbot
        self.app = app
        self.window = app.window

    def find(self, kind: type[Widget], name: str) -> Widget:
        found = self.window.findChild(kind, name)
        assert found is not None, f"there is no {name}"
        return found

    def wait(self, condition: Callable[[], Any]) -> Any:
        """Until the condition holds; returns what it returned."""
        results: list[Any] = []

        def holds() -> bool:
            results[:] = [condition()]
            return bool(results[0])

        self.qtbot.waitUntil(holds, timeout=PATIENCE_MS)
        return results[0]

    def wait_ready(self) -> None:
        self.wait(lambda: self.app.desk.loader.state.state == "ready")

    def type(self, text: str) -> None:
        self.qtbot.keyClicks(self.find(QWidget, "composer"), text)

    def press(self, key: Qt.Key, modifier: Any = Qt.KeyboardModifier.NoModifier) -> None:
        self.qtbot.keyClick(self.find(QWidget, "composer"), key, modifier)

    def send(self, text: str) -> None:
        self.type(text)
        self.press(Qt.Key.Key_Return)
        self.wait(lambda: any(m.content == text for m in self.app.desk.shelf.path))

    def click(self, name: str) -> None:
        widget = self.find(QWidget, name)
        place = widget.rect().center()
        if isinstance(widget, QCheckBox):  # beside its words it takes no click
            option = QStyleOptionButton()
            widget.initStyleOption(option)
            kind = QStyle.SubElement.SE_CheckBoxClickRect
            place = widget.style().subElementRect(kind, option, widget).center()
        self.qtbot.mouseClick(widget, Qt.MouseButton.LeftButton, pos=place)

    def written(self) -> str:
        """What stands in the composer."""
        return self.find(MessageEdit, "composer").text()

    def reply(self) -> Message | None:
        last = self.app.desk.shelf.path[-1:]
        return last[0] if last and last[0].role is Role.ASSISTANT else None

    def wait_ended(self) -> Message:
        """The last reply, once nothing is being generated or waits behind Enter: a message waits
        until what belongs to its chat is read; until then the last reply is a former one.
        """
        return self.wait(
            lambda: (
                not self.window.chat.composer._asked
                and not self.app.desk.replies.is_generating
                and self.reply()
            )
        )

    def wait_growing(self, at_least: int = 1) -> Message:
        return self.wait(
            lambda: (
                (r := self.reply()) and r.state == "streaming" and len(r.content) >= at_least and r
            )
        )


@pytest.fixture
def open_window(
    forked_children: None,
    forked_engines: None,
    stays_frozen: None,
    qtbot: Any,
    qapp: Any,
    data_dir: Path,
    tmp_path: Path,
) -> Iterator[Callable[..., Person]]:
    """Opens the window on this test's data folder; a script, or other arguments. Its zoom ends
    with it."""
    with kept_look(qapp), contextlib.ExitStack() as windows:
        count = 0

        def open_one(
            script: dict[str, Any] | None = None, *arguments: str, is_offline: bool = True
        ) -> Person:
            nonlocal count
            argv = ["--data-dir", str(data_dir), *["--offline"] * is_offline, *arguments]
            if script is not None:
                count += 1
                path = tmp_path / f"script-{count}.json"
                path.write_text(json.dumps({"loop": True, **script}))
                argv += ["--scripted", str(path)]
            app = main.build(argv)
            windows.callback(app.close)
            qtbot.waitExposed(app.window)
            return Person(qtbot, app)

        yield open_one
