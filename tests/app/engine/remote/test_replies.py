"""Replies as each kind of server streams them (shapes: `scripted_servers`, `answer`)."""

from __future__ import annotations

import json
import math

import pytest
import scripted_servers as servers
from remote_talk import CHAT, TEXT, WAIT_S
from scripted_servers import (
    DONE,
    HOLD,
    Reply,
    ScriptedServer,
    Stream,
    chunk,
    delta,
    finish,
    logprobs,
    sse,
    token,
    usage,
)

from app.engine.client.supervisor import EngineState, StateChanged
from app.engine.protocol.messages import Failed, Finished, Generate, Progress, Stopped
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, IdsPrompt, TextPrompt
from app.engine.protocol.remote_messages import EngineAddress, remote_path
from app.engine.protocol.stages import Greedy, Sampling
from app.engine.protocol.tool_messages import Tool, ToolCall, ToolCalled
from app.engine.remote.engine import Reach, RemoteEngine
from app.hub.gate import Gate

OURS = ChatPrompt([ChatMessage("user", "Hi")])


def streamed(*events):
    return Stream(sse(*events, DONE))


def test_openais_shape(talk):
    one = talk(servers.plain())
    one.server.answers[CHAT] = streamed(
        delta("", role="assistant"),
        delta(" Hel", logprobs(token(" Hel", -0.5, (" Hel", -0.5), (" No", -2.0)))),
        delta("lo", logprobs(token("lo", -3.0, ("l", -0.25), ("m", -1.5)))),
        finish("stop"),
        usage(12, 3, prompt_tokens_details={"cached_tokens": 8}),
    )
    summary = one.reply(alternatives=2, sampling=Sampling([]))
    assert (summary.text, one.text(), summary.stop_reason) == (" Hello", " Hello", "end_token")
    first, second = one.tokens
    assert (first.index, first.piece, first.logprob, first.rank) == (0, b" Hel", -0.5, 1)
    assert (second.index, second.rank, second.entropy, second.token_id) == (1, None, None, -1)
    assert second.alternative_pieces == [b"l", b"m"]
    assert second.alternative_logprobs.numbers().tolist() == [-0.25, -1.5]
    assert second.log_total is None
    assert (summary.prompt_tokens, summary.reused, summary.evaluated) == (12, 8, 4)
    # The end token is counted there, and is no part of the reply.
    assert (summary.generated, summary.context_used) == (2, 14)
    assert summary.token_ids == []
    assert {"token_ids", "context_size", "prefill_s", "n_threads"} == set(summary.unknown)
    assert one.notes == []


def test_without_log_probabilities_text_comes_without_records(talk):
    one = talk(servers.lm_studio())
    one.server.answers[CHAT] = streamed(delta("Hel"), delta("lo"), finish("stop"))
    summary = one.reply(stop=["x"])
    assert (summary.text, one.text(), one.tokens) == ("Hello", "Hello", [])
    # Nobody says how many, nor whether a stop string or the end token ended it.
    assert {"generated", "prompt_tokens", "reused", "tokens_per_s"} <= set(summary.unknown)
    assert summary.stop_reason == ""


def test_a_single_token_without_a_record_is_one(talk):
    one = talk(servers.lm_studio())
    one.server.answers[CHAT] = streamed(delta("Hi"), finish("stop"), usage(3, 1))
    summary = one.reply()
    assert (summary.generated, summary.context_used) == (1, 4)


def test_what_is_said_to_be_unlikely_is_unknown(talk):
    """OpenAI: -9999.0 where a token is not among the twenty likeliest."""
    one = talk(servers.plain())
    one.server.answers[CHAT] = streamed(
        delta("ab", logprobs(token("a", -9999.0), token("b", -1.0, ("c", -9999.0), ("b", -1.0)))),
        finish("length"),
    )
    summary = one.reply(max_tokens=2)
    (record,) = one.tokens
    assert (record.index, record.piece, record.alternative_pieces) == (1, b"b", [b"b"])
    assert (one.text(), summary.stop_reason, summary.stop_detail) == ("ab", "max_tokens", "2")


