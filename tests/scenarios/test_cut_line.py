"""The line where a chat is cut, in the whole window: under both policies, as somebody types, and
after everything else that moves it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QLabel, QTabBar, QWidget
from store_records import a_conversation, a_message

from app.chat.events import ContextCounted
from app.chat.replies import summaries
from app.chat.replies.summary_nodes import covered_by
from models.records import Message, Role
from models.store.store import Store
from ui.section.section import Section
from ui.transcript.cut_line import SUMMARIZED as SUMMARIZED_LINE, TO_SUMMARIZE
from ui.transcript.offers import offers
from ui.transcript.summary import figures_text

QUESTION = "A question of a few words, is it not?"
Open = Callable[..., Any]


def open_cache(person: Any) -> None:
    person.window.action_registry.run("toggle_section")
    section = person.wait(lambda: person.window.findChild(Section, "section"))
    person.wait(section.isVisible)
    tabs = person.find(QTabBar, "section_tabs")
    tabs.setCurrentIndex(next(i for i in range(tabs.count()) if tabs.tabText(i) == "Cache"))


def opened(open_window: Open, reply: str = "Ten words or so.") -> Any:
    script = {"load": {"ms": 5, "loaded": {"n_ctx": 256}}, "replies": [{"text": reply}]}
    person = open_window(script)
    person.wait_ready()
    open_cache(person)
    return person


@pytest.fixture
def person(open_window: Open, data_dir: Path) -> Any:
    """A chat of a former run of which something is left out."""
    store = Store.open(data_dir, backup_after_s=None)
    chat, parent = a_conversation(), None
    store.create_conversation(chat)
    for number in range(14):
        is_reply = bool(number % 2)
        parent = a_message(
            chat,
            parent,
            role=Role.ASSISTANT if is_reply else Role.USER,
            content="Ten words or so." if is_reply else QUESTION,
        )
        store.append_message(parent)
    store.set_setting("last_conversation_id", chat.id).result()
    store.close()
    made = opened(open_window)
    made.wait(lambda: len(made.app.desk.shelf.path) == 14)
    made.type("And one more?")
    made.wait(lambda: cut_of(made))
    return made


def cut_of(person: Any) -> str:
    """The message that the line stands below; empty without a line."""
    line = person.window.findChild(QWidget, "cut_line")
    return "" if line is None else str(line._message_id)


def first_cut_of(person: Any) -> str:
    """The message that the upper line stands below; empty without one."""
    line = person.window.findChild(QWidget, "cut_line_begin")
    return "" if line is None else str(line._message_id)


def last_left_out(reply: Message) -> str:
    """The last message that was really left out of a reply's prompt."""
    return str(reply.settings.get("cut", {}).get("last_message_id", ""))


def policy_words(person: Any) -> str:
    return str(person.find(QLabel, "cache_policy_caption").text())


def test_it_goes_further_down_as_somebody_types_and_there_the_prompt_is_cut(person: Any) -> None:
    ids = [message.id for message in person.app.desk.shelf.path]
    first = ids.index(cut_of(person))
    words = " and another word" * 8
    person.type(words)
    person.wait(lambda: ids.index(cut_of(person)) > first)
    below = cut_of(person)
    person.press(Qt.Key.Key_Return)
    person.wait(lambda: len(person.app.desk.shelf.path) > len(ids))
    assert last_left_out(person.wait_ended()) == below


def test_where_both_ends_are_kept_lines_show_where_the_gap_begins_and_ends(person: Any) -> None:
    assert not first_cut_of(person)
    ids = [message.id for message in person.app.desk.shelf.path]
    choice = person.find(QWidget, "cache_policy")
    choice.activated.emit(choice.findData("keep_ends"))
    # Below the first exchange, and where the messages go along again.
    person.wait(lambda: first_cut_of(person) == ids[1])
    below = cut_of(person)
    assert ids.index(below) > 1
    assert "between the lines in the chat" in policy_words(person)
    person.press(Qt.Key.Key_Return)
    person.wait(lambda: len(person.app.desk.shelf.path) > len(ids))
    reply = person.wait_ended()
    assert last_left_out(reply) == below
    assert reply.settings["cut"]["n_messages"] == ids.index(below) - 1
    person.app.desk.settings.set("context_policy", "drop_oldest")
    person.wait(lambda: not first_cut_of(person))


