"""Greedy replies of the real files are the same with drafts and without.

Passes of other shapes give other numbers, so where the best two candidates are as close as those
may differ, either may be drawn; anywhere else not one token may be another one.
"""

from __future__ import annotations

import numpy as np
import pytest
from drafted_texts import REPEATS, TELLS
from native_session import NativeSession
from other_shapes import BOUND, distance, traces

from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.protocol.draft_messages import Drafts
from app.engine.protocol.messages import TokenTrace

pytestmark = pytest.mark.weights


def written(
    session: NativeSession, ids: list[int], length: int, drafts: Drafts | None
) -> list[TokenTrace]:
    request = session.add(ids, max_tokens=length, alternatives=2, drafts=drafts)
    session.run()
    return traces(session, request)


def check(session: NativeSession, text: str, length: int) -> int:
    """How many proposals were accepted on the way."""
    ids = session.weights.vocabulary.tokenize(text, add_bos=True)
    plain = written(session, ids, length, None)
    drafted = written(session, ids, length, Drafts(most=8, always=True))
    same = next(
        (
            at
            for at, (a, b) in enumerate(zip(plain, drafted, strict=False))
            if a.token_id != b.token_id
        ),
        len(plain),
    )
    distance(plain[:same], drafted[:same])
    if same < len(plain):
        best, second = np.frombuffer(plain[same].alternative_logprobs.data, "<f4")
        assert best - second <= 2 * BOUND, (same, best, second)
    return sum(token.drafted for token in drafted[:same])


@pytest.mark.soak
def test_a_short_reply_of_the_starter(session: NativeSession) -> None:
    assert check(session, REPEATS, 12) > 6


@pytest.mark.soak
@pytest.mark.parametrize("text", [REPEATS, TELLS])
@pytest.mark.parametrize("which", ["starter", "gemma"])
def test_long_replies_of_both_files(
    which: str, text: str, native_log: NativeLog, request: pytest.FixtureRequest
) -> None:
    weights: Weights = request.getfixturevalue(which)
    accepted = check(NativeSession(weights, native_log), text, 300)
    print(f"{which}: {accepted} accepted")
    assert accepted > (100 if text is REPEATS else 0)
