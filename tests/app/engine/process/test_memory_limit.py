"""The engine's process ends in words where it asks for more memory than it may have; a load whose
plan was accepted goes on."""

from __future__ import annotations

import queue
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gguf_writer import tiny_llama
from patched_engine import engine_with

from app.engine.client.engine import Engine
from app.engine.client.supervisor import EngineEvent, EngineState, StateChanged
from app.engine.process import memory_limit
from app.engine.process.memory_limit import limit_bytes
from app.engine.protocol.loading_messages import LoadOptions, MemoryPart
from app.engine.protocol.messages import CheckGrammar, Failed, Finished, Generate
from app.engine.protocol.prompt_messages import TextPrompt
from app.engine.protocol.stages import Sampling

MIB = 1024 * 1024
GIB = 1024 * MIB
WITHOUT_END = 'root ::= e root "a" | "b"\ne ::= "z"?'
PATIENCE_S = 120


@pytest.fixture
def events() -> queue.SimpleQueue[EngineEvent]:
    return queue.SimpleQueue()


SMALL_MACHINE = f"""
from app.engine.process import memory_limit
from app.engine.process.sampling import grammar
memory_limit.host_memory = lambda: ({400 * MIB}, {400 * MIB})
grammar._check_shape = lambda text, label, field: None
"""
"""A computer with 400 MiB free, and no check of grammars: llama.cpp so meets the limit by its own
fault, as it follows left recursion without end."""


@pytest.fixture
def engine(
    forked_engines: None, events: queue.SimpleQueue[EngineEvent], tmp_path: Path
) -> Iterator[Engine]:
    engine = Engine(engine_with(SMALL_MACHINE), events.put)
    tiny_llama(tmp_path / "tiny.gguf")
    loaded = engine.wait_for(
        engine.load(tmp_path / "tiny.gguf", LoadOptions(n_threads=1, n_ctx=256)), PATIENCE_S
    )
    assert isinstance(loaded, Finished), loaded
    yield engine
    engine.close()


@pytest.mark.weights
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory")
@pytest.mark.parametrize("is_checked", [True, False])
def test_a_process_that_asks_for_too_much_ends_in_words_and_the_next_one_serves(
    is_checked: bool, engine: Engine, events: queue.SimpleQueue[EngineEvent]
) -> None:
    asked = (
        CheckGrammar(0, grammar=WITHOUT_END)
        if is_checked
        else Generate(0, TextPrompt("x"), Sampling(grammar=WITHOUT_END), max_tokens=2)
    )
    failed = engine.wait_for(engine.request(asked), PATIENCE_S)
    assert isinstance(failed, Failed)
    assert failed.kind == "out_of_memory"
    assert "ran out of memory" in failed.sentence
    assert EngineState.CRASHED in [
        event.state for event in drained(events) if isinstance(event, StateChanged)
    ]
    again = engine.wait_for(
        engine.generate(Generate(0, TextPrompt("x"), Sampling(seed=1), max_tokens=2)), PATIENCE_S
    )
    assert isinstance(again, Finished), again


def drained(events: queue.SimpleQueue[EngineEvent]) -> list[EngineEvent]:
    found = []
    while not events.empty():
        found.append(events.get())
    return found


@pytest.mark.parametrize("free", [1 * GIB, 6 * GIB, 60 * GIB])
@pytest.mark.parametrize("total", [8 * GIB, 64 * GIB])
def test_what_was_planned_has_room_whatever_is_free(free: int, total: int) -> None:
    """Plans are accepted up to what is free; mapped weights may be larger than that."""
    before = limit_bytes(2 * GIB, GIB, free, total)
    for part in (MemoryPart("CPU", "kv", free), MemoryPart("CPU", "weights", 3 * free)):
        limit = limit_bytes(2 * GIB, GIB, free, total, [part])
        assert limit >= 2 * GIB + part.size_bytes + min(3 * GIB, total // 4)
        assert limit >= before
    on_device = [MemoryPart("CUDA0", "weights", 20 * GIB)]
    assert limit_bytes(2 * GIB, GIB, free, total, on_device) == before + 20 * GIB


def test_a_tenth_of_what_is_free_is_left_to_others() -> None:
    free = 40 * GIB
    assert limit_bytes(3 * GIB, 2 * GIB, free, 64 * GIB) == 2 * GIB + free * 9 // 10


def test_a_system_that_does_not_say_has_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in (None, "", "VmData:\tmany kB\nRssAnon:\t1 kB\n", "VmData:\t7 kB\n"):
        path = tmp_path / "status"
        if text is not None:
            path.write_text(text)
        monkeypatch.setattr(memory_limit, "_STATUS", path)
        assert memory_limit.limit_memory() is None
