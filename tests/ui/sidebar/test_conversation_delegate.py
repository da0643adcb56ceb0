"""What the list paints of a row."""

from __future__ import annotations

from typing import Any

from PySide6.QtGui import QColor, QImage
from recording_desk import NOON, conversation

from ui.look.theme import Theme
from ui.sidebar.conversation_delegate import ConversationDelegate
from ui.sidebar.conversation_model import ConversationModel
from ui.sidebar.conversation_view import ConversationView

LONG = "A title that is far too long for the column that it stands in, and by far"


def painted(qtbot: Any, *, is_replying: bool = False, **fields: Any) -> QImage:
    theme = Theme("light")
    model = ConversationModel(now=lambda: NOON)
    chat = conversation(1, LONG, **fields)
    model.set_conversations([chat])
    model.set_replying(frozenset({chat.id} if is_replying else ()))
    view = ConversationView(theme, model)
    qtbot.addWidget(view)
    assert isinstance(view.itemDelegate(), ConversationDelegate)
    view.resize(200, 120)
    with qtbot.waitExposed(view):
        view.show()
    return view.grab().toImage()


def test_the_sign_of_a_branch_is_seen_however_long_the_title_is(qtbot: Any) -> None:
    plain, branch = painted(qtbot), painted(qtbot, copied_from="m1")
    left = [image.copy(0, 36, 26, 36) for image in (plain, branch)]
    assert left[0] != left[1]


def test_a_chat_that_replies_has_a_dot_however_long_its_title_is(qtbot: Any) -> None:
    at_rest, replying = painted(qtbot), painted(qtbot, is_replying=True)
    accent = QColor(Theme("light").colors.accent).rgb()

    def dots(image: QImage) -> int:
        places = [(x, y) for x in range(image.width() // 2, image.width()) for y in range(36, 72)]
        return sum(image.pixel(x, y) == accent for x, y in places)

    assert dots(replying) > dots(at_rest) + 20  # the keyboard's frame has that colour, too
