"""Replies of a server, on a real store: who wrote them, what is unknown, and branching by text.

Nothing of this asks a server for what nobody has sent.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_servers import (
    DONE,
    ScriptedServer,
    Stream,
    delta,
    finish,
    llama_server,
    logprobs,
    ollama,
    plain,
    sse,
    token,
    usage,
)
from tool_talk import scripted as scripted_tools

from app.chat import events
from app.chat.replies import branch_at
from app.chat.replies.branch_at import text_branch
from app.chat.replies.reply import Beginning, TextBranch
from app.chat.replies.written_by import not_taken_of, writer_of
from app.chat.tour.wish import Wish
from app.engine.protocol.stages import Temperature, TopK
from app.insight.trace.message_tokens import first_chosen, n_given, n_taken_over
from app.insight.trace.table import TraceTable
from models.records import Message

CHAT = "/v1/chat/completions"
CITY = [("Paris", -0.1, "Rome", -2.5), (" is", -0.2, " was", -1.9), (" it", -0.7, " so", -0.9)]


def answer(*words: tuple[str, float, str, float]) -> Stream:
    events_ = [
        delta(text, logprobs(token(text, nats, (text, nats), (other, less))))
        for text, nats, other, less in words
    ]
    return Stream(sse(*events_, finish("stop"), usage(20, len(words)), DONE))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(llama_server()) as made:
        made.answers[CHAT] = answer(*CITY)
        yield made


@pytest.fixture
def on(make_room: Any) -> Callable[[ScriptedServer], Any]:
    """A room whose model is this server's."""

    def begin(server: ScriptedServer) -> Any:
        room = make_room().start_ready()
        engines, said = room.desk.engines, []
        engines.add("Box", server.url, "", said.append)
        assert said == [""]
        room.until(lambda: engines.all[-1].offer or engines.all[-1].sentence, "an answer")
        path = engines.all[-1].models()[0].path
        room.desk.loader.load(path)
        room.until(
            lambda: room.desk.loader.remote is not None and room.desk.loader.is_ready, "the model"
        )
        return room

    return begin


def trace(room: Any, message_id: str) -> list[Any]:
    before = len(room.of(events.TraceRead))
    room.desk.growing.read_trace(message_id)
    room.until(lambda: len(room.of(events.TraceRead)) > before, "the trace")
    return list(room.of(events.TraceRead)[-1].tokens)


def said(room: Any) -> str:
    return str(room.of(events.Noticed)[-1].sentence)


def branched(room: Any, old: Message) -> Message:
    reply: Message = room.until(
        lambda: (r := room.ended_reply()) and r.id != old.id and r, "the branch"
    )
    return reply


def test_the_reply_names_its_server_and_what_that_does_not_tell_is_unknown(
    on: Any, server: ScriptedServer
) -> None:
    room = on(server)
    reply = room.ask("Which city?")
    assert reply.content == "Paris is it"
    stored = room.stored()[-1]
    writer = writer_of(stored.settings)
    assert writer is not None
    assert (writer.name, writer.kind, writer.model) == ("Box", "llama-server", "m")
    assert "load" not in stored.settings
    assert stored.weights_name == "m · Box"
    assert stored.token_ids is None  # these events say no IDs
    assert not writer.has_timings  # nor times, as others of its kind do
    assert (stored.counts.prompt_tokens, stored.counts.generated) == (20, 3)
    tokens = trace(room, reply.id)
    assert [each.piece for each in tokens] == [b"Paris", b" is", b" it"]
    assert [each.token_id for each in tokens] == [-1, -1, -1]
    assert [(each.entropy, each.uniform) for each in tokens] == [(None, None)] * 3
    assert tokens[0].alternative_pieces == [b"Paris", b"Rome"]


