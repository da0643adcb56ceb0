"""Frames: every struct comes back as it was, and nothing but ProtocolError comes of garbage."""

from __future__ import annotations

import io
import itertools
import os
import struct
import subprocess
import sys
import threading
from typing import get_args

import msgspec
import pytest
from each import each
from examples import examples
from hypothesis import given, settings, strategies as st
from made_cache import slot, told
from made_prompts import scores, shown
from made_traces import trace_of

from app.engine.protocol import messages as protocol, wire
from app.engine.protocol.adapter_messages import VectorMade
from app.engine.protocol.beam_messages import BeamNode
from app.engine.protocol.cache_messages import CacheMap, CacheSlot
from app.engine.protocol.draft_messages import Rejected
from app.engine.protocol.embedding_messages import (
    EmbeddingFacts,
    EmbeddingRows,
    NearestTokens,
    Rotation,
)
from app.engine.protocol.frames import DTYPES, MAX_FRAME_BYTES, Array, ProtocolError, WireMessage
from app.engine.protocol.inside_messages import (
    FloatArray,
    HeadsMeasured,
    Inside,
    IntArray,
    TokenAttributed,
)
from app.engine.protocol.lane_messages import Lanes, LaneVisit
from app.engine.protocol.machine_messages import StepProfiled
from app.engine.protocol.media_messages import MediaSpan
from app.engine.protocol.messages import (
    Finished,
    Generate,
    Hello,
    Log,
    Progress,
    StageEffect,
    Stop,
    TokenArrived,
    TokenTrace,
    VocabularyTable,
)
from app.engine.protocol.passage_messages import PassagesEmbedded
from app.engine.protocol.pooling_messages import TextsEmbedded
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, PromptShown, ShownPart
from app.engine.protocol.replay_messages import DrawExplained


def _frames(*payloads: bytes) -> io.BytesIO:
    return io.BytesIO(b"".join(struct.pack("<I", len(p)) + p for p in payloads))


def _trace(index: int = 0, *, ids: bytes = b"\1\0\0\0", shape: int = 1) -> TokenTrace:
    return TokenTrace(
        index=index,
        token_id=7,
        piece=b"\xf0\x9f",
        logprob=-0.5,
        rank=1,
        entropy=2.0,
        alternative_ids=Array("i4", [shape], ids),
        alternative_logprobs=Array("f4", [1], b"\0\0\0\0"),
        stages=[StageEffect("top_k", 40, 0.5)],
        ms=1.0,
    )


def _through_the_wire(message: WireMessage) -> bytes:
    stream = io.BytesIO()
    wire.FrameWriter(stream).write(message)
    stream.seek(0)
    reader = wire.FrameReader(stream)
    payload = reader.read()
    assert payload is not None
    assert reader.read() is None
    return payload


# --- round trips ------------------------------------------------------------------------------

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def _arrays(dtype: str) -> st.SearchStrategy[Array]:
    size = DTYPES[dtype]
    return st.builds(lambda n: Array(dtype, [n], bytes(n * size)), st.integers(0, 5))


