"""The facts of a reply, as it is stored: its counts, times, settings, and why it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from app.amounts import time_text
from app.engine.protocol.stages import Stage, Temperature, TopK, TopP
from app.insight.time.timeline import Part, from_stored, parts
from app.insight.tour.facts import Fact, Facts, count, said, share, times
from app.insight.trace.message_tokens import is_from_server
from models.records import Message

ENDINGS: Final = {
    "end_token": "the model wrote its end token",
    "turn_end": "the model wrote its end token",
    "max_tokens": "it reached the token limit",
    "stop_string": "a stop string appeared",
    "tool_calls": "it called tools",
    "context_full": "the context window was full",
    "stopped": "you stopped it",
    "deadline": "its time was up",
}
"""By `Message.stop_reason`; of no other it is said."""

LEAST_READ: Final = 8
LEAST_WRITTEN: Final = 4
"""Tokens from which on a speed says something."""

S = TypeVar("S", bound=Stage)


def reply_facts(message: Message) -> Facts:
    """What was counted as it was written."""
    counts, found = message.counts, dict[str, Fact]()
    for name, number in (
        ("n_prompt", counts.prompt_tokens),
        ("n_reply", counts.generated),
        ("n_cells", counts.context_used),
    ):
        if number is not None:
            found[name] = count(number)
    if is_from_server(message):
        found.pop("n_cells", None)  # what it keeps of a chat it does not tell
    if counts.reused:
        found["n_reused"] = count(counts.reused, "tokens")
    if counts.total_s is not None:
        found["reply_time"] = Fact(counts.total_s, time_text(1000 * counts.total_s))
    if message.stop_reason in ENDINGS:
        found["ending"] = said(ENDINGS[message.stop_reason])
    return found


def speed_facts(message: Message) -> Facts:
    """From its time line: tokens ÷ seconds of prefill, and of decode (without the first token, as
    llama-bench counts); read_speedup = prefill_speed ÷ decode_speed."""
    of_kind = {part.kind: part for part in parts(from_stored(message.settings.get("timeline")))}
    found = dict[str, Fact]()
    read = _speed(of_kind.get("prefill"), LEAST_READ)
    written = _speed(of_kind.get("decode"), LEAST_WRITTEN)
    if read is not None:
        found["prefill_speed"] = read
    if written is not None:
        found["decode_speed"] = written
    if read is not None and written is not None:
        found["read_speedup"] = times(float(read.value) / float(written.value))
    return found


def _speed(part: Part | None, least: int) -> Fact | None:
    if part is None or part.tokens < least or not part.tokens_per_s:
        return None
    rate = part.tokens_per_s
    return Fact(rate, f"{rate:.1f} tokens/s" if rate < 99.95 else f"{rate:,.0f} tokens/s")


def settings_facts(stages: Sequence[Stage]) -> Facts:
    """Of the stages that it was drawn with. A stage that is there twice, or that lets everything
    pass (k ≤ 0, p ≥ 1), is none that a number could be said of."""
    found = dict[str, Fact]()
    temperature, top_k = _only(stages, Temperature), _only(stages, TopK)
    top_p = _only(stages, TopP)
    if temperature is not None:
        found["temperature"] = Fact(temperature.t, f"{temperature.t:.2f}")
    if top_k is not None and top_k.k > 0:
        found["top_k"] = count(top_k.k)
    if top_p is not None and top_p.p < 1:
        found["top_p"] = share(top_p.p)
    return found


def _only(stages: Sequence[Stage], kind: type[S]) -> S | None:
    of_kind = [stage for stage in stages if isinstance(stage, kind)]
    return of_kind[0] if len(of_kind) == 1 else None
