"""Opens every window under the QT_SCALE_FACTOR of this process and prints what is cut off.

Run as a program by `test_scale.py`: the factor counts only before Qt starts.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QApplication,
    QLabel,
    QLineEdit,
    QPushButton,
    QWidget,
)

import main
from app.gguf.local import places

SCRIPT = {
    "loop": True,
    "load": {"ms": 5},
    "replies": [{"text": "Paris.\n\n```python\nprint(1)\n```\n"}],
}


def wait(condition: Callable[[], object]) -> None:
    ends_at = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends_at, "it never came"
        QTest.qWait(1)


def needed_width(widget: QWidget) -> int:
    """What its words need at least."""
    if isinstance(widget, QLabel):
        return 0 if widget.wordWrap() else widget.minimumSizeHint().width()
    return widget.minimumSizeHint().width()


def faults(window: QWidget) -> list[str]:
    """Visible widgets of no size, and words that have less room than they need."""
    found = []
    for widget in window.findChildren(QWidget):
        if not widget.isVisible() or widget.window() is not window:
            continue
        name = widget.objectName() or type(widget).__name__
        # Scroll bars and the like are Qt's own, and lists are as long as what they hold.
        is_text = isinstance(widget, QLabel | QPushButton | QLineEdit)
        if is_text and (widget.width() <= 0 or widget.height() <= 0):
            found.append(f"{name} has no size")
        elif is_text and widget.height() + 1 < widget.fontMetrics().height():
            found.append(f"{name} is {widget.height()} high")
        elif isinstance(widget, QPushButton) and widget.text():
            if widget.width() + 1 < needed_width(widget) and type(widget) is QPushButton:
                found.append(f"{name} is {widget.width()} wide, needs {needed_width(widget)}")
        elif isinstance(widget, QLabel) and type(widget) is QLabel:
            is_cut = (
                widget.wordWrap() and widget.heightForWidth(widget.width()) > widget.height() + 1
            )
            if is_cut or widget.width() + 1 < needed_width(widget):
                found.append(f"{name} “{widget.text()[:30]}” is cut off")
        elif isinstance(widget, QAbstractScrollArea) and widget.viewport().height() <= 0:
            found.append(f"{name} shows nothing")
    return found


def run(zoom: int, width: int, height: int) -> dict[str, list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        script.write_text(json.dumps(SCRIPT), encoding="utf-8")
        data = str(Path(folder) / "data")
        places.places_of_others = lambda: ()
        app = main.build(["--data-dir", data, "--offline", "--scripted", str(script)])
        desk, window = app.desk, app.window
        wait(lambda: desk.loader.state.state == "ready")
        desk.settings.set("zoom_percent", zoom)
        window.resize(width, height)
        desk.replies.send("What is the capital of France?")
        wait(lambda: not desk.replies.is_generating and len(desk.shelf.path) == 2)
        results = {}
        windows = [("main_window", "")]
        windows += [("settings_window", "settings"), ("levels_window", "chat_settings")]
        windows += [("presets_window", "presets"), ("trash_window", "open_trash")]
        windows += [("library_view", "library"), ("weights_settings", "weights_defaults")]
        windows += [("palette", "palette")]
        for name, action in windows:
            if action:
                window.action_registry.run(action)
            shown = window if not action else window.findChild(QWidget, name)
            assert shown is not None, name
            tabs = getattr(shown, "tabs", None) or getattr(shown, "segments", None)
            for place in range(tabs.count() if tabs is not None else 1):
                if tabs is not None:
                    tabs.setCurrentIndex(place)
                for _ in range(5):
                    QApplication.processEvents()
                holder = shown.window()
                results[f"{name} {place}"] = faults(holder)
            if shown.window() is not window:
                shown.window().close()
        results["scale"] = [f"{window.devicePixelRatioF():g}"]
        app.close()
        return results


if __name__ == "__main__":
    print(json.dumps(run(*map(int, sys.argv[1:4]))))