def test_llama_servers_shape(talk):
    one = talk(servers.llama_server())
    timing = {"cache_n": 4, "prompt_n": 6, "prompt_ms": 20.0}

    def timed(text, n, ms, token_id):
        told = logprobs(token(text, -1.0, (text, -1.0), id=token_id))
        told["content"][0]["top_logprobs"][0]["id"] = token_id
        timings = {**timing, "predicted_n": n, "predicted_ms": ms}
        return chunk({"delta": {"content": text}, "logprobs": told}, timings=timings)

    one.server.answers[CHAT] = Stream(
        [
            b": ping\n\n",
            *sse(
                chunk(None, prompt_progress={"total": 10, "cache": 4, "processed": 7}),
                timed("Hi", 1, 0.0, 11),
                timed("é", 3, 24.0, 12),  # the second of two tokens of one character
                finish("stop"),
                usage(10, 4),
                DONE,
            ),
        ]
    )
    summary = one.reply()
    first, second = one.tokens
    assert (first.index, first.token_id, first.ms) == (0, 11, 0.0)
    assert (second.index, second.token_id, second.ms) == (2, 12, 24.0)
    assert second.alternative_ids.numbers().tolist() == [12]
    assert "token_ids" in summary.unknown  # one is missing
    assert [(e.done, e.total) for e in one.events if isinstance(e, Progress)] == [(7, 10)]
    assert (summary.reused, summary.evaluated, summary.context_size) == (4, 6, 4096)
    assert (summary.prefill_s, summary.decode_s) == (0.02, 0.024)
    assert one.body["timings_per_token"] is True


@pytest.mark.parametrize("ms", [1e300, -1.0, float("inf"), "7"])
def test_times_that_cannot_be_are_not_told(talk, ms):
    one = talk(servers.llama_server())
    timings = {"predicted_ms": ms, "prompt_ms": 1.0, "predicted_n": 1, "prompt_n": 3}
    one.server.answers[CHAT] = streamed(
        delta("Hi", logprobs(token("Hi", -0.1)), timings=None) | {"timings": timings},
        finish("stop", timings=timings),
    )
    summary = one.reply()
    assert "prefill_s" in summary.unknown
    assert 0 <= one.tokens[0].ms < 60_000


def test_llama_servers_probability_of_0_is_minus_infinity(talk):
    one = talk(servers.llama_server())
    least = -3.4028234663852886e38
    one.server.answers[CHAT] = streamed(
        delta("a", logprobs(token("a", 0.0, ("a", 0.0), ("b", least)))), finish("stop")
    )
    one.reply()
    assert one.tokens[0].alternative_logprobs.numbers().tolist() == [0.0, -math.inf]


def test_llama_servers_end_token_is_no_part_of_a_reply(talk):
    one = talk(servers.llama_server())
    nothing = token("", -0.25, id=2)
    one.server.answers[CHAT] = streamed(
        delta("", logprobs(nothing)),  # a control token in the middle is
        delta("a", logprobs(token("a", -1.0, id=5))),
        delta("", logprobs(nothing)),
        finish("stop"),
        usage(4, 3),
    )
    summary = one.reply(sampling=Sampling([]))
    assert [(each.piece, each.token_id) for each in one.tokens] == [(b"", 2), (b"a", 5)]
    assert (summary.generated, summary.token_ids) == (2, [2, 5])


def test_llama_cpp_pythons_shape(talk):
    """As a real one told it: no bytes, no IDs, nothing of a part of a character, the text of a stop
    string in its token alone, and no usage."""

    def told(piece, text, nat):
        entry = {"token": piece, "bytes": None, "logprob": nat, "top_logprobs": [{
            "token": piece, "bytes": None, "logprob": nat}]}  # fmt: skip
        return delta(text, {"content": [entry], "refusal": None})

    one = talk(servers.llama_cpp_python())
    one.server.answers[CHAT] = streamed(
        chunk({"delta": {"role": "assistant"}}),
        told("Hi", "Hi", -0.5),
        told("", "", -0.1),
        told("\uff0c", "\uff0c", -3.1),
        told(" you", " ", -0.01),
        finish("stop"),
    )
    summary = one.reply(stop=["you"])
    assert summary.text == one.text() == "Hi\uff0c "
    assert [each.piece for each in one.tokens] == [
        b"Hi", b"", "\uff0c".encode(), b" you"]  # fmt: skip
    assert [each.rank for each in one.tokens] == [1] * 4
    assert (summary.stop_reason, summary.generated) == ("", 4)
    assert {"prompt_tokens", "reused", "token_ids", "context_used"} <= set(summary.unknown)


