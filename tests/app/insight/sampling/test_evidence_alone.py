"""What is told of a candidate that is alone, and of stages that change scores by themselves."""

from __future__ import annotations

import math
import struct

import pytest

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import SURVIVED, StageEffect, TokenTrace
from app.engine.protocol.stage_rules import stage_name
from app.engine.protocol.stages import (
    Dist,
    Dry,
    DynamicTemperature,
    LogitBias,
    Stage,
    Temperature,
    TokenBias,
    TopK,
)
from app.insight.sampling.stage_evidence import evidence

SHARES = (0.5, 0.3, 0.2)


def token(effects: list[StageEffect], removed_by: list[int]) -> TokenTrace:
    """The best of three candidates, with IDs 1, 2, 3."""
    return TokenTrace(
        index=0,
        token_id=1,
        piece=b"a",
        logprob=math.log(SHARES[0]),
        rank=1,
        entropy=1.0,
        alternative_ids=Array("i4", [3], struct.pack("<3i", 1, 2, 3)),
        alternative_logprobs=Array("f4", [3], struct.pack("<3f", *map(math.log, SHARES))),
        stages=effects,
        ms=1.0,
        removed_by=Array("u1", [3], bytes(removed_by)),
        uniform=0.7,
    )


def test_one_that_is_alone_has_all_whatever_was_changed_before() -> None:
    """Temperature 0 leaves the best one: nothing is untold, and the number falls on it."""
    effects = [StageEffect(name, 1, 1.0) for name in ("temperature", "top-k", "dist")]
    told = evidence(token(effects, [SURVIVED, 0, 0]), [Temperature(0.0), TopK(), Dist()], 3)
    assert [(row.reason, [k.share for k in row.kept]) for row in told.stages] == [("", [1.0])] * 3
    assert told.draw is not None
    assert [(p.token_id, p.start, p.end) for p in told.draw.parts] == [(1, 0.0, 1.0)]


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (Dry(), "after DRY "),
        (LogitBias([TokenBias(2, bias=1.0)]), "after logit bias "),
        (DynamicTemperature(), "after dynamic temperature "),
    ],
)
def test_a_stage_is_named_as_people_write_it(stage: Stage, words: str) -> None:
    effects = [StageEffect(stage_name(stage), 3, 0.4), StageEffect("dist", 3, 0.4)]
    told = evidence(token(effects, [SURVIVED] * 3), [stage, Dist()], 3)
    assert all(words in row.reason for row in told.stages)
