"""What a hostile engine says: each field has a bound, and nothing beyond it comes past the wire."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import pytest
from each import each
from examples import examples
from hypothesis import given, settings, strategies as st
from made_cache import slot, told
from made_prompts import scores, shown
from made_traces import trace_of
from scripted_talk import PATIENCE_S, ScriptedTalk

from app.engine.client.supervisor import EngineState
from app.engine.protocol import messages as protocol, wire
from app.engine.protocol.adapter_messages import AdapterUsed, Lora, VectorMade
from app.engine.protocol.beam_messages import BeamNode, BeamsFound, BeamsGrew
from app.engine.protocol.cache_messages import (
    CacheLayers,
    CacheShape,
    CellPart,
    CellRun,
    LastTurn,
    ParkedCopy,
    StepMeasured,
)
from app.engine.protocol.embedding_messages import (
    EmbeddingFacts,
    EmbeddingRows,
    NearestTokens,
    Rotation,
    Rotations,
)
from app.engine.protocol.frames import (
    DTYPES,
    MAX_ARRAY_RANK,
    Array,
    Count,
    ProtocolError,
    WireMessage,
    are_nats,
    is_nats,
)
from app.engine.protocol.inside_messages import (
    FloatArray,
    GraphOffer,
    HeadsMeasured,
    Inside,
    IntArray,
    Missing,
    TokenAttributed,
)
from app.engine.protocol.lane_messages import Lanes, LaneVisit, LaneWaiting
from app.engine.protocol.loading_messages import Device, DevicesRead, Loaded, MemoryPart
from app.engine.protocol.machine_messages import FlashCompared, FlashSide, StepProfiled
from app.engine.protocol.messages import (
    Alive,
    Done,
    Failed,
    Finished,
    GrammarChecked,
    Held,
    Hello,
    Log,
    Note,
    Progress,
    PromptCount,
    PromptScores,
    Queued,
    Stopped,
    Summary,
    TextFlushed,
    TextTakenBack,
    ThreadsChanged,
    TokenArrived,
    Tokens,
    VocabularyTable,
)
from app.engine.protocol.passage_messages import PassagesEmbedded
from app.engine.protocol.pooling_messages import TextsEmbedded
from app.engine.protocol.prompt_messages import CutMessage, ShownPart
from app.engine.protocol.remote_messages import EngineOffer, Lack, RemoteModel
from app.engine.protocol.replay_messages import DrawsReplayed, ReplayedDraw
from app.engine.protocol.template_messages import TemplateReply
from app.engine.protocol.thinking_messages import ThinkingOffer
from app.engine.protocol.timeline_messages import Span
from app.engine.protocol.tool_messages import ToolCall, ToolCalled

kinds = msgspec.inspect


# --- every field has a bound --------------------------------------------------------------------


def without_bound(info: kinds.Type, where: str = "", seen: set[type] | None = None) -> list[str]:
    """The fields, from a type downwards, that anything could stand in."""
    seen = set() if seen is None else seen
    if isinstance(info, kinds.UnionType):
        return [name for part in info.types for name in without_bound(part, where, seen)]
    if isinstance(info, kinds.StructType):
        if info.cls is Array and where:
            return [f"{where}: an array of any dtype"]
        if info.cls in seen:
            return []
        seen.add(info.cls)
        return [
            name
            for field in info.fields
            for name in without_bound(field.type, f"{info.cls.__name__}.{field.name}", seen)
        ]
    if isinstance(info, kinds.Metadata):
        return [] if (info.extra or {}).get("dtype") in DTYPES else [where]
    if isinstance(info, kinds.ListType):
        inner = without_bound(info.item_type, f"{where}[]", seen)
        return inner if info.max_length is not None else [where, *inner]
    if isinstance(info, kinds.IntType | kinds.FloatType):
        return [where] if info.ge is None or info.le is None else []
    if isinstance(info, kinds.StrType | kinds.BytesType):
        return [where] if info.max_length is None else []
    is_closed = isinstance(info, kinds.BoolType | kinds.NoneType | kinds.LiteralType)
    return [] if is_closed else [where]


def test_every_field_that_an_engine_fills_has_a_bound() -> None:
    found = without_bound(kinds.type_info(protocol.Event | TemplateReply))
    # Their lower end is no number: what cannot be has -inf. The structs' `check` has the rest.
    assert found == [
        *("TokenTrace.logprob", "TokenTrace.draft_logprob"),
        *("Rejected.logprob", "Rejected.draft_logprobs[]"),
    ]


class _Inner(WireMessage, frozen=True, tag=True):
    numbers: list[Count]
    texts: Annotated[list[str], msgspec.Meta(max_length=3)]
    high: Annotated[int, msgspec.Meta(le=3)]


class _Outer(WireMessage, frozen=True, tag=True):
    whole: int
    part: float | None
    data: bytes
    fine: Count | None
    array: Array | None
    inner: _Inner
    anything: Any


def test_a_field_without_a_bound_is_found() -> None:
    assert without_bound(kinds.type_info(_Outer)) == [
        *("_Outer.whole", "_Outer.part", "_Outer.data", "_Outer.array: an array of any dtype"),
        *("_Inner.numbers", "_Inner.texts[]", "_Inner.high", "_Outer.anything"),
    ]


# --- and it holds -------------------------------------------------------------------------------

TRACE = trace_of([b"Hi"])[0]
WORDS = VocabularyTable(Array.of("i8", [0, 2, 5]), b"Hithe", Array.of("i4", [4, 8]))
PROMPT = shown([ShownPart(0, 1, "scaffold", "m")], [b"<s>"], returned=["m"], retokenized=["n"])
CACHE = told(
    slot(0, [(1, 0, 7)], [CellPart(0, 2, "user", "m")]),
    turns=[LastTurn("a", 1, 2, 3, "slot")],
    parked=[ParkedCopy(1, "b", 5, 99, 0)],
)
SUMMARY = Summary(
    *("stop_string", "Hi", "", [1], "x", 7, 1, 0, 1, 1),
    *(0.1, 0.1, 0.1, 0.3, 9.0, 2, 3, 64, "Hi", ["A note."]),
    cut=[CutMessage("m", "user", 3)],
    prompt_ids=[5],
    timeline=[Span("decode", 0.0, 1.0)],
    adapters=[AdapterUsed("lora", "/l.gguf", "ab", 1.0)],
)
PARTS = [MemoryPart("CPU", "kv", 64)]
LOADED = Loaded(
    *("/w.gguf", "w", "llama", "llama 1B", 9, 9, 2, 8, 2, 2, 99, 64, 64, 64, 1, 0, False),
    *("f16", "f16", True, True, [2], PARTS, 64, 0.1, ["A note."]),
    estimate=PARTS,
    loras=[Lora("/l.gguf")],
    devices=["CPU"],
    templates=["default"],
    cache=CacheShape([CacheLayers(2, 8, 8, 16, 16, 2)]),
)
DEVICE = Device("CPU", "A processor", "cpu", 1, 2)
MISSING = [Missing("q_before", "It has none.")]
ROW = FloatArray("embedding", ["n_embd"], [2], Array.of("f4", [0.5, -math.inf]))
IDS = IntArray("lens_ids", ["n_layer", "n_lens"], [1, 2], Array.of("i4", [1, 2]))
INSIDE = Inside(5, 4, 2, 1, 0.1, [ROW], [IDS], MISSING, ["A note."])
NUMBERS = Array.of("f4", [0.5, 1.5])
ROWS = EmbeddingRows(1, NUMBERS, NUMBERS, ["A note."])
FACTS = EmbeddingFacts(9, 2, "Q8_0", NUMBERS, Array.of("f4", [1, 2, 3, 4, 5]), 0.4, ["A note."])
NEAR = NearestTokens(Array.of("i4", [7, 8]), NUMBERS, Array.of("i4", [0, 4]), NUMBERS, 9)
TURN = Rotation([0, 1], "halves", 4, 0, 1e4, 1.0, 0.0, 1.0, 32.0, 1.0, 64, NUMBERS)
SIDE = FlashSide([9.0, 8.0], [1.0], 64, 7)
NODE = BeamNode(2, 1, 5, b"Hi", -0.5, -2.0, -1.0, "alive")
LANES = Lanes(
    *(9.0, 4, 0, Array.of("f8", [1.0]), Array.of("f8", [2.0]), Array.of("i4", [1])),
    *(Array.of("i4", [1]), Array.of("i4", [0]), Array.of("i4", [5]), Array.of("u1", [1])),
    [LaneVisit(0, 0, "m", "c", 0.5, 1.0)],
    [LaneWaiting("m", "c", "queued")],
)
RESULTS: list[WireMessage] = [
    *(LOADED, SUMMARY, Tokens([1], [b"Hi"]), PromptCount(3, 64), PROMPT, WORDS),
    *(GrammarChecked("No.", 1, 2, ["A note."]), CACHE, StepMeasured(3, [1.0], [2.0], 1)),
    *(DrawsReplayed([ReplayedDraw(1, 2, 0.5, 3)]), DevicesRead([DEVICE]), Done(), LANES),
    ThinkingOffer(["off", "low"], "low", ["date"], has_reasoning=True),
    *(INSIDE, GraphOffer(2, MISSING, [1], 8, 9, ["A note."])),
    HeadsMeasured(1, 1, Array.of("f4", [0.5] * 5), 1, 9),
    TokenAttributed(1, 2, *[0.5] * 6, [ROW], 0.1, MISSING, ["A note."]),
    *(ROWS, FACTS, NEAR, Rotations([TURN], 2, "None.")),
    StepProfiled(9, 5, 2, 0.1, 0.2, [1.0, 1.0], [0.0, 0.0], [2.0, 2.0], 3.0, 9.0, 8.0),
    FlashCompared(9, 8, 2, SIDE, SIDE, 0.1),
    TextsEmbedded(2, 2, Array.of("f4", [1.0, 0.0, 0.6, 0.8]), "mean"),
    PassagesEmbedded(1, 2, Array.of("f4", [0.6, 0.8]), "cls", 512, 24_000_000),
    BeamsFound(9, 8, 1, 3, 12, [2, 1], 2, "length", 0.1, 0.2, 2, ["A note."]),
    EngineOffer(
        *("e", "Mine", "vllm", "0.9"),
        models=[RemoteModel("m", 8)],
        missing=[Lack("tools", "No.")],
        stages=[Lack("dry", "No.")],
        n_logprobs=20,
        model_id="m",
        notes=["A note."],
    ),
    VectorMade(2, 2, 1, 1, "mean", NUMBERS, [1.0], [0.5], ["A note."]),
]
EVENTS: list[WireMessage] = [
    Hello(1, "llama.cpp", "1", 1, [DEVICE], 2, ["A note."], repacked=["Q4_0"]),
    *(Alive(), Progress(1, "prefill", 1, 2), Queued(1, 1), Log("info", "x")),
    *(TokenArrived(1, TRACE, "Hi", "content", 3), TextFlushed(1, "Hi", "content"), Held(1, TRACE)),
    *(scores(1, [0.5], [1]), TextTakenBack(1, 1), ThreadsChanged(1, 2, "It is faster.")),
    BeamsGrew(1, 2, [NODE], [1]),
    ToolCalled(1, 0, ToolCall("c1", "look", "{}")),
    *(Note(1, "cut", "A note."), Stopped(1, SUMMARY), Failed(1, "busy", "No.", "x", SUMMARY)),
    *(Finished(1, result) for result in RESULTS),
]


def beyond(info: kinds.Type) -> Iterator[Any]:
    """What the bound of a type, with nothing inside of it, must not let through."""
    if isinstance(info, kinds.IntType):
        yield from {2**64 - 1, 2**63 - 1, (info.le or 0) + 1, (info.ge or 0) - 1, -(2**63)}
    elif isinstance(info, kinds.FloatType):
        yield from (math.nan, math.inf, 1e308, -1e308, 2**64 - 1)
        if info.ge is not None:
            yield -math.inf
    elif isinstance(info, kinds.StrType) and (info.max_length or 0) <= 2**20:
        yield "x" * ((info.max_length or 0) + 1)
    elif isinstance(info, kinds.BytesType) and (info.max_length or 0) <= 2**22:
        yield b"x" * ((info.max_length or 0) + 1)


def attacks(value: Any, info: kinds.Type) -> Iterator[tuple[str, Any]]:
    """`value`, as plain objects of `info`, with one thing in it beyond its bound, and where."""
    if isinstance(info, kinds.UnionType):
        fitting = [part for part in info.types if fits(value, part)]
        for part in fitting:
            yield from attacks(value, part)
    elif isinstance(info, kinds.Metadata):
        other_dtype = "i8" if value["dtype"] == "f8" else "f8"
        other = {"dtype": other_dtype, "shape": [1], "data": bytes(8)}
        square = {"shape": [1, *value["shape"]]}
        long = {"shape": [1] * MAX_ARRAY_RANK + value["shape"]}
        for name, change in (("dtype", other), ("rank", square), ("long", long)):
            yield f" {name}", {**value, **change}
        yield " bytes", {**value, "data": value["data"] + b"x"}
    elif isinstance(info, kinds.StructType):
        for field in info.fields:
            for where, worse in attacks(value[field.name], field.type):
                yield f".{field.name}{where}", {**value, field.name: worse}
    elif isinstance(info, kinds.ListType):
        if (info.max_length or 0) <= 2**16:
            yield " long", (value or [None]) * ((info.max_length or 0) + 1)
        for where, worse in attacks(value[0], info.item_type) if value else ():
            yield f"[0]{where}", [worse, *value[1:]]
    else:
        for worse in beyond(info):
            yield f" {worse!r:.20}", worse


def fits(value: Any, info: kinds.Type) -> bool:
    if isinstance(value, dict):
        is_struct = isinstance(info, kinds.StructType) and info.tag == value["@"]
        return is_struct or isinstance(info, kinds.Metadata)
    pairs = [
        (bool, kinds.BoolType),
        (int, kinds.IntType),
        (float, kinds.FloatType),
        (str, kinds.StrType),
        (list, kinds.ListType),
    ]
    return any(type(value) is python and isinstance(info, kind) for python, kind in pairs)


def plain(message: WireMessage) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(message))


def name_of(message: WireMessage) -> str:
    result = getattr(message, "result", None)
    return type(message).__name__ + (f" {type(result).__name__}" if result is not None else "")


@pytest.mark.parametrize("event", EVENTS, ids=name_of)
def test_one_value_beyond_its_bound_is_no_frame(event: WireMessage) -> None:
    assert wire.decode_event(msgspec.msgpack.encode(event)) == event
    tried = list(attacks(plain(event), kinds.type_info(type(event))))
    assert bool(tried) == (type(event) is not Alive), "which says nothing else"
    assert [where for where, worse in tried if is_let_through(worse)] == []


def is_let_through(frame: object) -> bool:
    try:
        wire.decode_event(msgspec.msgpack.encode(frame))
    except ProtocolError:
        return False
    return True


def test_every_kind_of_event_and_result_is_attacked() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(protocol.Event))
    assert {type(result) for result in RESULTS} == set(get_args(protocol.Result))


# --- what must fit each other -------------------------------------------------------------------

put = msgspec.structs.replace
FAR = 2**31
NO_FIT: dict[str, WireMessage] = {
    "a vector too short": TextsEmbedded(2, 2, Array.of("f4", [1.0] * 3), "mean"),
    "a passage too many": PassagesEmbedded(1, 2, Array.of("f4", [1.0] * 4), "mean", 512, 1),
    "a node before its parent": BeamsGrew(1, 1, [put(NODE, parent=2)]),
    "a direction too few": VectorMade(3, 2, 1, 1, "mean", NUMBERS, [1.0], [0.5]),
    "a layer that says nothing": VectorMade(2, 2, 1, 1, "mean", NUMBERS, [], [0.5]),
    "a layer without its times": StepProfiled(
        9, 5, 2, 0.1, 0.2, [1.0, 1.0], [0.0], [2.0, 2.0], 3.0, 9.0, 8.0
    ),
    # What each of these did in the window is behind it.
    "a context beyond what Qt counts": put(SUMMARY, context_size=FAR),  # QProgressBar.setRange
    "a count beyond what Qt counts": put(SUMMARY, context_used=FAR),  # setValue
    "an infinite time": put(TRACE, ms=math.inf),  # the plot of the speed
    "a time too short to divide by": put(TRACE, ms=5e-324),
    "a huge number": put(TRACE, entropy=1e308),  # fsum
    "a huge log-probability": put(TRACE, logprob=-1e308),  # fsum
    "no number": put(TRACE, logprob=math.nan),
    "a vocabulary of another dtype": put(WORDS, offsets=Array.of("f4", [0, 2, 5])),  # unpack
    "fewer pieces than IDs": Tokens([1, 2], [b"Hi"]),  # zip(strict=True)
    "more pieces than IDs": Tokens([1], [b"Hi", b"the"]),
    "pieces that go back": put(WORDS, offsets=Array.of("i8", [0, 9, 5])),
    "pieces that begin in the middle": put(WORDS, offsets=Array.of("i8", [1, 2, 5])),
    "pieces that end early": put(WORDS, offsets=Array.of("i8", [0, 2, 4])),
    "no pieces at all": put(WORDS, offsets=Array.of("i8", [])),
    "an attribute too few": put(WORDS, attributes=Array.of("i4", [4])),
    "alternatives without a probability": put(TRACE, alternative_logprobs=Array.of("f4", [-1])),
    "an alternative of no probability": put(
        TRACE, alternative_logprobs=Array.of("f4", [-1, math.nan])
    ),
    "an alternative too probable": put(TRACE, alternative_logprobs=Array.of("f4", [-1, math.inf])),
    "a stage that is not there": put(TRACE, removed_by=Array.of("u1", [255, 2])),
    "a removed alternative too many": put(TRACE, removed_by=Array.of("u1", [255, 0, 0])),
    "scores without tokens": put(scores(1, [0.5], [1]), token_ids=[]),
    "a rank too few": put(scores(1, [0.5], [1]), ranks=Array.of("i4", [])),
    "a prompt of other lengths": put(PROMPT, token_ids=Array.of("i4", [1, 2])),
    "a prompt with an attribute too few": put(PROMPT, attributes=Array.of("i4", [])),
    "a prompt with a control too few": put(PROMPT, controls=Array.of("u1", [])),
    "a prompt with bytes too many": put(PROMPT, blob=b"<s>x"),
    "a prompt of no parts": put(PROMPT, parts=[]),
    "parts that leave a gap": put(PROMPT, parts=[ShownPart(1, 2, "user")]),
    "parts of nothing": put(PROMPT, parts=[ShownPart(0, 0, "user"), ShownPart(0, 1, "user")]),
    "parts that go beyond": put(PROMPT, parts=[ShownPart(0, 99, "user")]),
    "a cache of more than there is": told(
        slot(0, [(1, 0, 7)]), slot(1, [(1, 0, 3), (2, 3, 5)]), n_ctx=8
    ),
    "a cache of no cells": told(n_ctx=0),
    "runs that begin late": told(slot(0, [(1, 2, 7)])),
    "runs with a gap": told(slot(0, [(1, 0, 3), (2, 4, 7)])),
    "runs of nothing": told(slot(0, [(1, 0, 0), (2, 0, 7)])),
    "a run that begins elsewhere": told(slot(0, [(1, 0, 3), (2, 3, 7)]), slot(1, [(2, 0, 4)])),
    "runs that do not cover": told(put(slot(0, [(1, 0, 7)]), runs=[])),
    "runs that go beyond": told(put(slot(0, [(1, 0, 7)]), runs=[CellRun(1, 0, FAR - 1)])),
    "cells beyond the sequence": told(slot(0, [(1, 0, 7)], [CellPart(0, 8, "user")])),
    "cells that overlap": told(
        slot(0, [(1, 0, 7)], [CellPart(0, 4, "user"), CellPart(3, 7, "user")])
    ),
    "cells that go back": told(slot(0, [(1, 0, 7)], [CellPart(5, 2, "user")])),
    "numbers that their shape does not have": put(INSIDE, floats=[put(ROW, shape=[3])]),
    "an extent without an axis": put(INSIDE, ints=[put(IDS, shape=[1, 2, 1])]),
    "an array that comes twice": put(INSIDE, floats=[ROW, ROW]),
    "rows that are not whole": put(ROWS, n_embd=2),
    "a mean of another width": put(FACTS, n_embd=3),
    "lengths at other places": put(FACTS, norms=NUMBERS),
    "a token without its cosine": put(NEAR, cosines=Array.of("f4", [0.5])),
    "an input without its rank": put(NEAR, input_ranks=Array.of("i4", [0])),
    "half a pair": Rotations([put(TURN, n_dims=5, factors=Array.of("f4", []))], 2),
    "a factor for no pair": Rotations([put(TURN, n_dims=6)], 2),
    "numbers of one name and two kinds": put(INSIDE, ints=[put(IDS, name="embedding")]),
}


def as_event(message: WireMessage) -> WireMessage:
    if type(message) is type(TRACE):
        return TokenArrived(1, message, "Hi", "content", 1)  # type: ignore[arg-type]
    own = isinstance(message, PromptScores | BeamsGrew)
    return message if own else Finished(1, message)  # type: ignore[arg-type]


@each("kind", NO_FIT)
def test_what_does_not_fit_is_no_frame(kind: str) -> None:
    with pytest.raises(ProtocolError):
        wire.decode_event(msgspec.msgpack.encode(as_event(NO_FIT[kind])))


@pytest.mark.parametrize(
    "message",
    [
        put(TRACE, logprob=-math.inf, alternative_logprobs=Array.of("f4", [0.0, -math.inf])),
        put(TRACE, logprob=-3.4e38, ms=0.0, removed_by=Array.of("u1", [])),
        put(
            TRACE,
            removed_by=None,
            stages=[],
            alternative_ids=Array.of("i4", []),
            alternative_logprobs=Array.of("f4", []),
        ),
        scores(1, [0.0], [1]),
        put(scores(1, [0.5], [1]), logprobs=Array.of("f4", [math.nan])),
        told(slot(0, [(1, 0, 7)]), slot(1, [(1, 0, 3), (2, 3, 5)]), n_ctx=9),
        put(
            PROMPT,
            token_ids=Array.of("i4", []),
            attributes=Array.of("i4", []),
            controls=Array.of("u1", []),
            offsets=Array.of("i8", [0]),
            blob=b"",
            parts=[],
        ),
        # A layer that has no such node, and a question about no target.
        put(INSIDE, floats=[put(ROW, values=Array.of("f4", [math.nan, math.inf]))]),
        put(INSIDE, ints=[put(IDS, shape=[2, 0], values=Array.of("i4", []))]),
    ],
)
def test_what_an_honest_engine_may_say_comes_through(message: WireMessage) -> None:
    event = as_event(message)
    found = wire.decode_event(msgspec.msgpack.encode(event))
    assert msgspec.msgpack.encode(found) == msgspec.msgpack.encode(event)


# --- through the client -------------------------------------------------------------------------

LIAR = """
import struct, sys
from pathlib import Path
source, frames, events = sys.stdin.buffer, sys.stdout.buffer, Path(sys.argv[1]).read_bytes()
hello, answer = events.split(b'--- then ---')
frames.write(hello); frames.flush()
source.read(struct.unpack('<I', source.read(4))[0])
frames.write(answer); frames.flush()
source.read()
"""
"""Says the first part of a file at once, and the rest when it has been asked something."""


@pytest.fixture
def talk(forked_children: None, tmp_path: Path) -> Iterator[ScriptedTalk]:
    talk = ScriptedTalk(tmp_path)
    yield talk
    talk.close()


@pytest.mark.parametrize("message", NO_FIT.values(), ids=NO_FIT)
def test_it_ends_the_engine_with_words(
    talk: ScriptedTalk, tmp_path: Path, message: WireMessage
) -> None:
    says = tmp_path / "says"
    hello, last = (wire.encode_frame(one) for one in (EVENTS[0], as_event(message)))
    says.write_bytes(hello + b"--- then ---" + last)
    engine = talk.over([sys.executable, "-c", LIAR, str(says)])
    ending = engine.wait_for(engine.load("weights.gguf"), PATIENCE_S)
    assert isinstance(ending, Failed)
    assert "sent an invalid response" in ending.sentence
    assert "broken frames" in ending.evidence
    assert talk.wait_for_state(EngineState.CRASHED).sentence == ending.sentence
    assert not talk.of(TokenArrived), "nobody saw it"
    assert not talk.of(Finished)


@given(st.lists(st.floats(width=32), max_size=6))
@settings(max_examples=examples(200))
def test_log_probabilities_are_judged_together_as_one_by_one(values: list[float]) -> None:
    assert are_nats(array("f", values)) == all(map(is_nats, values))