def test_another_candidate_is_gone_on_from_by_its_text_with_its_own_figures(
    on: Any, server: ScriptedServer
) -> None:
    room = on(server)
    old = room.ask("Which city?")
    server.answers[CHAT] = answer((" fine", -0.3, " good", -1.2))
    room.desk.branches.at_piece(old.id, 1, b" was")
    new = branched(room, old)
    sent = server.asked(CHAT)[-1].body["messages"]
    assert sent[-1] == {"role": "assistant", "content": "Paris was"}
    assert new.content == "Paris was fine"
    assert (n_given(new), n_taken_over(new), first_chosen(new)) == (0, 1, 1)
    tokens = trace(room, new.id)
    assert [each.piece for each in tokens] == [b"Paris", b" was", b" fine"]
    assert [each.chosen for each in tokens] == [False, True, False]
    assert tokens[1].logprob == pytest.approx(-1.9, abs=1e-3)
    assert room.stored()[-1].settings["given"]["by_text"] is True
    # The old one stays, and a branch of the branch begins with all that it says.
    assert new.sibling_count == 2
    server.answers[CHAT] = answer(("!", -0.1, "?", -3.0))
    room.desk.branches.at_piece(new.id, 2, b" good")
    assert branched(room, new).content == "Paris was good!"


def test_a_text_that_was_no_candidate_stands_without_figures(
    on: Any, server: ScriptedServer
) -> None:
    room = on(server)
    old = room.ask("Which city?")
    server.answers[CHAT] = answer((" fine", -0.3, " good", -1.2))
    room.desk.branches.at_text(old.id, 1, " looks")
    new = branched(room, old)
    assert new.content == "Paris looks fine"
    assert [each.piece for each in trace(room, new.id)] == [b" fine"]
    assert n_given(new) is None  # a given beginning, of which no tokens are known


def test_what_stands_against_it_is_said(on: Any, server: ScriptedServer) -> None:
    room = on(server)
    first = room.ask("Which city?")
    room.desk.branches.at(first.id, 1, 7)
    assert said(room) == branch_at.NO_SUCH_CANDIDATE
    room.desk.branches.at_piece(first.id, 9, b"x")
    room.until(lambda: said(room) == branch_at.NO_SUCH_TOKEN.format(count=3), "no such token")
    room.desk.branches.at_piece(first.id, 1, b"\xf0\x9f")
    room.until(lambda: said(room) == branch_at.NOT_A_CHARACTER, "half a character")
    # On another engine it is said where to go.
    here = room.desk.loader.included or room.desk.loader.known_weights()
    assert here is not None
    room.desk.loader.load(str(room._script))
    room.until(lambda: room.desk.loader.is_ready and room.desk.loader.remote is None, "the script")
    room.desk.branches.at_piece(first.id, 1, b" was")
    assert "“m” on “Box” (llama-server" in said(room)


def test_a_server_that_cannot_continue_says_so(on: Any) -> None:
    with ScriptedServer(plain()) as server:
        server.answers[CHAT] = answer(*CITY)
        room = on(server)
        reply = room.ask("Which city?")
        room.desk.branches.at_piece(reply.id, 1, b" was")
        assert "continue" in said(room)
        assert len(server.asked(CHAT)) == 1


def test_what_only_this_program_s_engine_can_is_refused_in_words(on: Any) -> None:
    with ScriptedServer(ollama()) as server:
        server.answers[CHAT] = answer(*CITY)
        room = on(server)
        reply = room.ask("Which city?")
        desk = room.desk
        for act in (
            desk.step.begin,
            lambda: desk.again.run(reply.id),
            lambda: desk.summaries.now(lambda _id: False),
        ):
            before = len(room.of(events.Noticed))
            act()
            assert len(room.of(events.Noticed)) == before + 1
            assert "“Box”" in said(room)
        assert not desk.step.is_on
        assert "“Box”" in desk.beams.why_not()
        assert "“Box”" in desk.seeds.start(reply.id, 8, 8)
        assert "“Box”" in desk.inside.refusal(reply) or "this computer" in desk.inside.refusal(
            reply
        )


def test_a_draft_is_not_given_to_a_server_before_it_is_sent(
    on: Any, server: ScriptedServer, soon: None
) -> None:
    room = on(server)
    asked = len(server.requests)
    room.desk.shelf.save_draft("My secret plan")
    room.desk.attachments.add_paste("A secret file " * 500)
    room.until(lambda: room.desk.attachments.of_open, "the attachment")
    room.desk.meter.count_soon()
    room.ask("Which city?")
    bodies = [str(each.body) for each in server.requests[asked:]]
    assert [each.path for each in server.requests[asked:]] == [CHAT]
    assert "My secret plan" not in "".join(bodies)