def test_vllms_shape(talk):
    one = talk(servers.vllm())
    end = token("<|im_end|>", -0.1, ("<|im_end|>", -0.1))
    one.server.answers[CHAT] = streamed(
        chunk({"delta": {"role": "assistant", "content": ""}}, prompt_token_ids=[1, 2]),
        chunk({
            "delta": {"reasoning": "Hm"},
            "logprobs": logprobs(token("Hm", -1.0)),
            "token_ids": [7],
        }),
        chunk({
            "delta": {"content": "ab"},
            "logprobs": logprobs(token("a", -1.0), token("b", -2.0)),
            "token_ids": [8, 9],
        }),
        chunk({
            "delta": {"content": ""},
            "logprobs": logprobs(end),
            "token_ids": [2],
            "finish_reason": "stop",
            "stop_reason": None,
        }),
        usage(2, 4),
    )  # fmt: skip
    summary = one.reply()
    assert (summary.text, summary.reasoning) == ("ab", "Hm")
    assert (summary.token_ids, summary.generated) == ([7, 8, 9], 3)
    assert [each.token_id for each in one.tokens] == [7, 8, 9]
    assert one.text("reasoning") == "Hm"
    assert one.body["return_token_ids"] is True
    assert summary.stop_reason == "end_token"


@pytest.mark.parametrize(
    ("kind", "field", "told", "reason"),
    [
        ("vllm", "stop_reason", "END", ("stop_string", "END")),
        ("vllm", "stop_reason", 128009, ("end_token", "")),
        ("sglang", "matched_stop", "END", ("stop_string", "END")),
        ("sglang", "matched_stop", 2, ("end_token", "")),
    ],
)
def test_what_ended_it_is_told_where_the_server_says_it(talk, kind, field, told, reason):
    one = talk(getattr(servers, kind)())
    one.server.answers[CHAT] = streamed(delta("a"), finish("stop", **{field: told}))
    summary = one.reply(stop=["END"])
    assert (summary.stop_reason, summary.stop_detail) == reason


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_by_each_of_its_names(talk, name):
    one = talk(servers.sglang())
    one.server.answers[CHAT] = streamed(
        delta(**{name: "2+2"}), delta("4", **{name: "=4"}), finish("stop")
    )
    summary = one.reply()
    assert (summary.reasoning, summary.text) == ("2+2=4", "4")
    assert (one.text("reasoning"), one.text()) == ("2+2=4", "4")


@pytest.mark.parametrize("step", [1, 3, 100])
def test_reasoning_between_tags_of_a_server_that_does_not_tell_it(talk, step):
    one = talk(servers.plain())
    whole = "<think>\n2+2\n</think>\n\n4 <think>"
    parts = [whole[at : at + step] for at in range(0, len(whole), step)]
    events = [delta(part, logprobs(token(part, -1.0))) for part in parts]
    one.server.answers[CHAT] = streamed(*events, finish("stop"))
    summary = one.reply(sampling=Sampling([]))
    assert (summary.reasoning, summary.text) == ("2+2", "4 <think>")
    assert (one.text("reasoning"), one.text()) == ("2+2", "4 <think>")
    assert b"".join(each.piece for each in one.tokens).decode() == whole
    own = ChatPrompt(OURS.messages, reasoning_tags=[("[[", "]]")])
    one.server.answers[CHAT] = streamed(delta("[[a]]b"), finish("stop"))
    summary = one.reply(own, sampling=Sampling([]))
    assert (summary.reasoning, summary.text) == ("a", "b")
    one.server.answers[CHAT] = Stream(sse(delta("<thi")))
    failed = one.failed(sampling=Sampling([]))
    assert (failed.partial.text, failed.partial.reasoning) == ("<thi", "")


