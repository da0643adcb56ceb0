"""A request looked at as a chat: the same messages, the same reply, the same tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fake_server import FakeServer
from small_projectors import bmp, gif, jpeg, png
from tool_talk import scripted

from app.chat import events
from app.chat.attachments.attached_text import placed_media
from app.chat.replies.again import HAD_TO_CALL
from app.chat.replies.calls import answered_by, calls_of
from app.chat.server import log, opened
from app.engine.protocol.media_messages import Media
from app.engine.protocol.messages import Generate, Resume
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, TextPrompt
from app.engine.protocol.stages import Greedy, Sampling
from app.engine.protocol.tool_messages import Tool, ToolCall
from app.media_types import picture_size
from app.server.exchange import Exchange
from models.records import ConversationKind, MessageState, Role
from ui.windows.server.words import row_words

CALL = {"name": "get_current_time", "arguments": {"timezone": "Asia/Tokyo"}, "id": "call_1"}
SCRIPT: dict[str, Any] = {
    "replies": [
        {"match": "slow", "tokens": [{"text": "slow ", "ms": 5, "repeat": 4000}]},
        {"match": "brief", "tokens": [{"text": "brief ", "ms": 2, "repeat": 20}]},
        {"match": "What time", "ms": 1, "text": "Let me look.", "calls": [CALL]},
        {"text": "Paris is the capital of France."},
    ],
}


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def room(make_room: Callable[..., Any], server: FakeServer) -> Any:
    room = make_room(SCRIPT, server=server.start).start_ready()
    room.desk.server.set_on(True)
    room.until(lambda: room.desk.server.state.state == "on", "the server")
    return room


def row_of(room: Any, exchange: Any) -> log.Logged:
    return room.until(lambda: room.desk.server.log.get(exchange.number), "the row")


def answered(room: Any, exchange: Any) -> log.Logged:
    row = row_of(room, exchange)
    room.until(lambda: row.is_over and not room.desk.server.log.is_any_running, "its end")
    return row


def show(room: Any, exchange: Any) -> None:
    room.desk.server.open(exchange.number)
    assert room.desk.server.opened.is_on_screen


def test_its_figures_are_the_engines(room: Any, server: FakeServer) -> None:
    exchange = server.ask("What is the capital?")
    row = answered(room, exchange)
    summary = exchange.replies[0].summary
    assert (row.state, row.client, row.endpoint) == (
        "done",
        "127.0.0.1 · a client",
        "/v1/chat/completions",
    )
    assert (row.tokens_in, row.cached, row.tokens_out) == (
        summary.prompt_tokens,
        summary.reused,
        summary.generated,
    )
    assert room.of(events.ServedChanged)


def test_what_asks_for_no_reply_has_its_count_too(room: Any, server: FakeServer) -> None:
    exchange = Exchange("/v1/embeddings", "127.0.0.1", "a model", status=200, prompt_tokens=7)
    exchange.end()
    server.told(exchange)
    row = row_of(room, exchange)
    assert (row.tokens_in, row.cached, row.tokens_out) == (7, None, None)
    assert "7 tokens read" in row_words(row)


def test_messages_and_reply_are_shown_with_its_trace(room: Any, server: FakeServer) -> None:
    prompt = ChatPrompt(
        [
            ChatMessage("system", "Be brief."),
            ChatMessage("user", "Hello"),
            ChatMessage("assistant", "Yes?"),
            ChatMessage("user", "The capital?"),
        ]
    )
    sampling = Sampling(filters=[], select=Greedy(), seed=7)
    exchange = server.ask(
        generate=Generate(0, prompt, sampling, max_tokens=5, stop=["@"], alternatives=8)
    )
    answered(room, exchange)
    show(room, exchange)
    path = room.desk.shelf.path
    assert [(m.role, m.content) for m in path[:-1]] == [
        (Role.USER, "Hello"),
        (Role.ASSISTANT, "Yes?"),
        (Role.USER, "The capital?"),
    ]
    reply, summary = path[-1], exchange.replies[0].summary
    assert (reply.content, reply.seed, reply.state) == (summary.text, 7, MessageState.COMPLETE)
    assert reply.settings["system_prompt"] == "Be brief."
    assert reply.settings["max_tokens"] == 5
    assert reply.settings["stop_strings"] == ["@"]
    assert room.desk.shelf.open.settings["system_prompt"] == "Be brief."
    room.desk.growing.read_trace(reply.id)
    read = room.until(lambda: room.of(events.TraceRead), "its trace")[-1]
    assert [t.token_id for t in read.tokens] == list(summary.token_ids)
    assert room.desk.shelf.conversations == ()
    assert room.stored(room.desk.shelf.open.id)[-1].id == reply.id  # in the memory


def test_the_prompt_of_it_is_what_the_engine_was_given(room: Any, server: FakeServer) -> None:
    exchange = server.ask("Hello", "Yes?", "The capital?")
    answered(room, exchange)
    show(room, exchange)
    found: list[Any] = []
    reply = room.desk.shelf.path[-1].id
    room.desk.prompts.read(reply, found.append, still=lambda: True)
    shown = room.until(lambda: found, "the prompt")[0]
    assert shown.text == exchange.replies[0].summary.rendered_prompt
    assert shown.is_given


def test_one_that_grows_is_followed_and_stopped_as_any_reply(room: Any, server: FakeServer) -> None:
    exchange = server.ask("slow")
    row = row_of(room, exchange)
    room.until(lambda: (row.tokens_out or 0) > 2, "some tokens")
    assert row.state == "running"
    show(room, exchange)
    reply = room.desk.shelf.path[-1]
    assert (reply.state, reply.content[:5]) == (MessageState.STREAMING, "slow ")
    n_before = len(reply.content)
    room.until(lambda: len(room.desk.shelf.path[-1].content) > n_before, "more of it")
    assert room.of(events.TokenRecorded)[-1].message_id == reply.id
    assert len(room.desk.growing.trace_of(reply.id)) >= 2
    assert room.desk.replies.is_generating
    room.desk.replies.stop()
    room.until(lambda: not room.desk.replies.is_generating, "its end")
    assert answered(room, exchange).tokens_out == len(room.desk.shelf.path[-1].token_ids)
    assert room.desk.shelf.path[-1].state is MessageState.STOPPED


def test_it_goes_on_when_nobody_looks_any_more(room: Any, server: FakeServer) -> None:
    first, second = server.ask("brief"), server.ask("And here?")
    row_of(room, first)
    row_of(room, second)
    show(room, first)
    show(room, second)
    row = answered(room, first)
    assert (row.state, row.tokens_out) == ("done", 20)
    assert row.replies[0].ended.content == exchange_text(first)
    assert room.desk.growing.is_any is False


def exchange_text(exchange: Any) -> str:
    return str(exchange.replies[0].summary.text)


def test_several_replies_are_versions(room: Any, server: FakeServer) -> None:
    exchange = server.ask("The capital?", n=3)
    answered(room, exchange)
    show(room, exchange)
    reply = room.desk.shelf.path[-1]
    assert (reply.sibling_index, reply.sibling_count) == (2, 3)
    room.desk.paths.show_version(reply.id, -1)
    room.until(lambda: room.desk.shelf.path[-1].id != reply.id, "the one before")


def test_replies_to_several_prompts_stand_under_their_own(room: Any, server: FakeServer) -> None:
    texts = [TextPrompt("One"), TextPrompt("Two")]
    exchange = server.ask_all([Generate(0, text) for text in texts])
    row = answered(room, exchange)
    assert [each.asked.above.messages[0].content for each in row.replies] == ["One", "Two"]
    show(room, exchange)
    assert room.desk.text.text.startswith("One")


def test_a_text_that_was_continued_is_a_document(room: Any, server: FakeServer) -> None:
    exchange = server.ask(generate=Generate(0, TextPrompt("Once upon a time")))
    answered(room, exchange)
    show(room, exchange)
    assert room.desk.shelf.open.kind is ConversationKind.TEXT
    assert room.desk.text.text == "Once upon a time" + exchange_text(exchange)


def test_what_is_begun_by_the_client_is_given_and_not_drawn(room: Any, server: FakeServer) -> None:
    prompt = ChatPrompt(
        [ChatMessage("user", "The capital?"), ChatMessage("assistant", "It is ")],
        continue_last=True,
    )
    exchange = server.ask(generate=Generate(0, prompt))
    answered(room, exchange)
    show(room, exchange)
    reply = room.desk.shelf.path[-1]
    assert reply.content == "It is " + exchange_text(exchange)
    assert reply.settings["given"]["characters"] == len("It is ")
    assert [m.content for m in room.desk.shelf.path[:-1]] == ["The capital?"]


TOOLS = [Tool("get_current_time", "The time somewhere.", '{"type":"object"}'), Tool("other")]


def test_calls_and_their_results_are_shown_as_such(room: Any, server: FakeServer) -> None:
    call = ToolCall("call_0", "other", '{"a":1}')
    prompt = ChatPrompt(
        [
            ChatMessage("user", "Look it up"),
            ChatMessage("assistant", "", tool_calls=[call]),
            ChatMessage("tool", "Nothing.", tool_call_id="call_0", tool_name="other"),
            ChatMessage("user", "What time is it in Tokyo?"),
        ],
        tools=TOOLS,
        tool_choice="required",
    )
    exchange = server.ask(generate=Generate(0, prompt))
    answered(room, exchange)
    show(room, exchange)
    _, caller, result, _, reply = room.desk.shelf.path
    assert (calls_of(caller), result.role, result.content) == ((call,), Role.TOOL, "Nothing.")
    assert answered_by(result) == ToolCall("call_0", "other", "")
    assert [each.name for each in calls_of(reply)] == ["get_current_time"]
    found: list[Any] = []
    room.desk.prompts.read(reply.id, found.append, still=lambda: True)
    shown = room.until(lambda: found, "the prompt")[0]
    assert shown.text == exchange.replies[0].summary.rendered_prompt
    assert [each["name"] for each in reply.settings["tools"]] == ["get_current_time", "other"]
    room.desk.again.run(reply.id)
    assert room.of(events.Noticed)[-1].sentence == HAD_TO_CALL


def test_what_it_calls_is_for_its_client_alone(room: Any, server: FakeServer) -> None:
    mine = scripted()
    assert room.desk.tools.put(mine) == ""
    room.until(lambda: room.desk.tools.state(mine.id).state == "ready", "the server")
    (tool,) = [each.tool for each in room.desk.tools.known() if each.name == TOOLS[0].name]
    room.desk.tools.set_permission(mine.id, tool, "always")
    prompt = ChatPrompt([ChatMessage("user", "What time is it in Tokyo?")], tools=TOOLS)
    exchange = server.ask(generate=Generate(0, prompt, hold=True))
    row = row_of(room, exchange)
    room.until(lambda: row.replies, "its reply")
    show(room, exchange)
    server.engine.request(Resume(exchange.replies[0].request_id))
    answered(room, exchange)
    room.pump()
    assert [m.role for m in room.desk.shelf.path] == [Role.USER, Role.ASSISTANT]
    assert not room.desk.replies.is_generating
    assert room.desk.tool_calls.asked is None
    room.desk.server.opened.keep()
    kept = room.until(lambda: room.desk.shelf.conversations, "it is listed")[0]
    room.until(lambda: room.desk.shelf.open.id == kept.id, "it is opened")
    asked = room.desk.tool_calls.asked  # of a chat of one's own
    assert (asked.phase, asked.call.name) == ("asking", "get_current_time")


def test_the_users_own_temporary_chat_stays(room: Any, server: FakeServer) -> None:
    room.desk.temporary.open()
    room.ask("Hello")
    mine = room.desk.shelf.open.id
    exchange = server.ask("The capital?")
    answered(room, exchange)
    show(room, exchange)
    assert room.desk.temporary.is_begun
    room.desk.temporary.open()
    room.until(lambda: room.desk.shelf.open.id == mine, "my own")
    assert len(room.desk.shelf.path) == 2
    room.desk.temporary.end()
    assert room.desk.server.opened.row is not None
    room.desk.server.open(exchange.number)
    room.until(lambda: room.desk.server.opened.is_on_screen, "the request")
    assert len(room.desk.shelf.path) == 2


def test_it_is_never_written_unless_it_is_kept(room: Any, server: FakeServer) -> None:
    exchange = server.ask("The capital?")
    answered(room, exchange)
    show(room, exchange)
    chat, disk = room.desk.shelf.open.id, room.store._disk
    room.ask("And more?")
    assert disk.list_conversations().result(20) == ()
    room.desk.server.opened.keep()
    room.until(lambda: room.desk.shelf.conversations, "it is listed")
    kept = room.desk.shelf.conversations[0].id
    room.until(lambda: room.desk.shelf.open.id == kept, "it is opened")
    said = [m.content for m in room.desk.shelf.path]
    assert said[0] == "The capital?"
    assert [m.content for m in disk.load_conversation(kept).result(20)[1]] == said
    assert len(said) == 4
    assert disk.load_trace(room.desk.shelf.path[1].id).result(20)
    assert room.of(events.Noticed)[-1].sentence == opened.KEPT
    room.ask("Still there?")
    assert len(disk.load_conversation(kept).result(20)[1]) == 6
    room.desk.shelf.open_new()
    room.desk.server.open(exchange.number)
    room.until(lambda: room.desk.shelf.open.id == kept, "the chat that it was kept as")
    room.desk.shelf.trash(kept)
    room.desk.server.open(exchange.number)
    assert len(room.desk.shelf.path) == 2
    assert room.desk.server.opened.is_on_screen
    assert room.desk.shelf.open.id == chat


def test_pictures_come_along_at_their_places_and_are_kept(
    make_room: Callable[..., Any], server: FakeServer
) -> None:
    script = {**SCRIPT, "projector": {"tokens": 9, "audio": True}}
    room = make_room(script, server=server.start).start_ready()
    room.desk.server.set_on(True)
    room.until(lambda: room.desk.server.state.state == "on", "the server")
    png, wav = b"\x89PNG\r\n\x1a\n..", b"RIFF\x04\0\0\0WAVEfmt "
    media = [Media("file-1", "image", png, 5), Media("file-2", "audio", wav, 9)]
    said = [ChatMessage("user", "Look: and hear", media=media)]
    exchange = server.ask(generate=Generate(0, ChatPrompt(said)))
    row = answered(room, exchange)
    assert row.size_bytes >= len(png) + len(wav)
    show(room, exchange)
    shown = room.desk.shelf.path[0]
    assert [(a.kind, a.name, a.details["media_type"]) for a in shown.attachments] == [
        ("picture", "Picture 1", "image/png"),
        ("audio", "Sound 2", "audio/wav"),
    ]
    files = room.desk.shelf.files.for_prompt(shown.attachments, room.desk.loader.loaded)
    placed = placed_media(shown.attachments, files, shown.content)
    assert [(each.data, each.at) for each in placed] == [(png, 5), (wav, 9)]
    room.desk.server.opened.keep()
    room.until(lambda: room.desk.shelf.conversations, "it is listed")
    kept = room.desk.shelf.conversations[0].id
    room.until(lambda: room.desk.shelf.open.id == kept, "it is opened")
    first = room.desk.shelf.path[0].attachments[0]
    assert room.store._disk.load_file(first.id).result(20) == ("image/png", png)


def test_a_second_window_shows_what_it_was_asked(
    make_room: Callable[..., Any], room: Any, server: FakeServer
) -> None:
    own = FakeServer()
    second = make_room(SCRIPT, server=own.start, read_only=True).start_ready()
    second.desk.server.set_on(True)
    second.until(lambda: second.desk.server.state.state == "on", "the server")
    exchange = own.ask("The capital?")
    answered(second, exchange)
    show(second, exchange)
    assert [m.content for m in second.desk.shelf.path] == ["The capital?", exchange_text(exchange)]
    second.desk.growing.read_trace(second.desk.shelf.path[-1].id)
    second.until(lambda: second.of(events.TraceRead), "its trace")
    assert second.of(events.Noticed) == []
    second.desk.server.opened.keep()
    assert len(second.of(events.Noticed)) == 1  # it stays unsaved
    assert second.desk.server.opened.is_on_screen


def test_what_was_kept_meanwhile_does_not_come_over_another_chat(
    room: Any, server: FakeServer
) -> None:
    exchange = server.ask("The capital?")
    answered(room, exchange)
    show(room, exchange)
    room.desk.server.opened.keep()
    room.desk.shelf.open_new()
    new = room.desk.shelf.open.id
    room.until(lambda: room.desk.shelf.conversations, "it is listed")
    assert room.desk.shelf.open.id == new


def test_what_somebody_wrote_there_is_known(room: Any, server: FakeServer) -> None:
    first, second = server.ask("The capital?"), server.ask("And more?")
    answered(room, first)
    answered(room, second)
    is_own = lambda: room.desk.server.opened.has_own  # noqa: E731
    show(room, first)
    assert not is_own()
    room.desk.shelf.save_draft("Hm")
    assert is_own()
    room.desk.shelf.open_new()
    assert is_own()
    show(room, second)
    assert not is_own()
    room.ask("Go on")
    assert is_own()
    room.desk.server.opened.close()
    assert not is_own()


def test_while_it_grows_it_is_not_kept(room: Any, server: FakeServer) -> None:
    exchange = server.ask("slow")
    row_of(room, exchange)
    show(room, exchange)
    room.desk.server.opened.keep()
    assert room.of(events.Noticed)[-1].sentence == opened.IS_GROWING
    room.desk.server.stop(exchange.number)
    row = answered(room, exchange)
    assert (row.state, row.why) == ("stopped", log.STOPPED_HERE)


def test_the_model_that_goes_ends_it_in_words(room: Any, server: FakeServer) -> None:
    exchange = server.ask("slow")
    row = row_of(room, exchange)
    room.until(lambda: (row.tokens_out or 0) > 2, "some tokens")
    show(room, exchange)
    room.desk.loader.unload()
    room.until(lambda: not room.desk.replies.is_generating, "its end")
    assert room.desk.shelf.path[-1].content.startswith("slow slow")


def test_the_log_is_bounded_and_can_be_cleared(
    room: Any, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_REQUESTS", 3)
    asked = [server.ask("The capital?") for _ in range(4)]
    room.until(lambda: all(exchange.seconds is not None for exchange in asked), "their ends")
    room.until(lambda: len(room.desk.server.log) == 3, "the oldest went")
    assert [row.number for row in room.desk.server.log] == [each.number for each in asked[1:]]
    running = server.ask("slow")
    row_of(room, running)
    room.desk.server.clear()
    assert [row.number for row in room.desk.server.log] == [running.number]
    monkeypatch.setattr(log, "MAX_BYTES", 1)
    room.desk.server.stop(running.number)
    room.until(lambda: not room.desk.server.is_busy, "its end")
    assert len(room.desk.server.log) == 0
    assert room.desk.server.log._kept_bytes == 0
    assert room.desk.server.log._names == {}


def test_who_asked_is_known_by_the_engines_names(room: Any, server: FakeServer) -> None:
    generate = Generate(
        0,
        ChatPrompt([ChatMessage("user", "slow")]),
        conversation="served 1",
        reply_id="0d9c9d0e-3f0f-4a52-8b63-8b6a1f0e3a12",
    )
    exchange = server.ask(generate=generate)
    row_of(room, exchange)
    room.pump()
    of = room.desk.server.log.client_of
    assert of(generate.conversation) == of(generate.reply_id) == "127.0.0.1 · a client"
    assert of("another") == of("") == ""
    assert room.desk.cache.title(generate.conversation) == "127.0.0.1 · a client"
    show(room, exchange)
    assert room.desk.server.opened.engine_name == generate.conversation
    assert room.desk.shelf.path[-1].id == generate.reply_id


def test_how_large_a_picture_is_its_file_says() -> None:
    for made in (png(40, 30), gif(40, 30), bmp(40, 30), jpeg(40, 30)):
        assert picture_size(made) == (40, 30)
        for length in range(30):
            picture_size(made[:length])  # cut anywhere, it does no harm
    assert picture_size(b"\xff\xd8\xff\xe0") is None
    assert picture_size(b"<svg/>") is None
