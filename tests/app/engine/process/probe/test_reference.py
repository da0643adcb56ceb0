"""What the probe finds in both files for tests, against a transformer written in numpy.

These files are quantised. There the processor rounds what it multiplies by, too: to 8 bits, a block
at a time. A number that lies between two steps may be rounded the other way by another order of
sums, and is then off by 1/127 of the largest of its block; through 30 layers such differences grow
to some per cent, whoever computes. So there are two proofs:

* Each *piece* of each layer is compared for the same input: the graph's own. The reference rounds
  as the processor does. Nearly all is then equal but for float32's last bits, and what is not is
  off by single roundings.
* The *whole way* from token to logits is compared with arithmetic that rounds nothing, within what
  the roundings make.

Flash attention keeps its keys and values in float16 whatever it is told, and adds up in float16.
Small files in float32, which are exact all the way: `test_reference_exact.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from probing import distance, look, probe_of, walk, weights_of
from reference_checks import (
    ALL_ROUNDINGS,
    EXACT,
    FLASH,
    HALF,
    ONE_ROUNDING,
    PIECES,
    Case,
    all_distances,
    check_lens,
    check_rotation,
    check_rows,
    piecewise,
)
from reference_network import Reading
from reference_weights import Values

from app.engine.process.native.native import NativeLog

pytestmark = pytest.mark.weights

TEXT: Final = "The capital of France is"
EACH: Final = pytest.mark.parametrize(
    ("name", "flash"),
    [
        pytest.param("starter", "off", marks=pytest.mark.soak),
        ("starter", "on"),
        *(pytest.param("gemma", way, marks=pytest.mark.soak) for way in ("on", "off")),
    ],
)
"""Of the two ways that attention is computed, a Gemma has that of the app by default."""
BOTH_WAYS: Final = pytest.mark.parametrize(
    "name", ["starter", pytest.param("gemma", marks=pytest.mark.soak)]
)


@pytest.fixture(scope="module")
def real(starter_gguf: Path, gemma_gguf: Path, native_log: NativeLog) -> Iterator[Any]:
    """Both files for tests, with flash attention or without: each is looked into once."""
    cases: dict[tuple[str, str], Case] = {}

    def case(name: str, flash: str) -> Case:
        if (name, flash) not in cases:
            path = {"starter": starter_gguf, "gemma": gemma_gguf}[name]
            with (
                weights_of(path, native_log, flash_attention=flash) as weights,
                probe_of(weights) as probe,
            ):
                ids = weights.vocabulary.tokenize(TEXT, False, True)
                found = walk(probe, ids, (*PIECES, "embedding", "attention", "heads"))
                found[-1] = look(probe, ids, targets=[ids[0], 7]).arrays
                cases[name, flash] = Case(path, ids, found)
        return cases[name, flash]

    yield case
    cases.clear()


@pytest.fixture(scope="module")
def exact(real: Any) -> Callable[[str], tuple[Reading, Values]]:
    """What arithmetic that rounds nothing makes of the text, and its scores."""

    @cache
    def read(name: str) -> tuple[Reading, Values]:
        case = real(name, "on")
        reading = case.exact.read(case.ids)
        return reading, case.exact.scores(reading.residual[-1][-1:])[0]

    return read


@EACH
def test_each_piece_is_what_its_input_makes(real: Any, name: str, flash: str) -> None:
    case = real(name, flash)
    reading = piecewise(case.as_cpu, case.found)
    assert np.array_equal(case.last["embedding"], reading.embedding[-1])
    for array, apart in all_distances(reading, case.found).items():
        assert apart.max() < ONE_ROUNDING, array
        is_half = flash == "on" and array in ("attention", "heads")
        assert np.median(apart) < (HALF if is_half else EXACT), array


@EACH
def test_the_scores_are_what_the_last_stream_makes(real: Any, name: str, flash: str) -> None:
    case = real(name, flash)
    stream = case.last["residual"][-1:]
    assert distance(case.last["result_norm"], case.as_cpu.result_norm(stream)[0]) < EXACT
    assert distance(case.last["logits"], case.said[-1]) < ONE_ROUNDING


@EACH
def test_the_whole_way_is_near_exact_arithmetic(
    real: Any, exact: Callable[[str], tuple[Reading, Values]], name: str, flash: str
) -> None:
    last, (reading, logits) = real(name, flash).last, exact(name)
    at_last = reading.at(len(reading.embedding) - 1)
    for array, wanted in at_last.items():
        assert distance(last[array], wanted).max() < ALL_ROUNDINGS, array
    assert np.abs(last["attention"] - at_last["attention"]).max() < 0.1
    assert distance(last["logits"], logits) < ALL_ROUNDINGS
    assert last["logits"].argmax() == logits.argmax()


@EACH
def test_rows_of_attention_sum_to_one(real: Any, name: str, flash: str) -> None:
    check_rows(real(name, flash))


@BOTH_WAYS
def test_flash_attention_on_and_off_agree(real: Any, name: str) -> None:
    on, off = (real(name, flash).last for flash in FLASH)
    # The first layer has the same input: only float16 against float32 is left.
    assert np.abs(on["attention"][0] - off["attention"][0]).max() < HALF
    assert np.abs(on["attention"] - off["attention"]).max() < 0.1
    assert on["logits"].argmax() == off["logits"].argmax()
    assert distance(on["logits"], off["logits"]) < ALL_ROUNDINGS


@EACH
def test_the_last_row_of_the_lens_is_the_scores(real: Any, name: str, flash: str) -> None:
    check_lens(real(name, flash))


@BOTH_WAYS
def test_turning_queries_by_hand_gives_the_graph_s(real: Any, name: str) -> None:
    check_rotation(real(name, "on"))
