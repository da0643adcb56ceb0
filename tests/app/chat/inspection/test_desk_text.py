"""Text mode through the desk: typing, continuing anywhere, versions, and nothing lost."""

from __future__ import annotations

from typing import Any

import pytest

from app.chat import events
from app.engine.protocol.prompt_messages import TextPrompt
from models.records import ConversationKind, MessageState, Role

SCRIPT: dict[str, Any] = {
    "replies": [{"text": "there was a fox."}, {"text": "lived a hare."}],
}
SLOW = {"replies": [{"tokens": [{"text": "on ", "ms": 5, "repeat": 4000}]}]}


def begin(room: Any, text: str) -> None:
    room.desk.shelf.open_new_text()
    room.desk.text.save(text, len(text))


def go_on(room: Any, caret: int | None = None) -> None:
    text = room.desk.text.text
    assert room.desk.text.go_on(text, len(text) if caret is None else caret)
    room.until(room.ended_reply, "the continuation")


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> Any:
    def watch(room: Any) -> list[str]:
        seen: list[str] = []
        generate = room.desk._engine.generate

        def spy(request: Any) -> int:
            assert isinstance(request.prompt, TextPrompt)
            assert request.max_tokens > 0
            seen.append(request.prompt.text)
            return generate(request)

        monkeypatch.setattr(room.desk._engine, "generate", spy)
        return seen

    return watch


def test_the_text_before_the_caret_is_the_prompt_and_goes_on_there(make_room, prompts):
    room = make_room(SCRIPT).start_ready()
    seen = prompts(room)
    begin(room, "Once upon a time The end.")
    go_on(room, caret=17)
    assert seen == ["Once upon a time "]
    text = room.desk.text
    assert text.text == "Once upon a time there was a fox.The end."
    assert text.generated == ((17, 33),)
    assert room.desk.shelf.open.kind is ConversationKind.TEXT
    assert room.desk.shelf.open.title == "Once upon a time The end."
    assert room.stored()[-1].settings["place"] == [17, 17]


@pytest.mark.usefixtures("soon")
def test_what_is_typed_is_kept_as_a_draft_is(make_room):
    room = make_room(SCRIPT).start_ready()
    begin(room, "half a thou")
    chat = room.desk.shelf.open.id
    store = room.desk.around.store
    room.until(lambda: room.desk.shelf.open.draft)
    assert store.load_conversation(chat).result(20)[0].draft == "half a thou"
    again = make_room(SCRIPT, read_only=True).start()
    again.until(lambda: again.desk.shelf.open.id == chat)
    assert again.desk.text.text == "half a thou"
    assert again.desk.text.is_open


def test_another_version_keeps_the_old_one_and_what_was_typed_after_it(make_room, prompts):
    room = make_room(SCRIPT).start_ready()
    seen = prompts(room)
    begin(room, "In the wood ")
    go_on(room)
    first = room.desk.text.text
    assert first == "In the wood there was a fox."
    room.desk.text.save(first + " It was red.", 0)
    room.desk.text.retry()
    room.until(lambda: room.ended_reply() and room.desk.text.continuation.sibling_count == 2)
    assert room.desk.text.text == "In the wood lived a hare."
    assert seen == ["In the wood ", "In the wood "]

    room.desk.text.show_version(-1)
    room.until(lambda: room.desk.text.text == first + " It was red.")
    assert room.desk.text.generated == ((12, 28),)
    room.desk.text.show_version(1)
    room.until(lambda: room.desk.text.text == "In the wood lived a hare.")
    assert room.desk.text.continuation.sibling_index == 1


def test_flipping_keeps_what_was_typed_since(make_room):
    room = make_room(SCRIPT).start_ready()
    begin(room, "A ")
    go_on(room)
    room.desk.text.retry()
    room.until(lambda: room.ended_reply() and room.desk.text.continuation.sibling_count == 2)
    room.desk.text.save("A lived a hare. Typed.", 3)
    room.desk.text.show_version(-1)
    room.until(lambda: room.desk.text.text == "A there was a fox.")
    room.desk.text.show_version(1)
    room.until(lambda: room.desk.text.text == "A lived a hare. Typed.")