_PIECES = st.lists(st.binary(max_size=3), max_size=4)
_TOGETHER: dict[type[WireMessage], st.SearchStrategy[WireMessage]] = {
    protocol.TokenTrace: _PIECES.map(lambda pieces: trace_of([*pieces, b"Hi"])[-1]),
    protocol.Tokens: _PIECES.map(lambda pieces: protocol.Tokens([7] * len(pieces), pieces)),
    VocabularyTable: _PIECES.map(lambda pieces: _vocabulary(shown([], pieces))),
    PromptShown: _PIECES.map(
        lambda pieces: shown([ShownPart(0, len(pieces) + 1, "user")], [*pieces, b"x"])
    ),
    protocol.PromptCount: st.integers(1, 9).map(
        lambda n: protocol.PromptCount(n + 5, 99, media=[MediaSpan(4, n, "p", n, 1)])
    ),
    BeamNode: st.integers(0, 9).map(
        lambda n: BeamNode(n + 1, n, 5, b"x", -0.5, -2.0, -1.0, "alive")
    ),
    protocol.PromptScores: st.integers(0, 3).map(lambda n: scores(1, [0.5] * n, [1] * n)),
    CacheSlot: st.integers(1, 9).map(lambda n: slot(0, [(1, 0, n)])),
    CacheMap: st.integers(1, 9).map(lambda n: told(slot(0, [(1, 0, n)]))),
    FloatArray: st.integers(0, 3).map(lambda n: _floats("lens_total", n)),
    IntArray: st.integers(0, 3).map(lambda n: _ints(n)),
    Inside: st.integers(0, 3).map(
        lambda n: Inside(5, 4, 2, 1, 0.5, [_floats("a", n), _floats("b", n)], [_ints(n)], [])
    ),
    HeadsMeasured: st.integers(0, 3).map(
        lambda n: HeadsMeasured(1, n, Array.of("f4", [0.5] * 5 * n), 4, 101)
    ),
    TokenAttributed: st.integers(0, 3).map(
        lambda n: TokenAttributed(1, 2, *[0.5] * 6, [_floats("a", n), _floats("b", n)])
    ),
    EmbeddingRows: st.integers(0, 3).map(lambda n: EmbeddingRows(2, _row(2 * n), _row(n))),
    EmbeddingFacts: st.integers(0, 3).map(
        lambda n: EmbeddingFacts(9, n, "F16", _row(n), _row(5), 0.5)
    ),
    NearestTokens: st.integers(0, 3).map(
        lambda n: NearestTokens(_ints(n).values, _row(n), _ints(1).values, _row(1), 9)
    ),
    Rotation: st.integers(0, 3).map(
        lambda n: Rotation([0], "halves", 2 * n, 0, 1e4, 1.0, 0.0, 1.0, 32.0, 1.0, 64, _row(n))
    ),
    StepProfiled: st.integers(0, 3).map(
        lambda n: StepProfiled(9, 5, 2, 0.1, 0.2, [1.0] * n, [0.0] * n, [2.0] * n, 3.0, 9.0, 8.0)
    ),
    DrawExplained: st.integers(0, 3).map(
        lambda n: DrawExplained(
            *(Array.of("i4", [7] * n), _row(n), _row(n), _row(n), Array.of("u1", [255] * n)),
            *([9, 3], 2.0, 1.0, 5.5),
        )
    ),
    Lanes: st.integers(0, 3).map(
        lambda n: Lanes(
            *(9.0, 2, n, _moments(n), _moments(n), *[_ones(n)] * 2),
            *(_ones(n), _ones(n), Array.of("u1", [1] * n), [LaneVisit(1, 0, "r", "c", 0.0, 0.0)]),
            [],
        )
    ),
    PassagesEmbedded: st.integers(0, 3).map(
        lambda n: PassagesEmbedded(n, 2, _row(2 * n), "mean", 512, 1)
    ),
    TextsEmbedded: st.integers(0, 3).map(lambda n: TextsEmbedded(n, 2, _row(2 * n), "mean")),
    VectorMade: st.integers(0, 3).map(
        lambda n: VectorMade(n + 1, 2, 1, 1, "mean", _row(2 * n), [1.0] * n, [0.5] * n)
    ),
    Rejected: st.integers(1, 3).map(lambda n: Rejected([7] * n, [b"x"] * n, -0.5, [-1.0] * n)),
}
"""Structs whose fields must fit each other."""


def _all_structs(info: object, found: set[type[msgspec.Struct]]) -> None:
    kinds = msgspec.inspect
    if isinstance(info, kinds.StructType):
        if info.cls not in found:
            found.add(info.cls)
            for field in info.fields:
                _all_structs(field.type, found)
    elif isinstance(info, kinds.ListType):
        _all_structs(info.item_type, found)
    elif isinstance(info, kinds.Metadata):
        _all_structs(info.type, found)
    elif isinstance(info, kinds.UnionType | kinds.TupleType):
        for part in info.types if isinstance(info, kinds.UnionType) else info.item_types:
            _all_structs(part, found)


def test_each_struct_whose_fields_must_fit_is_made_to_fit() -> None:
    """One that is made of any fields would seldom fit, and the tests below fail by chance."""
    found: set[type[msgspec.Struct]] = set()
    for kind in [*get_args(protocol.Command), *get_args(protocol.Event)]:
        _all_structs(msgspec.inspect.type_info(kind), found)
    checked = {kind for kind in found if "check" in vars(kind) and kind is not Array}
    assert checked <= set(_TOGETHER)
    assert {Lanes, Rejected, protocol.TokenTrace} <= checked


