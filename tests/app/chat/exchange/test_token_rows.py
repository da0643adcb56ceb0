"""The table of tokens, read back as CSV."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import pytest
from exported_chats import rich_chat

from app.chat.exchange import token_rows
from app.chat.exchange.choices import Choices
from app.insight.trace.columns import LOGPROB_TOLERANCE
from app.insight.trace.tokens_shown import safe_cell

PIECES = (b"Ten", b" \xf0\x9f", b"\x99\x82", b"=1+1", b"<b>.")
SHARES = (0.9, 0.5, 0.5, 0.02, 0.3)


def rows(**options: Any) -> list[dict[str, str]]:
    text = "".join(token_rows.rows(rich_chat(), Choices("tokens", **options)))
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_every_token_has_its_row() -> None:
    found = rows()
    assert [bytes.fromhex(row["bytes"]) for row in found] == list(PIECES)
    assert [int(row["id"]) for row in found] == [100, 101, 102, 103, 104]
    assert [float(row["probability"]) for row in found] == pytest.approx(SHARES, rel=1e-5)
    assert [int(row["token"]) for row in found] == [1, 2, 3, 4, 5]
    assert [float(row["entropy_bits"]) for row in found] == [1, 2, 3, 4, 5]
    assert [float(row["time_ms"]) for row in found] == [20, 21, 22, 20, 21]
    assert {row["message"] for row in found} == {"6"}
    assert {row["origin"] for row in found} == {"drawn"}
    first = dict(each.split("=") for each in found[0]["alternatives"].split())
    assert list(first) == ["100", "7"]
    assert math.log(float(first["100"])) == pytest.approx(
        math.log(0.9), abs=LOGPROB_TOLERANCE + 1e-5
    )
    assert {row["alternatives"] for row in rows(alternatives=0)} == {""}


def test_no_cell_is_a_formula() -> None:
    found = rows(branches=True)
    assert [row["piece"] for row in found] == ["Ten", "·⟨F0⟩⟨9F⟩", "⟨99⟩⟨82⟩", "'=1+1", "<b>."]
    for start in ("=", "+", "-", "@", "\t", "\r", "\n"):
        assert safe_cell(f"{start}cmd") == f"'{start}cmd"
