"""What a server may do wrong: each request ends once, says what to do next, and keeps its text."""

from __future__ import annotations

import json

import pytest
import scripted_servers as servers
from remote_talk import CHAT, Talk
from scripted_servers import DONE, HOLD, Reply, Stream, chunk, delta, finish, sse, token, usage

from app.engine.protocol.messages import CountPrompt, Failed, Generate, Stopped
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.stages import Sampling
from app.engine.remote import answer
from app.hub.engines import calls

PLAIN = Sampling([])
HI = ChatPrompt([ChatMessage("user", "Hi")])


def error(status, message="", **headers):
    return Reply(status, json.dumps({"error": {"message": message}}).encode(), headers)


def kept(one: Talk, **fields) -> Failed:
    """The failure of a reply of which "Hel" had arrived."""
    request = one.engine.generate(Generate(0, HI, sampling=PLAIN, **fields))
    failed = one.end(request)
    assert isinstance(failed, Failed), failed
    assert failed.partial is not None
    assert failed.partial.text == one.text() == "Hel"
    one.engine.close()
    assert len(one.endings(request)) == 1
    return failed


@pytest.mark.parametrize(
    ("told", "kind", "words"),
    [
        (error(401), "refused", "“Mine” needs a key (error 401). Enter a key in Settings"),
        (error(403, "No."), "refused", "“Mine” doesn't allow this (error 403). It says: “No”."),
        (error(429, **{"Retry-After": "20"}), "busy", "Try again in 20 seconds."),
        (error(429), "busy", "“Mine” is limiting requests (error 429). Try again later."),
        (error(500, "CUDA error"), "server_error", "It says: “CUDA error”. Try again; the"),
        (error(502), "server_error", "(error 502)"),
        (error(503, "Loading model"), "busy", "“Mine” isn't ready (error 503)"),
        (error(400, "bad top_k"), "bad_setting", "It says: “bad top_k”. Change the settings"),
        (error(422, "x\x1b[31m\ny" * 999), "bad_setting", "x [31m yx"),
        (error(404, "The model `m` does not exist"), "not_loaded", "Choose another model"),
        (error(404), "unsupported", "doesn't know this request (error 404)"),
        (
            error(400, "This model's maximum context length is 4096 tokens."),
            "prompt_too_long",
            "This chat is too long for “Mine”.",
        ),
        (
            Reply(200, b"<!DOCTYPE html>", {"Content-Type": "text/html; charset=utf-8"}),
            "server_error",
            "answered with a web page",
        ),
        (Reply(200, b'{"choices": [', {}), "server_error", "sent a response that can't be read"),
        (Reply(200, b'{"error": "quota"}'), "server_error", "It says: “quota”."),
        (Reply(307, b"", {"Location": "http://127.0.0.1:9/"}), "unreachable", "isn't followed"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_do_next(talk, told, kind, words):
    one = talk(servers.plain())
    one.server.answers[CHAT] = told
    failed = one.failed(sampling=PLAIN)
    assert (failed.kind, failed.partial) == (kind, None)
    assert words in failed.sentence
    assert len(failed.sentence) < 600
    assert failed.sentence.isprintable()
    assert failed.sentence.endswith(".")


def test_a_key_is_sent_and_never_told(talk):
    one = talk(servers.plain())
    one.key = "sk-secret"
    one.server.answers[CHAT] = error(401, "Incorrect API key provided: sk-secret")
    failed = one.failed(sampling=PLAIN)
    assert one.server.asked(CHAT)[-1].headers["authorization"] == "Bearer sk-secret"
    told = failed.sentence + failed.evidence + "".join(one.engine.log_tail())
    assert "sk-secret" not in told


def test_a_redirect_takes_no_key_along(talk):
    with servers.ScriptedServer(servers.plain()) as elsewhere:
        one = talk(servers.plain())
        one.key = "sk-secret"
        one.server.answers[CHAT] = Reply(307, b"", {"Location": f"{elsewhere.url}{CHAT}"})
        assert one.failed(sampling=PLAIN).kind == "unreachable"
        assert elsewhere.requests == []


BEGUN = sse(delta("Hel"))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([*BEGUN], "closed the connection before the reply was finished"),
        ([*BEGUN, b'data: {"choices": [{"del'], "closed the connection before"),
        ([*BEGUN, b"data: {not json}\n\n"], "sent a response that can't be read"),
        ([*BEGUN, b"data: " + b"[" * 200_000 + b"\n\n"], "sent a response that can't be read"),
        ([*BEGUN, b"data: \xff\xfe\n\n"], "sent a response that can't be read"),
        ([*BEGUN, *sse({"error": {"message": "out of memory", "code": 500}})], "out of memory"),
        ([*BEGUN, b'event: error\ndata: {"message": "gone"}\n\n'], "gone"),
        ([*BEGUN, b'error: {"message": "old"}\n\n'], "old"),
        ([*BEGUN, b"data: " + b"x" * (5 << 20) + b"\n\n"], "can't be read"),
        ([*BEGUN, *[b"data: " + b"x" * (1 << 20) + b"\n"] * 5, b"\n"], "can't be read"),
        ([*BEGUN, b"x" * (5 << 20)], "can't be read"),
    ],
)
def test_what_arrived_before_it_went_wrong_is_kept(talk, parts, words):
    one = talk(servers.plain())
    one.server.answers[CHAT] = Stream(parts)
    failed = kept(one)
    assert words in failed.sentence
    assert failed.kind == "server_error"


def test_a_connection_that_is_cut_is_told(talk):
    one = talk(servers.plain())
    one.server.answers[CHAT] = Stream(BEGUN, is_cut=True)
    failed = kept(one)
    assert failed.sentence == (
        "“Mine” closed the connection before the reply was finished. The partial reply is kept. "
        "Continue it, or try again."
    )


def test_a_server_that_stalls_is_given_up(talk):
    one = talk(servers.plain(), silence_s=0.2)
    one.server.answers[CHAT] = Stream([*BEGUN, HOLD])
    assert "sent nothing new for" in kept(one).sentence
    assert one.server.ended.wait(10)


def test_a_server_that_only_pings_is_given_up(talk):
    one = talk(servers.plain(), silence_s=0.3)
    ping = [b": ping\n\n", *sse(chunk(None))] * 100_000
    one.server.answers[CHAT] = Stream([*BEGUN, *ping])
    assert "sent nothing new for" in kept(one).sentence


def test_offline_cuts_a_reply_and_says_so(talk):
    one = talk(servers.plain())
    one.server.answers[CHAT] = Stream([*BEGUN, HOLD])
    request = one.engine.generate(Generate(0, HI, sampling=PLAIN))
    one.wait_for_text("Hel")
    one.gate.let_here(lets=False)
    one.gate.close_it()
    failed = one.end(request)
    assert isinstance(failed, Failed)
    assert failed.kind == "unreachable"
    assert failed.sentence.startswith("Cutaway is offline.")
    assert failed.partial is not None
    assert failed.partial.text == "Hel"


def test_more_text_than_a_reply_can_hold_is_stopped(talk, monkeypatch):
    monkeypatch.setattr(answer, "MAX_CHARACTERS", 4)
    one = talk(servers.plain())
    one.server.answers[CHAT] = Stream(sse(delta("Hel"), delta("lo!"), finish("stop")))
    assert "more text than a reply can hold" in kept(one).sentence


def test_an_answer_without_end_is_stopped(talk, monkeypatch):
    monkeypatch.setattr(calls, "MAX_ANSWER_BYTES", 100)
    one = talk(servers.plain())
    one.server.answers[CHAT] = Reply(200, b'"' + b"x" * 200 + b'"')
    assert "can't be read" in one.failed(sampling=PLAIN).sentence


@pytest.mark.parametrize(
    ("events", "text", "note"),
    [
        ([delta("Hi"), DONE], "Hi", "“Mine” didn't say why the reply ended."),
        ([delta("Hi"), finish("stop"), finish("length"), finish("stop"), DONE], "Hi", None),
        ([delta("Hi"), finish("stop")], "Hi", None),
        ([delta("Hi"), finish("stop"), delta(" there"), DONE, delta("x")], "Hi there", None),
        ([delta("Hi"), finish("content_filter"), DONE], "Hi", "because of its content filter."),
        ([delta("Hi"), finish("abo\x1brt"), DONE], "Hi", "ended the reply: abort."),
        ([{**delta("Hi"), "model": "other"}, finish("stop")], "Hi", "with the model “other”, not"),
        ([{**delta("Hi"), "model": "m-2025-01-01"}, finish("stop")], "Hi", None),
        (
            [b"\r\n", b'data: {"choices":\r\ndata: [{"delta":{"content":"Hi"}}]}\r\n\r\n',
             finish("stop")],
            "Hi",
            None,
        ),
        ([b"id: 7\nretry: 5\nnonsense\n\n", delta("a\0b"), finish("stop")], "a\ufffdb", None),
        ([{"choices": 7}, {"choices": [7]}, chunk({"delta": 7}), chunk({"delta": {"content": 7}}),
          chunk({"delta": {"content": "no"}, "index": 1}), delta("Hi"), finish("stop")],
         "Hi", None),
        ([delta("a", {"content": [7, {"token": 7}, {"token": "a", "logprob": "x"}]}),
          delta("b", 7), finish("stop"), usage(-1, 2**70)], "ab", None),
        ([delta("a", {"content": [token("a", float("-inf")), token("b", float("nan"))]}),
          delta("\ud83d \\ud83d \U0001f999"), finish("stop")],
         "a\ufffd \\ud83d \U0001f999", None),
    ],
)  # fmt: skip
def test_odd_streams_end_well(talk, events, text, note):
    one = talk(servers.plain())
    one.server.answers[CHAT] = Stream(sse(*events))
    summary = one.reply(sampling=PLAIN)
    assert summary.text == one.text() == text
    assert len(one.notes) == (0 if note is None else 1)
    if note is not None:
        assert note in one.notes[0]


def test_an_error_with_half_a_pair_is_told(talk):
    one = talk(servers.plain())
    one.server.answers[CHAT] = Stream(sse({"error": {"message": "no \ud83d", "code": 500}}))
    assert "It says: “no \ufffd”" in one.failed(sampling=PLAIN).sentence


def test_bytes_that_come_one_by_one(talk):
    one = talk(servers.plain())
    whole = b"".join(sse(delta("Grüße"), finish("stop"), DONE))
    one.server.answers[CHAT] = Stream([bytes([byte]) for byte in whole])
    assert one.reply(sampling=PLAIN).text == "Grüße"


def test_too_many_requests_at_once_are_refused(talk, monkeypatch):
    monkeypatch.setattr("app.engine.remote.engine.MAX_OPEN", 2)
    one = talk(servers.plain())
    one.server.answers[CHAT] = Stream([HOLD])
    held = [one.engine.generate(Generate(0, HI, sampling=PLAIN)) for _ in range(2)]
    assert one.failed(sampling=PLAIN).kind == "busy"
    for each in held:
        one.engine.stop(each)
        assert isinstance(one.end(each), Stopped)


def test_a_fault_of_ours_ends_its_request(talk, monkeypatch):
    one = talk(servers.plain())
    monkeypatch.setattr("app.engine.remote.questions.answered", lambda *_: 1 / 0)
    failed = one.end(one.engine.request(CountPrompt(0, HI)))
    assert isinstance(failed, Failed)
    assert failed.kind == "internal"
    assert "ZeroDivisionError" in failed.evidence