def test_a_text_is_completed_with_the_older_lists(talk):
    one = talk(servers.vllm())
    told = {
        "tokens": [" upon", " a"],
        "token_logprobs": [-0.5, -4.0],
        "top_logprobs": [{" upon": -0.5, " in": -2.0}, {" the": -1.0, " my": -2.0, " a": -4.0}],
        "text_offset": [0, 5],
    }
    one.server.answers[TEXT] = streamed(
        chunk({"text": " upon a", "logprobs": told}), chunk({"text": "", "finish_reason": "length"})
    )
    summary = one.reply(TextPrompt("Once"), alternatives=2)
    assert (summary.text, summary.stop_reason) == (" upon a", "context_full")
    first, second = one.tokens
    assert (first.rank, first.alternative_pieces) == (1, [b" upon", b" in"])
    # vLLM adds the drawn token to the list: that it stands there says nothing of its rank.
    assert (second.rank, second.alternative_pieces) == (None, [b" the", b" my"])
    one.server.answers[TEXT] = streamed(chunk({"text": "x", "finish_reason": "stop"}))
    assert one.reply(IdsPrompt([1, 2])).text == "x"
    assert one.body["prompt"] == [1, 2]


def test_calls_come_in_pieces(talk):
    one = talk(servers.vllm())

    def call(index, **fields):
        return delta(tool_calls=[{"index": index, **fields}])

    one.server.answers[CHAT] = streamed(
        delta("Let me see."),
        call(0, id="c1", type="function", function={"name": "time", "arguments": ""}),
        call(0, function={"arguments": '{"zone": '}),
        call(0, function={"arguments": '"Asia/Tokyo"}'}),
        call(1, id="c2", function={"name": "date", "arguments": "{}"}),
        finish("tool_calls"),
    )
    tools = ChatPrompt(OURS.messages, tools=[Tool("time"), Tool("date")])
    summary = one.reply(tools)
    calls = [ToolCall("c1", "time", '{"zone": "Asia/Tokyo"}'), ToolCall("c2", "date", "{}")]
    assert (summary.tool_calls, summary.stop_reason) == (calls, "tool_calls")
    assert summary.text == "Let me see."
    assert [(e.index, e.call) for e in one.events if isinstance(e, ToolCalled)] == list(
        enumerate(calls)
    )
    assert one.text("call") == '{"zone": "Asia/Tokyo"}{}'


@pytest.mark.parametrize(
    "function", [{"name": "", "arguments": "{}"}, {"name": "f", "arguments": "[1]"},
                 {"name": "f", "arguments": "{nonsense"}, {"name": 7, "arguments": 8}, "f"]
)  # fmt: skip
def test_a_call_that_is_none_is_told_and_stays_visible(talk, function):
    one = talk(servers.vllm())
    one.server.answers[CHAT] = streamed(
        delta(tool_calls=[{"index": 0, "id": "c", "function": function}, None, {"index": -1}]),
        finish("tool_calls"),
    )
    summary = one.reply(ChatPrompt(OURS.messages, tools=[Tool("f")]))
    assert summary.tool_calls == []
    assert "sent a tool call that can't be read" in one.notes[0]
    if isinstance(function, dict) and function["name"] == "f":
        assert summary.text == f"f {function['arguments']}"


def test_an_answer_that_is_no_stream_is_read_too(talk):
    one = talk(servers.plain())
    one.server.answers[CHAT] = chunk(
        {"message": {"role": "assistant", "content": "Whole."}, "finish_reason": "stop"},
        usage={"prompt_tokens": 3, "completion_tokens": 2},
    )
    summary = one.reply()
    assert (summary.text, one.text(), summary.prompt_tokens) == ("Whole.", "Whole.", 3)


@pytest.mark.parametrize(
    ("status", "said", "gone", "left"),
    [
        (500, "logprobs is not supported for models created with logits_all=False",
         {"logprobs", "top_logprobs"}, {"seed", "temperature"}),
        (422, "Unrecognized request argument supplied: seed", {"seed"}, {"logprobs"}),
        (400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
         {"max_tokens"}, {"max_completion_tokens", "seed"}),
    ],
)  # fmt: skip
def test_what_a_server_refuses_by_name_is_left_out_and_told(talk, status, said, gone, left):
    one = talk(servers.plain())
    refusal = Reply(status, json.dumps({"error": {"message": said}}).encode())
    one.server.answers[CHAT] = [refusal, streamed(delta("Hi"), finish("stop"))]
    wish = {"sampling": Sampling([]), "max_tokens": 5}
    summary = one.reply(**wish)
    assert summary.text == "Hi"
    assert not gone & one.body.keys()
    assert left <= one.body.keys()
    assert ("seed" in summary.unknown) == ("seed" in gone)
    assert f"doesn't take {', '.join(sorted(gone))} for this model" in one.notes[0]
    one.reply(**wish)  # it is not asked with them again
    assert len(one.server.asked(CHAT)) == 3


