"""The cache as it is shown and changed by hand, against llama.cpp's own word and a plain model."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import Shape, bpe_vocabulary, tiny_llama
from native_cache import CacheModel, decode, ends, native_used, shown
from native_session import GREEDY, NativeSession, ReadyPrompt, load_quietly
from window_gguf import tiny_gemma

from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.prompts.tokens import PromptPart
from app.engine.protocol import wire
from app.engine.protocol.cache_messages import CacheMap, CacheSlot, ChangeCache
from app.engine.protocol.messages import Finished, Generate, Summary
from app.engine.protocol.pieces import unpack
from app.engine.protocol.prompt_messages import IdsPrompt
from app.insight.cache.cells import CellMap
from app.insight.cache.sizes import copy_size

pytestmark = pytest.mark.weights

REAL = [pytest.param(name, marks=pytest.mark.soak) for name in ("starter", "gemma")]
BOTH = pytest.mark.parametrize("file", ["made", "made_window", *REAL])


@pytest.fixture
def opened(file: str, request: pytest.FixtureRequest, native_log: NativeLog) -> NativeSession:
    return NativeSession(request.getfixturevalue(file), native_log)


def open_tiny(folder: Path, log: NativeLog, **options: Any) -> NativeSession:
    path = folder / "tiny.gguf"
    tiny_llama(path, vocabulary=bpe_vocabulary())
    return NativeSession(load_quietly(path, log, n_ubatch=64, n_threads=1, **options), log)


@pytest.fixture
def tiny(tmp_path: Path, native_log: NativeLog) -> Iterator[NativeSession]:
    session = open_tiny(tmp_path, native_log, n_ctx=512)
    yield session
    session.weights.close()


def told(session: NativeSession) -> CacheMap:
    return session.scheduler.cache.read()


def change(session: NativeSession, act: Any, conversation: str = "", **fields: Any) -> Any:
    ending = session.scheduler.cache.answer(ChangeCache(7, act, conversation, **fields))
    assert ending.id == 7
    return ending


def numbers(first: int, count: int) -> list[int]:
    return [100 + first, *(200 + (first * 7 + i) % 500 for i in range(count - 1))]


def agrees(session: NativeSession) -> CacheMap:
    """The map, after it was held against what llama.cpp says."""
    now, weights = told(session), session.weights
    event = Finished(1, now)
    assert wire.decode_event(wire.encode_frame(event)[4:]) == event
    assert now.n_used == native_used(weights, sum(shape_of(slot) for slot in now.slots))
    by_sequence = {slot.sequence: slot for slot in now.slots}
    for sequence in range(weights.n_slots):
        slot = by_sequence.get(sequence)
        assert ends(weights, sequence) == ((-1, -1) if slot is None else (0, shape_of(slot) - 1))
    for slot in now.slots:
        assert weights.loaded.cache is not None
        size = copy_size(weights.loaded.cache, shape_of(slot), slot.first_position)
        assert size is not None
        assert slot.state_bytes == size.total
        assert (slot.runs[0].start, slot.runs[-1].end) == (0, shape_of(slot))
    return now


def shape_of(slot: CacheSlot) -> int:
    return len(unpack(slot.token_ids))


# --- what is shown is what seq_cp and seq_rm did --------------------------------------------------


@BOTH
def test_cells_shown_are_those_of_a_scripted_series(opened: NativeSession) -> None:
    """Write, fork, write on, cut, fork of a fork, let go: after each act the map is compared with
    a model of plain sets, and with positions and sizes that llama.cpp says itself."""
    cells = [slot.cells for slot in opened.scheduler._slots]
    model, weights = CacheModel(), opened.weights

    def write(sequence: int, n: int) -> None:
        ids = numbers(sequence, n)
        decode(weights, ids, len(cells[sequence]), sequence)
        cells[sequence].extend(ids)
        model.write(sequence, n)

    def fork(source: int, target: int, length: int) -> None:
        cells[target].fork_from(cells[source], length)
        model.copy(source, target, length)

    def cut(sequence: int, length: int) -> None:
        assert cells[sequence].cut(length)
        model.remove(sequence, length)

    series: list[tuple[Callable[..., None], tuple[int, ...]]] = [
        (write, (0, 90)),
        (fork, (0, 1, 60)),
        (write, (1, 25)),
        (write, (0, 7)),
        (fork, (1, 2, 80)),
        (cut, (1, 40)),
        (write, (1, 12)),
        (fork, (0, 3, 97)),
        (cut, (0, 30)),
        (cut, (2, 0)),
        (write, (0, 5)),
        (cut, (3, 1)),
        (cut, (0, 0)),
        (cut, (1, 0)),
        (cut, (3, 0)),
    ]
    for act, arguments in series:
        act(*arguments)
        now = agrees(opened)
        assert shown(now) == model.held(), (act.__name__, arguments)
        assert now.n_used == len(model.cells)
    assert now.n_used == 0


def test_cells_shown_are_those_of_two_hundred_random_acts(tiny: NativeSession) -> None:
    chance = random.Random(14)
    cells, model = [slot.cells for slot in tiny.scheduler._slots], CacheModel()
    for _ in range(200):
        one, other = chance.sample(range(len(cells)), 2)
        act = chance.choice(["write", "write", "fork", "cut"])
        if act == "write" and len(model.cells) < 400:
            ids = [chance.randrange(20, 200) for _ in range(chance.randrange(1, 30))]
            decode(tiny.weights, ids, len(cells[one]), one)
            cells[one].extend(ids)
            model.write(one, len(ids))
        elif act == "fork" and len(cells[one]):
            length = chance.randrange(1, len(cells[one]) + 1)
            cells[other].fork_from(cells[one], length)
            model.copy(one, other, length)
        elif len(cells[one]):
            length = chance.randrange(len(cells[one]) + 1)
            assert cells[one].cut(length)
            model.remove(one, length)
        assert shown(agrees(tiny)) == model.held()


@BOTH
def test_answers_that_share_a_prompt_have_its_cells_once(opened: NativeSession) -> None:
    ids = numbers(1, 80)
    for _ in range(3):
        opened.add(ids, max_tokens=6, conversation="a")
    opened.run()
    now = agrees(opened)
    lengths = [shape_of(slot) for slot in now.slots]
    # The first reply has read the last token of its prompt; the others read it again.
    assert lengths == [85, 85, 85]
    assert now.n_used == 79 + 3 * 6
    held = CellMap(now)
    assert held.counts(lambda stretch: str(len(stretch.holders))) == {"3": 79, "1": 18}
    assert held.stretches[0].turn == "reused"
    assert {slot.conversation for slot in now.slots} == {"a"}


@BOTH
def test_each_cell_says_whose_token_it_holds(opened: NativeSession) -> None:
    ids = numbers(1, 30)
    parts = [
        PromptPart(0, 4, "scaffold"),
        PromptPart(4, 12, "system"),
        PromptPart(12, 14, "scaffold"),
        PromptPart(14, 27, "user", "m1"),
        PromptPart(27, 30, "scaffold"),
    ]
    generate = Generate(3, IdsPrompt(ids), GREEDY, max_tokens=5, conversation="a", reply_id="m2")
    opened.scheduler.add(generate, ReadyPrompt(ids, parts=parts), time.perf_counter())
    opened.run()
    ending = opened.ending(3)
    assert isinstance(ending.result, Summary)
    drawn = ending.result.token_ids
    now = agrees(opened)
    (slot,) = now.slots
    assert list(unpack(slot.token_ids)) == [*ids, *drawn[:-1]], "the last one is in no cell yet"
    cells = CellMap(now)
    assert cells.counts(lambda stretch: stretch.origin) == {
        "scaffold": 9,
        "system": 8,
        "user": 13,
        "assistant": 4,
    }
    assert cells.cells_of("m1") == (14, 26)
    assert cells.cells_of("m2") == (30, 33)
    assert cells.cell_of("m2", 2) == 32
    assert cells.token_id(32) == drawn[2]
    (turn,) = now.turns
    assert (turn.reused, turn.evaluated, turn.written, turn.source) == (0, 30, 5, "")


@BOTH
def test_a_reply_that_is_written_is_shown_as_it_grows(opened: NativeSession) -> None:
    opened.add(numbers(1, 70), max_tokens=9, conversation="a", reply_id="m2")
    seen: list[tuple[int, int, bool]] = []
    while opened.scheduler.has_work:
        opened.scheduler.step()
        now = agrees(opened)
        (turn,) = {turn.conversation: turn for turn in now.turns}.values()
        seen.append((now.n_used, turn.written, now.slots[0].is_busy))
    assert seen[0] == (64, 0, True), "a chunk of the prompt"
    assert [used for used, _, _ in seen] == sorted(used for used, _, _ in seen)
    assert seen[-1] == (78, 9, False)
    assert CellMap(now).counts(lambda stretch: stretch.turn) == {"evaluated": 70, "written": 8}


OPTIONS: list[dict[str, str]] = [
    {},
    {"flash_attention": "off"},
    {"type_k": "q8_0", "type_v": "q8_0"},
    {"type_k": "f32", "type_v": "q4_0", "flash_attention": "on"},
]


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With heads of 32 values, whole blocks of every cache type."""
    path = tmp_path_factory.mktemp("wide") / "llama.gguf"
    tiny_llama(path, vocabulary=bpe_vocabulary(), shape=Shape(n_embd=128), n_ctx_train=1024)
    return path


