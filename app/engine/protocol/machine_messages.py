"""The loaded machine, measured: where the time of one step goes, and what flash attention is worth.

Both work on a text, token IDs, whose end is where the next step of a chat would be.
"""

from __future__ import annotations

from typing import Annotated

from app.engine.protocol.frames import (
    FEW,
    Amount,
    Count,
    Milliseconds,
    ProtocolError,
    Scale,
    TokenId,
    WireMessage,
)

_Times = Annotated[list[Milliseconds], FEW]


class ProfileStep(WireMessage, frozen=True, tag=True):
    """Time the blocks of the step that reads the last of `token_ids`. -> StepProfiled"""

    id: Amount
    token_ids: list[int]


class StepProfiled(WireMessage, frozen=True, tag=True):
    """Milliseconds of one step, each the median of `n_runs` runs; of lists, item i is layer i's,
    and 0 where a layer has no such block.

    prepare   until the first node is computed: llama.cpp builds the graph
    embedding, attention, others, ffn, output
    total     of the whole step, cut behind each block, where llama.cpp waits for the device
    plain     the same step, uncut, measured in turn with it

    The parts are medians of their own, so their sum is near `total` and not equal to it.
    """

    n_tokens: Count
    n_runs: Count
    n_threads: Count
    prepare: Milliseconds
    embedding: Milliseconds
    attention: _Times
    others: _Times
    ffn: _Times
    output: Milliseconds
    total: Milliseconds
    plain: Milliseconds

    def check(self) -> None:
        if not len(self.attention) == len(self.others) == len(self.ffn):
            raise ProtocolError("not each layer has its times")


class CompareFlash(WireMessage, frozen=True, tag=True):
    """Read `token_ids` in two contexts, one after the other, with flash attention and without, and
    time the end of it. -> FlashCompared"""

    id: Amount
    token_ids: list[int]


class FlashSide(WireMessage, frozen=True, tag=True):
    """`chunk_ms`: reading the last `n_chunk` tokens, each time; `step_ms`: one more token, each
    time. `compute_bytes`: of the compute buffer, as llama.cpp says (0: it doesn't). `top`: the best
    token behind the text."""

    chunk_ms: _Times
    step_ms: _Times
    compute_bytes: Amount
    top: TokenId


class FlashCompared(WireMessage, frozen=True, tag=True):
    """`largest_difference` of the two sides' raw scores behind the text."""

    n_tokens: Count
    n_chunk: Count
    n_threads: Count
    on: FlashSide
    off: FlashSide
    largest_difference: Scale


MachineCommand = ProfileStep | CompareFlash
