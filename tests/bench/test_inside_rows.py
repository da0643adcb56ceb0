"""What looking inside reads of a long chat, and what it asks for: counted, on a tiny network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_networks import small_network

from app.bench import inside_rows
from app.bench.inside_rows import LongChat, beside
from app.bench.rows import long_rows
from app.bench.sides import Session
from app.engine.protocol.inside_messages import WANTED
from app.engine.protocol.loading_messages import LoadOptions

pytestmark = pytest.mark.weights

N_TOKENS = 1000
"""Counts prove no less for it than those of the bench's 8,000."""


@pytest.fixture(params=["grouped", "window"])
def session(
    forked_engines: None, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Session]:
    path = tmp_path / "tiny.gguf"
    small_network(path, request.param)
    made = Session(str(path), LoadOptions(n_ctx=N_TOKENS + 192, n_threads=1, n_gpu_layers=0))
    yield made
    made.close()


def test_a_long_chat_is_read_no_more_than_it_must(session: Session) -> None:
    found = LongChat(session, lambda text: None, N_TOKENS)
    assert (found.cached.n_read, found.cached.n_copied) == (0, N_TOKENS - 1)
    assert found.next.n_read == 0
    assert found.next.n_reused == N_TOKENS - 101
    assert (found.unread.n_read, found.unread.n_copied) == (N_TOKENS - 1, 0)
    assert [row.ratio for row in long_rows(found)] == [1.0, 1.0]


@pytest.mark.parametrize("session", ["grouped"], indirect=True)
def test_a_reply_is_measured_with_and_without(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inside_rows, "CHAT_TOKENS", 40)
    probed, alone, n_looks = beside(session, 200, 2)
    assert len(probed) == len(alone) == 2
    assert n_looks >= 2


def test_what_is_measured_can_be_asked_for() -> None:
    assert {*inside_rows.FIRST, "lens"} <= set(WANTED)