@pytest.mark.parametrize("way", ["search", "map", "search from another chat"])
def test_what_was_typed_stays_with_its_branch_whatever_leads_to_another(make_room, way):
    room = make_room(SCRIPT).start_ready()
    begin(room, "A ")
    go_on(room)
    text_id = room.desk.shelf.open.id
    first = room.desk.text.continuation.id
    room.desk.text.retry()
    room.until(lambda: room.ended_reply() and room.desk.text.continuation.sibling_count == 2)
    room.desk.text.save("A lived a hare. Typed.", 3)
    if way == "map":
        room.desk.tree.go_to(first)
    elif way == "search":
        room.desk.searching.open_at(text_id, first)
    else:
        room.until(lambda: room.desk.shelf.open.draft)
        room.desk.shelf.open_new()
        room.desk.searching.open_at(text_id, first)
    room.until(lambda: room.desk.text.text == "A there was a fox.")
    assert room.desk.text.continuation.sibling_index == 0
    room.desk.text.show_version(1)
    room.until(lambda: room.desk.text.text == "A lived a hare. Typed.")


def test_stop_keeps_what_came(make_room):
    room = make_room(SLOW).start_ready()
    begin(room, "Go ")
    assert room.desk.text.go_on("Go ", 3)
    room.until(lambda: room.growing(12))
    assert not room.desk.text.go_on("Go on", 3), "one at a time"
    room.desk.replies.stop()
    reply = room.until(room.ended_reply)
    assert reply.state is MessageState.STOPPED
    assert room.desk.text.text.startswith("Go on on on ")
    assert room.stored()[-1].content == reply.content


def test_an_emptied_document_stays_empty(make_room):
    room = make_room(SCRIPT).start_ready()
    begin(room, "A ")
    go_on(room)
    room.desk.text.save("", 0)
    assert room.desk.text.text == ""
    chat = room.desk.shelf.open.id
    room.close()
    again = make_room(SCRIPT).start_ready()
    again.until(lambda: again.desk.shelf.open.id == chat)
    assert again.desk.text.text == ""
    assert [m.role for m in again.desk.shelf.path] == [Role.USER, Role.ASSISTANT, Role.USER]


def test_an_empty_document_can_be_continued(make_room, prompts):
    room = make_room(SCRIPT).start_ready()
    seen = prompts(room)
    room.desk.shelf.open_new_text()
    assert room.desk.text.go_on("", 0)
    room.until(room.ended_reply)
    assert seen == [""]
    assert room.desk.text.text == "there was a fox."


def test_going_on_without_typing_stores_only_what_is_new(make_room):
    room = make_room(SCRIPT).start_ready()
    long = "word " * 500
    begin(room, long)
    go_on(room)
    room.events.clear()
    text = room.desk.text.text
    assert room.desk.text.go_on(text, len(text))
    room.until(lambda: len(room.desk.shelf.path) == 3 and room.ended_reply())
    assert [m.role for m in room.stored()] == [Role.USER, Role.ASSISTANT, Role.ASSISTANT]
    assert room.desk.text.text == long + "there was a fox.lived a hare."


def test_a_continuation_that_was_cut_by_a_kill_is_in_the_document(make_room):
    room = make_room(SLOW).start_ready()
    begin(room, "Go ")
    room.desk.text.go_on("Go ", 3)
    room.until(lambda: len(room.stored()) == 2 and room.stored()[1].content)
    kept = room.stored()[1].content
    again = make_room(SLOW, read_only=True).start()
    again.until(lambda: len(again.desk.shelf.path) == 2)
    assert again.desk.text.text.startswith(f"Go {kept}")


@pytest.mark.usefixtures("soon")
def test_the_meter_counts_what_stands_before_the_caret(make_room):
    room = make_room(SCRIPT).start_ready()
    begin(room, "one two three four five six")
    counts = room.until(lambda: room.of(events.ContextCounted))
    room.until(lambda: room.of(events.ContextCounted)[-1].used > 5, str(counts))
    room.events.clear()
    room.desk.text.save("one two three four five six", 3)
    room.until(lambda: room.of(events.ContextCounted) and room.of(events.ContextCounted)[-1].used)
    assert room.of(events.ContextCounted)[-1].used <= 3


def test_a_long_document_is_cut_and_continued(make_room):
    room = make_room(SCRIPT).start_ready()
    begin(room, "many words here\n" * 5000)
    go_on(room)
    assert room.ended_reply().content == "there was a fox."
    assert room.desk.text.text.endswith("here\nthere was a fox.")