@pytest.mark.usefixtures("forked_children")
def test_an_error_that_names_a_field_by_chance_changes_nothing(talk):
    one = talk(servers.llama_server())
    said = "Failed to initialize samplers: failed to parse grammar"
    one.server.answers[CHAT] = Reply(400, json.dumps({"error": {"message": said}}).encode())
    failed = one.failed(sampling=Sampling([], grammar="root ::= ("))
    assert said in failed.sentence
    assert one.notes == []
    one.server.answers[CHAT] = streamed(delta("Hi"), finish("stop"))
    one.reply(sampling=Sampling([]))
    assert "samplers" in one.body


def test_a_refusal_without_a_name_or_end_is_a_failure(talk):
    one = talk(servers.plain())
    one.server.answers[CHAT] = Reply(400, b'{"error": {"message": "seed"}}')
    assert one.failed(sampling=Sampling([])).kind == "bad_setting"  # named again, and not sent
    assert len(one.server.asked(CHAT)) == 2


TURNS = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"


@pytest.mark.usefixtures("forked_children")
@pytest.mark.parametrize("policy", ["drop_oldest", "keep_ends", "summarize", "stop"])
def test_a_chat_that_is_too_long_goes_without_its_oldest_turns(talk, policy):
    one = talk(servers.llama_server(TURNS))

    def tokens(body):
        return {"tokens": [{"id": ord(c), "piece": c} for c in body["content"]]}

    too_long = b'{"error": {"message": "exceeds the available context size", "code": 400}}'
    one.server.answers["/tokenize"] = tokens
    one.server.answers[CHAT] = [Reply(400, too_long), streamed(delta("Hi"), finish("stop"))]
    roles = ("user", "assistant") * 4
    said = [ChatMessage(r, str(i) * 900, message_id=f"m{i}") for i, r in enumerate(roles[:7])]
    wish = {"sampling": Sampling([]), "context_policy": policy, "max_tokens": 64}
    if policy == "stop":
        assert one.failed(ChatPrompt(said), **wish).kind == "prompt_too_long"
        return
    summary = one.reply(ChatPrompt(said), **wish)
    sent = [message["content"][0] for message in one.body["messages"]]
    assert sent == (["0", "1", "6"] if policy == "keep_ends" else ["4", "5", "6"])
    assert [cut.message_id for cut in summary.cut] == (
        ["m2", "m3", "m4", "m5"] if policy == "keep_ends" else ["m0", "m1", "m2", "m3"]
    )
    assert len(one.notes) == 1


def test_stop_closes_the_request(talk):
    one = talk(servers.vllm())
    one.server.answers[CHAT] = Stream([*sse(delta("Hel"), delta("lo")), HOLD])
    request = one.engine.generate(Generate(0, OURS))
    one.server.wait_for(CHAT)
    one.wait_for_text("Hello")
    assert one.engine.state is EngineState.BUSY
    one.engine.stop(request)
    ending = one.end(request)
    assert isinstance(ending, Stopped)
    assert (ending.result.text, ending.result.stop_reason) == ("Hello", "stopped")
    assert one.server.ended.wait(10)
    one.engine.stop(request)
    one.engine.close()
    assert len(one.endings(request)) == 1


def test_a_stop_before_the_answer(talk):
    one = talk(servers.vllm())
    one.server.answers[CHAT] = Stream([HOLD])
    request = one.engine.generate(Generate(0, OURS))
    one.server.wait_for(CHAT)
    one.engine.stop(request)
    ending = one.end(request)
    assert isinstance(ending, Stopped)
    assert (ending.result.text, ending.result.generated) == ("", 0)


