"""Weights beside their draft model: what that takes is missing where the others are planned."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf_writer import tiny_llama

from app.engine.planning.draft_plan import DRAFT, as_draft, draft_bytes, plan_beside_draft
from app.engine.planning.load_plan import Machine, estimate_of, plan_load
from app.engine.planning.placement import DeviceMemory
from app.engine.planning.sizes import outline_of
from app.engine.protocol.loading_messages import LoadOptions, Lora, MemoryPart
from app.gguf.header import Header, read_header

HOST = DeviceMemory("CPU", "", "cpu", 8 << 30, 16 << 30)


@pytest.fixture
def headers(tmp_path: Path) -> tuple[Header, Header]:
    for name, train in (("weights", 1024), ("draft", 256)):
        tiny_llama(tmp_path / f"{name}.gguf", n_ctx_train=train)
    return read_header(tmp_path / "weights.gguf"), read_header(tmp_path / "draft.gguf")


def test_what_it_takes_is_planned_as_any_load(headers: tuple[Header, Header]) -> None:
    machine = Machine((HOST,))
    options = LoadOptions(n_ctx=512, n_gpu_layers=0, loras=[Lora("/a.gguf")], draft="/d.gguf")
    planned, own, parts = plan_beside_draft(*headers, options, machine)
    assert planned.placement.n_ctx == 512
    assert (own.n_ctx, own.n_slots, own.loras, own.draft) == (256, planned.n_slots, [], "")
    alone = sum(part.size_bytes for part in estimate_of(plan_load(headers[1], own, machine)))
    assert parts == [MemoryPart("CPU", DRAFT, alone)]
    plain = LoadOptions(n_ctx=256, n_slots=planned.n_slots)
    assert draft_bytes(outline_of(headers[1]), plain, machine) == alone


def test_a_device_has_less_room_beside_it(headers: tuple[Header, Header]) -> None:
    gpu = DeviceMemory("CUDA0", "", "gpu", 2 << 30, 2 << 30)
    machine = Machine((HOST, gpu))
    options = LoadOptions(n_ctx=256)
    planned, _, parts = plan_beside_draft(*headers, options, machine)
    on_device = next(part.size_bytes for part in parts if part.device == "CUDA0")
    assert on_device > 0
    tight = Machine((HOST, DeviceMemory("CUDA0", "", "gpu", on_device, 2 << 30)))
    assert plan_load(headers[0], options, machine).placement.n_gpu_layers > 0
    assert planned.placement.n_gpu_layers > 0
    assert plan_beside_draft(*headers, options, tight)[0].placement.n_gpu_layers == 0


def test_parts_of_a_device_are_one() -> None:
    parts = [
        MemoryPart("CPU", "kv", 3),
        MemoryPart("GPU", "kv", 5),
        MemoryPart("CPU", "weights", 4),
    ]
    assert as_draft(parts) == [MemoryPart("CPU", "draft", 7), MemoryPart("GPU", "draft", 5)]
