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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from examples import ALL
from gguf_writer import Shape, bpe_vocabulary, tiny_llama

from app.engine.planning.sizes import CACHE_TYPES

pytestmark = pytest.mark.weights

ROOT = Path(__file__).resolve().parents[5]
PLAIN = ("f32", "f16", "bf16")
QUANTISED = tuple(name for name in CACHE_TYPES if name not in PLAIN)
Combination = tuple[str, str, str, int]
EVERY: list[Combination] = [
    (key, value, flash, 2)
    for key, value, flash in itertools.product(CACHE_TYPES, CACHE_TYPES, ("on", "off", "auto"))
]
HEADS = (16, 32, 48) if os.environ.get(ALL) else (32,)
"""Numbers in a row of one head: half a block, a whole one, and one and a half. Below, a few of half
a block are always tried."""
USUAL = (
    EVERY
    if os.environ.get(ALL)
    else [each for each in EVERY if each[2] == "auto" or each[0] == each[1] or "f16" in each[:2]]
)
"""Every pair as people have it, and with flash attention on or off those of one type or beside the
usual one."""
FEW: list[Combination] = [
    ("bf16", "q8_0", "auto", 1),
    ("q4_0", "q4_0", "off", 1),
]
ENDLESS: list[Combination] = [
    (kind, other, flash, 0)
    for kind in ("q4_0", "q8_0")
    for other in ("f16", kind)
    for flash in ("on", "off", "auto")
]


def outcomes(path: Path, combinations: list[Combination]) -> list[list[Any]]:
    """What became of each; fails if the process did not live to try them all."""
    (lines,) = outcomes_of([(path, combinations)])
    return lines


def outcomes_of(trials_of: Sequence[tuple[Path, list[Combination]]]) -> list[list[list[Any]]]:
    """The same for several files, in one process: it takes longer to start than to try."""
    combinations = [(str(path), *each) for path, tried in trials_of for each in tried]
    trials = Path(__file__).parents[2] / "cache_type_trials.py"
    run = subprocess.run(
        [sys.executable, str(trials)],
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
    rest = iter(lines)
    return [list(itertools.islice(rest, len(tried))) for _, tried in trials_of]


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


@pytest.fixture(scope="module")
def tried(starter_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[list[Any]]]:
    """All that is tried by default, in one process: tiny heads, the starter, an endless reply."""
    folder, trials_of = tmp_path_factory.mktemp("types"), []
    for head in HEADS:
        path = folder / f"{head}.gguf"
        tiny_llama(path, shape=Shape(n_embd=4 * head, n_layer=1))
        trials_of.append((path, USUAL))
    narrow = folder / "narrow.gguf"
    tiny_llama(narrow, shape=Shape(n_embd=64, n_layer=1, n_head_kv=1))
    trials_of.append((narrow, [("q8_0", "f16", "off", 2), ("f16", "f16", "off", 2)]))
    trials_of.append((starter_gguf, FEW))
    trials_of.append((_endless(folder), ENDLESS))
    return outcomes_of(trials_of)


def _endless(folder: Path) -> Path:
    """It says the same word for ever."""
    vocabulary = bpe_vocabulary()
    word = vocabulary.id_of(" hello")
    tiny_llama(
        folder / "endless.gguf",
        vocabulary=vocabulary,
        shape=Shape(n_embd=128, n_layer=2),
        successors={word: word},
        otherwise=word,
    )
    return folder / "endless.gguf"


def test_every_combination_on_tiny_heads(tried: list[list[list[Any]]]) -> None:
    """Unchecked, a row of 16 values, which is no whole block, aborts native code."""
    lines = tried[: len(HEADS) + 1]
    assert list(map(len, lines)) == [*[len(USUAL)] * len(HEADS), 2]
    assert len(USUAL) == (243 if os.environ.get(ALL) else 81 + 2 * 25)
    for each, head in zip(lines, (*HEADS, 16), strict=True):
        check(each, head)


def test_a_few_on_real_weights(tried: list[list[list[Any]]]) -> None:
    """The soak test below tries all of them, on both files."""
    assert len(tried[-2]) == len(FEW)
    check(tried[-2], 64)


@pytest.mark.soak
@pytest.mark.parametrize("file", ["starter_gguf", "gemma_gguf"])
def test_every_combination_on_real_weights(file: str, request: pytest.FixtureRequest) -> None:
    check(outcomes(request.getfixturevalue(file), EVERY), 64)


def test_c03_quantised_caches_write_to_the_end_of_the_context(
    tried: list[list[list[Any]]],
) -> None:
    """C03: a context of 256 that fills up ends as designed, and the process lives on."""
    lines = tried[-1]
    check(lines, 32)
    ends = [line[5:] for line in lines if line[3] == "answered"]
    assert len(ends) == 10
    assert {tuple(end) for end in ends} == {
        ("context_full", 256 - 20 + 1)
    }  # the last token needs no cell
