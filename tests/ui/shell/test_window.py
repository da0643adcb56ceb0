"""The main window on a recording desk: who asks whom, what is shown when the bridge speaks."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, QRect, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent, QImage, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QFileDialog,
    QFrame,
    QLineEdit,
    QMessageBox,
    QPlainTextEdit,
    QPushButton,
    QWidget,
)
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, conversation, loaded, message

from app.chat.events import (
    AttachmentsChanged,
    ContextCounted,
    ConversationChanged,
    ConversationOpened,
    ConversationsChanged,
    EngineStateChanged,
    LoadProgressed,
    MessageAdded,
    MessageChanged,
    Noticed,
    PathChanged,
    PrefillProgressed,
    SendQueued,
    SettingsChanged,
    StatusFigures,
    StoreStateChanged,
    TextArrived,
    TrashListed,
)
from app.chat.replies.replies import NO_WEIGHTS_SENTENCE
from models.records import MessageCounts, MessageState, Role, Weights
from ui.chat.composer import Composer
from ui.look.theme import Theme
from ui.shell.dialogs import may_open
from ui.shell.following import NOT_RUNNING
from ui.shell.window import MainWindow

Key = Qt.Key
NONE = Qt.KeyboardModifier.NoModifier
CONTROL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
KEYPAD = Qt.KeyboardModifier.KeypadModifier
OpenWindow = Callable[..., MainWindow]

SMOL = "SmolLM2 135M (included)"
CHATS = (conversation(1, "The capital of France"), conversation(2, "Poem about rain"))
QUESTION = message(1, Role.USER, "What is the capital of France?")
REPLY = message(2, Role.ASSISTANT, "Paris.")
READY = EngineStateChanged("ready", SMOL, loaded())


@pytest.fixture
def window(open_window: OpenWindow, desk: FakeDesk) -> MainWindow:
    desk.weights = [Weights("/weights/smollm2.gguf", SMOL, 98_000_000)]
    desk.shelf.conversations = CHATS
    desk.shelf.open = replace(CHATS[0], draft="and of Spain?")
    desk.shelf.path = (QUESTION, REPLY)
    desk.loader.state = READY
    return open_window()


def edit(window: MainWindow) -> QPlainTextEdit:
    found = window.findChild(QPlainTextEdit, "composer")
    assert found is not None
    return found


def button(window: QWidget, name: str) -> QPushButton:
    found = window.findChild(QPushButton, name)
    assert found is not None, name
    return found


def press(window: QWidget, key: Qt.Key, modifiers: Qt.KeyboardModifier = NONE) -> None:
    QTest.keyClick(window.focusWidget() or window, key, modifiers)


def set_engine(desk: FakeDesk, bridge: FakeBridge, state: EngineStateChanged) -> None:
    desk.loader.state = state
    bridge.emit_event(state)


# --- what is there at once ------------------------------------------------------------------


def test_it_shows_what_the_desk_has(window: MainWindow) -> None:
    assert window.windowTitle() == "The capital of France – Cutaway"
    assert window.chat.header.title.text() == "The capital of France"
    assert edit(window).toPlainText() == "and of Spain?"
    assert window.chat.header.weights_button.text() == "SmolLM2 135M · Q4_1 · 4k"
    assert window.chat.body.currentWidget() is window.chat.transcript
    assert edit(window).hasFocus()


def test_reading_the_desk_asks_nothing_of_it(window: MainWindow, desk: FakeDesk) -> None:
    assert desk.calls == []


def test_windows_that_are_not_on_screen_are_not_built(window: MainWindow) -> None:
    assert window.findChild(QWidget, "settings_window") is None
    assert window.findChild(QWidget, "trash_window") is None


NAMED = (
    "sidebar",
    "transcript",
    "composer",
    "send_button",
    "stop_button",
    "new_chat_button",
    "conversation_list",
    "search_field",
    "trash_button",
    "weights_button",
    "load_progress",
    "status_line",
    "context_meter",
)


def test_the_designs_objects_are_there_and_named(window: MainWindow) -> None:
    for name in NAMED:
        widget = window.findChild(QWidget, name)
        assert widget is not None, name
        assert widget.accessibleName(), name


def test_every_button_and_field_has_a_name(window: MainWindow) -> None:
    controls = [*window.findChildren(QAbstractButton), *window.findChildren(QLineEdit)]
    unnamed = [
        each.objectName() or type(each).__name__
        for each in controls
        # What Qt puts inside its own fields and bars.
        if not each.accessibleName() and not isinstance(each.parent(), QLineEdit)
    ]
    assert unnamed == []


# --- acts -----------------------------------------------------------------------------------


def test_return_sends_and_the_field_is_empty(window: MainWindow, desk: FakeDesk) -> None:
    press(window, Key.Key_Return)
    assert desk.called("replies.send") == [("and of Spain?",)]
    assert edit(window).toPlainText() == ""


def test_a_message_that_is_not_taken_stays(window: MainWindow, desk: FakeDesk) -> None:
    desk.takes_messages = False
    press(window, Key.Key_Return)
    assert edit(window).toPlainText() == "and of Spain?"


def test_typing_saves_the_draft(window: MainWindow, desk: FakeDesk) -> None:
    QTest.keyClicks(edit(window), "!")
    assert desk.called("shelf.save_draft") == [("and of Spain?!",)]


def test_enter_that_waits_for_a_file_waits_on_where_its_chat_is_shown_again(
    window: MainWindow, bridge: FakeBridge
) -> None:
    chat = replace(CHATS[0], draft="Look")
    composer, sent = window.chat.composer, []
    composer.send_requested.connect(sent.append)
    for other in (chat, replace(CHATS[1], draft="Look")):
        bridge.emit_event(ConversationOpened(chat, ()))
        bridge.emit_event(AttachmentsChanged(chat.id, (), True))
        composer.send()
        bridge.emit_event(ConversationOpened(other, ()))
        bridge.emit_event(AttachmentsChanged(other.id, ()))
    assert sent == ["Look"]


def test_what_is_written_after_a_click_into_the_chat_goes_to_the_composer(
    window: MainWindow, desk: FakeDesk
) -> None:
    before = edit(window).toPlainText()
    view = window.chat.transcript
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(5, 5))
    view.setFocus(Qt.FocusReason.MouseFocusReason)
    QTest.keyClicks(view, "re")
    assert edit(window).hasFocus()
    assert sorted(edit(window).toPlainText()) == sorted(before + "re")
    assert not desk.called("replies.answer")


@pytest.mark.parametrize(
    ("key", "modifiers", "call"),
    [(Key.Key_N, CONTROL, ("shelf.open_new",))],
)
def test_keys_ask_the_desk(
    window: MainWindow,
    desk: FakeDesk,
    key: Qt.Key,
    modifiers: Qt.KeyboardModifier,
    call: tuple[str, ...],
) -> None:
    press(window, key, modifiers)
    assert desk.calls == [call]


def test_the_search_key_goes_to_the_field_and_back(window: MainWindow) -> None:
    press(window, Key.Key_F, CONTROL | SHIFT)
    assert window.sidebar.search_field.hasFocus()
    press(window, Key.Key_L, CONTROL)
    assert edit(window).hasFocus()


def test_escape_in_an_empty_search_goes_back_to_the_composer(window: MainWindow) -> None:
    press(window, Key.Key_F, CONTROL | SHIFT)
    press(window, Key.Key_Escape)
    assert edit(window).hasFocus()


def test_f2_renames_the_open_chat_from_anywhere(
    window: MainWindow, desk: FakeDesk, qtbot: QtBot
) -> None:
    press(window, Key.Key_F2)
    field = window.findChild(QLineEdit, "rename_field")
    assert field is not None
    QTest.keyClicks(field, "Paris")
    QTest.keyClick(field, Key.Key_Return)
    qtbot.waitUntil(lambda: desk.called("shelf.rename") == [("c1", "Paris")])


def test_opening_a_chat_goes_on_in_the_composer(window: MainWindow, desk: FakeDesk) -> None:
    window.sidebar.view.setFocus()
    press(window, Key.Key_Down)
    press(window, Key.Key_Return)
    assert desk.called("shelf.open_stored") == [("c2",)]
    assert edit(window).hasFocus()


def test_random_keys_outside_the_list_never_delete(window: MainWindow, desk: FakeDesk) -> None:
    """Row F09: neither Backspace nor Delete reaches the list from elsewhere."""
    dice = random.Random(4)
    keys = [Key.Key_Backspace, Key.Key_Delete, Key.Key_Tab, Key.Key_Backtab, Key.Key_A]
    for _ in range(300):
        if window.sidebar.view.hasFocus():
            press(window, Key.Key_Backspace)
        key = dice.choice(keys)
        if key is Key.Key_Delete and window.sidebar.view.hasFocus():
            continue
        press(window, key)
    assert desk.called("folders.trash_one") == []


def test_delete_in_the_list_trashes_and_undo_brings_it_back(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    window.sidebar.view.setFocus()
    press(window, Key.Key_Delete)
    assert desk.called("folders.trash_one") == [("c1",)]
    bridge.emit_event(Noticed("info", "“The capital of France” is in the trash.", "trash c1"))
    card = window.chat.toasts.cards()[0]
    next(each for each in card.findChildren(QPushButton) if each.text() == "Undo").click()
    assert desk.called("shelf.undo") == [("trash c1",)]
    assert window.chat.toasts.cards() == []


def test_a_chat_that_came_back_another_way_cannot_be_undone(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    for number in (1, 2):
        bridge.emit_event(Noticed("info", f"Chat {number} is in the trash.", f"trash c{number}"))
    bridge.emit_event(ConversationsChanged(CHATS[1:]))
    assert [card.notice.key for card in window.chat.toasts.cards()] == ["trash c1"]
    window.sidebar.view.setFocus()
    press(window, Key.Key_Z, CONTROL)
    assert desk.called("shelf.undo") == []


def test_the_undo_key_in_the_list_takes_back_the_last_act_once(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    window.sidebar.view.setFocus()
    press(window, Key.Key_Z, CONTROL)
    bridge.emit_event(Noticed("info", "In the trash.", "trash c2"))
    press(window, Key.Key_Z, CONTROL)
    press(window, Key.Key_Z, CONTROL)
    assert desk.called("shelf.undo") == [("trash c2",)]


def test_the_transcript_asks_the_desk(window: MainWindow, desk: FakeDesk) -> None:
    window.chat.transcript.retry_requested.emit("m2")
    window.chat.transcript.version_step_requested.emit("m2", -1)
    assert desk.calls == [("replies.answer", "m2"), ("paths.show_version", "m2", -1)]


def test_links_are_shown_before_they_are_opened(window: MainWindow) -> None:
    window.chat.transcript.link_activated.emit("https://example.org/<b>")
    box = window.findChild(QMessageBox, "link_dialog")
    assert box is not None
    assert box.informativeText() == "https://example.org/<b>"
    assert box.defaultButton().text().replace("&", "") == "Cancel"
    box.close()


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("https://example.org", True),
        ("HTTP://example.org", True),
        ("mailto:a@example.org", True),
        ("file:///etc/passwd", False),
        ("javascript:alert(1)", False),
        ("/etc/passwd", False),
        ("smb://host/share", False),
        ("", False),
    ],
)
def test_only_the_web_and_mail_may_be_opened(address: str, is_allowed: bool) -> None:
    assert may_open(address) is is_allowed


def test_a_chosen_file_is_loaded(window: MainWindow, desk: FakeDesk) -> None:
    press(window, Key.Key_O, CONTROL)
    dialog = window.findChild(QFileDialog, "gguf_dialog")
    assert dialog is not None
    dialog.fileSelected.emit("/x/y.gguf")
    dialog.close()
    assert desk.called("loader.load") == [("/x/y.gguf",)]


def test_a_dropped_gguf_is_loaded_and_other_files_are_not(
    window: MainWindow, desk: FakeDesk, tmp_path: Path
) -> None:
    for name in ("notes.txt", "weights.GGUF"):
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(tmp_path / name))])
        left = Qt.MouseButton.LeftButton
        none = Qt.KeyboardModifier.NoModifier
        event = QDropEvent(QPointF(5, 5), Qt.DropAction.CopyAction, data, left, none)
        window.dropEvent(event)
    assert desk.called("loader.load") == [(str(tmp_path / "weights.GGUF"),)]


def drag(target: QWidget, kind: QEvent.Type, data: QMimeData) -> None:
    """As the platform tells a widget of something that is dragged over it."""
    left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    copy = Qt.DropAction.CopyAction
    event: QEvent
    if kind == QEvent.Type.DragEnter:
        event = QDragEnterEvent(QPoint(5, 5), copy, data, left, none)
    elif kind == QEvent.Type.Drop:
        event = QDropEvent(QPointF(5, 5), copy, data, left, none)
    else:
        event = QDragLeaveEvent()
    QApplication.sendEvent(target, event)


@pytest.mark.parametrize("over", ["window", "field"])
@pytest.mark.parametrize("end", [QEvent.Type.DragLeave, QEvent.Type.Drop])
def test_where_a_drop_would_land_is_seen(
    window: MainWindow, desk: FakeDesk, tmp_path: Path, over: str, end: QEvent.Type
) -> None:
    target = window if over == "window" else edit(window).viewport()
    card = window.chat.composer.findChild(QFrame, "composer_card")
    assert card is not None

    def edge() -> QImage:  # within it the caret comes and goes
        return card.grab(QRect(0, 0, 10, card.height())).toImage()

    at_rest = edge()
    words = QMimeData()
    words.setText("some words")
    drag(target, QEvent.Type.DragEnter, words)
    drag(target, QEvent.Type.DragLeave, words)
    assert edge() == at_rest, "words are dropped where the caret is"
    file = QMimeData()
    file.setUrls([QUrl.fromLocalFile(str(tmp_path / "notes.txt"))])
    drag(target, QEvent.Type.DragEnter, file)
    assert edge() != at_rest
    drag(target, end, file)
    assert edge() == at_rest


# --- following the conversation -------------------------------------------------------------


def test_a_chat_that_is_opened_takes_the_place_of_the_last(
    window: MainWindow, bridge: FakeBridge, desk: FakeDesk
) -> None:
    desk.shelf.open = replace(CHATS[1], draft="rain")
    bridge.emit_event(ConversationOpened(desk.shelf.open, ()))
    assert window.chat.header.title.text() == "Poem about rain"
    assert edit(window).toPlainText() == "rain"
    assert window.chat.body.currentWidget() is window.chat.empty
    assert desk.called("shelf.save_draft") == []


def test_a_new_title_is_shown_where_it_stands(window: MainWindow, bridge: FakeBridge) -> None:
    bridge.emit_event(ConversationChanged(replace(CHATS[0], title="Paris")))
    assert window.windowTitle() == "Paris – Cutaway"
    bridge.emit_event(ConversationChanged(replace(CHATS[1], title="Rain")))
    assert window.windowTitle() == "Paris – Cutaway"
    texts = [
        str(window.sidebar.view.model().index(row, 0).data())
        for row in range(window.sidebar.view.model().rowCount())
    ]
    assert texts[1:] == ["Paris", "Rain"]


def test_the_list_follows(window: MainWindow, bridge: FakeBridge) -> None:
    bridge.emit_event(ConversationsChanged(CHATS[:1]))
    assert window.sidebar.view.model().rowCount() == 2


def test_a_reply_is_added_streamed_and_ended(
    window: MainWindow, bridge: FakeBridge, desk: FakeDesk
) -> None:
    rows = window.chat.transcript.rows
    growing = message(3, Role.ASSISTANT, "", state=MessageState.STREAMING)
    desk.replies.is_generating = True
    bridge.emit_event(MessageAdded(growing))
    assert button(window, "stop_button").isVisible()
    bridge.emit_event(TextArrived("c1", "m3", "Madrid", "content"))
    bridge.emit_event(TextArrived("other", "m3", "no", "content"))
    bridge.emit_event(MessageAdded(replace(growing, id="m9", conversation_id="other")))
    desk.replies.is_generating = False
    bridge.emit_event(
        MessageChanged(replace(growing, content="Madrid", state=MessageState.COMPLETE))
    )
    assert not button(window, "stop_button").isVisible()
    assert [rows.message(i).id for i in range(len(rows))] == ["m1", "m2", "m3"]
    assert rows.message(2).content == "Madrid"


def test_another_path_replaces_the_messages(window: MainWindow, bridge: FakeBridge) -> None:
    rows = window.chat.transcript.rows
    bridge.emit_event(PathChanged("other", ()))
    assert len(rows) == 2
    bridge.emit_event(PathChanged("c1", (QUESTION,)))
    assert len(rows) == 1


def test_escape_stops_only_while_a_reply_is_made(
    window: MainWindow, bridge: FakeBridge, desk: FakeDesk
) -> None:
    press(window, Key.Key_Escape)
    assert desk.called("replies.stop") == []
    desk.replies.is_generating = True
    bridge.emit_event(MessageAdded(message(3, Role.ASSISTANT, "")))
    window.sidebar.view.setFocus()
    press(window, Key.Key_Escape)
    assert desk.called("replies.stop") == [()]


def test_escape_in_a_filled_search_field_does_not_stop_the_reply(
    window: MainWindow, bridge: FakeBridge, desk: FakeDesk
) -> None:
    desk.replies.is_generating = True
    bridge.emit_event(MessageAdded(message(3, Role.ASSISTANT, "")))
    press(window, Key.Key_F, CONTROL | SHIFT)
    QTest.keyClicks(window.sidebar.search_field, "x")
    press(window, Key.Key_Escape)
    assert window.sidebar.search_field.text() == ""
    assert desk.called("replies.stop") == []


# --- figures --------------------------------------------------------------------------------


def test_figures_reach_the_status_line(window: MainWindow, bridge: FakeBridge) -> None:
    status = window.chat.status
    bridge.emit_event(StatusFigures(40, 52.4, 0.3, 70, 4096, 2))
    assert (status.text("tokens"), status.text("rate")) == ("40 tokens", "52.4 tokens/s")
    bridge.emit_event(ContextCounted(99, 4096))
    assert status.text("context") == "99 / 4,096"
    bridge.emit_event(PrefillProgressed("other", "m1", 1, 2))
    assert status.text("tokens") == "40 tokens"


def test_figures_of_another_version_or_chat_are_not_shown(
    window: MainWindow, bridge: FakeBridge, desk: FakeDesk
) -> None:
    status = window.chat.status
    bridge.emit_event(StatusFigures(40, 52.4, 0.3, 70, 4096, 2))
    bridge.emit_event(StatusFigures(9, 5.0, 8.0, 12, 4096, 1, is_shown=False))
    assert (status.text("tokens"), status.text("rate")) == ("40 tokens", "52.4 tokens/s")
    assert (status.text("context"), status.text("threads")) == ("70 / 4,096", "1 thread")
    bridge.emit_event(PathChanged("c1", desk.shelf.path))
    assert [status.text(name) for name in ("tokens", "rate", "first_token")] == ["", "", ""]
    assert status.text("context") == "70 / 4,096"


def test_reading_the_prompt_is_told_once(window: MainWindow, bridge: FakeBridge) -> None:
    """Under the question; the status line drops what it said of the reply before."""
    status = window.chat.status
    bridge.emit_event(MessageAdded(message(3, Role.USER, "And of Spain?")))
    growing = message(4, Role.ASSISTANT, "", state=MessageState.STREAMING)
    bridge.emit_event(MessageAdded(growing))
    bridge.emit_event(StatusFigures(40, 52.4, 0.3, 70, 4096, 2))
    bridge.emit_event(PrefillProgressed("c1", "m4", 0, 1, is_media=True))
    assert window.chat.transcript.rows.item(3).progress == "Processing media"
    bridge.emit_event(PrefillProgressed("c1", "m4", 2, 2, is_media=True))
    assert window.chat.transcript.rows.item(3).progress == "Processing media, 2 of 2 parts"
    bridge.emit_event(PrefillProgressed("c1", "m4", 1, 2))
    assert window.chat.transcript.rows.item(3).progress == "Processing prompt, 1 of 2 tokens"
    bridge.emit_event(PrefillProgressed("c1", "m4", 2, 2))
    assert window.chat.transcript.rows.item(3).progress == "Prompt processed"
    assert [status.text(name) for name in ("tokens", "rate", "first_token")] == ["", "", ""]
    assert status.text("context") == "70 / 4,096"
    assert status.text("threads") == "2 threads"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (EngineStateChanged("loading", SMOL), "Waiting for the model to load"),
        (READY, "Queued"),
        (EngineStateChanged("stopped"), "Waiting for a model: choose one at the top"),
    ],
)
def test_a_message_that_waits_says_so_below_itself(
    window: MainWindow,
    desk: FakeDesk,
    bridge: FakeBridge,
    state: EngineStateChanged,
    words: str,
) -> None:
    set_engine(desk, bridge, state)
    asked = message(3, Role.USER, "And of Spain?")
    desk.shelf.path = (QUESTION, REPLY, asked)
    bridge.emit_event(MessageAdded(asked))
    item = window.chat.transcript.rows.item(2)
    height = item.height
    desk.replies.is_waiting = True
    bridge.emit_event(SendQueued("c1", True))
    assert item.progress == words
    assert item.height > height

    set_engine(desk, bridge, EngineStateChanged("starting", SMOL))
    assert item.progress == "Waiting for the model to load"
    bridge.emit_event(SendQueued("other", False))
    assert item.progress
    desk.replies.is_waiting = False
    bridge.emit_event(SendQueued("c1", False))
    assert item.progress == ""
    assert item.height == height


def test_a_chat_that_is_opened_again_still_says_that_it_waits(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    set_engine(desk, bridge, EngineStateChanged("loading", SMOL))
    desk.shelf.path, desk.replies.is_waiting = (QUESTION,), True
    bridge.emit_event(ConversationOpened(CHATS[0], desk.shelf.path))
    assert window.chat.transcript.rows.item(0).progress == "Waiting for the model to load"
    assert "as soon as" not in window.chat.status.accessibleDescription(), "said once"


def test_a_chat_that_is_too_long_leads_to_a_new_one(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    window.chat.transcript.new_chat_requested.emit()
    assert desk.called("shelf.open_new") == [()]


@pytest.mark.parametrize(
    ("state", "words"),
    [(EngineStateChanged("loading", SMOL), "as soon as"), (READY, "Queued")],
)
def test_a_document_that_waits_says_so_in_the_status_line_until_it_goes(
    window: MainWindow,
    desk: FakeDesk,
    bridge: FakeBridge,
    state: EngineStateChanged,
    words: str,
) -> None:
    set_engine(desk, bridge, state)
    window.chat.transcript.rows.is_bare = True
    bridge.emit_event(SendQueued("c1", True))
    assert words in window.chat.status.accessibleDescription()
    bridge.emit_event(SendQueued("c1", False))
    assert words not in window.chat.status.accessibleDescription()


@pytest.mark.parametrize(
    ("is_text", "figures"),
    [(False, ["", "", ""]), (True, ["40 tokens", "53.1 tokens/s", "first token 0.02 s"])],
)
def test_the_figures_of_a_reply_that_ended_stand_in_one_place(
    window: MainWindow,
    desk: FakeDesk,
    bridge: FakeBridge,
    is_text: bool,
    figures: list[str],
) -> None:
    """Under the reply, as the engine measured them; of a document in the status line."""
    window.chat.transcript.rows.is_bare = is_text
    bridge.emit_event(StatusFigures(40, 52.4, 1.46, 90, 4096, 2))
    counts = MessageCounts(generated=40, tokens_per_s=53.1, first_token_s=0.02)
    desk.shelf.path = (QUESTION, replace(REPLY, counts=counts))
    bridge.emit_event(MessageChanged(desk.shelf.path[1]))
    status = window.chat.status
    assert [status.text(name) for name in ("tokens", "rate", "first_token")] == figures
    assert (status.text("context"), status.text("threads")) == ("90 / 4,096", "2 threads")


def test_an_earlier_reply_does_not_speak_for_the_last(
    window: MainWindow, bridge: FakeBridge
) -> None:
    bridge.emit_event(StatusFigures(40, 52.4, 0.3, 90, 4096, 2))
    counts = MessageCounts(generated=7, tokens_per_s=1.0)
    bridge.emit_event(MessageChanged(replace(QUESTION, counts=counts)))
    assert window.chat.status.text("tokens") == "40 tokens"


def test_the_call_for_weights_goes_when_they_come(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    set_engine(desk, bridge, EngineStateChanged("stopped"))
    bridge.emit_event(Noticed("warning", NO_WEIGHTS_SENTENCE))
    assert len(window.chat.toasts.cards()) == 1
    set_engine(desk, bridge, EngineStateChanged("loading", SMOL))
    assert window.chat.toasts.cards() == []


# --- the engine -----------------------------------------------------------------------------


def test_loading_is_shown_and_can_be_cancelled(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    set_engine(desk, bridge, EngineStateChanged("loading", SMOL))
    bridge.emit_event(LoadProgressed(0.43))
    assert window.chat.header.weights_button.text() == "Loading SmolLM2 135M · 43%"
    button(window, "cancel_load_button").click()
    assert desk.called("loader.cancel") == [()]


def test_a_crash_is_said_with_its_evidence_and_can_be_mended(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    crash = EngineStateChanged("crashed", SMOL, None, "The engine crashed (SIGSEGV).", "ggml: x")
    set_engine(desk, bridge, crash)
    card = window.chat.banners.card("engine")
    assert card is not None
    assert card.sentence.text() == "The engine crashed (SIGSEGV)."
    assert card.evidence is not None
    texts = {each.text(): each for each in card.findChildren(QPushButton)}
    texts["Reload"].click()
    assert desk.called("loader.load") == [("/weights/smollm2.gguf",)]
    set_engine(desk, bridge, EngineStateChanged("loading", SMOL))
    assert window.chat.banners.card("engine") is None


def test_a_crash_that_cut_a_reply_off_is_told_once(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    sentence = "The engine crashed (SIGSEGV)."
    failed = replace(REPLY, state=MessageState.INTERRUPTED, error=sentence)
    desk.shelf.path = (QUESTION, failed)
    bridge.emit_event(MessageChanged(failed))
    set_engine(desk, bridge, EngineStateChanged("crashed", SMOL, None, sentence, "ggml: x"))
    bridge.emit_event(Noticed("error", sentence))
    card = window.chat.banners.card("engine")
    assert card is not None
    assert card.sentence.text() == NOT_RUNNING
    assert card.evidence is not None
    assert window.chat.toasts.cards() == []


def test_a_failed_load_says_why_once_and_leaves_the_chat_usable(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    sentence = "This file is not a GGUF. Choose another one."
    set_engine(desk, bridge, EngineStateChanged("stopped", "", None, sentence, "magic: <htm"))
    bridge.emit_event(Noticed("error", sentence))
    assert window.chat.toasts.cards() == []
    card = window.chat.banners.card("engine")
    assert card is not None
    assert "Choose a model…" in [each.text() for each in card.findChildren(QPushButton)]
    press(window, Key.Key_Return)
    assert desk.called("replies.send") == [("and of Spain?",)]


def test_news_of_a_failure_gives_way_to_its_banner(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    bridge.emit_event(Noticed("error", "Not a GGUF."))
    assert len(window.chat.toasts.cards()) == 1
    set_engine(desk, bridge, EngineStateChanged("stopped", "", None, "Not a GGUF."))
    assert window.chat.toasts.cards() == []


def test_notes_about_the_weights_stand_with_them_and_are_no_news(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    note = "All layers run on the CPU: no GPU is available."
    set_engine(desk, bridge, EngineStateChanged("ready", SMOL, loaded(notes=[note])))
    bridge.emit_event(Noticed("info", note))
    assert window.chat.toasts.cards() == []
    assert note in window.chat.header.weights_button.toolTip()


def test_a_banner_shows_its_whole_sentence(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, qtbot: QtBot
) -> None:
    words = "This file is no GGUF and here is what to do about it"
    for count in range(1, 40):
        sentence = f"{words}{' now' * count}."
        set_engine(desk, bridge, EngineStateChanged("stopped", "", None, sentence, "evidence"))
        QApplication.processEvents()
        card = window.chat.banners.card("engine")
        assert card is not None
        label = card.sentence
        assert label.height() >= label.heightForWidth(label.width()), sentence


def test_the_log_is_one_click_from_a_failure(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    set_engine(desk, bridge, EngineStateChanged("crashed", SMOL, None, "Crashed.", "x"))
    card = window.chat.banners.card("engine")
    assert card is not None
    next(each for each in card.findChildren(QPushButton) if each.text() == "Show log").click()
    settings = window.settings_window()
    assert settings.isVisible()
    assert settings.log_view.isVisible()


def test_without_weights_the_first_step_is_said(
    open_window: OpenWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    window = open_window()
    how = "Install the included weights or open a GGUF file."
    set_engine(desk, bridge, EngineStateChanged("stopped", "", None, how))
    bridge.emit_event(Noticed("info", how))
    assert window.chat.empty._words.text() == how
    assert window.chat.empty.open_button.isVisible()
    assert window.chat.toasts.cards() == []
    assert window.chat.banners.card("engine") is None
    window.chat.empty.open_button.click()
    dialog = window.findChild(QFileDialog, "gguf_dialog")
    assert dialog is not None
    dialog.close()


def test_while_weights_load_the_empty_chat_says_so(
    open_window: OpenWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    window = open_window()
    set_engine(desk, bridge, EngineStateChanged("loading", SMOL))
    assert window.chat.empty._title.text() == "Ask SmolLM2 135M"
    assert "Loading" in window.chat.empty._words.text()
    set_engine(desk, bridge, READY)
    assert "on your computer" in window.chat.empty._words.text()


def test_before_the_list_is_there_nothing_is_said_about_it(
    open_window: OpenWindow, bridge: FakeBridge
) -> None:
    window = open_window()
    assert window.sidebar._empty.text() == ""
    bridge.emit_event(ConversationsChanged(()))
    assert window.sidebar._empty.text() == "Your chats appear here."


def test_the_stores_state_stays_until_it_is_well(window: MainWindow, bridge: FakeBridge) -> None:
    bridge.emit_event(StoreStateChanged("read_only", "Another window writes."))
    card = window.chat.banners.card("store")
    assert card is not None
    assert card.sentence.text() == "Another window writes."
    bridge.emit_event(StoreStateChanged("ok"))
    assert window.chat.banners.card("store") is None


# --- settings and place ---------------------------------------------------------------------


ZOOM_KEYS = (
    (Key.Key_Plus, CONTROL, 110),
    (Key.Key_Plus, CONTROL | SHIFT, 110),
    (Key.Key_Equal, CONTROL, 110),
    (Key.Key_Equal, CONTROL | SHIFT, 110),
    (Key.Key_Plus, CONTROL | KEYPAD, 110),
    (Key.Key_Minus, CONTROL, 90),
    (Key.Key_Minus, CONTROL | KEYPAD, 90),
    (Key.Key_Underscore, CONTROL | SHIFT, 90),
)


def test_zoom_keys_work_on_every_layout(window: MainWindow, desk: FakeDesk, theme: Theme) -> None:
    for key, modifiers, percent in ZOOM_KEYS:
        press(window, key, modifiers)
        assert theme.zoom_percent == percent, (key, modifiers)
        assert desk.settings.now.zoom_percent == percent, (key, modifiers)
        press(window, Key.Key_0, CONTROL)
        assert theme.zoom_percent == 100


def test_zoom_ends_at_its_bounds(window: MainWindow, theme: Theme) -> None:
    for _ in range(15):
        press(window, Key.Key_Plus, CONTROL)
    assert theme.zoom_percent == 300
    for _ in range(15):
        press(window, Key.Key_Minus, CONTROL)
    assert theme.zoom_percent == 80


def turn_wheel(widget: QWidget, turn: int, modifiers: Qt.KeyboardModifier) -> None:
    place = QPointF(5, 5)
    event = QWheelEvent(
        place,
        QPointF(widget.mapToGlobal(QPoint(5, 5))),
        QPoint(),
        QPoint(0, turn),
        Qt.MouseButton.NoButton,
        modifiers,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(widget, event)


def test_the_wheel_zooms_with_control_only(window: MainWindow, theme: Theme) -> None:
    viewport = window.chat.transcript.viewport()
    turn_wheel(viewport, 120, Qt.KeyboardModifier.NoModifier)
    assert theme.zoom_percent == 100
    turn_wheel(viewport, 60, CONTROL)
    assert theme.zoom_percent == 100
    turn_wheel(viewport, 60, CONTROL)
    assert theme.zoom_percent == 110
    turn_wheel(viewport, -120, CONTROL)
    assert theme.zoom_percent == 100


def test_settings_are_obeyed_at_once(window: MainWindow, desk: FakeDesk, theme: Theme) -> None:
    desk.settings.set("theme", "dark")
    desk.settings.set("zoom_percent", 150)
    desk.settings.set("send_key", "ctrl_enter")
    assert theme.mode == "dark"
    assert theme.zoom_percent == 150
    press(window, Key.Key_Return)
    assert desk.called("replies.send") == []
    press(window, Key.Key_Return, CONTROL)
    assert len(desk.called("replies.send")) == 1


def test_the_settings_key_opens_settings_and_they_close_with_the_window(
    window: MainWindow,
) -> None:
    press(window, Key.Key_Comma, CONTROL)
    settings = window.settings_window()
    assert settings.isVisible()
    window.close()
    assert not settings.isVisible()


def test_the_place_is_remembered(
    open_window: OpenWindow,
    desk: FakeDesk,
    bridge: FakeBridge,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ui.shell.place.SAVE_AFTER_MS", 20)
    first = open_window()
    bridge.emit_event(SettingsChanged(frozenset()))
    first.resize(1000, 700)
    first.toggle_sidebar()
    qtbot.waitUntil(lambda: bool(desk.settings.now.window_geometry), timeout=5000)
    assert desk.settings.now.sidebar_visible is False
    first.close()
    second = open_window(900, 600)
    assert not second.sidebar.isVisible()
    assert second.chat.header.sidebar_button.isVisible()


def test_before_the_settings_are_there_no_place_is_saved(
    open_window: OpenWindow, desk: FakeDesk
) -> None:
    window = open_window()
    window.resize(1000, 700)
    window.close()
    assert desk.called("settings.set") == []


def test_a_place_that_was_chosen_before_the_settings_came_is_remembered(
    open_window: OpenWindow,
    desk: FakeDesk,
    bridge: FakeBridge,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ui.shell.place.SAVE_AFTER_MS", 20)
    window = open_window()
    window.resize(1000, 700)
    bridge.emit_event(SettingsChanged(frozenset()))
    qtbot.waitUntil(lambda: bool(desk.settings.now.window_geometry), timeout=5000)


def test_the_sidebars_width_is_remembered(
    open_window: OpenWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    window = open_window()
    bridge.emit_event(SettingsChanged(frozenset()))
    window.columns.moveSplitter(300, 1)
    window.close()
    assert desk.settings.now.sidebar_width == 300


def test_the_sidebars_width_comes_back_after_a_zoom_that_has_no_room_for_it(
    open_window: OpenWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    window = open_window(1280)
    bridge.emit_event(SettingsChanged(frozenset()))  # the remembered place is taken
    window.columns.moveSplitter(300, 1)
    for percent in (300, 200, 100):
        desk.settings.set("zoom_percent", percent)
    assert window.sidebar.width() == 300
    window.columns.setSizes([217, 1063])  # as Qt does where the chat needs the room
    window.resize(1281, 780)
    assert window.sidebar.width() == 300


# --- room -----------------------------------------------------------------------------------


def test_the_sidebar_key_hides_and_shows(window: MainWindow) -> None:
    window.sidebar.view.setFocus()
    press(window, Key.Key_B, CONTROL)
    assert not window.sidebar.isVisible()
    assert edit(window).hasFocus()
    button(window, "show_sidebar_button").click()
    assert window.sidebar.isVisible()
    assert not window.chat.header.sidebar_button.isVisible()


def test_in_a_narrow_window_the_list_takes_its_turn(
    window: MainWindow, theme: Theme, desk: FakeDesk
) -> None:
    window.resize(900, 600)
    theme.set_zoom(200)
    assert not window.sidebar.isVisible()
    assert window.chat.isVisible()
    press(window, Key.Key_F, CONTROL | SHIFT)
    assert window.sidebar.isVisible()
    assert not window.chat.isVisible()
    window.sidebar.view.setFocus()
    press(window, Key.Key_Return)
    assert window.chat.isVisible()
    assert edit(window).hasFocus()
    assert desk.settings.now.sidebar_visible is True
    theme.set_zoom(100)
    assert window.sidebar.isVisible()


@pytest.mark.parametrize("size", [(900, 600), (1440, 900)])
def test_the_layout_holds_at_every_zoom(
    window: MainWindow, theme: Theme, size: tuple[int, int]
) -> None:
    window.resize(*size)
    needed = (edit(window), button(window, "send_button"), window.chat.header.weights_button)
    assert window.findChild(Composer) is not None
    for percent in (80, 100, 150, 200, 300):
        theme.set_zoom(percent)
        QApplication.processEvents()
        assert (window.width(), window.height()) == size
        hint = window.columns.minimumSizeHint()
        assert hint.width() <= size[0]
        assert hint.height() <= size[1]
        for widget in needed:
            assert widget.isVisible()
            assert widget.height() >= widget.fontMetrics().height()
            corner = widget.mapTo(window, widget.rect().bottomRight())
            assert window.rect().contains(corner)
        assert window.chat.transcript.height() > 0


def test_tab_goes_round_without_a_trap(window: MainWindow) -> None:
    seen = []
    for _ in range(50):
        focus = window.focusWidget()
        assert focus is not None
        seen.append(focus.objectName())
        QTest.keyClick(focus, Key.Key_Tab)
    for name in (
        "composer",
        "transcript",
        "new_chat_button",
        "search_field",
        "conversation_list",
        "settings_button",
        "trash_button",
        "weights_button",
    ):
        assert seen.count(name) >= 2, name


# --- trash ----------------------------------------------------------------------------------


def test_the_trash_lists_and_restores(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, qtbot: QtBot
) -> None:
    button(window, "trash_button").click()
    assert desk.called("shelf.list_trash") == [()]
    trash = window._trash_window
    assert trash is not None
    qtbot.waitUntil(trash.isActiveWindow)
    assert not trash.restore_button.isEnabled()
    gone = conversation(7, "Gone", trashed_at=CHATS[0].created_at)
    bridge.emit_event(TrashListed((gone, conversation(8, "Also\ngone"))))
    assert [trash.list.item(i).text() for i in range(2)] == ["Gone", "Also gone"]
    QTest.keyClick(trash.list, Key.Key_Down)
    QTest.keyClick(trash.list, Key.Key_Return)
    trash.restore_button.click()
    assert desk.called("shelf.restore") == [("c8",), ("c8",)]
    QTest.keyClick(trash, Key.Key_Escape)
    assert not trash.isVisible()
