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
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTableView
from shown_numbers import number_in

from app.chat.inspection.prompt_reading import PromptOf
from app.chat.surroundings import ALWAYS
from app.insight.trace.tokens_shown import visible
from ui.section.sampling.live_card import LiveCard
from ui.section.tokens.alternatives import AlternativesTable
from ui.section.tokens.reply_tokens import ReplyTokens
from ui.transcript.tokens.facts import facts_of

pytestmark = pytest.mark.weights

SCRIPT = Path(__file__).resolve().parents[1] / "native_softmax.py"
AT = 3
FARTHEST = 0.02
"""Relative: another shape of batches moves logits a little (design §4, Exactness); measured below
0.001 with the same threads."""


def near(shown: str, p: float) -> bool:
    """Whether a share in percent, as it is written, is that probability: within what its digits
    leave out and what another shape of batches makes."""
    told = number_in(shown) / 100
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
    person.wait(lambda: desk.loader.state.state != "loading")
    for name, value in {"n_threads": 1, "seed": 11, "temperature": 1.3, "max_tokens": 10}.items():
        desk.settings.set(name, value)
    person.window.action_registry.run("toggle_section")
    person.send("The capital of France is")
    person.qtbot.waitUntil(
        lambda: not desk.replies.is_generating and person.reply() is not None, timeout=90_000
    )
    return person


def prompt_of(person: Any) -> list[int]:
    """The tokens that the engine was given for the reply."""
    found: list[PromptOf] = []
    person.app.desk.prompts.read(person.reply().id, found.append, still=ALWAYS)
    person.wait(lambda: found)
    assert found[0].is_given
    assert found[0].tokens is not None
    return list(found[0].tokens.ids)


def native(person: Any, prompt: list[int] | None = None) -> list[dict[str, Any]]:
    """The same reply by the script; `prompt`, where the reply's own ends with tokens of another
    version."""
    desk, reply = person.app.desk, person.reply()
    loaded = desk.loader.state.loaded
    asked = {
        "prompt": prompt_of(person) if prompt is None else prompt,
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
    """One after another: to load the weights takes longest."""
    told = native(answered)
    in_the_tables(answered, told)
    at_a_token_and_in_the_live_bars(answered, told)
    a_branch_by_a_click_is_what_a_fresh_run_would_write(answered)


def in_the_tables(person: Any, told: list[dict[str, Any]]) -> None:
    desk, looking = person.app.desk, person.window.section_acts.looking()
    table = person.find(QTableView, "token_table")
    person.wait(lambda: table.model().rowCount() == len(told) and looking.words is not None)
    assert any(each["rank"] > 1 for each in told), "a reply of best tokens alone proves less"
    shares, ranks, entropies = (column(table, at) for at in (3, 4, 5))
    for each, share, rank, entropy in zip(told, shares, ranks, entropies, strict=True):
        assert near(share, each["p"])
        assert number_in(rank) == pytest.approx(each["rank"], rel=0.02, abs=1)
        assert number_in(entropy) == pytest.approx(each["entropy"], abs=0.02)
    person.find(ReplyTokens, "reply_tokens")
    alternatives = person.find(AlternativesTable, "alternatives_table")
    words = desk.words.of(person.reply().weights_hash)
    for at, each in enumerate(told):
        looking.select(at)
        rows = list(zip(column(alternatives, 0), column(alternatives, 1), strict=True))
        assert len(rows) == 64
        by_piece = {visible(words.piece(token_id)): p for token_id, p in each["best"]}
        common = [(piece, share) for piece, share in rows if piece in by_piece]
        assert len(common) >= 62, "the last ones may change places"
        assert all(near(share, by_piece[piece]) for piece, share in common)
        assert sum(number_in(share) for _, share in rows) <= 100.5


def at_a_token_and_in_the_live_bars(person: Any, told: list[dict[str, Any]]) -> None:
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


def a_branch_by_a_click_is_what_a_fresh_run_would_write(person: Any) -> None:
    """An alternative is double-clicked; llama.cpp, told the same tokens in a process of its own,
    finds each that followed the most probable one, with the share that is shown."""
    desk, looking = person.app.desk, person.window.section_acts.looking()
    person.window.section_acts.go_to("Tokens", "This reply")
    old = person.reply()
    person.wait(lambda: looking.words is not None and len(looking.traces) == len(old.token_ids))
    prompt = prompt_of(person)
    desk.settings.set("temperature", 0.0)
    looking.select(AT)
    table = person.find(AlternativesTable, "alternatives_table")
    person.wait(lambda: table.model().rowCount() == 64)
    of_row = [table.candidates.candidate(row).token_id for row in range(2)]
    row = 1 if of_row[0] == old.token_ids[AT] else 0
    chosen = of_row[row]
    table.scrollTo(table.model().index(row, 0))
    spot = table.visualRect(table.model().index(row, 0)).center()
    assert table.viewport().rect().contains(spot)
    person.qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    person.qtbot.mouseDClick(table.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    person.qtbot.waitUntil(
        lambda: not desk.replies.is_generating and person.reply().id != old.id, timeout=90_000
    )
    new = person.reply()
    assert new.token_ids[:AT] == old.token_ids[:AT]
    assert new.token_ids[AT] == chosen
    assert len(new.token_ids) > AT + 1
    assert desk.shelf.path[-1].sibling_count == 2
    told = native(person, prompt)
    person.wait(lambda: looking.message.id == new.id and len(looking.traces) == len(told))
    shares = column(person.find(QTableView, "token_table"), 3)
    for at, (each, share) in enumerate(zip(told, shares, strict=True)):
        assert near(share, each["p"])
        if at > AT:
            best, second = each["best"][:2]
            is_close = best[1] < (1 + FARTHEST) * second[1]
            assert new.token_ids[at] == best[0] or (is_close and new.token_ids[at] == second[0])
