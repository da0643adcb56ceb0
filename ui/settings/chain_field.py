"""The sampling chain as text: one stage a line, in their order, with all their values.

    penalties last_n=64 repeat=1.1
    min_p p=0.05
    temperature t=0.8
    dist

Values are JSON; what stands at its default may be left out, and is where that is common.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from PySide6.QtWidgets import QWidget

from app.chat.settings.settings import as_stored, checked
from app.engine.protocol.stages import Stage
from app.refusal import Refusal
from app.strict_reading import STAGE
from ui.settings.fields import TextField


class ChainField(TextField):
    """`value()` is a list of stages as JSON objects; a line that cannot be read becomes a stage
    whose name is that line, so that the refusal names it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Default chain from the values above", parent)

    def as_text(self, value: Any) -> str:
        return "\n".join(lines_of(value))

    def from_text(self, text: str) -> object:
        return [stage_of(line) for line in text.splitlines() if line.strip()]


_SELDOM = frozenset({"min_keep", "frequency", "presence", "breakers", "exponent", "m"})


def lines_of(chain: Iterable[Stage | Mapping[str, Any]]) -> list[str]:
    """A line for each stage, without what is seldom changed and is not."""
    lines = []
    for each in chain:
        values = as_stored(each) if isinstance(each, Stage) else each
        assert isinstance(values, Mapping)
        usual = _usual(str(values[STAGE]))
        words = [
            f"{name}={_written(value)}"
            for name, value in values.items()
            if name != STAGE and not (name in _SELDOM and value == usual.get(name, ...))
        ]
        lines.append(" ".join([str(values[STAGE]), *words]))
    return lines


def _written(value: object) -> str:
    """As JSON; a breaker with a line break of Unicode in it must not end the stage's line."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text.splitlines()) <= 1 else json.dumps(value, separators=(",", ":"))


def stage_of(line: str) -> dict[str, Any]:
    """The stage that a line says.

    >>> stage_of("top_p p=0.9 min_keep=2")
    {'stage': 'top_p', 'p': 0.9, 'min_keep': 2}
    """
    name, _, rest = line.strip().partition(" ")
    stage: dict[str, Any] = {STAGE: name}
    decoder = json.JSONDecoder()
    rest = rest.strip()
    while rest:
        field, equals, value = rest.partition("=")
        try:
            stage[field.strip()], end = decoder.raw_decode(value.lstrip())
        except (ValueError, RecursionError):
            return {STAGE: line.strip()}
        if not equals:
            return {STAGE: line.strip()}
        rest = value.lstrip()[end:].strip()
    return stage


def _usual(name: str) -> dict[str, Any]:
    """The defaults of a kind of stage; nothing for one that is not known."""
    try:
        (stage,) = checked("chain", [{STAGE: name}])
    except Refusal:
        return {}
    if not isinstance(stage, msgspec.Struct):
        return {}
    values = as_stored(stage)
    return dict(values) if isinstance(values, Mapping) else {}
