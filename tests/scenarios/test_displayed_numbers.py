"""What the window shows of a reply's tokens against llama.cpp's logits, computed by somebody else.

`tests/native_softmax.py` reads the same tokens in a process of its own, without the app.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QTableView

from app.chat.prompt_reading import PromptOf
from app.insight.tokens_shown import visible
from ui.section.alternatives import AlternativesTable
from ui.section.live_card import LiveCard
from ui.section.reply_tokens import ReplyTokens
from ui.transcript.token_facts import facts_of

pytestmark = pytest.mark.weights

SCRIPT = Path(__file__).resolve().parents[1] / "native_softmax.py"
FARTHEST = 0.02
"""Relative: another shape of batches moves logits a little (design §4, Exactness); measured below
0.001 with the same threads."""


def near(shown: str, p: float) -> bool:
    """Whether a share in percent, as it is written, is that probability: within what its digits
    leave out and what another shape of batches makes."""
    told = float(shown.replace("%", "").strip()) / 100
    digits = 0.0005 if told >= 0.01 else 0.05 * p + 1e-12
    return math.isclose(told, p, rel_tol=FARTHEST, abs_tol=digits)


def column(table: QTableView, at: int) -> list[str]:
    model = table.model()
    return [str(model.index(row, at).data()) for row in range(model.rowCount())]


@pytest.fixture
def answered(open_window: Any) -> Any:
    """A reply of the included weights, drawn warm so that improbable tokens are among it."""
    person = open_window()
    desk = person.app.desk
    person.wait(lambda: desk.engine_state.state != "loading")
    for name, value in {"n_threads": 1, "seed": 11, "temperature": 1.3, "max_tokens": 10}.items():
        desk.set_setting(name, value)
    person.window.action_registry.run("toggle_section")
    person.send("The capital of France is")
    person.qtbot.waitUntil(
        lambda: not desk.is_generating and person.reply() is not None, timeout=90_000
    )
    return person


def native(person: Any) -> list[dict[str, Any]]:
    """The same reply by the script."""
    desk, reply = person.app.desk, person.reply()
    found: list[PromptOf] = []
    desk.read_prompt(reply.id, found.append)
    person.wait(lambda: found)
    assert found[0].is_given
    assert found[0].tokens is not None
    loaded = desk.engine_state.loaded
    asked = {
        "prompt": list(found[0].tokens.ids),
        "reply": list(reply.token_ids),
        "n_ctx": loaded.n_ctx,
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), loaded.path, json.dumps(asked)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_displayed_probabilities_are_the_softmax_of_the_logits(answered: Any) -> None:
    person = answered
    told = native(person)
    desk, looking = person.app.desk, person.window.section_acts.looking()
    table = person.find(QTableView, "token_table")
    person.wait(lambda: table.model().rowCount() == len(told) and looking.words is not None)
    assert any(each["rank"] > 1 for each in told), "a reply of best tokens alone proves less"
    shares, ranks, entropies = (column(table, at) for at in (3, 4, 5))
    for each, share, rank, entropy in zip(told, shares, ranks, entropies, strict=True):
        assert near(share, each["p"])
        assert int(rank.replace(",", "")) == pytest.approx(each["rank"], rel=0.02, abs=1)
        assert float(entropy) == pytest.approx(each["entropy"], abs=0.02)
    person.find(ReplyTokens, "reply_tokens")
    alternatives = person.find(AlternativesTable, "alternatives_table")
    words = desk.words_of(person.reply().weights_hash)
    for at, each in enumerate(told):
        looking.select(at)
        rows = list(zip(column(alternatives, 0), column(alternatives, 1), strict=True))
        assert len(rows) == 64
        by_piece = {visible(words.piece(token_id)): p for token_id, p in each["best"]}
        common = [(piece, share) for piece, share in rows if piece in by_piece]
        assert len(common) >= 62, "the last ones may change places"
        assert all(near(share, by_piece[piece]) for piece, share in common)
        assert sum(float(share) for _, share in rows) <= 100.5


def test_the_card_at_a_token_and_the_live_bars_say_the_same(answered: Any) -> None:
    person = answered
    told = native(person)
    looking = person.window.section_acts.looking()
    person.wait(lambda: looking.words is not None and len(looking.traces) == len(told))
    person.window.action_registry.run("toggle_token_view")
    mode, reply = person.window.chat.transcript.tokens, person.reply()
    person.wait(lambda: (found := mode.tokens_of(reply.id)) and len(found.traces) == len(told))
    for at, each in enumerate(told):
        facts = facts_of(mode.tokens_of(reply.id), at, looking.words, may_branch=True)
        share = facts.figures.split(" · ")[1]
        assert near(share, each["p"]), facts.figures
        for shown, (token_id, p) in zip(facts.alternatives[:2], each["best"], strict=False):
            if p > 2 * each["best"][2][1]:  # no neighbours that may change places
                assert (shown.token_id, near(f"{100 * shown.probability}", p)) == (token_id, True)
    person.window.section_acts.go_to("Sampling", "What if")
    card = person.find(LiveCard, "live_card")
    for at, each in enumerate(told):
        looking.select(at)
        best = card.bars.rows[0]
        assert near(best.before.replace("<", ""), each["best"][0][1])
