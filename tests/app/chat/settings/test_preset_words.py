"""What differs from a preset, in words."""

from __future__ import annotations

from typing import Any

import pytest

from app.chat.settings.preset_words import differences
from app.chat.settings.presets import values_of
from app.chat.settings.resolved import resolve
from app.chat.settings.settings import Settings

CHAIN = [
    {"stage": "top_k", "k": 20},
    {"stage": "min_p", "p": 0.1},
    {"stage": "temperature", "t": 0.2},
    {"stage": "dist"},
]


MIROSTAT = ["with Mirostat 1", "without a draw by probability"]
KEEP = ["min-p min keep 1 → 3"]


def now(**values: Any) -> Settings:
    return resolve(Settings(), None, {"chain": CHAIN, **values}).settings


def test_nothing_differs_from_what_counts() -> None:
    assert differences(values_of(now(seed=3)), now(seed=3)) == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"temperature": 0.5}, ["temperature 0.2 → 0.5"]),
        ({"chain": [*CHAIN[:2], CHAIN[3]]}, ["without temperature"]),
        (
            {"chain": [*CHAIN[:3], {"stage": "greedy"}]},
            ["with greedy", "without a draw by probability"],
        ),
        ({"chain": [CHAIN[1], CHAIN[0], *CHAIN[2:]]}, ["different order"]),
        ({"chain": [*CHAIN[:3], {"stage": "xtc"}, CHAIN[3]]}, ["with XTC"]),
        ({"chain": [*CHAIN[:3], {"stage": "mirostat", "m": 9}]}, MIROSTAT),
        ({"chain": [CHAIN[0], {"stage": "min_p", "p": 0.1, "min_keep": 3}, *CHAIN[2:]]}, KEEP),
        ({"seed": 7}, ["seed none → 7"]),
        ({"stop_strings": ["END"]}, ["stop strings none → one entry"]),
        ({"reasoning_tags": ["<a>…</a>"]}, ["reasoning tags none → one entry"]),
        ({"stop_in_reasoning": True}, ["stop in reasoning off → on"]),
    ],
)
def test_each_difference_is_named(values: dict[str, Any], words: list[str]) -> None:
    preset = {"chain": CHAIN, "seed": None, "stop_strings": []}
    preset |= {"reasoning_tags": [], "stop_in_reasoning": False}
    assert differences(preset, now(**values)) == words
