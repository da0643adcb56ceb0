"""A server over a scripted engine, one for each module that asks for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked import Source, fork_from

sys.path.append(str(Path(__file__).parent))

from serving import SCRIPT, Served, scripted_server


@pytest.fixture(scope="module")
def served(
    forked_source: Source | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        fork_from(forked_source, monkeypatch, "scripted", "templates")
        with scripted_server(tmp_path_factory.mktemp("served"), SCRIPT) as found:
            yield found
