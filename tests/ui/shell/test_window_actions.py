"""What the window itself can do, by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from recording_desk import FakeDesk

from ui.shell.window import MainWindow


@pytest.mark.parametrize("mode", ["light", "dark", "system"])
def test_the_theme_is_chosen_by_name(
    open_window: Callable[..., MainWindow], desk: FakeDesk, mode: str
) -> None:
    desk.settings.set("theme", "light" if mode == "dark" else "dark")
    window = open_window()
    window.action_registry.run(f"theme_{mode}")
    assert desk.settings.now.theme == mode
    desk.calls.clear()
    window.action_registry.run(f"theme_{mode}")
    assert desk.called("settings.set") == [], "it is so already"
