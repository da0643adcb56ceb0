"""Titles that the weights write, through the desk and a scripted engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from store_records import a_conversation, a_message

from app.chat import events
from app.chat.conversations import title_writing
from app.chat.conversations.title_writing import NO_TITLE, NOT_FOR_THIS, WRITING
from app.engine.protocol.messages import Generate
from app.engine.protocol.remote_messages import EngineOffer
from models.records import MessageState, Role

TASK = "Write a title of two to six words"
QUESTION = "so what would be the capital of france, please"
OLD = "so what would be the capital of france, please"


def script(*titles: str, ms: int = 0) -> dict[str, Any]:
    return {
        "load": {"ms": 1},
        "replies": [
            *({"match": TASK, "tokens": [{"text": each, "ms": ms}]} for each in titles),
            *({"text": "It is Paris."} for _ in range(9)),
        ],
    }


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(title_writing, "IDLE_S", 0.0)
    monkeypatch.setattr(title_writing, "LOOK_AGAIN_S", 0.01)


def asked_of(room: Any, monkeypatch: pytest.MonkeyPatch) -> list[Generate]:
    """The titles that the engine is asked for."""
    asked: list[Generate] = []
    request = room.desk.loader.engine.request

    def note(command: Any, *more: Any) -> int:
        if isinstance(command, Generate) and TASK in command.prompt.messages[1].content:
            asked.append(command)
        return int(request(command, *more))

    monkeypatch.setattr(room.desk.loader.engine, "request", note)
    return asked


def say(room: Any, text: str = QUESTION) -> str:
    room.desk.replies.send(text)
    room.until(
        lambda: (
            (m := room.desk.shelf.path[-1]).role is Role.ASSISTANT
            and m.state is MessageState.COMPLETE
        )
    )
    return str(room.desk.shelf.open.id)


def settle(room: Any) -> None:
    """What was to be looked at has been looked at."""
    alarms = room.desk.around.alarms
    room.until(lambda: title_writing.ALARM not in alarms._due and not room.desk.titles._writing)
    room.pump()


def title(room: Any, chat: str) -> str:
    return str(room.desk.shelf.conversation(chat).title)


def notices(room: Any) -> list[str]:
    return [e.sentence for e in room.events if isinstance(e, events.Noticed)]


@pytest.mark.usefixtures("quick")
def test_a_new_chat_is_titled_once_quietly_and_in_the_background(
    make_room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room(script("Capital of France")).start_ready()
    asked = asked_of(room, monkeypatch)
    chat = say(room)
    assert title(room, chat) == OLD
    room.until(lambda: title(room, chat) == "Capital of France")
    assert not notices(room)
    (request,) = asked
    assert request.is_background
    assert (request.conversation, request.reply_id, request.alternatives) == ("", "", 0)
    assert request.prompt.messages[1].content.startswith(f"User: {QUESTION}\n\nAssistant: It is P")
    say(room, "And of Spain?")
    settle(room)
    assert len(asked) == 1
    assert title(room, chat) == "Capital of France"
    stored = room.store.load_conversation(chat).result()
    assert stored[0].title == "Capital of France"
    assert not stored[0].is_titled_by_user
    assert [m.role.value for m in stored[1]] == ["user", "assistant"] * 2  # and nothing of it


@pytest.mark.usefixtures("quick")
def test_what_a_person_called_it_stays_also_while_the_weights_write(
    make_room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room(script("Capital of France", ms=300)).start_ready()
    asked = asked_of(room, monkeypatch)
    room.desk.shelf.open_new()
    chat = say(room)
    room.until(lambda: asked)
    room.desk.shelf.rename(chat, "Mine")
    room.until(lambda: not room.desk.titles._writing)
    assert title(room, chat) == "Mine"
    say(room, "And of Spain?")
    settle(room)
    assert len(asked) == 1
    # Even where it is called as before: it is a person's title now.
    other = room.desk.shelf
    other.open_new()
    second = say(room)
    room.until(lambda: len(asked) == 2)
    other.rename(second, OLD)
    room.until(lambda: not room.desk.titles._writing)
    assert title(room, second) == OLD
    # One that is in the trash by then is called as it was.
    other.open_new()
    third = say(room)
    room.until(lambda: len(asked) == 3)
    room.desk.folders.trash_one(third)
    room.until(lambda: not room.desk.titles._writing)
    room.desk.folders.restore([third])
    room.until(lambda: room.desk.shelf.is_stored(third))
    assert title(room, third) == OLD


@pytest.mark.usefixtures("quick")
def test_nonsense_changes_nothing_and_is_not_asked_for_again(
    make_room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room(script("…")).start_ready()
    asked = asked_of(room, monkeypatch)
    chat = say(room)
    room.until(lambda: asked and not room.desk.titles._writing)
    say(room, "And of Spain?")
    settle(room)
    assert (len(asked), title(room, chat), notices(room)) == (1, OLD, [])
    room.desk.titles.write([chat])
    room.until(lambda: notices(room) == [NO_TITLE])


@pytest.mark.usefixtures("quick")
def test_off_temporary_and_texts_get_none(make_room: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    room = make_room(script("Capital of France")).start_ready()
    asked = asked_of(room, monkeypatch)
    room.desk.settings.set("write_titles", False)
    chat = say(room)
    room.desk.settings.set("write_titles", True)
    room.desk.temporary.open()
    say(room)
    settle(room)
    assert not asked
    room.desk.titles.write([room.desk.shelf.open.id])
    assert notices(room)[-1] == NOT_FOR_THIS
    # Because somebody says so, with a way back.
    room.desk.titles.write([chat])
    room.until(lambda: title(room, chat) == "Capital of France")
    assert not asked[0].is_background
    told = [e for e in room.events if isinstance(e, events.Noticed)][-1]
    assert told.sentence == f"“{OLD}” is now called “Capital of France”."
    room.desk.shelf.undo(told.undo)
    assert title(room, chat) == OLD


@pytest.mark.usefixtures("quick")
def test_it_waits_until_nothing_runs_and_a_missed_one_comes_later(
    make_room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room(script("Capital of France")).start_ready()
    asked = asked_of(room, monkeypatch)
    busy = [True]
    monkeypatch.setattr(room.desk.titles, "_is_busy", lambda: busy[0])
    first = say(room)
    room.desk.shelf.open_new()
    second = say(room, "And the capital of Spain, what is that?")
    room.desk.titles._look()
    assert not asked
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.loaded is None)
    busy[0] = False
    room.desk.titles._look()
    assert not asked
    room.desk.loader.load(room.desk.loader.path)
    room.until(lambda: {title(room, each) for each in (first, second)} == {"Capital of France"})
    assert "Spain" in asked[0].prompt.messages[1].content  # the newest first


@pytest.mark.usefixtures("quick")
def test_chats_of_former_runs_and_imported_titles_are_left_alone(
    make_room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room(script("Capital of France")).start_ready()
    asked = asked_of(room, monkeypatch)
    old = room.store.create_conversation(a_conversation(title="From elsewhere")).result()
    question = room.store.append_message(a_message(old, content="Hello?")).result()
    answer = a_message(old, question, content="Yes.", role=Role.ASSISTANT)
    room.store.append_message(answer).result()
    room.desk.shelf.show_list(room.store.list_conversations().result())
    room.desk.shelf.open_stored(old.id)
    room.until(lambda: room.desk.shelf.open.id == old.id)
    say(room, "And of Spain?")
    settle(room)
    assert not asked
    assert title(room, old.id) == "From elsewhere"


def test_a_server_is_asked_only_where_a_setting_says_so(
    make_room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room(script("Capital of France", ms=200)).start_ready()
    asked = asked_of(room, monkeypatch)
    chat = say(room)
    room.until(lambda: not room.desk.loader.engine.is_owing)
    offer = EngineOffer("server", "Server", "llama-server")
    monkeypatch.setattr(type(room.desk.loader), "remote", property(lambda _loader: offer))
    titles = room.desk.titles
    titles._look()
    assert not asked
    room.desk.settings.set("write_titles_remote", True)
    titles._look()
    assert not asked[0].prompt.continue_last  # servers do not take that all
    # A reply begins: there nothing rests by itself, so the title waits for another time.
    titles.give_way()
    room.until(lambda: not room.desk.loader.engine.is_owing)
    assert title(room, chat) == OLD
    titles._look()
    room.until(lambda: title(room, chat) == "Capital of France")
    assert len(asked) == 2


@pytest.mark.usefixtures("quick")
def test_several_are_written_in_turn_and_can_be_called_off(
    make_room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room(script(*["Capital of France"] * 4, ms=100)).start_ready()
    asked = asked_of(room, monkeypatch)
    monkeypatch.setattr(room.desk.titles, "_is_busy", lambda: True)
    chats = []
    for _ in range(3):
        room.desk.shelf.open_new()
        chats.append(say(room))
    room.desk.titles.write(chats)
    room.until(lambda: asked)
    told = [e for e in room.events if isinstance(e, events.Noticed)]
    assert [e.sentence for e in told] == ["Writing titles for 3 chats."]
    room.desk.titles.write(chats[:1])
    assert notices(room)[1:] == [WRITING]
    room.desk.shelf.undo(told[0].undo)
    room.until(lambda: not room.desk.titles._writing)
    assert len(asked) == 1
    # What ends one ends all, and is said once. One that is deleted meanwhile is passed over.
    room.desk.titles.write(chats)
    room.desk.folders.trash_one(chats[1])
    room.until(lambda: len(asked) == 3)
    assert room.desk.titles._writing == chats[2]
    room.desk.titles.write(chats[:1])
    n_told = len(notices(room))
    room.desk.loader.unload()
    room.until(lambda: not room.desk.titles._writing)
    assert len(notices(room)) == n_told + 1
    assert not room.desk.titles._asked_for


@pytest.mark.usefixtures("quick")
def test_where_the_engine_crashes_at_one_no_more_come_by_themselves(
    make_room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = {"match": TASK, "tokens": [{"signal": "SEGV"}]}
    made = script("Capital of France")
    room = make_room({**made, "replies": [crash, *made["replies"]]}).start_ready()
    asked = asked_of(room, monkeypatch)
    for count in (1, 2):
        room.desk.shelf.open_new()
        say(room)  # which loads the weights again
        room.until(lambda count=count: len(asked) == count)
        room.until(lambda: room.desk.loader.state.state == "crashed")
        room.until(lambda: not room.desk.titles._writing)
    room.desk.shelf.open_new()
    say(room)
    room.desk.titles._look()
    room.pump()
    assert len(asked) == 2
    assert {chat.title for chat in room.desk.shelf.conversations} == {OLD}


@pytest.mark.usefixtures("quick")
def test_what_a_document_says_is_no_part_of_what_is_asked(
    make_room: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A message is titled by its words; one of a document alone keeps the document's name."""
    room = make_room(script("Capital of France", "Never")).start_ready()
    asked = asked_of(room, monkeypatch)
    path = tmp_path / "secret.txt"
    path.write_text("the secret of the document " * 50)
    for words, name in ((QUESTION, "Capital of France"), ("", "secret.txt")):
        room.desk.shelf.open_new()
        room.desk.attachments.add_files([str(path)])
        room.until(lambda: room.desk.attachments.of_open)
        chat = say(room, words)
        settle(room)
        room.until(lambda chat=chat, name=name: title(room, chat) == name)
    (request,) = asked
    assert "secret" not in "".join(m.content for m in request.prompt.messages)
