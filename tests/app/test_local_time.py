"""Times that have no hour on this computer's clock are shown as they are."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from app.local_time import here


@pytest.mark.parametrize("zone", ["UTC-14", "UTC+12"])
def test_the_ends_of_the_calendar(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        ends = [datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)]
        assert [here(end).year for end in ends] == [9999, 1]
        assert here(datetime(2026, 1, 1, tzinfo=UTC)).utcoffset() is not None
    finally:
        monkeypatch.undo()
        time.tzset()
