"""A host whose servers are the scripted ones, and which tells everything in one list."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tool_talk import ToolTalk


@pytest.fixture
def talk() -> Iterator[ToolTalk]:
    talk = ToolTalk()
    yield talk
    talk.host.close()
