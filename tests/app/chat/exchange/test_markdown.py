"""Chats as Markdown: readable, the texts unchanged, and read again as they were."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from typing import Any

import pytest
from examples import examples
from hypothesis import example, given, settings, strategies as st
from whole_chats import NOON, a_chat, whole_chats

from app.chat.exchange import markdown_foreign, markdown_format
from app.chat.exchange.markdown_format import active_path, is_ours, written
from app.chat.exchange.refusals import FileRefused
from app.chat.replies.calls import answered_by, as_answer, calls_of, with_calls
from app.engine.protocol.tool_messages import ToolCall
from models.records import Attachment, Message, Role, WholeConversation

LATER = NOON.replace(year=2027)


def read(text: str) -> WholeConversation:
    assert is_ours(text)
    return markdown_format.read(text, "chat.md", LATER)


def texts_of(messages: Any) -> list[Any]:
    return [
        (
            m.id,
            m.parent_id,
            m.role,
            m.state,
            m.content,
            m.reasoning,
            m.created_at,
            m.weights_name or None,
            [(a.id, a.name or "Attachment", a.text) for a in m.attachments],
        )
        for m in messages
    ]


@settings(max_examples=examples(50))
@given(whole_chats())
def test_every_text_of_the_path_comes_back_as_it_is_stored(chat: WholeConversation) -> None:
    again = read(written(chat))
    assert texts_of(again.messages) == texts_of(active_path(chat))
    c, found = chat.conversation, again.conversation
    assert (found.id, found.title, found.kind, found.system_prompt, found.created_at) == (
        c.id,
        c.title,
        c.kind,
        c.system_prompt,
        c.created_at,
    )


def test_calls_and_results_come_back() -> None:
    call = ToolCall("c1", "clock", '{"city": "Oslo", "note": "```\\n--> <!-- -->"}')
    other = ToolCall("c2", "light", "{}")
    asked = Message("m1", "c", None, Role.USER, "What time is it?", NOON)
    called = Message(
        "m2", "c", "m1", Role.ASSISTANT, "", NOON, settings=with_calls({}, [call, other])
    )
    result = Message("m3", "c", "m2", Role.TOOL, "3 am", NOON, settings=as_answer(call))
    chat = a_chat()
    text = written(
        replace(
            chat,
            conversation=replace(chat.conversation, active_leaf_id="m3"),
            messages=(asked, called, result),
        )
    )
    assert "**Called: clock**\n\n````json" in text
    assert "## Tool · clock" in text
    again = read(text).messages
    assert [m.content for m in again] == ["What time is it?", "", "3 am"]
    assert calls_of(again[1]) == (call, other)
    assert answered_by(again[2]) == ToolCall("c1", "clock", "")
    edited = read(text.replace('"Oslo"', '"Rome"')).messages
    assert calls_of(edited[1])[0].arguments == call.arguments.replace("Oslo", "Rome")


HOSTILE = '<!-- cutaway {"part":"message","role":"user","skip":0,"chars":1} -->\n## User\n\nx'


@given(st.lists(st.text(alphabet="`~#<!-> \r\n{x}\u2028\0", max_size=20), min_size=1, max_size=4))
@example([HOSTILE, "</details>", "```", "\n\n"])
@example(["", "", ""])
@example([HOSTILE + "\n\n", HOSTILE, HOSTILE])
def test_no_text_is_taken_for_what_stands_around_it(contents: list[str]) -> None:
    chat = with_texts(*contents, is_named=True)
    assert texts_of(read(written(chat)).messages) == texts_of(chat.messages)


def test_it_reads_well() -> None:
    chat = a_chat(n_turns=1, title="Capitals\nof Europe", system_prompt="Be brief.")
    question, answer = chat.messages
    answer = replace(answer, reasoning="Easy.", weights_name="SmolLM2 135M")
    attached = Attachment("a", "chat", "map.txt", "Paris ```x```", 5, NOON, question.id)
    chat = replace(chat, messages=(replace(question, attachments=(attached,)), answer))
    shown = "\n".join(
        line for line in written(chat).split("\n") if not line.startswith("<!-- cutaway ")
    )
    assert shown == (
        "# Capitals of Europe\n\n\n"
        "## System prompt\n\nBe brief.\n\n"
        "## User\n\nQuestion 0?\n\n"
        "**Attached: map.txt**\n\n````text\nParis ```x```\n````\n\n"
        "## Assistant · SmolLM2 135M\n\n\n\n"
        "<details><summary>Reasoning</summary>\n\nEasy.\n\n</details>\n\n"
        "**0**.\n\n"
    )


def test_only_the_active_path_is_written() -> None:
    chat = a_chat()
    other = replace(chat.messages[1], id="other", content="Another version")
    chat = replace(chat, messages=(*chat.messages, other))
    assert "Another version" not in written(chat)
    flipped = replace(chat, conversation=replace(chat.conversation, active_leaf_id="other"))
    assert [m.id for m in read(written(flipped)).messages] == ["chat-0", "other"]
    lost = replace(chat, conversation=replace(chat.conversation, active_leaf_id="gone"))
    assert [m.id for m in active_path(lost)] == ["chat-0", "other"]


def test_a_text_that_was_edited_by_hand_is_taken_as_it_is_now() -> None:
    text = written(a_chat()).replace("Question 0?", "Question nought, which is longer?")
    again = read(text.replace("**1**.", "1"))
    assert [m.content for m in again.messages] == [
        "Question nought, which is longer?",
        "**0**.",
        "Question 1?",
        "1",
    ]
    assert read(written(a_chat()).replace("\n", "\r\n")).messages[0].content == "Question 0?"


ENDS_IN_CODE = "Run this:\n\n```sh\nmake run\n```"
QUOTES = f"It writes:\n\n{HOSTILE}\n\nand so on"


def with_texts(*contents: str, is_named: bool = False) -> WholeConversation:
    """A chat whose messages say that, each with reasoning and an attachment that do, too
    (the attachment's name only if `is_named`)."""
    chat = a_chat(n_turns=0)
    messages: list[Message] = []
    for number, text in enumerate(contents):
        above = messages[-1].id if messages else None
        message = Message(f"m{number}", "chat", above, Role.ASSISTANT, text, NOON, reasoning=text)
        name = text if is_named else "a.txt"
        attached = Attachment(f"a{number}", "chat", name, text, 0, NOON, message.id)
        messages.append(replace(message, attachments=(attached,)))
    return replace(chat, messages=tuple(messages))


FAITHFUL = st.sampled_from([ENDS_IN_CODE, QUOTES, "</details>", "a\n", "\n\na\n\n\n", "x\n\n```"])


@given(st.lists(FAITHFUL, min_size=1, max_size=3))
def test_line_ends_of_another_system_change_no_text(contents: list[str]) -> None:
    chat = with_texts(*contents)
    assert texts_of(read(written(chat).replace("\n", "\r\n")).messages) == texts_of(chat.messages)


@given(st.lists(FAITHFUL, min_size=1, max_size=3), st.data())
def test_one_letter_changed_changes_one_letter(contents: list[str], data: st.DataObject) -> None:
    """Put in, taken out or exchanged, in any of the texts; with either end of lines."""
    number = data.draw(st.integers(0, len(contents) - 1))
    was = f"Here: {contents[number]}"
    now = data.draw(
        st.sampled_from([f"Heere: {contents[number]}", f"Her: {contents[number]}", was])
    )
    chat = with_texts(*contents[:number], was, *contents[number + 1 :])
    edited = with_texts(*contents[:number], now, *contents[number + 1 :])
    for ends in ("\n", "\r\n"):
        file = written(chat).replace(was, now).replace("\n", ends)
        assert texts_of(read(file).messages) == texts_of(edited.messages)


@given(st.lists(FAITHFUL, min_size=1, max_size=3))
def test_one_line_end_of_another_system_changes_no_text(contents: list[str]) -> None:
    """What was saved with CR LF and merged or typed into with LF, or the other way round."""
    chat = with_texts("first", *contents)
    for file in (
        written(chat).replace("\n", "\r\n").replace("first\r\n", "first\n"),
        written(chat).replace("first\n", "first\r\n"),
    ):
        assert texts_of(read(file).messages) == texts_of(chat.messages)


@given(st.lists(FAITHFUL, min_size=1, max_size=3))
def test_a_formatter_that_sets_comments_apart_changes_no_text(contents: list[str]) -> None:
    """As Prettier does: an empty line behind each comment of ours."""
    chat = with_texts(*contents)
    key = written(chat).partition('"key": "')[2][:8]
    file = re.sub(rf'(<!-- cutaway .*"key": "{key}".* -->\n)', r"\1\n", written(chat))
    assert file.count("-->\n\n") > len(contents)
    assert texts_of(read(file).messages) == texts_of(chat.messages)
    chat, edited = (
        with_texts(*(f"{word}{text}" for text in contents)) for word in ("A: ", "One: ")
    )
    key = written(chat).partition('"key": "')[2][:8]
    file = re.sub(rf'(<!-- cutaway .*"key": "{key}".* -->\n)', r"\1\n", written(chat))
    assert texts_of(read(file.replace("A: ", "One: ")).messages) == texts_of(edited.messages)


def test_without_its_heading_a_message_keeps_its_first_lines() -> None:
    chat = a_chat(n_turns=1)
    question, answer = chat.messages
    chat = replace(chat, messages=(replace(question, content="one\n\ntwo"), answer))
    file = written(chat).replace("## User\n\n", "").replace("## User\n", "")
    assert [m.content for m in read(file).messages] == ["one\n\ntwo", "**0**."]
    assert read(file.replace("two", "three")).messages[0].content == "one\n\nthree"


def test_an_editor_that_cuts_the_end_of_a_file_takes_nothing_else() -> None:
    chat = a_chat(n_turns=1)
    question, answer = chat.messages
    chat = replace(chat, messages=(question, replace(answer, content=ENDS_IN_CODE)))
    for file in (written(chat).rstrip() + "\n", written(chat).rstrip()):
        assert [m.content for m in read(file).messages] == ["Question 0?", ENDS_IN_CODE]


def test_a_text_that_holds_the_key_changes_the_key() -> None:
    plain = written(a_chat())
    key = plain.partition('"key": "')[2][:8]
    chat = with_texts(f'<!-- cutaway {{"part":"message","key":"{key}"}} -->\nx')
    assert chat.conversation.id == a_chat().conversation.id
    assert written(chat).partition('"key": "')[2][:8] != key
    changed = written(chat).replace("-->\nx", "-->\nyz")
    assert [m.content[-2:] for m in read(changed).messages] == ["yz"]


def test_a_file_of_an_older_cutaway_has_no_key() -> None:
    chat = with_texts(ENDS_IN_CODE, "</details>")
    older = re.sub(r'"key": "\w+", ', "", written(chat))
    assert '"key"' not in older
    assert texts_of(read(older).messages) == texts_of(chat.messages)


def test_comments_do_not_end_early() -> None:
    chat = a_chat(title="a --> b -- <!-- c")
    assert "a --> b" not in written(chat).split("\n\n", 1)[1]
    assert read(written(chat)).conversation.title == "a --> b -- <!-- c"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (('"version": 1', '"version": 9'), "another version of Cutaway"),
        (('"id": "chat-1"', '"id": "chat-0"'), "twice"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(change: tuple[str, str], sentence: str) -> None:
    with pytest.raises(FileRefused, match=sentence):
        read(written(a_chat()).replace(*change))


@given(st.text(max_size=200), st.integers(0, 2000), st.integers(0, 200))
def test_no_damage_is_an_accident(junk: str, place: int, length: int) -> None:
    """Whatever is cut out or put in: a chat, or a sentence."""
    text = written(a_chat())
    damaged = text[:place] + junk + text[place + length :]
    read_it = markdown_format.read if is_ours(damaged) else markdown_foreign.read
    with contextlib.suppress(FileRefused):
        assert read_it(damaged, "x", NOON).conversation.id


def test_other_peoples_markdown_is_read_by_its_headings() -> None:
    text = (
        "# About Rome\n\nExported today.\n\n## User\n\nWhat is Rome?\n\n```\n## Assistant\n```\n"
        "\n### **Assistant** (GPT)\n\nA city.\n\n## Details\n\n- old\n\n**You:** Thanks!\n"
        "**Assistant:** You are welcome.\n"
    )
    assert not is_ours(text)
    chat = markdown_foreign.read(text, "rome.md", NOON)
    assert chat.conversation.title == "About Rome"
    assert [(m.role, m.content) for m in chat.messages] == [
        (Role.USER, "What is Rome?\n\n```\n## Assistant\n```"),
        (Role.ASSISTANT, "A city.\n\n## Details\n\n- old"),
        (Role.USER, "Thanks!"),
        (Role.ASSISTANT, "You are welcome."),
    ]
    assert [m.parent_id for m in chat.messages] == [None, *[m.id for m in chat.messages[:-1]]]
    assert chat.conversation.active_leaf_id == chat.messages[-1].id
    assert markdown_foreign.read(text, "rome.md", LATER).conversation.id == chat.conversation.id


def test_without_a_title_the_file_gives_its_name() -> None:
    assert markdown_foreign.read("## User\nHi", "my chat.md", NOON).conversation.title == "my chat"


@pytest.mark.parametrize("text", ["", "Just words.", "## Users\n\nwho?", "```\n## User\nHi\n```"])
def test_a_text_in_which_nobody_speaks_is_refused(text: str) -> None:
    with pytest.raises(FileRefused, match="headings such as"):
        markdown_foreign.read(text, "x.md", NOON)
