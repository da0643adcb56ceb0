"""C03: every combination of cache types and flash attention answers or is refused in words.

They are tried in a process of their own, because some of them abort native code where nobody
checks first; a combination that kills it is the last line that it printed plus one.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import Shape, bpe_vocabulary, tiny_llama

from app.engine.planning.sizes import CACHE_TYPES

pytestmark = pytest.mark.weights

ROOT = Path(__file__).resolve().parents[5]
PLAIN = ("f32", "f16", "bf16")
QUANTISED = tuple(name for name in CACHE_TYPES if name not in PLAIN)
EVERY = [
    (key, value, flash, 2)
    for key, value, flash in itertools.product(CACHE_TYPES, CACHE_TYPES, ("on", "off", "auto"))
]
FEW = [
    ("f32", "f32", "off", 3),
    ("bf16", "q8_0", "auto", 3),
    ("q8_0", "q8_0", "on", 3),
    ("q4_0", "q4_0", "on", 3),
    ("q4_0", "q4_0", "auto", 3),
    ("q4_0", "q4_0", "off", 3),
    ("q8_0", "f16", "off", 3),
    ("q5_1", "iq4_nl", "on", 3),
    ("iq4_nl", "q5_0", "auto", 3),
    ("q4_1", "f16", "on", 3),
]


def outcomes(path: Path, combinations: list[tuple[str, str, str, int]]) -> list[list[Any]]:
    """What became of each; fails if the process did not live to try them all."""
    trials = Path(__file__).parents[2] / "cache_type_trials.py"
    run = subprocess.run(
        [sys.executable, str(trials), str(path)],
        input=json.dumps(combinations),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(trials.parent)])},
    )
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("[")]
    assert (run.returncode, len(lines)) == (0, len(combinations)), (
        f"died with {run.returncode} at {combinations[len(lines)]}: {run.stderr[-500:]}"
    )
    return lines


def check(lines: list[list[Any]], head: int) -> None:
    """The table: what is refused, and why; all else answers."""
    for key, value, flash, outcome, *rest in lines:
        blocks_fit = all(head % CACHE_TYPES[name].block_elements == 0 for name in (key, value))
        needs_flash = value in QUANTISED and flash == "off"
        if needs_flash or not blocks_fit:
            assert outcome == "refused", (key, value, flash)
            assert ("flash attention" if needs_flash else "blocks of 32") in rest[0]
        else:
            assert (outcome, rest[0]) == ("answered", flash != "off"), (key, value, flash)


@pytest.mark.parametrize(("n_embd", "head"), [(64, 16), (128, 32), (192, 48)])
def test_every_combination_on_tiny_heads(tmp_path: Path, n_embd: int, head: int) -> None:
    path = tmp_path / "tiny.gguf"
    tiny_llama(path, shape=Shape(n_embd=n_embd, n_layer=1))
    lines = outcomes(path, EVERY)
    assert len(lines) == 243
    check(lines, head)


def test_one_narrow_head_alone(tmp_path: Path) -> None:
    """A row of 16 values is no whole block: unchecked, this aborts native code."""
    path = tmp_path / "narrow.gguf"
    tiny_llama(path, shape=Shape(n_embd=64, n_layer=1, n_head_kv=1))
    check(outcomes(path, [("q8_0", "f16", "off", 2), ("f16", "f16", "off", 2)]), 16)


def test_a_few_on_real_weights(starter_gguf: Path) -> None:
    """The soak test below tries all of them, on both files."""
    check(outcomes(starter_gguf, FEW), 64)


@pytest.mark.soak
@pytest.mark.parametrize("file", ["starter_gguf", "gemma_gguf"])
def test_every_combination_on_real_weights(file: str, request: pytest.FixtureRequest) -> None:
    check(outcomes(request.getfixturevalue(file), EVERY), 64)


def test_c03_quantised_caches_write_to_the_end_of_the_context(tmp_path: Path) -> None:
    """C03: a context of 256 that fills up ends as designed, and the process lives on."""
    path = tmp_path / "endless.gguf"
    vocabulary = bpe_vocabulary()
    word = vocabulary.id_of(" hello")
    tiny_llama(
        path,
        vocabulary=vocabulary,
        shape=Shape(n_embd=128, n_layer=2),
        successors={word: word},
        otherwise=word,
    )
    combinations = [
        (kind, other, flash, 0)
        for kind in ("q4_0", "q8_0")
        for other in ("f16", kind)
        for flash in ("on", "off", "auto")
    ]
    lines = outcomes(path, combinations)
    check(lines, 32)
    ends = [line[5:] for line in lines if line[3] == "answered"]
    assert len(ends) == 10
    assert {tuple(end) for end in ends} == {
        ("context_full", 256 - 20 + 1)
    }  # the last token needs no cell
