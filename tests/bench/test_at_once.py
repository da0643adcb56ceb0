"""Several answers to one prompt against a bare batch of as many sequences, in turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.bench.rows import EIGHT, at_once_row
from app.bench.sides import Session, run_app
from app.engine.protocol.loading_messages import LoadOptions

pytestmark = [pytest.mark.weights, pytest.mark.soak, pytest.mark.alone]

TOKENS, ROUNDS = 64, 5


@pytest.mark.parametrize("file", ["starter_gguf", "gemma_gguf"])
def test_eight_answers_are_as_fast_as_a_bare_batch(
    file: str, request: pytest.FixtureRequest
) -> None:
    """All tokens/s over the bare ones; both from when all eight write until the first has ended."""
    path = str(request.getfixturevalue(file))
    _, conditions = run_app(path, 4)
    options = LoadOptions(n_ctx=conditions.ctx, n_threads=conditions.threads, n_slots=EIGHT)
    session = Session(path, options)
    try:
        row = at_once_row(session, conditions, "eight_at_once", EIGHT, TOKENS, ROUNDS)
    finally:
        session.close()
    print(Path(path).name, row)
    assert row.budget is not None
    assert row.ratio >= row.budget
