"""The process that sets mathematics, in this process: drawings, refusals, its lines."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from app.markdown import formula_child
from app.markdown.formula_child import INK, SIZE, drawing, serve

# ziafont reads its font in a way that Python no longer likes.
pytestmark = pytest.mark.filterwarnings("ignore:path is deprecated:DeprecationWarning")

MAIN = Path(__file__).resolve().parents[3] / "main.py"


@pytest.mark.parametrize(
    "tex",
    [
        "x",
        r"\frac{-b \pm \sqrt{b^2 - 4ac}}{2a}",
        r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}",
        r"\begin{aligned} a &= b \\ c &= d \end{aligned}",
        r"\begin{cases} 1 & x > 0 \\ 0 & \text{otherwise} \end{cases}",
        r"\sum_{i=1}^{n} \mathbb{R} \cdot \vec{v}",
    ],
)
def test_a_formula_has_a_drawing_around_its_baseline(tex: str) -> None:
    for is_display in (False, True):
        found = drawing(tex, is_display=is_display)
        assert INK in found["svg"]
        assert -found["top"] > 0.2 * SIZE
        assert found["width"] > 0.2 * SIZE
        assert found["height"] >= -found["top"] - 2


def test_a_display_is_larger_than_what_stands_in_a_line() -> None:
    inline, display = (drawing(r"\frac{a}{b}", is_display=way) for way in (False, True))
    assert display["height"] > 1.3 * inline["height"]


@pytest.mark.parametrize(
    "tex",
    ["", r"\frac{", "{" * 500, r"\sqrt{" * 200 + "}" * 200, "<b>&amp;", "漢字", "שלום", "\x00"],
)
def test_what_cannot_be_set_has_no_drawing(tex: str) -> None:
    assert drawing(tex, is_display=True) == {}


def test_lines_are_answered_in_turn_until_one_makes_no_sense() -> None:
    asked = [{"id": 7, "tex": "x", "is_display": False}, {"id": 8, "tex": "{", "is_display": True}]
    lines = b"".join(json.dumps(request).encode() + b"\n" for request in asked)
    answers = io.BytesIO()
    serve(io.BytesIO(lines + b"nonsense\n" + lines), answers)
    first, second = (json.loads(line) for line in answers.getvalue().splitlines())
    assert first["id"] == 7
    assert "svg" in first
    assert second == {"id": 8}


def test_the_child_ends_with_its_input_and_imports_no_qt() -> None:
    request = json.dumps({"id": 1, "tex": "x^2", "is_display": False}) + "\n"
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", str(MAIN), "--child=formulas"],
        input=request,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(ran.stdout)["id"] == 1
    assert "ziamath" in ran.stderr
    assert "PySide6" not in ran.stderr


def test_what_a_library_prints_does_not_come_between_the_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(formula_child, "drawing", lambda tex, is_display: {})
    answers = io.BytesIO()
    serve(io.BytesIO(b'{"id": 1, "tex": "x", "is_display": false}\n'), answers)
    assert answers.getvalue() == b'{"id": 1}\n'
