"""Drawings of formulas one by one, from a child that may answer, end or never come back."""

from __future__ import annotations

import sys

import pytest

from app.markdown import formula_drawings
from app.markdown.formula_drawings import FormulaDrawings

CHILD = """
import json, os, sys, time
for line in sys.stdin:
    tex = json.loads(line)["tex"]
    if tex == "end":
        os._exit(3)
    if tex.startswith("stay"):
        time.sleep(60)
    if tex == "nonsense":
        print("not JSON", flush=True)
        continue
    told = {} if tex == "none" else {"svg": tex, "top": -12, "width": 48, "height": 18}
    print(json.dumps({"id": 0, **told}), flush=True)
"""


def test_each_formula_is_answered_whatever_became_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(formula_drawings, "DEADLINE_S", 0.2)
    drawings = FormulaDrawings([sys.executable, "-S", "-c", CHILD])
    try:
        first = drawings.find("x", is_display=False)
        assert first is not None
        assert (first.svg, first.width, first.ascent, first.descent) == ("x", 2.0, 0.5, 0.25)
        for bad in ("none", "stay", "end", "nonsense", "x" * 3000):
            assert drawings.find(bad, is_display=False) is None
        assert drawings.find("y", is_display=True) is not None
        assert drawings.find("x", is_display=False) is first, "kept"
    finally:
        drawings.close()
    missing = FormulaDrawings(["/nowhere/at/all"])
    assert missing.find("x", is_display=False) is None
    missing.close()


def test_formulas_that_come_to_no_end_hold_up_nobody_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A reply may have hundreds of them, and each has its deadline."""
    monkeypatch.setattr(formula_drawings, "START_S", 0.0)
    monkeypatch.setattr(formula_drawings, "LOOK_EVERY_S", 0.001)
    looked: list[None] = []
    command = [sys.executable, "-S", "-c", CHILD]
    drawings = FormulaDrawings(command, check=lambda: looked.append(None))
    for number in range(formula_drawings.MAX_LATE):
        assert drawings.find(f"stay {number}", is_display=False) is None
    assert len(looked) == formula_drawings.MAX_LATE
    assert drawings.find("x", is_display=False) is None, "not even tried"
    assert len(looked) == formula_drawings.MAX_LATE

    def cancelled() -> None:
        raise RuntimeError

    drawings = FormulaDrawings(command, check=cancelled)
    with pytest.raises(RuntimeError):
        drawings.find("stay", is_display=False)
    drawings.close()


@pytest.mark.soak
def test_the_real_child_draws() -> None:
    drawings = FormulaDrawings()
    found = drawings.find(r"\frac{a}{b}", is_display=True)
    drawings.close()
    assert found is not None
    assert found.svg.startswith("<svg")
    assert found.ascent > found.descent > 0