@pytest.fixture(scope="module")
def wide_window(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wide") / "gemma.gguf"
    tiny_gemma(path, vocabulary=bpe_vocabulary(), d_head=32)
    return path


@pytest.mark.parametrize(
    ("file", "options"),
    [
        *((file, options) for file in ("wide", "wide_window") for options in OPTIONS),
        ("starter_gguf", OPTIONS[2]),
        *(
            pytest.param("starter_gguf", options, marks=pytest.mark.soak)
            for options in (*OPTIONS[:2], *OPTIONS[3:])
        ),
        *(pytest.param("gemma_gguf", options, marks=pytest.mark.soak) for options in OPTIONS),
    ],
    ids=str,
)
def test_the_size_by_the_formula_is_the_native_one(
    file: str, options: dict[str, str], request: pytest.FixtureRequest, native_log: NativeLog
) -> None:
    """For each type of cache: rows by the header, and the copy's own header of 8 bytes, 16 for each
    cache, 12 for each cell and 24 for each layer."""
    path: Path = request.getfixturevalue(file)
    weights = load_quietly(path, native_log, n_ctx=640, n_ubatch=64, n_threads=1, **options)
    shape = weights.loaded.cache
    assert shape is not None
    assert shape.bytes_per_token == weights.loaded.kv_bytes_per_token
    length = 520 if shape.window and not options else 5
    session = NativeSession(weights, native_log)
    session.reply([20 + i % 200 for i in range(length)], max_tokens=1)
    is_as_llama_cpp_says(session, length)
    weights.close()


@pytest.mark.soak
def test_a_copy_of_gemma_has_the_size_of_the_formula(gemma: Weights, native_log: NativeLog) -> None:
    """The real file of two caches, with the session's options."""
    session = NativeSession(gemma, native_log)
    session.reply(numbers(1, 5), max_tokens=1)
    is_as_llama_cpp_says(session, 5)


def is_as_llama_cpp_says(session: NativeSession, length: int) -> None:
    shape = session.weights.loaded.cache
    assert shape is not None
    (slot,) = told(session).slots
    size = copy_size(shape, length, slot.first_position)
    assert size is not None
    assert size.total == slot.state_bytes
    n_layers = sum(group.n_layers for group in shape.layers)
    n_caches = 2 if shape.window else 1
    if length <= (shape.window or length):
        assert size.row_bytes == length * shape.bytes_per_token
        header = 8 + 16 * n_caches + 12 * n_caches * length + 24 * n_layers
        assert slot.state_bytes - size.row_bytes == header
    else:
        assert size.row_bytes < length * shape.bytes_per_token


def test_shapes_of_both_files(starter: Weights, gemma: Weights) -> None:
    """SmolLM2: 30 layers of 3 heads of 64; Gemma 3 270M: 18 of 1 head of 256, 15 with a window."""
    plain, window = starter.loaded.cache, gemma.loaded.cache
    assert plain is not None
    assert window is not None
    (one,), (other,) = plain.layers, window.layers
    assert (one.n_layers, one.k_width, one.v_width, one.n_head_kv) == (30, 192, 192, 3)
    assert (other.n_layers, other.k_width, other.v_width, other.n_head_kv) == (18, 256, 256, 1)
    assert (plain.n_window_layers, plain.window) == (0, 0)
    assert (window.n_window_layers, window.window) == (15, 512)
    assert plain.bytes_per_token == 30 * (192 + 192) * 2


def test_telling_takes_less_than_a_millisecond_at_four_thousand_cells(
    tmp_path: Path, native_log: NativeLog
) -> None:
    session = open_tiny(tmp_path, native_log, n_ctx=4096)
    session.reply([20 + i % 200 for i in range(4090)], max_tokens=1)
    took = []
    for _ in range(50):
        began = time.thread_time()
        now = told(session)
        took.append(time.thread_time() - began)
    session.weights.close()
    assert now.n_used == 4090
    assert min(took) < 0.001
