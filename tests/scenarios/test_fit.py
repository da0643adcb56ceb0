"""Memory in the library, with llama.cpp and the included weights: seen, tried, kept, measured."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton

from ui.library.fit.view import FitView
from ui.library.view import LibraryView

pytestmark = pytest.mark.weights


def test_the_loaded_weights_are_seen_tried_and_loaded_again(open_window: Any) -> None:
    person = open_window()
    person.wait_ready()
    person.app.desk.settings.set("n_threads", 1)
    before = person.app.desk.loader.state.loaded
    assert before is not None
    person.window.action_registry.run("library")
    library = person.wait(lambda: person.window.findChild(LibraryView))
    button = library.findChild(QPushButton, "library_memory_button")
    person.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    view = person.wait(lambda: library.findChild(FitView))
    person.wait(lambda: view.fit is not None)
    assert view.badge.text() == "fits"
    assert view.fit.n_ctx == before.n_ctx

    # Measured beside estimated: within 5 %, as the table says it.
    kinds = {row.what: row for row in view.measured.rows}
    for what in ("weights", "kv"):
        assert kinds[what].measured_bytes == pytest.approx(kinds[what].estimated_bytes, rel=0.05)

    # By keyboard: the shortest context, with a smaller cache; kept and loaded in one go.
    QTest.keyClick(view.wish.context_slider, Qt.Key.Key_Home)
    person.wait(lambda: view.fit.n_ctx == 512)
    view.wish.cache.setFocus()
    QTest.keyClicks(view.wish.cache, "q8")
    person.wait(lambda: view.wish.options.type_v == "q8_0")
    person.qtbot.mouseClick(view.load_button, Qt.MouseButton.LeftButton)
    loaded = person.wait(
        lambda: (
            (s := person.app.desk.loader.state).state == "ready" and s.loaded != before and s.loaded
        )
    )
    assert (loaded.n_ctx, loaded.type_k, loaded.type_v) == (512, "q8_0", "q8_0")
    person.wait(lambda: view.fit.n_ctx == 512)
    cache = next(row for row in view.measured.rows if row.what == "kv")
    assert cache.measured_bytes == pytest.approx(512 * 30 * 2 * 204, rel=0.05)
    assert person.app.desk.loader.options_of(loaded.path).n_ctx == 512
    QTest.keySequence(view, "Esc")
    assert view.isHidden()
    assert library.isVisible()