def test_a_trace_that_comes_after_another_version_was_shown_branches_nothing(
    on: Any, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = on(server)
    old = room.ask("Which city?")
    disk = room.store._disk
    load, late = disk.load_trace, []
    monkeypatch.setattr(disk, "load_trace", lambda i: (late.append(load(i)), late[0])[1])
    room.desk.branches.at_piece(old.id, 1, b" was")
    room.desk.shelf.open_new()
    late[0].result(20)
    room.pump()
    assert len(server.asked(CHAT)) == 1


def test_the_beginning_is_told_from_the_text_and_its_tokens() -> None:
    from recording_desk import message

    from app.engine.protocol.frames import Array
    from app.engine.protocol.messages import TokenTrace
    from models.records import Role

    def made(text: bytes, *others: bytes) -> TokenTrace:
        nats = [-0.5, *(-1.5 for _ in others)]
        n = len(nats)
        return TokenTrace(
            0, -1, text, -0.5, None, None, Array.of("i4", [-1] * n), Array.of("f4", nats), [], 1.0,
            alternative_pieces=[text, *others],
        )  # fmt: skip

    thought = message(2, Role.ASSISTANT, "It is 4", reasoning="2+2")
    table = TraceTable(
        map(made, (b"<think>", b"2", b"+2", b"</think>", b"\n\n", b"It", b" is", b" 4"))
    )
    inside = text_branch(thought, 2, b"+3", table, "p")
    assert inside == Beginning("", "2+3", None, "m2")
    behind = text_branch(thought, 7, b" 5", table, "p")
    assert behind == Beginning("It is 5", "2+2", None, "m2")
    assert text_branch(thought, 0, b"x", table, "p") == branch_at.NOT_IN_TEXT
    table.append(made(b"!", b"?"))
    loud = message(3, Role.ASSISTANT, "It is 4!", reasoning="2+2")
    asked = text_branch(loud, 8, b"?", table, "p")
    assert isinstance(asked, TextBranch)
    assert (asked.content, len(asked.head), asked.head[8].chosen) == ("It is 4?", 9, True)


def test_several_answers_an_attachment_and_thinking_go_as_they_do_here(
    on: Any, server: ScriptedServer
) -> None:
    server.answers[CHAT] = Stream(
        sse(delta(reasoning_content="A city."), delta("Paris"), finish("stop"), usage(9, 4), DONE)
    )
    room = on(server)
    room.desk.attachments.add_paste("line\n" * 2_000)
    room.until(lambda: room.desk.attachments.of_open, "the attachment")
    assert room.desk.attachments.of_open[0].tokens is None  # no server is asked before it is sent
    reply = room.ask("Which city is in it?")
    assert (reply.reasoning, reply.content) == ("A city.", "Paris")
    assert "line\nline" in server.asked(CHAT)[-1].body["messages"][-1]["content"]
    room.desk.replies.ask_several(reply.id, [{"temperature": 0.1}, {"temperature": 0.9}])
    room.until(lambda: len(server.asked(CHAT)) == 3, "both")
    room.until(lambda: not room.desk.replies.is_generating, "their ends")
    assert sorted(each.body["temperature"] for each in server.asked(CHAT)[1:]) == [0.1, 0.9]
    assert room.desk.shelf.path[-1].sibling_count == 3


def test_who_wrote_it_goes_along_into_an_export_and_comes_back(
    on: Any, server: ScriptedServer, tmp_path: Path
) -> None:
    room = on(server)
    reply = room.ask("Which city?")
    exported = tmp_path / "chat.json"
    room.desk.exchange.export([room.desk.shelf.open.id], str(exported), "json")
    room.until(exported.exists, "the file")
    text = exported.read_text()
    assert '"engine"' in text
    assert "m · Box" in text
    assert server.url not in text  # where it was is nobody's business
    assert reply.content in text


def test_what_is_stored_of_a_writer_is_untrusted() -> None:
    assert writer_of({}) is None
    assert writer_of({"engine": "Box"}) is None
    odd = writer_of({"engine": {"name": "B\nx" + "y" * 9_000, "kind": 7, "not_taken": []}})
    assert odd is not None
    assert odd.name.startswith("B xy")
    assert len(odd.name) <= 200
    assert (odd.kind, odd.model, odd.has_timings) == ("", "", False)
    assert not_taken_of({"engine": {"not_taken": {"top-k": 7}}}, [TopK()]) == {}
    told = not_taken_of({"engine": {"not_taken": {"top-k": "No."}}}, [Temperature(), TopK()])
    assert {at: each.sentence for at, each in told.items()} == {1: "No."}


def test_a_chat_is_not_given_to_a_server_by_looking_at_it(on: Any, server: ScriptedServer) -> None:
    room = on(server)
    asked = len(server.requests)
    room.desk.shelf.save_draft("My secret plan")
    found: list[Any] = []
    room.desk.prompts.read_next(found.append, still=lambda: True)
    assert "given nothing before you send it" in found[0].sentence
    assert len(server.requests) == asked


def test_a_model_goes_with_its_server_and_follows_it_to_another_address(
    on: Any, server: ScriptedServer
) -> None:
    room = on(server)
    engines = room.desk.engines
    engine_id = engines.all[0].address.id
    with ScriptedServer(llama_server()) as other:
        other.answers[CHAT] = answer(("There", -0.1, "Here", -2.0))
        engines.change(engine_id, "Box", other.url, "", lambda _sentence: None)
        room.until(lambda: room.desk.loader.is_loading, "the other address")
        room.until(lambda: room.desk.loader.is_ready, "the model there")
        assert room.ask("Where are you?").content == "There"
        assert server.asked(CHAT) == []
        engines.remove(engine_id)
        room.until(lambda: room.desk.loader.state.state == "stopped", "nothing")


def test_a_page_about_its_token_has_no_number_that_was_not_told(on: Any, tmp_path: Path) -> None:
    with ScriptedServer(ollama()) as server:
        server.answers[CHAT] = answer(*CITY)
        room = on(server)
        reply = room.ask("Which city?")
        page = tmp_path / "page.html"
        room.desk.pages.save(Wish(reply, tuple(trace(room, reply.id)), 1), str(page))
        room.until(lambda: room.of(events.PageSaved), "the page")
        text = html.unescape(re.sub(r"<[^>]+>", " ", page.read_text().partition("</style>")[2]))
        assert re.findall(r".{20}\s-1\s.{20}", text) == []
        assert "Top-k stopped" not in text  # Ollama doesn't take it
        assert "As the server told them." in text


def test_a_server_s_model_calls_a_tool_of_ours_and_answers_its_result(on, server):
    function = {"name": "get_current_time", "arguments": '{"timezone": "Asia/Tokyo"}'}
    call = delta(tool_calls=[{"index": 0, "id": "c1", "function": function}])
    server.answers[CHAT] = Stream(sse(call, finish("tool_calls"), usage(20, 9), DONE))
    room = on(server)
    mine = scripted_tools()
    assert room.desk.tools.put(mine) == ""
    room.until(lambda: room.desk.tools.state(mine.id).state == "ready", "the tools")
    assert room.desk.replies.send("What time is it in Tokyo?")
    asked = room.until(
        lambda: (now := room.desk.tool_calls.asked) and now.phase == "asking" and now, "the call"
    )
    assert asked.trouble == ""
    server.answers[CHAT] = answer(("Half past nine.", -0.1, "Ten.", -3.0))
    assert room.desk.tool_calls.run() == ""
    room.until(lambda: room.desk.shelf.path[-1].content == "Half past nine.", "the answer")
    first, second = (each.body for each in server.asked(CHAT)[-2:])
    assert first["tools"][0]["function"]["name"] == "get_current_time"
    called, result = second["messages"][-2:]
    assert called["tool_calls"][0]["id"] == result["tool_call_id"] == "c1"
    assert "2026-12-01T09:30:00+09:00" in result["content"]
    assert called["tool_calls"][0]["function"]["name"] == "get_current_time"
