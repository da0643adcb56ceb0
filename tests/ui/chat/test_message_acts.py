"""From what a message offers to what the desk is asked for, through the window's widgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QWidget
from recording_desk import NOON, FakeBridge, FakeDesk, conversation, loaded, message

from app.chat.conversations.edits import Edit
from app.chat.events import (
    AnswersBegan,
    ContextCounted,
    ConversationOpened,
    EngineStateChanged,
    MessageChanged,
    PathChanged,
    PresetsListed,
    ReplyQueued,
    TextArrived,
    VersionsRead,
)
from app.chat.replies.replies import PRESET
from app.engine.protocol.thinking_messages import ThinkingOffer
from models.records import Attachment, Message, MessageState, Preset, Role
from ui.chat.compare import LOWEST_ROW_PX, Comparison
from ui.chat.compare_ask import AskSeveral
from ui.look.theme import Theme
from ui.shell.window import MainWindow
from ui.transcript.edit import MessageEditor

CONTROL = Qt.KeyboardModifier.ControlModifier
TALK = (
    message(1, Role.USER, "One?"),
    message(2, Role.ASSISTANT, "First answer."),
    message(3, Role.USER, "Two?"),
    message(4, Role.ASSISTANT, "Second answer."),
)


@pytest.fixture
def window(open_window: Callable[..., MainWindow], desk: FakeDesk) -> MainWindow:
    desk.shelf.open = conversation(1, "A chat")
    desk.shelf.conversations = (desk.shelf.open,)
    desk.shelf.path = TALK
    return open_window()


def editor(window: MainWindow) -> MessageEditor:
    found = window.message_acts.editing.editor
    assert found is not None
    return found


def answers(*texts: str, state: MessageState = MessageState.COMPLETE) -> tuple[Message, ...]:
    return tuple(
        replace(
            TALK[3],
            id=f"v{place}",
            content=text,
            state=state,
            sibling_index=place,
            sibling_count=len(texts),
        )
        for place, text in enumerate(texts)
    )


def comparison(window: MainWindow) -> Comparison | None:
    shown = window.chat.body.currentWidget()
    return shown if isinstance(shown, Comparison) else None


# --- editors ------------------------------------------------------------------------------------


def test_e_on_a_message_opens_its_editor_and_control_enter_sends_it_anew(
    window: MainWindow, desk: FakeDesk
):
    transcript = window.chat.transcript
    transcript.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(transcript, Qt.Key.Key_Home)
    QTest.keyClick(transcript, Qt.Key.Key_E)
    assert editor(window).text == "One?"
    QTest.keyClicks(editor(window).edit, " Please.")
    QTest.keyClick(editor(window).edit, Qt.Key.Key_Return, CONTROL)
    assert desk.called("tree.edit_and_send") == [("m1", "One? Please.", {"attachments": ()})]


@pytest.mark.parametrize("key", [Qt.Key.Key_E, Qt.Key.Key_F])
@pytest.mark.parametrize("act", ["toggle_section", "toggle_sidebar"])
def test_what_takes_the_keyboard_is_seen_where_there_is_room_for_one_column(
    window: MainWindow, theme: Theme, act: str, key: Qt.Key
):
    window.resize(900, 600)
    theme.set_zoom(300)
    window.action_registry.run(act)
    assert not window.chat.isVisible()
    QTest.keyClick(window, key, CONTROL)
    assert window.chat.isVisible()
    focus = QApplication.focusWidget()
    assert focus is not None
    assert window.chat.isAncestorOf(focus)
    assert (
        focus.objectName()
        == {
            Qt.Key.Key_E: "message_editor_text",
            Qt.Key.Key_F: "find_field",
        }[key]
    )


def test_save_only_asks_nothing_of_the_weights(window: MainWindow, desk: FakeDesk):
    window.message_acts.do("edit", "m1")
    editor(window).edit.setPlainText("Uno?")
    editor(window).buttons[1].click()
    window.message_acts.do("edit", "m2")
    editor(window).edit.setPlainText("Erste Antwort.")
    editor(window).keep.setChecked(False)
    QTest.keyClick(editor(window).edit, Qt.Key.Key_Return, CONTROL)
    named = {"reasoning": None, "attachments": ()}
    assert desk.called("tree.edit") == [
        ("m1", "Uno?", {"keep_following": True, **named}),
        ("m2", "Erste Antwort.", {"keep_following": False, **named}),
    ]
    assert desk.called("tree.edit_and_send") == []


def test_a_reply_is_saved_and_continued(window: MainWindow, desk: FakeDesk):
    window.message_acts.do("edit", "m4")
    editor(window).edit.setPlainText("Second")
    editor(window).buttons[1].click()
    assert desk.called("replies.begin_with") == [("m4", "Second", None)]


def test_the_reasoning_of_a_reply_is_edited_in_a_field_of_its_own(
    open_window: Callable[..., MainWindow], desk: FakeDesk
):
    desk.shelf.open = conversation(1, "A chat")
    desk.shelf.path = (TALK[0], replace(TALK[1], reasoning="First, think."))
    saved: list[Any] = []
    desk.tree.edit = lambda *args, **names: saved.append((args, names["reasoning"]))
    window = open_window()
    window.message_acts.do("edit", "m1")
    assert editor(window).thoughts is None, "a question has none"
    window.message_acts.do("edit", "m2")
    field = editor(window).thoughts
    assert field.toPlainText() == "First, think."
    field.setPlainText("Think twice.")
    assert desk.called("edits.keep")[-1] == ("edit", "m2", Edit("First answer.", "Think twice."))
    QTest.keyClick(field, Qt.Key.Key_Return, CONTROL)
    window.message_acts.do("edit", "m2")
    editor(window).thoughts.setPlainText("And then?")
    editor(window).buttons[1].click()
    assert saved == [(("m2", "First answer."), "Think twice.")]
    assert desk.called("replies.begin_with") == [("m2", "First answer.", "And then?")]


def test_what_is_typed_into_an_editor_is_kept_by_the_desk(window: MainWindow, desk: FakeDesk):
    window.message_acts.do("edit", "m2")
    QTest.keyClicks(editor(window).edit, " x")
    assert desk.called("edits.keep")[-1] == ("edit", "m2", Edit("First answer. x"))
    QTest.keyClick(editor(window).edit, Qt.Key.Key_Escape)
    desk.edits.of = lambda task, message_id: Edit(f"{task} of {message_id}")
    window.message_acts.do("edit", "m4")
    assert editor(window).text == "edit of m4"


def test_an_editor_whose_text_is_refused_stays_with_it(window: MainWindow, desk: FakeDesk):
    """As while a reply grows."""
    for act, message_id, button in (
        ("edit", "m1", 0),
        ("edit", "m1", 1),
        ("edit", "m2", 0),
        ("edit", "m2", 1),
        ("begin", "m3", 0),
        ("insert_below", "m2", 0),
        ("insert_above", "m1", 0),
    ):
        desk.calls.clear()
        desk.saved.clear()
        desk.takes_texts = False
        window.message_acts.do(act, message_id)
        opened = editor(window)
        opened.edit.setPlainText("Mine.")
        opened.buttons[button].click()
        assert editor(window) is opened
        assert (opened.text, opened.isVisible()) == ("Mine.", True)
        assert desk.called("edits.drop") == []

        desk.takes_texts = True
        opened.buttons[button].click()
        assert window.message_acts.editing.editor is None
        assert desk.called("edits.drop") == [], "it is not on disk yet"
        desk.saved[0]()
        (dropped,) = desk.called("edits.drop")
        assert dropped == desk.called("edits.keep")[-1]


NOTES = Attachment("a1", "c1", "notes.txt", "some notes", 10, NOON)
HUGE = Attachment("a2", "c1", "huge.txt", "x" * 900, 900, NOON, tokens=300)


@pytest.fixture
def attached(open_window: Callable[..., MainWindow], desk: FakeDesk) -> MainWindow:
    """Two texts go along with the first message."""
    desk.shelf.open = conversation(1, "A chat")
    desk.shelf.path = (replace(TALK[0], attachments=(NOTES, HUGE)), *TALK[1:])
    return open_window()


def test_what_is_attached_to_an_edited_message_can_be_removed(attached: MainWindow, desk: FakeDesk):
    attached.message_acts.do("edit", "m1")
    shown = editor(attached)
    chips = shown.chips.chips()
    assert [chip.attachment for chip in chips] == [NOTES, HUGE]
    assert all(chip.isVisible() for chip in chips)
    chips[1].removed.emit(HUGE.id)
    assert [chip.attachment for chip in shown.chips.chips()] == [NOTES]
    assert shown.is_changed
    shown.buttons[1].click()
    named = {"keep_following": True, "reasoning": None, "attachments": (NOTES,)}
    assert desk.called("tree.edit") == [("m1", "One?", named)]


def test_what_is_attached_can_become_a_part_of_the_text(attached: MainWindow, desk: FakeDesk):
    attached.message_acts.do("edit", "m1")
    shown = editor(attached)
    shown.focus()
    shown.chips.chips()[0].wanted_as_text.emit(NOTES.id)
    shown.buttons[0].click()
    sent = ("m1", "One?some notes", {"attachments": (HUGE,)})
    assert desk.called("tree.edit_and_send") == [sent]


def test_a_message_may_be_nothing_but_its_attachments(attached: MainWindow, desk: FakeDesk):
    attached.message_acts.do("edit", "m1")
    shown = editor(attached)
    shown.edit.clear()
    assert all(button.isEnabled() for button in shown.buttons)
    shown.chips.chips()[0].removed.emit(NOTES.id)
    shown.chips.chips()[0].removed.emit(HUGE.id)
    assert not any(button.isEnabled() for button in shown.buttons)


def test_what_was_removed_stays_so_when_the_editor_is_left_and_can_be_put_back(
    attached: MainWindow, desk: FakeDesk
):
    attached.message_acts.do("edit", "m1")
    assert not editor(attached).put_back.isVisible()
    editor(attached).chips.chips()[1].removed.emit(HUGE.id)
    kept = desk.called("edits.keep")[-1]
    assert kept == ("edit", "m1", Edit("One?", removed=(HUGE.id,)))
    QTest.keyClick(editor(attached).edit, Qt.Key.Key_Escape)

    desk.edits.of = lambda task, message_id: kept[2]
    attached.message_acts.do("edit", "m1")
    shown = editor(attached)
    assert [chip.attachment for chip in shown.chips.chips()] == [NOTES]
    assert (shown.put_back.isVisible(), shown.put_back.text()) == (True, "Restore attachment")
    shown.chips.chips()[0].removed.emit(NOTES.id)
    assert shown.put_back.text() == "Restore 2 attachments"
    shown.edit.setFocus()
    QTest.keyClick(shown.edit, Qt.Key.Key_Backtab, Qt.KeyboardModifier.ShiftModifier)
    assert QApplication.focusWidget() is shown.put_back
    QTest.keyClick(shown.put_back, Qt.Key.Key_Space)
    assert [chip.attachment for chip in shown.chips.chips()] == [NOTES, HUGE]
    assert not shown.put_back.isVisible()
    assert desk.called("edits.keep")[-1] == ("edit", "m1", None)


def test_an_attachment_that_is_all_that_is_left_of_a_message_is_kept(
    attached: MainWindow, desk: FakeDesk
):
    attached.message_acts.do("edit", "m1")
    editor(attached).edit.clear()
    assert desk.called("edits.keep")[-1] == ("edit", "m1", Edit(""))


def test_an_attachment_is_read_from_the_editor_and_reached_by_tab(
    attached: MainWindow, desk: FakeDesk
):
    attached.message_acts.do("edit", "m1")
    shown = editor(attached)
    opened: list[str] = []
    attached.chat.transcript.attachment_opened.connect(opened.append)
    chip = shown.chips.chips()[0]
    QTest.keyClick(chip, Qt.Key.Key_Return)
    assert opened == [NOTES.id]
    for reader in attached.findChildren(QWidget, "attachment_reader"):
        reader.close()
    shown.edit.setFocus()
    QTest.keyClick(shown.edit, Qt.Key.Key_Backtab, Qt.KeyboardModifier.ShiftModifier)
    assert QApplication.focusWidget() is shown.chips.chips()[1]


def test_a_text_that_was_not_changed_is_not_saved_again(window: MainWindow, desk: FakeDesk):
    window.message_acts.do("edit", "m2")
    QTest.keyClick(editor(window).edit, Qt.Key.Key_Return, CONTROL)
    assert desk.called("tree.edit") == []


def test_the_beginning_of_a_reply_is_written_below_the_question(window: MainWindow, desk: FakeDesk):
    window.message_acts.do("begin", "m3")
    assert editor(window).task.is_below
    QTest.keyClicks(editor(window).edit, "Well,")
    QTest.keyClick(editor(window).edit, Qt.Key.Key_Return, CONTROL)
    assert desk.called("replies.begin_with") == [("m3", "Well,", None)]


def test_where_replies_reason_the_beginning_of_the_reasoning_is_written_too(
    window: MainWindow, desk: FakeDesk
) -> None:
    desk.thinking.offer = ThinkingOffer(has_reasoning=True)
    window.message_acts.do("begin", "m3")
    editor = window.message_acts.editing.editor
    assert editor.thoughts is not None
    editor.thoughts.setPlainText("First, the facts.")
    editor.decided.emit("begin")
    assert desk.called("replies.begin_with") == [("m3", "", "First, the facts.")]


def test_a_message_is_inserted_with_the_role_that_lies_near(window: MainWindow, desk: FakeDesk):
    for name, at, after, role in (
        ("insert_below", "m1", "m1", Role.ASSISTANT),
        ("insert_below", "m2", "m2", Role.USER),
        ("insert_above", "m3", "m2", Role.USER),
        ("insert_above", "m1", None, Role.USER),
    ):
        desk.calls.clear()
        window.message_acts.do(name, at)
        QTest.keyClicks(editor(window).edit, "New")
        QTest.keyClick(editor(window).edit, Qt.Key.Key_Return, CONTROL)
        assert desk.called("tree.insert") == [(after, role, "New")]


def test_what_is_sent_anew_is_followed(window: MainWindow, desk: FakeDesk, bridge: FakeBridge):
    many = tuple(message(n, Role.USER, "text\n" * 20) for n in range(1, 12))
    desk.shelf.path = many
    bridge.emit_event(PathChanged("c1", many))
    transcript = window.chat.transcript
    transcript.show_message("m3")
    window.message_acts.do("edit", "m3")
    editor(window).buttons[0].click()
    assert not transcript.is_at_end
    bridge.emit_event(PathChanged("c1", many[:9]))
    assert transcript.is_at_end


# --- plain acts and their keys ------------------------------------------------------------------


def test_what_a_message_offers_is_asked_of_the_desk(window: MainWindow, desk: FakeDesk):
    for name, asked in (
        ("continue", "replies.go_on"),
        ("swap_role", "tree.swap_role"),
        ("branch_off", "tree.branch_off"),
        ("trash", "tree.trash"),
        ("compare", "tree.read_versions"),
        ("enlarge", "room.enlarge"),
        ("trim", "room.trim"),
        ("retry", "replies.answer"),
    ):
        window.message_acts.do(name, "m4")
        assert desk.called(asked) == [("m4",)]


def test_a_message_that_is_gone_is_not_acted_on(window: MainWindow, desk: FakeDesk):
    desk.calls.clear()
    window.message_acts.do("trash", "nobody")
    assert desk.calls == []


def test_keys_of_the_window_act_on_the_last_message_that_fits(window: MainWindow, desk: FakeDesk):
    for key, modifier, asked in (
        (Qt.Key.Key_R, CONTROL, "replies.answer"),
        (Qt.Key.Key_G, CONTROL, "replies.go_on"),
        (Qt.Key.Key_B, CONTROL | Qt.KeyboardModifier.ShiftModifier, "tree.branch_off"),
    ):
        window.chat.composer.focus()
        QTest.keyClick(window, key, modifier)
        assert desk.called(asked) == [("m4",)]


def test_the_editing_key_takes_the_last_message_of_the_user(window: MainWindow):
    window.chat.composer.focus()
    QTest.keyClick(window, Qt.Key.Key_E, CONTROL)
    assert editor(window).text == "Two?"


def test_while_a_reply_grows_the_keys_do_nothing(window: MainWindow, desk: FakeDesk):
    desk.replies.is_generating = True
    for key in (Qt.Key.Key_R, Qt.Key.Key_G, Qt.Key.Key_E, Qt.Key.Key_D):
        QTest.keyClick(window, key, CONTROL)
    assert window.message_acts.editing.editor is None
    assert not desk.called("replies.answer")
    assert not desk.called("replies.go_on")


def test_what_changes_one_message_is_never_done_to_another(window: MainWindow, desk: FakeDesk):
    registry = window.action_registry
    registry.run("delete_message")
    assert desk.called("tree.trash") == []
    transcript = window.chat.transcript
    transcript.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(transcript, Qt.Key.Key_Home)
    window.chat.composer.focus()
    registry.run("delete_message")
    assert desk.called("tree.trash") == [("m1",)]


def test_every_act_is_in_the_registry_with_a_key(window: MainWindow):
    found = [a for a in window.action_registry if a.group == "Message"]
    assert {"edit_message", "retry_reply", "continue_reply", "branch_map"} <= {
        a.name for a in found
    }
    assert [a.name for a in found if not a.shortcut] == []


# --- several answers ----------------------------------------------------------------------------


def test_asking_for_several_answers(window: MainWindow, desk: FakeDesk):
    window.message_acts.do("answers", "m4")
    dialog = window.findChild(QDialog, "several_answers_dialog")
    assert isinstance(dialog, AskSeveral)
    dialog.count.setCurrentIndex(1)
    dialog.seeds[0].setText("7")
    dialog.temperatures[1].setText("1,5")
    dialog.temperatures[2].setText("hot")
    dialog.ask.click()
    assert desk.called("replies.ask_several") == [
        ("m4", [{"seed": 7}, {"seed": None, "temperature": 1.5}, {"seed": None}])
    ]


def test_only_as_many_rows_as_answers_are_shown(qtbot: Any, theme: Theme, desk: FakeDesk):
    dialog = AskSeveral(theme, desk.settings.now)
    qtbot.addWidget(dialog)
    dialog.show()
    assert [seed.isVisible() for seed in dialog.seeds] == [True] * 2 + [False] * 6
    dialog.count.setCurrentIndex(6)
    assert all(seed.isVisible() for seed in dialog.seeds)
    assert len(dialog.answers()) == 8
    dialog.seeds[0].setText("99999999999")
    assert dialog.answers()[0]["seed"] <= 2**32 - 2


def test_each_answer_may_have_a_preset_or_all_the_same(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
):
    warm = Preset("p1", "Warm", NOON, NOON, {"temperature": 1.5, "top_k": 5})
    cold = Preset("p2", "Cold", NOON, NOON, {"temperature": 0.1})
    desk.presets.all = (warm,)
    window.message_acts.do("answers", "m4")
    dialog = window.findChild(AskSeveral)
    assert desk.called("presets.list") == [()]
    dialog.all_presets.setCurrentIndex(1)
    bridge.emit_event(PresetsListed((cold, warm)))
    assert [choice.currentText() for choice in dialog.presets] == ["Warm"] * 8
    dialog.presets[1].setCurrentText("Cold")
    dialog.presets[2].setCurrentIndex(0)
    dialog.count.setCurrentIndex(1)
    dialog.temperatures[1].setText("0.5")
    dialog.ask.click()
    assert desk.called("replies.ask_several") == [
        (
            "m4",
            [
                {"temperature": 1.5, "top_k": 5, PRESET: "Warm", "seed": None},
                {"temperature": 0.5, PRESET: "Cold", "seed": None},
                {"seed": None},
            ],
        )
    ]


def test_how_many_fit_at_once_is_said_before(window: MainWindow, desk: FakeDesk):
    desk.loader.state = EngineStateChanged("ready", loaded=loaded(n_ctx=1000, n_slots=4))
    desk.meter.last = ContextCounted(100, 1000)
    window.message_acts.do("answers", "m4")
    dialog = window.findChild(AskSeveral)
    assert dialog.fit_words.text().startswith("All 2 at once.")
    dialog.count.setCurrentIndex(6)
    assert dialog.fit_words.text().startswith("4 at a time: the model was loaded with 4 slots.")
    desk.meter.last = ContextCounted(700, 1000)
    dialog.count.setCurrentIndex(1)
    assert "2 at a time: the context window has 1,000 tokens, 700" in dialog.fit_words.text()


@pytest.mark.parametrize("zoom", [100, 200])
def test_eight_rows_and_the_button_stay_on_the_screen(
    window: MainWindow, desk: FakeDesk, theme: Theme, zoom: int
):
    window.resize(900, 600)
    theme.set_zoom(zoom)
    desk.presets.all = (Preset("p1", "Warm", NOON, NOON, {}),)
    window.message_acts.do("answers", "m4")
    dialog = window.findChild(AskSeveral)
    dialog.count.setCurrentIndex(6)
    dialog.show()
    QApplication.processEvents()
    assert dialog.height() <= 600
    assert dialog.rect().contains(dialog.ask.mapTo(dialog, dialog.ask.rect().bottomRight()))
    for last in (dialog.seeds[7], dialog.temperatures[7]):
        dialog._area.ensureWidgetVisible(last)
        assert last.visibleRegion().boundingRect().height() > 0


def test_answers_that_grow_stand_side_by_side(window: MainWindow, bridge: FakeBridge, qtbot: Any):
    growing = answers("", "", state=MessageState.STREAMING)
    bridge.emit_event(AnswersBegan("c1", "m3", growing))
    shown = comparison(window)
    assert shown is not None
    assert shown.question.text() == "Two?"
    bridge.emit_event(TextArrived("c1", "v0", "Left", "content"))
    bridge.emit_event(TextArrived("c1", "v1", "Right", "content"))
    views = [column.view for column in shown.columns]
    qtbot.waitUntil(lambda: not any(view.is_update_due for view in views))
    for view, text in zip(views, ("Left", "Right"), strict=True):
        view.select_all()
        assert view.selected_text() == text
    assert all(column.stop.isVisible() for column in shown.columns)
    bridge.emit_event(MessageChanged(answers("Left", "Right")[0]))
    assert [column.stop.isVisible() for column in shown.columns] == [False, True]


def test_the_answers_share_the_formulas_of_the_chat(
    window: MainWindow, bridge: FakeBridge, qtbot: Any
):
    formulas = window.chat.transcript.formulas
    assert formulas.find("n^2", is_display=False) is None
    child = formulas._process
    bridge.emit_event(AnswersBegan("c1", "m3", answers("$n^2$", "$n^3$")))
    assert [column.view.formulas for column in comparison(window).columns] == [formulas] * 2
    assert not window.chat.transcript.isVisible()
    qtbot.wait(0)
    assert formulas._process is child, "the chat that gives way does not end it"
    window.message_acts.leave_comparison()
    qtbot.wait(0)
    assert formulas._process is child


def test_one_answer_is_stopped_alone(window: MainWindow, desk: FakeDesk, bridge: FakeBridge):
    growing = answers("", "", state=MessageState.STREAMING)
    bridge.emit_event(AnswersBegan("c1", "m3", growing))
    comparison(window).columns[1].stop.click()
    assert desk.called("growing.stop_reply") == [("v1",)]


def test_picking_by_button_or_number_goes_to_that_version(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
):
    for pick in (
        lambda: comparison(window).columns[1].pick.click(),
        lambda: QTest.keyClick(comparison(window).columns[0].pick, Qt.Key.Key_2),
    ):
        bridge.emit_event(VersionsRead("c1", answers("Left", "Right")))
        pick()
        assert comparison(window) is None
    assert desk.called("tree.go_to") == [("v1",), ("v1",)]
    assert window.chat.body.currentWidget() is window.chat.transcript


def test_escape_leads_back_to_the_chat(window: MainWindow, desk: FakeDesk, bridge: FakeBridge):
    bridge.emit_event(VersionsRead("c1", answers("Left", "Right")))
    QTest.keyClick(comparison(window).columns[0].pick, Qt.Key.Key_Escape)
    assert comparison(window) is None
    assert desk.called("tree.go_to") == []


def test_another_chat_ends_the_comparison(window: MainWindow, bridge: FakeBridge):
    bridge.emit_event(VersionsRead("c1", answers("Left", "Right")))
    bridge.emit_event(ConversationOpened(conversation(2, "Other"), ()))
    assert comparison(window) is None


def test_versions_of_another_chat_are_not_shown(window: MainWindow, bridge: FakeBridge):
    bridge.emit_event(VersionsRead("c9", answers("Left", "Right")))
    bridge.emit_event(AnswersBegan("c9", "m3", answers("", "")))
    assert comparison(window) is None


def test_nothing_changes_the_path_in_a_column(window: MainWindow, bridge: FakeBridge):
    bridge.emit_event(VersionsRead("c1", answers("Left", "Right")))
    view = comparison(window).columns[0].view
    assert [a.name for a in view.rows.item(0).actions(0, 500)] == ["copy_message"]
    assert [offer.name for offer in view.offers_of(0)] == ["copy_message"]


@pytest.mark.parametrize(
    ("size", "zoom"),
    [
        ((1440, 900), 100),
        ((900, 600), 200),
        pytest.param((1440, 900), 200, marks=pytest.mark.soak),
        pytest.param((900, 600), 100, marks=pytest.mark.soak),
    ],
)
def test_eight_answers_fit_any_window_by_scrolling(
    window: MainWindow, bridge: FakeBridge, theme: Theme, zoom: int, size: tuple[int, int]
):
    """Each is as wide as it must be and no higher than the room, in equally full rows."""
    window.resize(*size)
    theme.set_zoom(zoom)
    bridge.emit_event(VersionsRead("c1", answers(*"abcdefgh")))
    shown = comparison(window)
    QApplication.processEvents()
    room = shown.area.viewport()
    assert all(column.view.rows.width >= theme.px(150) for column in shown.columns)
    assert all(column.pick.height() > 0 for column in shown.columns)
    highest = max(room.height(), theme.px(LOWEST_ROW_PX))
    assert all(column.height() <= highest for column in shown.columns)
    assert all(column.view.height() >= theme.px(40) for column in shown.columns)
    tops = [column.y() for column in shown.columns]
    across = [tops.count(top) for top in sorted(set(tops))]
    assert across[0] - across[-1] <= max(across[0] - 1, 0)
    assert shown.area.horizontalScrollBar().maximum() == 0


def test_who_waits_for_a_slot_says_so(window: MainWindow, bridge: FakeBridge):
    bridge.emit_event(AnswersBegan("c1", "m3", answers("", "", state=MessageState.STREAMING)))
    shown = comparison(window)
    bridge.emit_event(ReplyQueued("c1", "v1", 3))
    assert shown.columns[1].facts.text().startswith("Waiting, 2 ahead")
    assert "Waiting" not in shown.columns[0].facts.text()
    bridge.emit_event(ReplyQueued("c1", "v1", 0))
    assert "Waiting" not in shown.columns[1].facts.text()


def test_two_answers_are_seen_together_at_twice_the_size(
    window: MainWindow, bridge: FakeBridge, theme: Theme
):
    window.resize(1440, 900)
    theme.set_zoom(200)
    bridge.emit_event(VersionsRead("c1", answers("Left", "Right")))
    shown = comparison(window)
    last = shown.columns[-1]
    assert last.mapTo(shown, last.rect().bottomRight()).x() < shown.width()


def test_an_answer_that_was_seen_whole_is_zoomed_from_its_beginning(
    window: MainWindow, bridge: FakeBridge, theme: Theme, qtbot: Any
):
    bridge.emit_event(VersionsRead("c1", answers("line\n\n" * 6, "Right")))
    bar = comparison(window).columns[0].view.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() == 0)
    theme.set_zoom(200)
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    assert bar.value() == 0


# --- going somewhere ----------------------------------------------------------------------------


def test_a_message_of_another_path_is_shown_once_it_is_there(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
):
    window.message_acts.go_to("m9")
    assert desk.called("tree.go_to") == [("m9",)]
    many = tuple(message(n, Role.USER, "text\n" * 20) for n in range(5, 12))
    desk.shelf.path = many
    bridge.emit_event(PathChanged("c1", many))
    transcript = window.chat.transcript
    index = transcript.rows.index_of("m9")
    assert abs(transcript.item_origin(index).y()) < 40


def test_the_map_opens_beside_the_chat(window: MainWindow, desk: FakeDesk):
    window.message_acts.do("map", "m4")
    shown = window.findChild(QDialog, "branch_map")
    assert shown.isVisible()
    assert not shown.isModal()
    assert desk.called("tree.read_tree") == [()]
    shown.close()
