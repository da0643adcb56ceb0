"""Where weights and their draft model go together: the draft model's share is kept free first.

It is planned as any weights are, for the same window and slots, and what it takes is missing where
the others are planned. Both sides plan with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from app.engine.planning.load_plan import LoadPlan, Machine, estimate_of, plan_load, plan_on
from app.engine.planning.projector_plan import left_beside
from app.engine.planning.sizes import Outline, outline_of
from app.engine.protocol.loading_messages import LoadOptions, MemoryPart, RopeScaling
from app.gguf.header import Header

DRAFT: Final = "draft"


def draft_options(options: LoadOptions, planned: LoadPlan, n_ctx_train: int) -> LoadOptions:
    """How the draft model of weights that are planned so is loaded: a window as large, as far as
    it was trained for one."""
    n_ctx = planned.placement.n_ctx
    return msgspec.structs.replace(
        options,
        n_ctx=min(n_ctx, n_ctx_train) if n_ctx_train else n_ctx,
        n_slots=planned.n_slots,
        n_gpu_layers=None,
        tensor_split=None,
        cpu_moe_layers=0,
        rope=RopeScaling(),
        loras=[],
        draft="",
    )


def plan_beside_draft(
    header: Header,
    draft: Header,
    options: LoadOptions,
    machine: Machine,
    *,
    adapter_bytes: int = 0,
) -> tuple[LoadPlan, LoadOptions, list[MemoryPart]]:
    """The plan of the weights, and options and memory of their draft model. Raises Refusal where
    one of the two alone finds no place."""
    alone = plan_load(header, options, machine, adapter_bytes=adapter_bytes)
    own = draft_options(options, alone, outline_of(draft).n_ctx_train)
    parts = as_draft(estimate_of(plan_load(draft, own, machine)))
    left = left_beside(machine, parts)
    planned = plan_load(header, options, left, adapter_bytes=adapter_bytes)
    n_ctx = min(own.n_ctx or 0, planned.placement.n_ctx)
    return planned, msgspec.structs.replace(own, n_ctx=n_ctx), parts


def draft_bytes(draft: Outline, options: LoadOptions, machine: Machine) -> int:
    """What a draft model takes in all, before it is known where it will be. Raises Refusal."""
    own = msgspec.structs.replace(
        options, n_gpu_layers=None, tensor_split=None, rope=RopeScaling(), loras=[], draft=""
    )
    planned = plan_on(draft, own, machine, (), must_hold=False)
    return sum(part.size_bytes for part in estimate_of(planned))


def as_draft(parts: Sequence[MemoryPart]) -> list[MemoryPart]:
    """What a draft model takes on each device, as one part there."""
    sizes: Counter[str] = Counter()
    for part in parts:
        sizes[part.device] += part.size_bytes
    return [MemoryPart(device, DRAFT, size) for device, size in sizes.items() if size]
