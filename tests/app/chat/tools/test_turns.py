"""Calls of replies from the question to the answer: asked, run at a scripted server, kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import keyring
import msgspec
import pytest
from keyring.backend import KeyringBackend
from tool_talk import scripted

from app.chat import events
from app.chat.replies.calls import calls_of
from app.chat.tools.results import result_of
from app.chat.tools.turns import Asked
from app.tools.servers import ToolServer, new_id
from models.records import MessageState, Role

TIME = "2026-12-01T09:30:00+09:00"


def call(arguments: Any, name: str = "get_current_time", **rest: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, **rest}


def script(*calls: dict[str, Any], text: str = "One moment.") -> dict[str, Any]:
    """It calls when it is asked, and answers what a tool said."""
    return {
        "replies": [
            {"match": "What time", "text": text, "calls": list(calls)},
            {"text": "Half past nine."},
        ]
    }


TOKYO = script(call({"timezone": "Asia/Tokyo"}))


@pytest.fixture
def room_with(make_room) -> Callable[..., Any]:
    def make(script: dict[str, Any] = TOKYO, kind: str = "", **fields: Any) -> Any:
        room = make_room(script).start_ready()
        room.server = scripted(kind, **fields)
        assert room.desk.tools.put(room.server) == ""
        room.until(lambda: room.desk.tools.state(room.server.id).state == "ready", "the server")
        return room

    return make


def asked(room, phase: str = "asking") -> Asked:
    def found() -> Asked | None:
        now = room.desk.tool_calls.asked
        return now if now is not None and now.phase == phase else None

    return room.until(found, phase)


def question(room, text: str = "What time is it in Tokyo?") -> Asked:
    assert room.desk.replies.send(text)
    return asked(room)


def answered(room) -> list[Any]:
    def is_over() -> bool:
        last = room.ended_reply()
        return last is not None and not calls_of(last)

    room.until(is_over, "the answer")
    return list(room.desk.shelf.path)


def test_a_call_is_asked_run_and_answered(room_with):
    room = room_with()
    now = question(room)
    assert (now.call.name, now.number, now.n_calls) == ("get_current_time", 1, 1)
    assert json.loads(now.arguments) == {"timezone": "Asia/Tokyo"}
    assert not room.desk.replies.is_generating
    assert len(room.desk.shelf.path) == 2, "nothing has run"

    assert room.desk.tool_calls.run() == ""
    path = answered(room)
    assert [m.role for m in path] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    result = path[2]
    assert json.loads(result.content)["datetime"] == TIME
    known = result_of(result)
    assert (known.ended, known.server, known.is_edited) == ("done", "scripted", False)
    assert path[3].content == "Half past nine."
    assert [m.content for m in room.stored()] == [m.content for m in path]
    # The tools that were offered stand in the prompt, and with the reply.
    assert "Get the current time" in room.store.load_message(path[1].id).result(20).rendered_prompt
    assert path[1].settings["tools"][0]["name"] == "get_current_time"
    assert TIME in room.store.load_message(path[3].id).result(20).rendered_prompt


def test_arguments_are_checked_and_edited(room_with):
    room = room_with(script(call({"timezone": 7})))
    now = question(room)
    assert now.trouble == "“timezone” must be text."
    assert room.desk.tool_calls.run() == now.trouble
    assert room.desk.tool_calls.run("{") .startswith("The arguments aren't valid JSON")  # fmt: skip
    assert len(room.desk.shelf.path) == 2, "nothing has run"
    assert room.desk.tool_calls.run('{"timezone": "Asia/Tokyo"}') == ""
    path = answered(room)
    assert path[2].content.startswith('(The user changed the arguments to {"timezone": "Asia')
    assert result_of(path[2]).is_edited


def test_what_is_declined_is_told_to_the_model(room_with):
    room = room_with()
    question(room)
    room.desk.tool_calls.decline()
    path = answered(room)
    assert path[2].content == "The user declined this call."
    assert result_of(path[2]).ended == "declined"


def test_once_always_and_never(room_with):
    room = room_with()
    question(room)
    room.desk.tool_calls.run(always=True)
    answered(room)
    assert room.desk.replies.send("What time is it now?")
    path = answered(room)
    assert len(path) == 8, "it was not asked again"

    # Another description is another tool: it is asked for again.
    server = room.desk.tools.server(room.server.id)
    room.desk.tools._keep([msgspec.structs.replace(server, always={"get_current_time": "0" * 32})])
    question(room, "What time is it then?")
    assert "changed" in room.desk.tool_calls.asked.note
    room.desk.tool_calls.decline(never=True)
    answered(room)
    assert room.desk.tools.offered(room.desk.shelf.open)[0].tool.name != "get_current_time"


def test_another_command_is_not_allowed_what_the_former_was(room_with):
    room = room_with()
    tools = room.desk.tools
    tools.set_permission(room.server.id, tools.known()[0].tool, "always")
    assert tools.known()[0].permission == "always"
    server = tools.server(room.server.id)
    assert tools.put(msgspec.structs.replace(server, arguments=(*server.arguments, "more"))) == ""
    assert not tools.server(room.server.id).always


def test_several_calls_and_nonsense_in_one_reply(room_with):
    calls = [
        call({"timezone": "Asia/Tokyo"}),
        call({}, name="no_such_tool"),
        call("not json"),
    ]
    room = room_with(script(*calls))
    now = question(room)
    assert (now.number, now.n_calls) == (1, 3)
    room.desk.tool_calls.run(rest=True)
    path = answered(room)
    assert [result_of(m).ended for m in path[2:5]] == ["done", "failed", "failed"]
    assert path[3].content.startswith("Error: There is no tool “no_such_tool”. Tools: get_curr")
    assert "valid JSON" in path[4].content


def test_rounds_have_a_limit_and_go_on_when_told(room_with):
    endless = {"replies": [{"text": "Again.", "calls": [call({"timezone": "Asia/Tokyo"})]}]}
    room = room_with(endless)
    room.desk.settings.set("tool_rounds", 2)
    room.desk.tools.set_permission(room.server.id, room.desk.tools.known()[0].tool, "always")
    assert room.desk.replies.send("What time is it?")
    assert asked(room, "limit").n_rounds == 2
    n_messages = len(room.desk.shelf.path)
    room.desk.tool_calls.go_on()
    room.until(lambda: len(room.desk.shelf.path) > n_messages, "one more round")
    asked(room, "limit")


def test_a_stop_ends_the_call_at_the_server_and_it_is_open_again(room_with):
    room = room_with(script(call({"what": "hang"}, name="do")))
    question(room)
    room.desk.tool_calls.run()
    room.until(lambda: (now := room.desk.tool_calls.asked) and now.progress == "1", "it runs")
    assert room.desk.replies.is_generating, "Send is Stop"
    room.desk.replies.stop()
    now = asked(room)
    assert "Stopped" in now.note
    assert not room.desk.replies.is_generating
    log = lambda: room.desk.tools.log_of(room.server.id)  # noqa: E731
    room.until(lambda: any("cancelled" in line for line in log()), "the server is told")
    room.desk.tool_calls.run('{"what": "x"}')
    answered(room)


@pytest.mark.soak
def test_a_server_that_dies_in_the_call_is_told_and_started_again_for_the_next(room_with):
    room = room_with(script(call({"what": "die"}, name="do")))
    question(room)
    room.desk.tool_calls.run()
    path = answered(room)
    assert path[2].content == "Error: The server ended in the middle of the call."
    room.until(lambda: room.desk.tools.state(room.server.id).state == "ended", "it ended")
    assert room.desk.replies.send("What time is it?")
    answered(room)
    # It is not offered while it does not run; a call that is open starts it.
    assert not room.desk.tools.offered(room.desk.shelf.open)
    room.desk.tools.when_ready(room.server.id, lambda _state: None)
    room.until(lambda: room.desk.tools.state(room.server.id).state == "ready", "again")


def test_what_was_open_when_the_app_was_killed_is_asked_again(room_with, make_room):
    room = room_with(script(call({"what": "hang"}, name="do")))
    now = question(room)
    room.desk.tools.set_permission(room.server.id, now.offered.tool, "always")
    room.desk.tool_calls.run()
    asked(room, "running")
    room.close()

    again = make_room(TOKYO).start_ready()
    now = asked(again)
    assert now.call.name == "do"
    assert len(again.desk.shelf.path) == 2
    again.desk.tools._start_all()
    again.until(lambda: again.desk.tool_calls.asked.offered is not None, "its tool is known")
    assert again.desk.tool_calls.asked.phase == "asking", "what was open is asked, always or not"
    again.desk.tool_calls.decline()
    answered(again)


def test_a_result_that_belongs_nowhere_any_more_is_dropped(room_with):
    room = room_with(script(call({"what": "hang"}, name="do")))
    question(room)
    room.desk.tool_calls.run()
    asked(room, "running")
    shelf = room.desk.shelf
    shelf.replace_path(shelf.open.id, shelf.path[:1])
    assert not room.desk.tool_calls.is_running(shelf.open.id)
    assert any("dropped" in each.sentence for each in room.of(events.Noticed))
    assert [m.role for m in room.stored()] == [Role.USER, Role.ASSISTANT]


def test_a_call_goes_on_while_another_chat_is_open(room_with):
    room = room_with(script(call({"what": "progress"}, name="do")))
    question(room)
    chat = room.desk.shelf.open.id
    room.desk.tool_calls.run()
    room.desk.shelf.open_new()
    assert room.desk.tool_calls.asked is None

    def is_answered() -> bool:
        found = room.stored(chat)
        return len(found) == 4 and found[3].state is MessageState.COMPLETE

    room.until(is_answered, "the answer in the chat behind")
    assert room.stored(chat)[2].content == "after progress"


def test_calls_that_were_passed_over_leave_the_prompt(room_with):
    room = room_with()
    question(room)
    assert room.desk.replies.send("Never mind.")
    path = answered(room)
    prompt = room.store.load_message(path[-1].id).result(20).rendered_prompt
    assert "One moment." in prompt
    assert "<tool_call>" not in prompt


def test_a_result_in_full_is_a_file_that_the_model_does_not_see(room_with, monkeypatch):
    monkeypatch.setattr("app.tools.answers.MAX_RESULT_CHARACTERS", 100)
    room = room_with(script(call({"what": "huge"}, name="do")))
    question(room)
    room.desk.tool_calls.run()
    path = answered(room)
    (whole,) = path[2].attachments
    assert (whole.name, whole.size_bytes) == ("do.txt", 200_000)
    assert room.stored()[2].attachments[0].text == whole.text
    prompt = room.store.load_message(path[3].id).result(20).rendered_prompt
    assert "0123456789" * 10 + "\n\n[199,900 more characters are in the" in prompt
    assert "0123456789" * 11 not in prompt


def test_tools_are_switched_in_a_chat_and_kept_with_it(room_with):
    room = room_with()
    tools, shelf = room.desk.tools, room.desk.shelf
    assert len(tools.offered(shelf.open)) == 3
    tools.switch(f"{room.server.id}/do", is_on=False)
    assert [each.name for each in tools.offered(shelf.open)] == ["get_current_time", "shout"]
    room.desk.levels.change("chat", "temperature", 1.0)
    assert len(tools.offered(shelf.open)) == 2, "other settings of the chat leave it alone"
    tools.switch("*", is_on=False)
    assert not tools.tools_of(shelf.open)
    assert room.desk.levels.resolved().settings.tools == ()
    room.desk.replies.send("What time is it?")
    assert len(answered(room)) == 2
    tools.set_on(room.server.id, "do", is_on=False)
    shelf.open_new()
    assert [each.name for each in tools.offered(shelf.open)] == ["get_current_time", "shout"]
    tools.put(msgspec.structs.replace(tools.server(room.server.id), is_on=False))
    assert not tools.offered(shelf.open)
    tools.remove(room.server.id)
    assert not tools.all


class _Ring(KeyringBackend):
    priority = 1

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


@pytest.fixture
def ring() -> Iterator[_Ring]:
    before, made = keyring.get_keyring(), _Ring()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


def test_the_value_of_a_secret_is_in_the_keyring_and_at_its_server_alone(
    room_with, make_room, ring
):
    room = room_with(script(call({"what": "value", "name": "PASS"}, name="do")))
    server = msgspec.structs.replace(room.server, id=new_id(), name="other", secrets=("PASS",))
    assert room.desk.tools.put(server, {"PASS": "open sesame"}) == ""
    room.until(lambda: room.desk.tools.state(server.id).state == "ready", "with its secret")
    assert list(ring.kept.values()) == ['{"PASS": "open sesame"}']
    stored = room.store.all_settings().result(20)
    assert "open sesame" not in json.dumps(stored["tool_servers"])
    name = next(each.name for each in room.desk.tools.known() if each.server.id == server.id and
                each.tool.name == "do")  # fmt: skip
    assert name == "other_do", "the model tells two tools of one name apart"
    room.close()

    # Found again, unless somebody changed what is started: that gets no secret of another's.
    again = make_room(TOKYO).start_ready()
    again.desk.tools.start(server.id)
    again.until(lambda: again.desk.tools.state(server.id).state == "ready", "from the keyring")
    moved = msgspec.structs.replace(server, command="/bin/cat")
    again.desk.tools._keep([moved])
    again.desk.tools.start(server.id)
    failed = again.until(
        lambda: (now := again.desk.tools.state(server.id)).state == "failed" and now, "without"
    )
    assert failed.sentence == "The value of “PASS” is missing. Enter it again."
    again.desk.tools._keep([server])
    again.desk.tools.remove(server.id)
    again.until(lambda: not ring.kept, "nothing stays behind")


def test_resources_and_prompts_are_attached_to_the_draft(room_with):
    room = room_with()
    tools, state = room.desk.tools, room.desk.tools.state(room.server.id)
    tools.attach_resource(room.server.id, state.resources[0])
    room.until(lambda: room.desk.attachments.of_open, "the attachment")
    assert room.desk.attachments.of_open[0].text == "The text of note://one"
    texts: list[str] = []
    tools.get_prompt(room.server.id, "poem", {"topic": "rain"}, texts.append)
    room.until(lambda: texts, "the prompt")
    assert texts == ["Write a poem about rain."]
    tools.get_prompt(room.server.id, "poem", {"topic": "snow"}, texts.append)
    room.desk.shelf.open_new()
    tools.get_prompt(room.server.id, "nothing", {}, texts.append)
    room.until(lambda: any("No text" in each.sentence for each in room.of(events.Noticed)))
    assert texts == ["Write a poem about rain."], "another chat was on screen"


def test_offline_ends_servers_by_address(make_room):
    room = make_room(TOKYO).start_ready()
    address = "http://192.0.2.1/mcp"
    server = ToolServer(new_id(), "web", "http", address=address, is_on=True)
    room.desk.settings.set("offline", True)
    assert room.desk.tools.put(server) == ""
    assert room.desk.tools.state(server.id).sentence.startswith("Cutaway is offline,")
    here = ToolServer(new_id(), "here", "http", address="http://127.0.0.1:9/mcp")
    room.desk.settings.set("local_engines_offline", True)
    room.desk.tools.put(here)
    room.until(lambda: room.desk.tools.state(here.id).state == "failed", "it was asked")
    assert room.desk.tools.state(here.id).sentence == "Nothing answers at this address."


def test_a_result_that_is_too_long_for_the_window_can_be_shortened(room_with):
    room = room_with(script(call({"what": "huge"}, name="do")))
    question(room)
    room.desk.tool_calls.run()
    result, failed = answered(room)[2:]
    assert failed.stop_reason == "prompt_too_long"
    assert "Shorten the tool's result, start a new chat, or set a larger" in failed.error
    assert failed.settings["room"]["result"] == result.id
    assert room.desk.tree.edit_and_send(result.id, "In short: 0123.")
    room.until(lambda: room.desk.shelf.path[-1].content == "Half past nine.", "the answer")
    version = room.desk.shelf.path[2]
    assert (version.content, version.sibling_count) == ("In short: 0123.", 2)
    assert result_of(version).server == "scripted"


def test_a_tool_that_is_off_in_this_chat_is_asked_for_whatever_was_allowed(room_with):
    room = room_with(script(*[call({"timezone": "Asia/Tokyo"})] * 3))
    question(room)
    room.desk.tools.switch("*", is_on=False)
    assert room.desk.tool_calls.asked.note == "This tool is off in this chat."
    room.desk.tool_calls.run(always=True, rest=True)
    assert room.until(lambda: (now := asked(room)).number == 2 and now, "the next one").note
    assert len(room.desk.shelf.path) == 3, "it was not run by itself"


def test_a_call_is_found_by_its_name_and_its_arguments(room_with):
    room = room_with()
    question(room)
    room.desk.tool_calls.run()
    result, reply = answered(room)[2:]
    for words in ("get_current_time", "Asia/Tokyo timezone"):
        hits = room.store.search(words).result(20).hits
        assert [hit.message_id for hit in hits] == [result.id]
    assert not room.store.search("has:reasoning time").result(20).hits
    prompt = room.store.load_message(reply.id).result(20).rendered_prompt
    assert "get_current_time({" not in prompt


def test_what_is_refused_is_never_taken_for_a_result_without_an_answer(room_with):
    room = room_with(script(call({}, name="no_such_tool"), call({"timezone": "Asia/Tokyo"})))
    phases: list[str] = []
    calls = room.desk.tool_calls

    def look() -> bool:
        now = calls.asked
        phases.append(now.phase if now is not None else "")
        return phases[-1] == "asking"

    on_added = room.desk.around.emit

    def emit(event: Any) -> None:
        look()
        on_added(event)
        look()

    room.desk.around.emit = emit
    assert room.desk.replies.send("What time is it in Tokyo?")
    room.until(look, "the second call")
    calls.decline()
    answered(room)
    assert "saving" in phases
    assert "over" not in phases


def test_the_next_reply_must_call_where_that_is_chosen_and_the_one_after_it_need_not(room_with):
    room = room_with()
    room.desk.next_reply.put("tool_choice", "required")
    chat = room.desk.shelf.open
    choices: list[tuple[str, bool]] = []
    generate = room.desk.loader.engine.generate

    def note(command: Any, *rest: Any, **more: Any) -> int:
        choices.append((command.prompt.tool_choice, command.prompt.parallel_tool_calls))
        return generate(command, *rest, **more)

    room.desk.loader.engine.generate = note
    question(room)
    assert not room.desk.next_reply.changes(room.desk.shelf.conversation(chat.id))
    room.desk.tool_calls.run()
    reply = answered(room)[1]
    assert choices == [("required", False), ("auto", True)]
    assert reply.settings["tool_choice"] == "required"


def test_what_is_said_of_a_stopped_call_is_said_of_no_other_of_its_id(room_with):
    same = call({"what": "hang"}, name="do", id="functions.do:0")
    room = room_with(script(same))
    question(room)
    room.desk.tool_calls.run()
    asked(room, "running")
    room.desk.replies.stop()
    assert "Stopped" in asked(room).note
    room.desk.shelf.open_new()
    assert question(room).call.id == "functions.do:0"
    assert room.desk.tool_calls.asked.note == ""