def test_closing_ends_everything(talk):
    one = talk(servers.vllm())
    one.server.answers[CHAT] = Stream([*sse(delta("Hel")), HOLD])
    requests = [one.engine.generate(Generate(0, OURS)) for _ in range(3)]
    one.server.wait_for(CHAT, 3)
    one.engine.close()
    assert all(isinstance(one.engine.wait_for(each, 0), Stopped) for each in requests)
    assert not one.engine.is_owing
    with pytest.raises(RuntimeError):
        one.engine.generate(Generate(0, OURS))


def test_each_listener_gets_its_own(talk):
    one = talk(servers.vllm())
    one.server.answers[CHAT] = streamed(delta("Hi"), finish("stop"))
    mine = []
    request = one.engine.generate(Generate(0, OURS), mine.append)
    one.engine.wait_for(request, 10)
    one.engine.close()
    assert isinstance(mine[-1], Finished)
    assert {event.id for event in mine} == {request}
    assert not one.endings(request)


def test_a_reply_waits_for_a_model_that_loads(talk):
    one = talk(servers.vllm(), is_loaded=False)
    one.server.answers[CHAT] = streamed(delta("Hi"), finish("stop"))
    assert one.failed().kind == "not_loaded"
    one.engine.load(one.path)
    assert one.reply().text == "Hi"
    one.end(one.engine.unload())
    assert one.failed().kind == "not_loaded"
    one.engine.close()
    states = [each.state for each in one.events if isinstance(each, StateChanged)]
    assert states == ["loading", "ready", "busy", "ready", "stopped"]


def test_a_load_that_fails_says_why_and_refuses_who_waits(talk):
    one = talk({"/v1/models": servers.models({"id": "other"})}, is_loaded=False)
    load = one.engine.load(one.path)
    ending = one.end(load)
    assert isinstance(ending, Failed)
    assert "has no model “m” any more" in ending.sentence
    assert one.engine.state is EngineState.STOPPED
    one.engine.close()
    last = [each for each in one.events if isinstance(each, StateChanged)][-1]
    assert last.sentence == ending.sentence


def test_a_server_that_is_removed_while_it_is_asked_is_not_used():
    listed: list[EngineAddress | None] = []
    with ScriptedServer() as server:

        def answer(_):
            listed[:] = [None]
            return servers.models({"id": "m", "owned_by": "me"})

        server.answers["/v1/models"] = answer
        listed[:] = [EngineAddress("e1", "Mine", server.url)]
        gate = Gate(is_open=True)
        engine = RemoteEngine(Reach(gate, lambda _: listed[0], lambda _: None), lambda _: None)
        ending = engine.wait_for(engine.load(remote_path("e1", "m")), WAIT_S)
        assert isinstance(ending, Failed)
        assert "isn't in Settings → Engines any more" in ending.sentence
        engine.close()
        gate.shut_down()


def test_a_server_that_broke_off_is_looked_at_again(talk):
    answers = servers.vllm()
    one = talk(answers)
    one.server.answers[CHAT] = Stream(sse(delta("Hel")), is_cut=True)
    assert one.failed(sampling=Sampling([])).partial.context_size == 8192
    one.server.answers["/v1/models"] = servers.models(
        {"id": "m", "owned_by": "vllm", "max_model_len": 512}
    )
    one.server.answers[CHAT] = streamed(delta("Hi"), finish("stop"))
    assert one.reply(sampling=Sampling([])).context_size == 512
    n_asked = len(one.server.asked("/v1/models"))
    one.reply(sampling=Sampling([]))
    assert len(one.server.asked("/v1/models")) == n_asked
    one.server.answers[CHAT] = Reply(404, b'{"error": {"message": "model m not found"}}')
    one.failed(sampling=Sampling([]))
    one.server.answers["/v1/models"] = servers.models({"id": "other", "owned_by": "vllm"})
    assert "has no model “m” any more" in one.failed(sampling=Sampling([])).sentence


def test_greedy_and_seed_are_recorded(talk):
    one = talk(servers.vllm())
    one.server.answers[CHAT] = streamed(delta("Hi"), finish("stop"))
    summary = one.reply(sampling=Sampling([], Greedy(), seed=5))
    assert (summary.seed, one.body["seed"], one.body["temperature"]) == (5, 5, 0)