def _row(n: int) -> Array:
    return Array.of("f4", [0.5] * n)


def _moments(n: int) -> Array:
    return Array.of("f8", [0.5] * n)


def _ones(n: int) -> Array:
    return Array.of("i4", [1] * n)


def _floats(name: str, n: int) -> FloatArray:
    return FloatArray(name, ["n_layer", "two"], [n, 2], Array.of("f4", [0.5] * 2 * n))


def _ints(n: int) -> IntArray:
    return IntArray("lens_ids", ["n_layer"], [n], Array.of("i4", [7] * n))


def _vocabulary(of: PromptShown) -> VocabularyTable:
    return VocabularyTable(of.offsets, of.blob, of.attributes)


def _structs(union: object) -> st.SearchStrategy[WireMessage]:
    return st.one_of([_struct(kind) for kind in get_args(union)])


def _struct(kind: type[WireMessage]) -> st.SearchStrategy[WireMessage]:
    if kind in _TOGETHER:
        return _TOGETHER[kind]
    fields = {
        field.name: _value(field.type)
        for field in msgspec.inspect.type_info(kind).fields  # type: ignore[union-attr]
    }
    return st.builds(kind, **fields)


def _value(info: object) -> st.SearchStrategy[object]:
    """A strategy for one msgspec type description."""
    kinds = msgspec.inspect
    if isinstance(info, kinds.IntType):
        low = -(2**63) if info.ge is None else info.ge
        return st.integers(low, 2**64 - 1 if info.le is None else info.le)
    if isinstance(info, kinds.FloatType):
        return st.floats(info.ge, info.le, allow_nan=False)
    if isinstance(info, kinds.StrType):
        return _texts
    if isinstance(info, kinds.BytesType):
        return st.binary(max_size=30)
    if isinstance(info, kinds.BoolType):
        return st.booleans()
    if isinstance(info, kinds.NoneType):
        return st.none()
    if isinstance(info, kinds.LiteralType):
        return st.sampled_from(info.values)
    if isinstance(info, kinds.ListType):
        return st.lists(_value(info.item_type), max_size=3)
    if isinstance(info, kinds.TupleType):
        return st.tuples(*map(_value, info.item_types))
    if isinstance(info, kinds.UnionType):
        return st.one_of([_value(part) for part in info.types])
    if isinstance(info, kinds.Metadata):
        return _arrays(str((info.extra or {})["dtype"]))
    assert isinstance(info, kinds.StructType), info
    return _struct(info.cls)


@settings(max_examples=examples(150), deadline=None)
@given(_structs(protocol.Command))
def test_every_command_comes_back_as_it_was(command: protocol.Command) -> None:
    assert wire.decode_command(_through_the_wire(command)) == command


@settings(max_examples=examples(150), deadline=None)
@given(_structs(protocol.Event))
def test_every_event_comes_back_as_it_was(event: protocol.Event) -> None:
    assert wire.decode_event(_through_the_wire(event)) == event


@each("kind", [*get_args(protocol.Command), *get_args(protocol.Event)])
def test_every_struct_of_the_protocol_is_frozen_and_tagged(
    kind: type[WireMessage],
) -> None:
    assert kind.__struct_config__.frozen
    assert kind.__struct_config__.tag == kind.__name__


def test_frames_from_before_there_were_tools_are_still_read() -> None:
    prompt = {"@": "ChatPrompt", "messages": [{"@": "ChatMessage", "role": "tool", "content": "x"}]}
    old = msgspec.msgpack.encode({"@": "Generate", "id": 1, "prompt": prompt})
    assert wire.decode_command(old) == Generate(1, ChatPrompt([ChatMessage("tool", "x")]))
    ending = {"@": "Finished", "id": 1, "result": {"@": "Summary", "stop_reason": "end_token"}}
    assert wire.decode_event(msgspec.msgpack.encode(ending)) == Finished(
        1, protocol.Summary("end_token")
    )


# --- garbage ------------------------------------------------------------------------------------


