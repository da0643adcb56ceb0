"""Where the column of the chat stands."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QWidget
from recording_desk import FakeDesk, conversation, message

from models.records import Role
from ui.shell.sizes import beside_column
from ui.shell.window import MainWindow


@pytest.mark.parametrize("width", [1043, 1044, 745, 720, 400])
def test_what_is_beside_the_column_is_all_that_it_leaves(width: int) -> None:
    left, right = beside_column(width, 720, 24)
    assert min(left, right) >= 24
    assert width - left - right <= 720
    assert width - left - right in (720, width - 48)
    assert 0 <= right - left <= 1


@pytest.mark.parametrize("width", [1280, 1281])
def test_composer_and_figures_stand_exactly_under_the_text(
    open_window: Callable[..., MainWindow], desk: FakeDesk, width: int
) -> None:
    desk.shelf.open = conversation(1, "A chat")
    desk.shelf.conversations = (desk.shelf.open,)
    desk.shelf.path = (message(1, Role.USER, "One?"),)
    window = open_window(width)
    chat = window.chat
    card = chat.composer.findChild(QWidget, "composer_card")
    view = chat.transcript
    assert card.mapTo(chat, QPoint(0, 0)).x() == round(view.column_x)
    assert chat.status.contentsRect().x() == round(view.column_x)
    assert card.width() == round(view.rows.width)
