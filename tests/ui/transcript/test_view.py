"""The transcript as people use it: opening, streaming, scrolling, pressing, selecting."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QColor, QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton

from app.chat.replies.calls import with_calls
from app.engine.protocol.tool_messages import ToolCall
from models.records import Message, MessageCounts, MessageState, Role
from ui.look.theme import Theme
from ui.markdown.layouts import Pressable
from ui.transcript.selection import Selection
from ui.transcript.view import TranscriptView
from ui.widgets.icon_button import ICON_PX

NOW = datetime.now(UTC)
LEFT = Qt.MouseButton.LeftButton
COUNTS = MessageCounts(generated=4, tokens_per_s=10.0, first_token_s=0.5, reused=1, evaluated=2)


def said(number: int, text: str, **fields: object) -> Message:
    return replace(Message(f"u{number}", "c", None, Role.USER, text, NOW), **fields)


def reply(number: int, text: str, **fields: object) -> Message:
    return replace(Message(f"r{number}", "c", None, Role.ASSISTANT, text, NOW), **fields)


def streaming(number: int) -> Message:
    return reply(number, "", state=MessageState.STREAMING)


def conversation(count: int, text: str = "Some **words** here.\n\n- a\n- b") -> list[Message]:
    makers: tuple[Callable[..., Message], ...] = (said, reply)
    return [makers[i % 2](i, f"{i}: {text}") for i in range(count)]


def flush(qtbot, view: TranscriptView) -> None:
    """Wait until what was said has been shown."""
    qtbot.waitUntil(lambda: not view.is_update_due, timeout=5000)


def action(view: TranscriptView, index: int, name: str) -> Pressable:
    top = view.scroll_top - view.rows.top(index)
    found = view.rows.item(index).actions(top, top + view.viewport().height())
    return next(one for one in found if one.name == name)


def click(view: TranscriptView, index: int, name: str) -> None:
    center = action(view, index, name).rect.center() + view.item_origin(index)
    QTest.mouseClick(view.viewport(), LEFT, pos=center.toPoint())


def press(view: TranscriptView, key: Qt.Key, modifiers=Qt.KeyboardModifier.NoModifier) -> None:
    QTest.keyClick(view, key, modifiers)


def clipboard() -> str:
    return QGuiApplication.clipboard().text()


def shot(view: TranscriptView) -> QImage:
    return view.viewport().grab().toImage()


# Opening


def test_names(view: TranscriptView) -> None:
    assert view.objectName() == "transcript"
    assert view.accessibleName() == "Conversation"


def test_opens_at_the_end(view: TranscriptView) -> None:
    view.set_conversation(conversation(50))
    bar = view.verticalScrollBar()
    assert bar.maximum() > 0
    assert bar.value() == bar.maximum()
    assert view.is_at_end
    bottom = view.item_origin(49).y() + view.rows.height(49)
    assert 0 < bottom <= view.viewport().height()


def test_ten_thousand_messages_lay_out_one_screen(view: TranscriptView) -> None:
    messages = conversation(10_000)
    started = time.thread_time()
    view.set_conversation(messages)
    view.viewport().repaint()
    assert time.thread_time() - started < 2
    assert view.rows.items_made < 20
    view.verticalScrollBar().setValue(view.verticalScrollBar().maximum() // 2)
    view.viewport().repaint()
    assert view.rows.items_made < 40
    for _ in range(100):
        view.verticalScrollBar().setValue(view.verticalScrollBar().value() - 400)
    assert view.rows.items_made <= 200, "what is far away is let go"


def test_earlier_messages_come_above_and_nothing_in_view_moves(view: TranscriptView) -> None:
    messages = conversation(400)
    view.set_conversation(messages[200:])
    view.verticalScrollBar().setValue(view.verticalScrollBar().maximum() // 2)
    view.selection = Selection((100, 1, 0, 0, 0), (100, 1, 0, 0, 3))
    chosen, before = view.selected_text(), shot(view)
    view.add_earlier(messages[50:200])
    view.add_earlier(messages[:50])
    assert shot(view) == before
    assert view.selected_text() == chosen
    assert not view.is_at_end
    assert [view.rows.message(i).id for i in range(400)] == [m.id for m in messages]
    assert [view.rows.index_of(m.id) for m in messages] == list(range(400))


def test_earlier_messages_leave_the_end_in_view(view: TranscriptView) -> None:
    messages = conversation(300)
    view.set_conversation(messages[200:])
    before = shot(view)
    view.add_earlier(messages[:200])
    assert view.is_at_end
    assert view.verticalScrollBar().value() == view.verticalScrollBar().maximum()
    # The handle of the scroll bar became shorter, the text did not move.
    assert shot(view).copy(0, 0, 700, 500) == before.copy(0, 0, 700, 500)


def test_keyboard_and_pointer_stay_on_their_messages(view: TranscriptView) -> None:
    messages = conversation(60)
    view.set_conversation(messages[30:])
    view.setFocus(Qt.FocusReason.TabFocusReason)
    press(view, Qt.Key.Key_End)
    press(view, Qt.Key.Key_Up)
    assert view.keyboard.current == 28
    view.add_earlier(messages[:30])
    assert view.keyboard.current == 58
    press(view, Qt.Key.Key_Up)
    assert view.rows.message(57).id == messages[57].id
    assert view.keyboard.current == 57


def test_another_version_of_the_message_at_the_top_stays_at_the_top(view: TranscriptView) -> None:
    messages = conversation(60)
    view.set_conversation(messages)
    view.show_message(messages[20].id)
    other = replace(messages[20], id="other")
    view.set_conversation([*messages[:20], other, *messages[21:25]])
    assert not view.is_at_end
    assert view.index_at(40) == 20
    assert view.item_origin(20).y() >= 0


@pytest.mark.parametrize("text", ["word " * 400_000, "x" * 1_000_000, "漢字" * 400_000])
def test_megabytes_open_at_once(view: TranscriptView, text: str) -> None:
    for message in (reply(1, text), said(1, text)):
        started = time.thread_time()
        view.set_conversation([said(0, "hi"), message])
        view.viewport().repaint()
        view.verticalScrollBar().setValue(0)
        view.viewport().repaint()
        assert time.thread_time() - started < 2
        assert view.rows.item(1).content.laid_out < 10


def test_scrolling_keeps_what_is_read_in_place(view: TranscriptView) -> None:
    view.set_conversation(conversation(300, "Words " * 80))
    bar = view.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    index = view.index_at(100)
    assert index is not None
    for _ in range(30):
        before = view.item_origin(index).y()
        bar.setValue(bar.value() - 40)
        assert view.item_origin(index).y() == pytest.approx(before + 40, abs=2)
        index = view.index_at(100)
        assert index is not None


def test_resize_and_zoom_keep_the_message_in_view(view: TranscriptView) -> None:
    view.set_conversation(conversation(200, "Words " * 80))
    view.show_message("u100")
    view.resize(520, 500)
    assert view.index_at(40) in (99, 100, 101)
    view.resize(800, 500)
    assert view.index_at(40) in (99, 100, 101)


# Streaming


def test_streamed_text_appears(qtbot, view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), streaming(1)])
    before = shot(view)
    view.append_text("r1", "Hello ", "content")
    view.append_text("r1", "world", "content")
    flush(qtbot, view)
    assert view.rows.item(1).content.document.source == "Hello world"
    assert shot(view) != before


def test_text_for_an_unknown_message_is_dropped(qtbot, view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi")])
    view.append_text("gone", "text")
    view.change_message(reply(9, "gone"))
    view.set_progress("gone", "words")
    assert len(view.rows) == 1


def test_final_message_keeps_streamed_text(qtbot, view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), streaming(1)])
    view.append_text("r1", "It is **bo")
    flush(qtbot, view)
    body = view.rows.item(1).content
    view.change_message(reply(1, "It is **bold**", counts=COUNTS, stop_reason="end_token"))
    flush(qtbot, view)
    assert view.rows.item(1).content is body, "nothing is parsed from the start again"
    assert body.document.source == "It is **bold**"
    assert not body.document.is_open


def test_change_during_streaming_does_not_lose_text(qtbot, view: TranscriptView) -> None:
    """The record of a streaming reply may lag behind what arrived."""
    view.set_conversation([said(0, "hi"), streaming(1)])
    view.append_text("r1", "much text")
    view.change_message(reply(1, "much", state=MessageState.STREAMING))
    assert view.rows.item(1).content.document.source == "much text"


def test_sticks_to_the_end_only_if_it_was_there(qtbot, view: TranscriptView) -> None:
    view.set_conversation([*conversation(40), streaming(99)])
    bar = view.verticalScrollBar()
    news = view.findChild(QPushButton, "new_text_button")
    assert news is not None
    view.append_text("r99", "line\n\n" * 20)
    flush(qtbot, view)
    assert bar.value() == bar.maximum()
    assert not news.isVisible()
    bar.setValue(bar.value() - 300)
    value = bar.value()
    view.append_text("r99", "line\n\n" * 20)
    flush(qtbot, view)
    assert bar.value() == value
    assert news.isVisible()
    view.theme.set_zoom(300)
    assert news.iconSize().width() == 3 * ICON_PX, "its arrow is as large as its words"
    view.theme.set_zoom(100)
    QTest.mouseClick(news, LEFT)
    assert bar.value() == bar.maximum()
    assert not news.isVisible()


def test_own_message_is_always_shown(qtbot, view: TranscriptView) -> None:
    view.set_conversation(conversation(40))
    view.verticalScrollBar().setValue(0)
    view.add_message(said(100, "mine"))
    assert view.is_at_end


def test_message_is_added_once(qtbot, view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi")])
    view.add_message(reply(1, "a"))
    view.add_message(reply(1, "a"))
    assert len(view.rows) == 2


def test_repaints_are_few(qtbot, view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), streaming(1)])
    flush(qtbot, view)
    view.repaints = 0
    started = time.perf_counter()
    while time.perf_counter() - started < 0.25:
        view.append_text("r1", "word ")
        QApplication.processEvents()
    assert 1 <= view.repaints <= 10


def test_streaming_leaves_no_long_gap(qtbot, view: TranscriptView) -> None:
    """60 kB with code, a table and a list in four-byte pieces. The bound is wide: a busy
    machine must not fail it; what is exact is tested in test_document."""
    code = "```python\n" + "def f(x):\n    return x + 1  # comment\n" * 500 + "```\n\n"
    table = "| n | v |\n|---|---|\n" + "".join(f"| {i} | `x` and y |\n" for i in range(400))
    source = "Some **words** here.\n\n" * 400 + code + table + "\n" + "word " * 3000
    assert len(source) > 45_000
    view.set_conversation([said(0, "hi"), streaming(1)])
    gaps, last = [], [time.perf_counter()]

    def note_gap() -> None:
        now = time.perf_counter()
        gaps.append(now - last[0])
        last[0] = now

    ticker = QTimer()
    ticker.timeout.connect(note_gap)
    ticker.start(0)
    for start in range(0, len(source), 320):
        for piece in range(start, min(start + 320, len(source)), 4):
            view.append_text("r1", source[piece : piece + 4])
        QApplication.processEvents()
        QTest.qWait(5)
    ticker.stop()
    gaps.sort()
    assert view.repaints > 10
    assert gaps[-1] < 0.5
    assert gaps[int(len(gaps) * 0.98)] < 0.1


def test_progress_is_shown_until_text_comes(qtbot, view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), streaming(1)])
    waiting = shot(view)
    view.set_progress("r1", "Reading the prompt: 40 of 120 tokens")
    flush(qtbot, view)
    assert shot(view) != waiting
    view.append_text("r1", "x")
    assert view.rows.item(1).progress == ""


def test_a_waiting_message_has_a_quiet_line(qtbot, view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), reply(1, "yes", counts=COUNTS), said(2, "and?")])
    before, height = shot(view), view.rows.height(2)
    view.set_progress("u2", "Waiting for the model to load")
    flush(qtbot, view)
    assert view.rows.height(2) > height
    assert shot(view) != before
    view.change_message(said(2, "and?", sibling_count=1))
    assert view.rows.item(2).progress, "it waits until somebody says that it does not"
    view.set_progress("u2", "")
    flush(qtbot, view)
    assert view.rows.height(2) == height
    view.set_progress("r1", "Queued")  # another version of it was asked for
    flush(qtbot, view)
    assert shot(view) != before
    view.set_progress("r1", "")
    flush(qtbot, view)
    assert shot(view) == before


# What a message offers


def test_copy_message_and_code(qtbot, view: TranscriptView) -> None:
    source = "Text **bold**\n\n```py\nx = 1\n```\n"
    view.set_conversation([said(0, "hi"), reply(1, source)])
    with qtbot.waitSignal(view.copied):
        click(view, 1, "copy_message")
    assert clipboard() == source
    click(view, 1, "copy_code")
    assert clipboard() == "x = 1\n"


def test_what_was_called_is_copied_too(qtbot, view: TranscriptView) -> None:
    calls = [ToolCall("c1", "clock", '{"city": "Oslo"}'), ToolCall("c2", "light", "{}")]
    for text, copied in (("Wait.\n", "Wait.\n\n"), ("", "")):
        view.set_conversation([said(0, "hi"), reply(1, text, settings=with_calls({}, calls))])
        with qtbot.waitSignal(view.copied):
            click(view, 1, "copy_message")
        assert clipboard() == f'{copied}clock({{"city": "Oslo"}})\nlight({{}})'


def test_a_chat_that_is_too_long_offers_a_new_one(qtbot, view: TranscriptView) -> None:
    failed = reply(
        1, "", state=MessageState.FAILED, error="Too long.", stop_reason="prompt_too_long"
    )
    view.set_conversation([said(0, "hi"), failed])
    with qtbot.waitSignal(view.new_chat_requested):
        click(view, 1, "new_chat")
    # With a larger context it can be asked again where it stands.
    with qtbot.waitSignal(view.retry_requested):
        click(view, 1, "retry")


def test_try_again_on_a_failed_reply(qtbot, view: TranscriptView) -> None:
    failed = reply(1, "part", state=MessageState.FAILED, error="The engine crashed.")
    view.set_conversation([said(0, "hi"), failed])
    with qtbot.waitSignal(view.retry_requested) as caught:
        click(view, 1, "try_again")
    assert caught.args == ["r1"]
    # It is offered once: no second sign for the same in the row below.
    top = view.scroll_top - view.rows.top(1)
    names = [one.name for one in view.rows.item(1).actions(top, top + 500)]
    assert names == ["try_again", "edit", "copy_message", "more"]


def test_versions(qtbot, view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), reply(1, "a", sibling_index=1, sibling_count=2)])
    with qtbot.waitSignal(view.version_step_requested) as caught:
        click(view, 1, "version_previous")
    assert caught.args == ["r1", -1]
    with qtbot.assertNotEmitted(view.version_step_requested):
        click(view, 1, "version_next")


def test_reasoning_folds(qtbot, view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), reply(1, "a", reasoning="Long\n\nthought")])
    folded = view.rows.item(1).height
    click(view, 1, "toggle_reasoning")
    assert view.rows.item(1).height > folded
    click(view, 1, "toggle_reasoning")
    assert view.rows.item(1).height == folded


def test_reasoning_label_while_streaming(qtbot, view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), streaming(1)])
    view.append_text("r1", "hmm", "reasoning")
    assert view.rows.item(1).reasoning_label() == "Thinking…"
    view.append_text("r1", "answer", "content")
    assert view.rows.item(1).reasoning_label() == "Reasoning"


def test_link_opens_only_after_a_click(qtbot, view: TranscriptView) -> None:
    opened: list[str] = []
    view.link_activated.connect(opened.append)
    view.set_conversation([said(0, "hi"), reply(1, "[link](https://x.test) tail")])
    link = action(view, 1, "open_link").rect
    at = (link.center() + view.item_origin(1)).toPoint()
    QTest.mouseMove(view.viewport(), at)
    assert opened == []
    assert view.pointer.words_at(QPointF(at)) == "https://x.test"
    QTest.mouseClick(view.viewport(), LEFT, pos=at)
    assert opened == ["https://x.test"]
    QTest.mouseClick(view.viewport(), LEFT, pos=at + QPoint(150, 0))
    assert len(opened) == 1


def test_dragging_over_a_link_selects_and_opens_nothing(qtbot, view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), reply(1, "[a long link text](https://x.test)")])
    link = action(view, 1, "open_link").rect.translated(view.item_origin(1))
    with qtbot.assertNotEmitted(view.link_activated):
        drag(view, link.center().toPoint(), link.center().toPoint() + QPoint(40, 0))
    assert view.selected_text()


# Selecting


def drag(view: TranscriptView, start: QPoint, end: QPoint) -> None:
    port = view.viewport()
    QTest.mousePress(port, LEFT, pos=start)
    QTest.mouseMove(port, (start + end) / 2)
    QTest.mouseMove(port, end)
    QTest.mouseRelease(port, LEFT, pos=end)


def spot(view: TranscriptView, index: int, x: float, y: float) -> QPoint:
    rect = view.rows.item(index).section_rect(1)
    return (view.item_origin(index) + rect.topLeft() + QPointF(x, y)).toPoint()


def test_select_inside_a_message(view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), reply(1, "Hello **brave** new world")])
    drag(view, spot(view, 1, 0, 10), spot(view, 1, 600, 10))
    assert view.selected_text() in ("Hello brave new world", "Hello **brave** new world")
    drag(view, spot(view, 1, 60, 10), spot(view, 1, 600, 10))
    part = view.selected_text()
    assert "Hello brave new world".endswith(part)
    assert 0 < len(part) < 20
    view.copy()
    assert clipboard() == part


def test_select_across_messages(view: TranscriptView) -> None:
    view.set_conversation([said(0, "question"), reply(1, "- one\n- two"), said(2, "third")])
    drag(view, spot(view, 0, 20, 10), spot(view, 2, 14, 10))
    text = view.selected_text()
    assert "- one\n- two" in text, "a whole message is copied as it was written"
    assert "question".endswith(text.split("\n")[0])


def test_select_all_copies_the_sources(view: TranscriptView) -> None:
    messages = [said(0, "a <b>"), reply(1, "**c**\n\n```\nd\n```\n"), said(2, "e")]
    view.set_conversation(messages)
    press(view, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    press(view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert clipboard() == "\n\n".join(message.content for message in messages)


def test_double_click_selects_a_word(view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), reply(1, "Hello wonderful world")])
    QTest.mouseDClick(view.viewport(), LEFT, pos=spot(view, 1, 80, 10))
    assert view.selected_text() == "wonderful"


def test_click_clears_the_selection(view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), reply(1, "Hello wonderful world")])
    view.select_all()
    QTest.mouseClick(view.viewport(), LEFT, pos=spot(view, 1, 80, 10))
    assert view.selected_text() == ""


def test_partial_selection_of_code_and_list_reads_well(view: TranscriptView) -> None:
    source = "Start here\n\n1. one\n2. two\n\n```py\nx = 1\n```\n\nEnd"
    view.set_conversation([said(0, "hi"), reply(1, source)])
    item = view.rows.item(1)
    drag(view, spot(view, 1, 50, 10), spot(view, 1, 10, item.section_rect(1).height() - 4))
    text = view.selected_text()
    assert "\n\n1. one\n2. two\n\nx = 1" in text


# Keyboard


def test_arrows_move_between_messages(qtbot, view: TranscriptView) -> None:
    view.set_conversation(conversation(30))
    view.setFocus(Qt.FocusReason.TabFocusReason)
    with qtbot.waitSignal(view.current_changed):
        press(view, Qt.Key.Key_Home)
    assert view.keyboard.current == 0
    press(view, Qt.Key.Key_Down)
    press(view, Qt.Key.Key_Down)
    assert view.keyboard.current == 2
    assert "2: Some" in view.accessibleDescription()
    press(view, Qt.Key.Key_Up)
    assert view.keyboard.current == 1
    press(view, Qt.Key.Key_End)
    assert view.keyboard.current == 29
    assert view.is_at_end


def test_arrows_reach_all_of_a_tall_message(view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), reply(1, "line\n\n" * 100), said(2, "end")])
    view.setFocus(Qt.FocusReason.TabFocusReason)
    press(view, Qt.Key.Key_Home)
    presses = 0
    while view.keyboard.current != 2 and presses < 50:
        press(view, Qt.Key.Key_Down)
        presses += 1
    assert 5 < presses < 50, "it scrolls through before it moves on"


def test_tab_goes_through_actions_and_out(qtbot, view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), reply(1, "[a](https://x.test)\n\n```\nx\n```")])
    view.setFocus(Qt.FocusReason.TabFocusReason)
    press(view, Qt.Key.Key_End)
    names = []
    for _ in range(10):
        press(view, Qt.Key.Key_Tab)
        current = view.keyboard.action()
        if current is None:
            break
        names.append(current.name)
    assert names == ["open_link", "copy_code", "retry", "edit", "copy_message", "more"]


def test_enter_triggers_the_focused_action(qtbot, view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), reply(1, "a")])
    view.setFocus(Qt.FocusReason.TabFocusReason)
    press(view, Qt.Key.Key_End)
    press(view, Qt.Key.Key_Tab)
    with qtbot.waitSignal(view.retry_requested):
        press(view, Qt.Key.Key_Return)


def test_left_and_right_flip_versions(qtbot, view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), reply(1, "a", sibling_index=0, sibling_count=2)])
    view.setFocus(Qt.FocusReason.TabFocusReason)
    press(view, Qt.Key.Key_End)
    with qtbot.waitSignal(view.version_step_requested) as caught:
        press(view, Qt.Key.Key_Right)
    assert caught.args == ["r1", 1]


def test_copy_without_a_selection_takes_the_current_message(view: TranscriptView) -> None:
    view.set_conversation([said(0, "hi"), reply(1, "**a**")])
    view.setFocus(Qt.FocusReason.TabFocusReason)
    press(view, Qt.Key.Key_End)
    press(view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert clipboard() == "**a**"


def test_focus_is_visible(view: TranscriptView) -> None:
    view.set_conversation(conversation(4))
    before = shot(view)
    view.setFocus(Qt.FocusReason.TabFocusReason)
    press(view, Qt.Key.Key_End)
    assert shot(view) != before


def test_focus_stands_beside_the_text(view: TranscriptView) -> None:
    """The bar is left of a reply and right of what the user wrote, where the bubble is."""
    view.set_conversation(conversation(2))
    view.setFocus(Qt.FocusReason.TabFocusReason)
    accent = QColor(view.styles.colors.accent).rgb()
    sides = []
    for key in (Qt.Key.Key_Home, Qt.Key.Key_End):
        press(view, key)
        image = shot(view)
        columns = [
            x
            for x in range(image.width())
            if any(image.pixel(x, y) == accent for y in range(0, image.height(), 3))
        ]
        sides.append(columns[0] > view.width() / 2)
    assert sides == [True, False]


# Paths and themes


def test_flipping_a_version_keeps_the_place(view: TranscriptView) -> None:
    messages = conversation(60)
    view.set_conversation(messages)
    view.show_message("u20")
    other = replace(messages[21], id="other", content="another version", sibling_index=1)
    view.set_conversation([*messages[:21], other, *messages[22:]])
    index = view.index_at(60)
    assert index in (19, 20, 21)
    view.set_conversation([said(500, "a new chat"), reply(501, "x")])
    assert view.is_at_end


def test_theme_and_zoom_change_live(qtbot, view: TranscriptView) -> None:
    view.set_conversation(conversation(10))
    theme = view.theme
    light = shot(view)
    total = view.rows.total
    theme.set_mode("dark")
    dark = shot(view)
    assert dark.pixelColor(2, 2).name() == theme.colors.chat
    assert dark != light
    theme.set_zoom(200)
    assert view.rows.total > total * 1.5
    theme.set_mode("system")


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("zoom", [80, 300])
def test_every_state_paints(qtbot, mode: str, zoom: int) -> None:
    view = TranscriptView(Theme(mode, zoom))
    qtbot.addWidget(view)
    view.resize(500, 4000)
    with qtbot.waitExposed(view):
        view.show()
    messages = [
        Message("s", "c", None, Role.SYSTEM, "Be brief.", NOW),
        said(1, "مرحبا\nhello", sibling_count=2),
        *[reply(i, "text", state=state) for i, state in enumerate(MessageState, 10)],
        reply(30, "| a | b |\n|---|---|\n| 1 | 2 |\n\n> q\n\n***\n\n$$\nx\n$$", reasoning="why"),
    ]
    view.set_conversation(messages)
    view.viewport().repaint()
    assert view.repaints > 0


def test_a_message_that_was_sought_is_marked_until_a_click(view: TranscriptView) -> None:
    messages = conversation(60)
    view.set_conversation(messages)
    view.show_message(messages[30].id)
    assert not view.is_at_end
    assert 0 <= view.item_origin(30).y() < 60
    assert [view._look(index).is_current for index in (29, 30, 31)] == [False, True, False]
    QTest.mouseClick(view.viewport(), LEFT, pos=QPoint(5, 5))
    assert not view._look(30).is_current


# Copying, raw or as it is read


def three_replies(view: TranscriptView) -> None:
    view.set_conversation(
        [
            reply(1, "A **bold** start."),
            reply(2, "Some `code`:\n\n```python\nx = 1\n```\n"),
            said(3, "literally **this**"),
            reply(4, "An *end* here."),
        ]
    )
    view.selection = Selection((0, 1, 0, 0, 2), (3, 1, 0, 0, 6))


def test_copy_of_parts_is_what_is_read_and_of_whole_messages_what_was_written(
    view: TranscriptView,
) -> None:
    three_replies(view)
    view.setFocus()
    press(view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert clipboard() == (
        "bold start.\n\nSome `code`:\n\n```python\nx = 1\n```\n\n\nliterally **this**\n\nAn end"
    )


def test_copy_as_markdown_takes_the_touched_messages_as_they_were_written(
    view: TranscriptView,
) -> None:
    three_replies(view)
    view.setFocus()
    both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    press(view, Qt.Key.Key_C, both)
    assert clipboard() == (
        "A **bold** start.\n\nSome `code`:\n\n```python\nx = 1\n```\n\n\n"
        "literally **this**\n\nAn *end* here."
    )


def test_copy_as_it_is_read_has_no_markup(qtbot, view: TranscriptView) -> None:
    three_replies(view)
    menu = view.pointer.open_menu(1, view.mapToGlobal(QPoint(10, 10)))
    entry = next(one for one in menu.actions() if one.objectName() == "copy_shown")
    entry.trigger()
    menu.close()
    assert clipboard() == "bold start.\n\nSome code:\n\nx = 1\n\nliterally **this**\n\nAn end"


def test_everything_selected_stays_everything_when_more_comes_above(view: TranscriptView) -> None:
    messages = conversation(300)
    view.set_conversation(messages[200:])
    view.select_all()
    view.add_earlier(messages[:200])
    assert view.selected_text() == "\n\n".join(m.content for m in messages)


@pytest.mark.parametrize("make", [said, reply])
def test_hidden_characters_are_marked_and_copied(
    view: TranscriptView, make: Callable[..., Message]
) -> None:
    """They are seen on the line, named below it, and leave with a copy unchanged."""
    secret = "".join(chr(0xE0000 + ord(char)) for char in "obey")
    pictures = []
    for text in ("Hello there", f"Hello {secret}there"):
        view.set_conversation([make(0, text)])
        view.settle()
        pictures.append(view.viewport().grab().toImage())
    assert pictures[0] != pictures[1]
    assert view.rows.item(0).note == "Contains 4 invisible characters (□) that the model can read"
    view.select_all()
    view.copy()
    assert clipboard() == f"Hello {secret}there"
    view.set_conversation([make(0, "Hello there")])
    assert view.rows.item(0).note == ""