@settings(max_examples=examples(400), deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_end_in_a_protocol_error_or_a_struct(data: bytes) -> None:
    for decode in (wire.decode_command, wire.decode_event):
        try:
            message = decode(data)
        except ProtocolError:
            continue
        assert isinstance(message, WireMessage)


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_a_damaged_frame_ends_in_a_protocol_error_or_a_struct(data: st.DataObject) -> None:
    good = bytearray(_through_the_wire(TokenArrived(3, _trace(), "Hi", "content", 12)))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        event = wire.decode_event(bytes(good))
    except ProtocolError:
        return
    assert isinstance(event, WireMessage)


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=64))
def test_a_stream_of_random_bytes_only_raises_protocol_errors(data: bytes) -> None:
    reader = wire.FrameReader(io.BytesIO(data))
    try:
        while (payload := reader.read()) is not None:
            assert payload
    except ProtocolError:
        pass


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 20])
def test_a_cut_frame_is_an_error_and_not_an_end(cut: int) -> None:
    frame = wire.encode_frame(Log("info", "a line of some length"))
    with pytest.raises(ProtocolError, match="ended"):
        wire.FrameReader(io.BytesIO(frame[:cut])).read()


def test_the_end_between_frames_is_none() -> None:
    reader = wire.FrameReader(_frames(b"abc", b"de"))
    assert [reader.read(), reader.read(), reader.read()] == [b"abc", b"de", None]


@given(
    payloads=st.lists(st.binary(min_size=1, max_size=300), max_size=20),
    parts=st.lists(st.integers(1, 400), min_size=1, max_size=20),
)
def test_frames_are_whole_however_the_stream_is_cut(
    payloads: list[bytes], parts: list[int]
) -> None:
    """In parts of any size, one by one or a few at a time."""
    whole = _frames(*payloads)

    class Parts(io.RawIOBase):
        """Gives as many bytes at a time as `parts` says, in turn."""

        def __init__(self) -> None:
            self.source = io.BytesIO(whole.getvalue())
            self.sizes = itertools.cycle(parts)

        def read(self, _size: int = -1) -> bytes:
            return self.source.read(next(self.sizes))

    one_by_one = wire.FrameReader(Parts())
    assert [one_by_one.read() for _ in payloads] == payloads
    assert one_by_one.read() is None
    together = wire.FrameReader(Parts())
    groups = list(iter(together.read_few, []))
    assert [payload for group in groups for payload in group] == payloads
    assert len(wire.FrameReader(whole).read_few()) == len(payloads)


def test_a_bad_length_behind_good_frames_takes_none_of_them_along() -> None:
    reader = wire.FrameReader(io.BytesIO(_frames(b"abc", b"de").getvalue() + b"\0\0\0\0"))
    assert reader.read_few() == [b"abc", b"de"]
    with pytest.raises(ProtocolError, match="not allowed"):
        reader.read_few()


@pytest.mark.parametrize("size", [0, MAX_FRAME_BYTES + 1, 2**32 - 1])
def test_a_length_that_is_not_allowed_is_refused_before_reading(size: int) -> None:
    with pytest.raises(ProtocolError, match="not allowed"):
        wire.FrameReader(io.BytesIO(struct.pack("<I", size))).read()


def test_a_message_that_is_too_large_is_not_sent() -> None:
    stream = io.BytesIO()
    with pytest.raises(ProtocolError, match="not allowed"):
        wire.FrameWriter(stream).write(Log("info", "a" * (MAX_FRAME_BYTES + 1)))
    assert stream.getvalue() == b""


def test_deep_nesting_is_a_protocol_error() -> None:
    payload = b"\x82\xa1@\xa3Log\xa1x" + b"\x91" * 100_000 + b"\xc0"
    with pytest.raises(ProtocolError):
        wire.decode_event(payload)


def test_text_that_is_not_utf8_is_a_protocol_error() -> None:
    good = msgspec.msgpack.encode({"@": "Log", "level": "info", "text": "abc"})
    with pytest.raises(ProtocolError):
        wire.decode_event(good.replace(b"abc", b"a\xffc"))


def test_an_event_is_not_a_command() -> None:
    with pytest.raises(ProtocolError):
        wire.decode_command(_through_the_wire(Progress(1, "load", 1, 2)))


