"""Every stage has its words, and every number of it a field."""

from __future__ import annotations

import pytest

from app.engine.protocol.stage_rules import RULES, check_stage
from app.engine.protocol.stages import Dry, LogitBias, Stage
from ui.section.sampling.stage_words import WORDS


def test_every_stage_has_words() -> None:
    assert WORDS.keys() == RULES.keys()
    assert len({words.title for words in WORDS.values()}) == len(WORDS)


@pytest.mark.parametrize("kind", WORDS, ids=lambda kind: kind.__name__)
def test_every_number_can_be_set_as_it_is_checked(kind: type[Stage]) -> None:
    shown = {value.attribute: value for value in WORDS[kind].values}
    checks = {attribute: bounds for attribute, _, bounds in RULES[kind].checks}
    assert shown.keys() == checks.keys()
    assert {a: v.is_whole for a, v in shown.items()} == {a: b.whole for a, b in checks.items()}
    others = set(kind.__struct_fields__) - shown.keys()
    assert others == {LogitBias: {"biases"}, Dry: {"breakers"}}.get(kind, set())  # type: ignore[call-overload]


@pytest.mark.parametrize("kind", WORDS, ids=lambda kind: kind.__name__)
def test_a_sentence_each_that_ends(kind: type[Stage]) -> None:
    sentence = WORDS[kind].sentence
    assert sentence.endswith(".")
    assert len(sentence) < 100
    check_stage(kind(), "")