def test_it_moves_with_all_that_moves_it(person: Any) -> None:
    """One after another: to open a long chat takes longest."""
    under_the_other_policy_there_is_none_and_the_panel_says_what_would_happen(person)
    other_weights_move_it(person)
    it_belongs_to_its_chat(person)
    it_goes_back_up_when_what_was_typed_is_taken_out(person)
    what_fits_in_no_way_is_not_said_to_fit(person)


def it_goes_back_up_when_what_was_typed_is_taken_out(person: Any) -> None:
    ids = [message.id for message in person.app.desk.shelf.path]
    first = cut_of(person)
    person.type(" and another word" * 8)
    person.wait(lambda: ids.index(cut_of(person)) > ids.index(first))
    person.press(Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    person.press(Qt.Key.Key_Delete)
    person.wait(lambda: cut_of(person) == first)


def test_after_each_reply_it_is_where_the_next_message_will_be_cut(open_window: Open) -> None:
    """Nobody has to type for it: the reply made the chat longer."""
    person = opened(open_window, reply="A reply is longer than its question. " * 3)
    for _ in range(3):
        person.send(QUESTION)
        person.wait_ended()
    n_moved, counts = 0, list[str]()
    person.app.bridge.on(
        ContextCounted,
        lambda event: None if event.last_cut is None else counts.append(event.last_cut),
    )
    for _ in range(3):
        person.send(QUESTION)
        before = last_left_out(person.wait_ended())
        n_counts = len(counts)
        person.wait(lambda n=n_counts: len(counts) > n)
        below = cut_of(person)
        n_moved += below != before
        person.send("x")
        assert last_left_out(person.wait_ended()) == below
    assert n_moved


def under_the_other_policy_there_is_none_and_the_panel_says_what_would_happen(
    person: Any,
) -> None:
    desk = person.app.desk
    assert "above the line in the chat" in policy_words(person)
    desk.settings.set("context_policy", "stop")
    person.wait(lambda: not cut_of(person))
    person.wait(lambda: "window holds 256. It won't be answered." in policy_words(person))
    desk.settings.set("context_policy", "drop_oldest")
    person.wait(lambda: cut_of(person))
    # At the chat's level too, and back.
    desk.levels.change("chat", "context_policy", "stop")
    person.wait(lambda: not cut_of(person))
    assert policy_words(person).startswith("Set for this chat. ")
    desk.levels.reset("chat", "context_policy")
    person.wait(lambda: cut_of(person))


def what_fits_in_no_way_is_not_said_to_fit(person: Any) -> None:
    person.app.desk.shelf.save_draft("one more word " * 300)
    person.wait(lambda: "even after dropping older messages" in policy_words(person))
    assert not cut_of(person)


def other_weights_move_it(person: Any) -> None:
    desk = person.app.desk
    path = desk.loader.state.loaded.path
    desk.loader.unload()
    person.wait(lambda: desk.loader.state.loaded is None)
    person.wait(lambda: not cut_of(person))  # nobody knows how much will fit
    desk.loader.load(path)
    person.wait_ready()
    person.wait(lambda: cut_of(person))


def it_belongs_to_its_chat(person: Any) -> None:
    chat, below = person.app.desk.shelf.open.id, cut_of(person)
    person.app.desk.shelf.open_new()
    assert not cut_of(person)
    assert "Everything fits now" in policy_words(person)
    person.app.desk.shelf.open_stored(chat)
    person.wait(lambda: cut_of(person) == below)


def test_of_a_text_its_beginning_is_left_out_and_no_message(open_window: Open) -> None:
    person = opened(open_window)
    desk = person.app.desk
    desk.shelf.open_new_text()
    text = "a word " * 300
    desk.text.save(text, len(text))
    person.wait(lambda: "drops the beginning of the text" in policy_words(person))
    assert not cut_of(person)
    tip = person.window.chat.status.meter.toolTip()
    assert tip.endswith("; beginning dropped")


def test_in_the_middle_of_a_reply_the_policy_acts_too(open_window: Open) -> None:
    script = {
        "load": {"ms": 5, "loaded": {"n_ctx": 256}},
        "replies": [
            {"text": "A reply of some words. " * 2},
            {"text": "A reply of some words. " * 2},
            {"text": "And on and on. " * 14},
        ],
    }
    person = open_window(script)
    person.wait_ready()
    open_cache(person)
    for number in range(3):
        person.send(f"{QUESTION} {number}")
        reply = person.wait_ended()
    assert reply.stop_reason == "end_token"
    assert reply.content == "And on and on. " * 14
    (shift,) = reply.settings["shifts"]
    assert shift["n_messages"] > 0
    person.wait(lambda: person.find(QLabel, "cache_dropped").text() == f"{shift['n_tokens']:,}")
    assert "dropped midway (cache shifted)" in figures_text(reply)


SUMMARIZED = {
    "load": {"ms": 5, "loaded": {"n_ctx": 1024}},
    "replies": [
        {"match": "Summarize this conversation", "text": "They counted to ten."},
        *({"text": f"A reply of some words, number {i}. " * 6} for i in range(9)),
    ],
}


def test_what_falls_out_is_summarized_and_the_line_says_so(
    open_window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "IDLE_S", 3600.0)
    person = open_window(SUMMARIZED)
    person.wait_ready()
    open_cache(person)
    desk = person.app.desk
    for number in range(4):
        person.send(f"{QUESTION} {number}" + " Or so?" * 25)
        person.wait_ended()
    desk.settings.set("context_policy", "summarize")
    person.type("And one more?")
    person.wait(lambda: cut_of(person))
    line = person.window.findChild(QWidget, "cut_line")
    person.wait(lambda: line.accessibleName() == TO_SUMMARIZE)
    person.wait(lambda: "will be summarized before the next message" in policy_words(person))
    n_before = len(desk.shelf.path)
    person.press(Qt.Key.Key_Return)
    person.wait(lambda: len(desk.shelf.path) == n_before + 3)
    reply = person.wait_ended()
    node = desk.shelf.path[-2]
    assert node.content == "They counted to ten."
    assert "They counted to ten." in reply.rendered_prompt
    person.wait(lambda: line.accessibleName() == SUMMARIZED_LINE)
    assert cut_of(person) == covered_by(node, desk.shelf.path)[-1].id
    # It opens what it stands for, and can be edited in its place.
    person.window.message_acts.do("show_summarized", node.id)
    assert person.window.chat.transcript.keyboard.current == 0
    names = [offer.name for offer in offers(node, is_last=False)]
    assert {"edit", "show_summarized", "summarize_again"} <= set(names)
    assert "retry" not in names
    n_path = len(desk.shelf.path)
    assert desk.tree.edit(node.id, "They counted to twelve.")
    person.wait(lambda: desk.shelf.path[-2].content == "They counted to twelve.")
    assert len(desk.shelf.path) == n_path
    # Another policy sends everything that fits, and no summary.
    desk.settings.set("context_policy", "drop_oldest")
    person.wait(lambda: line.accessibleName() != SUMMARIZED_LINE)


def test_in_a_text_a_summary_is_not_offered_and_why_is_said(open_window: Open) -> None:
    person = opened(open_window)
    desk = person.app.desk
    desk.shelf.open_new_text()
    choice = person.find(QComboBox, "cache_policy")
    item = choice.model().item(choice.findData("summarize"))
    person.wait(lambda: not item.isEnabled())
    assert "it has no messages" in item.toolTip()
    desk.settings.set("context_policy", "summarize")
    person.wait(lambda: "A text can't be summarized" in policy_words(person))
    desk.shelf.open_new()
    person.wait(item.isEnabled)