# --- arrays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [
        Array("O", [1], b"12345678"),
        Array("i4", [2], b"\0\0\0\0"),
        Array("i4", [-1], b""),
        Array("i4", [-1, -1], b"\0\0\0\0"),
        Array("i4", [2**63, 2**63], b""),
        Array("i4", [2**53, 2**53], b""),
        Array("i4", [1] * 9, b"abcd"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(array: Array) -> None:
    fine = Array("i8", [2], bytes(16))
    event = Finished(1, VocabularyTable(offsets=fine, blob=b"", attributes=array))
    with pytest.raises(ProtocolError, match=r"array|attributes\.shape"):
        wire.decode_event(_through_the_wire(event))


def test_an_array_inside_a_token_is_checked() -> None:
    with pytest.raises(ProtocolError, match="does not fit shape"):
        wire.decode_event(_through_the_wire(TokenArrived(1, _trace(shape=2), "", "content", 1)))


def test_a_shape_of_a_million_extents_is_refused_quickly() -> None:
    with pytest.raises(ProtocolError, match="rank"):
        Array("u1", [2**62] * 1_000_000, b"").check()


# --- texts and threads ----------------------------------------------------------------------------


def test_a_lone_surrogate_is_replaced_and_not_an_error() -> None:
    prompt = ChatPrompt([ChatMessage("user", "a\ud83d b")])
    command = wire.decode_command(_through_the_wire(Generate(1, prompt)))
    assert isinstance(command, Generate)
    assert isinstance(command.prompt, ChatPrompt)
    assert command.prompt.messages[0].content == "a\ufffd b"


def test_frames_of_two_threads_do_not_interleave() -> None:
    read_fd, write_fd = os.pipe()
    with os.fdopen(read_fd, "rb", 0) as read_end, os.fdopen(write_fd, "wb", 0) as write_end:
        writer = wire.FrameWriter(write_end)
        threads = [
            threading.Thread(target=lambda n=n: [writer.write(Log("info", str(n) * 999))] * 1)
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        reader = wire.FrameReader(read_end)
        seen = set()
        for _ in threads:
            event = wire.decode_event(reader.read() or b"")
            assert isinstance(event, Log)
            seen.add(event.text)
        for thread in threads:
            thread.join()
    assert seen == {str(n) * 999 for n in range(8)}


# --- a child's first acts -------------------------------------------------------------------------

_CHILD = """
import os, sys
from app.engine.protocol import wire
from app.engine.protocol.messages import Stop, Log
commands, frames = wire.begin_child()
print("printed by Python")
os.write(1, b"printed by native code")
assert os.read(0, 10) == b""
command = wire.decode_command(wire.FrameReader(commands).read())
assert command == Stop(5), command
wire.FrameWriter(frames).write(Log("info", "only frames here"))
"""


def test_a_childs_stdout_carries_frames_alone() -> None:
    child = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input=wire.encode_frame(Stop(5)),
        capture_output=True,
        check=True,
        timeout=30,
    )
    payload = wire.FrameReader(io.BytesIO(child.stdout)).read()
    assert wire.decode_event(payload or b"") == Log("info", "only frames here")
    assert len(child.stdout) == 4 + len(payload or b"")
    assert b"printed by Python" in child.stderr
    assert b"printed by native code" in child.stderr


def test_hello_of_another_version_still_decodes() -> None:
    """The supervisor says what is wrong; the wire lets it see the number."""
    hello = Hello(99, "llama.cpp", "1", 1, [], 2, [])
    assert wire.decode_event(_through_the_wire(hello)) == hello


def test_several_structs_with_one_write_are_all_or_none() -> None:
    stream = io.BytesIO()
    writer = wire.FrameWriter(stream)
    writer.write_all([Log("info", "one"), Log("info", "two")])
    stream.seek(0)
    frames = wire.FrameReader(stream)
    texts = [wire.decode_event(frames.read() or b"") for _ in range(2)]
    assert texts == [Log("info", "one"), Log("info", "two")]
    assert frames.read() is None
    end = stream.tell()
    too_large = Log("info", "a" * (MAX_FRAME_BYTES + 1))
    with pytest.raises(ProtocolError):
        writer.write_all([Log("info", "three"), too_large])
    assert stream.getbuffer().nbytes == end
