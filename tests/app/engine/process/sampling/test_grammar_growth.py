"""What of a grammar never ends, against llama.cpp itself: it is shown made-up grammars without any
check of ours, in processes with little memory."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from examples import examples
from gguf_writer import tiny_llama

from app.engine.process.sampling.grammar import grammar_text
from app.engine.process.sampling.grammar_limits import beginnings_of, shape_of
from app.engine.protocol.bounds import BadSetting

TESTS = Path(__file__).parents[4]
TERMINALS = ['"a"', '"b"', "[ab]", ".", '""']
REPETITIONS = ["*", "+", "?", "{2}", "{0,2}", "{0,3}", "{1,}", "{0,}", "?*", "{2}{0,2}"]


def item(draw: random.Random, names: list[str], owner: str, depth: int) -> str:
    """Rules call those behind them more often than themselves: else hardly one would be good."""
    later = [n for n in names if n > owner] if draw.random() < 0.75 else names
    kind = draw.random()
    if kind < 0.35 or not later:
        made = draw.choice(TERMINALS)
    elif kind < 0.75 or depth > 1:
        made = draw.choice(later)
    else:
        made = f"({alternatives(draw, names, owner, depth + 1)})"
    return made + (draw.choice(REPETITIONS) if made != '""' and draw.random() < 0.4 else "")


def alternatives(draw: random.Random, names: list[str], owner: str, depth: int = 0) -> str:
    rows = [
        " ".join(item(draw, names, owner, depth) for _ in range(draw.choice([1, 1, 2, 2, 3])))
        for _ in range(draw.choice([1, 1, 2, 3]))
    ]
    return " | ".join(rows)


def grammar(draw: random.Random) -> str:
    names = ["root", "x", "y", "z"][: draw.choice([2, 3, 4])]
    return "\n".join(f"{name} ::= {alternatives(draw, names, name)}" for name in names)


def outcomes(grammars: list[str], folder: Path) -> list[str]:
    """What llama.cpp makes of them: taken, refused, or died."""
    tiny_llama(folder / "tiny.gguf")
    done = subprocess.run(
        [sys.executable, str(TESTS / "native_grammars.py"), str(folder / "tiny.gguf")],
        input=json.dumps(grammars),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.weights
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory")
def test_what_takes_all_memory_is_found_and_nothing_else(tmp_path: Path) -> None:
    draw = random.Random(14)
    grammars = [grammar(draw) for _ in range(examples(400))]
    found = outcomes(grammars, tmp_path)
    for text, outcome in zip(grammars, found, strict=True):
        starts = beginnings_of(shape_of(text))
        if outcome == "died":
            assert starts.growing, text
        elif outcome == "refused":
            assert starts.growing or starts.circular or starts.idle, text
        else:
            assert not starts.growing or is_beside(text, starts.growing), text
    assert {"died", "refused", "taken"} <= set(found)


def is_beside(text: str, rule: str) -> bool:
    """Whether the root cannot begin with this rule: then it would only grow later, or never."""
    shape = shape_of(text)
    seen, todo = set(), ["root"]
    while todo:
        name = todo.pop()
        if name not in seen and name in shape.all:
            seen.add(name)
            todo += [item.name for item, _ in shape.beginnings(name)]
    return rule not in seen


DEEP = "".join(f"r{i} ::= r{i + 1}\n" for i in range(1000)) + 'r1000 ::= "a"?\nroot ::= r0'
TEXTS = {
    "open classes": "root ::= " + "[" * 60_000,
    "open texts": "root ::= " + '"\\"' * 20_000,
    "open repetitions": 'root ::= "a"' + "{" * 60_000,
    "open tokens": "root ::= " + "<" * 60_000,
    "repetitions of repetitions": 'root ::= "a"' + "?" * 60_000,
    "a name and space": "x" * 30_000 + " " * 30_000,
    "rules that call each other": "".join(f"r{i}::=e r{i + 1}|r{i} e\n" for i in range(3000)),
    "empty by the last one": DEEP,
}


@pytest.mark.parametrize("name", TEXTS)
def test_any_text_is_judged_in_time(name: str) -> None:
    """In proportion to its length, half a second at most. What it is against took 20 s for a third
    of such a text, and nine times as long for all of it."""
    began = time.process_time()
    try:
        grammar_text(TEXTS[name], "")
    except BadSetting as refused:
        assert refused.sentence  # noqa: PT017
    assert time.process_time() - began < 30
