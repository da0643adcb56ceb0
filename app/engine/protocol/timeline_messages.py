"""What a reply's time went into, as it travels with its summary."""

from __future__ import annotations

from typing import Final, Literal

from app.engine.protocol.frames import Count, Milliseconds, WireMessage

MAX_SPANS: Final = 512
"""Of one reply. Where there are more, neighbours are gathered by their kind."""

SpanKind = Literal[
    "arriving",
    "rendering",
    "queued",
    "prefix",
    "room",
    "alone",
    "settling",
    "restoring",
    "seeing",
    "between",
    "prefill",
    "reread",
    "first",
    "decode",
    "held",
    "taken_back",
    "failed",
    "broken_off",
    "ending",
]
"""What a stretch of time was spent on:

    arriving     until somebody begins with the prompt (a step that runs ends first)
    rendering    template and tokenisation
    queued       waiting for a slot, or behind others who wait
    prefix       waiting until the beginning that it shares with another prompt is read
    room         waiting for cells
    alone        a repeatable reply waits for the others' end, or they for its
    settling     the sampling chain is made, and what is known of the prompt brought into the slot
    restoring    a copy is read from disk, or brought back from host memory
    seeing       the projector turns a picture or a sound into the vectors of its cells
    between      until the next pass begins: others draw, the batch is put together
    prefill      a pass that reads `tokens` of the prompt
    reread       the same for what was read once and lost
    first        the first token is drawn from the scores of the last prefill pass
    decode       passes of one token each (of several, where drafts were accepted), drawn, and
                 appended; without tokens: drawn and held
    held         step mode: waiting for a choice
    taken_back   decode whose tokens completed a banned string
    failed       a pass that llama.cpp could not compute
    broken_off   a pass that was left off because somebody stopped
    ending       after the last token: a pass that drew the end token, if there was one
"""


class Span(WireMessage, frozen=True, tag=True):
    """A stretch of a reply's time; each begins where the one before it ends.

    `tokens`: of this reply. `slots` and `batch`: how many replies were in the pass, and how many
    tokens of all of them. `parts`: of how many stretches it was gathered (`slots` and `batch` are
    the largest then, and what was between them stands beside it).
    """

    kind: SpanKind
    start_ms: Milliseconds
    ms: Milliseconds
    tokens: Count = 0
    slots: Count = 0
    batch: Count = 0
    parts: Count = 1
