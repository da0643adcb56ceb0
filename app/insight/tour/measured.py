"""The facts of what was measured when somebody asked for it: one step with the KV cache and
without, and with flash attention and without."""

from __future__ import annotations

from statistics import median

from app.amounts import ms_words, time_text
from app.engine.protocol.cache_messages import StepMeasured
from app.engine.protocol.machine_messages import FlashCompared
from app.insight.tour.facts import Fact, Facts, times


def step_facts(measured: StepMeasured) -> Facts:
    """The middle ones of all runs: cache_gain = replay ÷ step."""
    if not measured.step > 0 or not measured.replay > 0:
        return {}
    return {
        "step_with": Fact(measured.step, time_text(measured.step)),
        "step_without": Fact(measured.replay, time_text(measured.replay)),
        "cache_gain": times(measured.replay / measured.step),
    }


def flash_facts(compared: FlashCompared) -> Facts:
    """The medians of one step, and by how much the scores of both sides differ at most."""
    found = {
        "flash_difference": Fact(compared.largest_difference, f"{compared.largest_difference:.2g}")
    }
    for name, side in (("flash_on_time", compared.on), ("flash_off_time", compared.off)):
        if side.step_ms:
            found[name] = Fact(median(side.step_ms), ms_words(median(side.step_ms)))
    return found
