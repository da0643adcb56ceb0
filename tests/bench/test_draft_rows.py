"""Speculative decoding by lookup against none: through the whole engine, in one run, in turns, as
ratios of tokens/s."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from drafted_texts import REPEATS, TELLS

from app.bench.sides import RUN_TIMEOUT_S, child_command
from app.engine.client.engine import Engine
from app.engine.protocol.draft_messages import Drafts
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Finished, Generate, Summary
from app.engine.protocol.prompt_messages import TextPrompt
from app.engine.protocol.stages import Dist, Greedy, Sampling, Temperature, TopP

pytestmark = [pytest.mark.soak, pytest.mark.weights]

PAIRS = 5
GREEDY = Sampling([], Greedy())
HOT = Sampling([TopP(0.95), Temperature(1.0)], Dist(), seed=11, ban_end_token=True)
"""What it writes does not say itself again, as greedy text of small files soon does."""


class Writer:
    """The engine's process, asked as the window asks it."""

    def __init__(self, path: Path) -> None:
        self._engine = Engine(child_command("engine"), lambda event: None)
        load = self._engine.load(str(path), LoadOptions(n_ctx=1024))
        assert isinstance(self._engine.wait_for(load, RUN_TIMEOUT_S), Finished)

    def close(self) -> None:
        self._engine.close()

    def rate(self, text: str, sampling: Sampling, length: int, drafts: Drafts | None) -> float:
        asked = Generate(
            0,
            TextPrompt(text),
            sampling,
            max_tokens=length,
            record_stages=True,
            alternatives=64,
            drafts=drafts,
        )
        ending = self._engine.wait_for(self._engine.generate(asked), RUN_TIMEOUT_S)
        assert isinstance(ending, Finished)
        assert isinstance(ending.result, Summary)
        assert ending.result.generated == length
        return ending.result.tokens_per_s

    def reached(self, text: str, sampling: Sampling, length: int, wanted: float) -> float:
        """The ratio; measured once more where something else may have run meanwhile."""
        found = self.ratio(text, sampling, length)
        return found if found >= wanted else max(found, self.ratio(text, sampling, length))

    def ratio(self, text: str, sampling: Sampling, length: int) -> float:
        """The median of the pairs' ratios; who comes first changes from pair to pair."""
        self.rate(text, sampling, 8, None)
        found = []
        for pair in range(PAIRS):
            sides = (None, Drafts()) if pair % 2 else (Drafts(), None)
            rates = {side is None: self.rate(text, sampling, length, side) for side in sides}
            found.append(rates[False] / rates[True])
        return statistics.median(found)


@pytest.fixture(params=["starter_gguf", "gemma_gguf"])
def writer(request: pytest.FixtureRequest) -> Iterator[Writer]:
    writer = Writer(request.getfixturevalue(request.param))
    yield writer
    writer.close()


def test_a_text_that_repeats_its_prompt_is_written_faster(writer: Writer) -> None:
    found = writer.reached(REPEATS, GREEDY, 100, 1.3)
    print(f"repeats: {found:.2f}")
    assert found >= 1.3


def test_one_that_does_not_is_written_no_slower(writer: Writer) -> None:
    found = writer.reached(TELLS, HOT, 120, 0.95)
    print(f"tells: {found:.2f}")
    assert found >= 0.95
