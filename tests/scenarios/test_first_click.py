"""“The capital of France is”, continued by the included weights and looked into from the first
click on. Whoever has read one article about how a language model writes finds each of its words on
screen, beside the right number: token, ID, logit, softmax, temperature, top-k, top-p, KV cache,
prefill, decode.

The numbers are computed here once more: a process that has nothing of the app asks llama.cpp for
the IDs and the logits, and what follows from these is worked out in float64.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QScrollArea,
    QTabBar,
    QTableView,
    QWidget,
)
from shown_numbers import number_in

from app.engine.protocol.stages import MinP, Temperature, TopK, TopP
from ui.section.cache.panel import CachePanel
from ui.section.pipeline import PipelineLine
from ui.section.sampling.chain_room import ChainRoom
from ui.section.sampling.live_card import LiveCard
from ui.section.section import Section
from ui.section.time.panel import TimePanel

pytestmark = pytest.mark.weights

TEXT = "The capital of France is"
N_TOKENS = 12
SETTINGS = {"n_threads": 1, "seed": 7, "temperature": 0.8, "max_tokens": N_TOKENS}

NATIVE = """
import json, sys
import llama_cpp as l

path, n_ctx, text = sys.argv[1], int(sys.argv[2]), sys.argv[3]
l.llama_backend_init()
model = l.llama_model_load_from_file(path.encode(), l.llama_model_default_params())
params = l.llama_context_default_params()
params.n_ctx = n_ctx
params.n_threads = params.n_threads_batch = 1
context = l.llama_init_from_model(model, params)
vocab = l.llama_model_get_vocab(model)


def ids(text):
    found = (l.llama_token * 32)()
    return list(found[: l.llama_tokenize(vocab, text, len(text), found, 32, False, False)])


prompt = ids(text.encode())
tokens = (l.llama_token * len(prompt))(*prompt)
assert l.llama_decode(context, l.llama_batch_get_one(tokens, len(prompt))) == 0
logits = l.llama_get_logits_ith(context, -1)[: l.llama_vocab_n_tokens(vocab)]
print(json.dumps({"prompt": prompt, "paris": ids(b" Paris"), "logits": logits}))
"""


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


@dataclass
class Truth:
    """What llama.cpp says of the text and of the token behind it."""

    prompt: list[int]
    paris: int
    logits: np.ndarray

    @property
    def order(self) -> np.ndarray:
        """IDs, the most probable first."""
        return np.argsort(-self.logits, kind="stable")

    def after(self, *, k: int, top_p: float, min_p: float, t: float) -> list[np.ndarray]:
        """The logits after each of these stages; −∞ for what it has removed."""
        left, found = self.logits.copy(), []
        left[self.order[k:]] = -np.inf
        found.append(left.copy())
        sums = np.cumsum(softmax(left)[self.order])
        left[self.order[int(np.searchsorted(sums, top_p)) + 1 :]] = -np.inf
        found.append(left.copy())
        left[softmax(left) < min_p * softmax(left).max()] = -np.inf
        found.append(left.copy())
        found.append(left / t)
        return found


@pytest.fixture(scope="module")
def truth(starter_gguf: Path) -> Truth:
    said = subprocess.run(
        [sys.executable, "-c", NATIVE, str(starter_gguf), "8192", TEXT],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told = json.loads(said.stdout)
    (paris,) = told["paris"]
    return Truth(told["prompt"], paris, np.array(told["logits"]))


# --- a reader ------------------------------------------------------------------------------------


class Reader:
    """Somebody who opens the section and reads what is on screen, scrolling where it goes on."""

    def __init__(self, person: Any) -> None:
        self.person = person

    @property
    def section(self) -> Section:
        return self.person.find(Section, "section")

    def open_panel(self, title: str, room: str = "") -> Any:
        """By clicks on its tab, and on that of its room."""
        self._click_tab(self.person.find(QTabBar, "section_tabs"), title)
        panel = self.person.wait(
            lambda: (p := self.section.panel()) and p.title == title and p.isVisible() and p
        )
        if room:
            self._click_tab(panel.rooms, room)
        for _ in range(3):  # what is built finds its place
            QApplication.processEvents()
        return panel

    def _click_tab(self, tabs: QTabBar, title: str) -> None:
        at = next(at for at in range(tabs.count()) if tabs.tabText(at) == title)
        where = tabs.tabRect(at).center()
        self.person.qtbot.mouseClick(tabs, Qt.MouseButton.LeftButton, pos=where)

    def reads(self, widget: QWidget) -> bool:
        """Whether all of it is on screen, once the reader has scrolled to it."""
        parent = widget.parentWidget()
        while parent is not None:
            if isinstance(parent, QScrollArea) and parent.widget().isAncestorOf(widget):
                parent.ensureWidgetVisible(widget, 0, 4)
            parent = parent.parentWidget()
        shown = widget.visibleRegion().boundingRect()
        return widget.isVisible() and shown == widget.rect()

    def words(self, panel: QWidget) -> str:
        """Every label and button that can be read whole, and the heads of tables."""
        found = []
        for widget in panel.findChildren(QWidget):
            if isinstance(widget, QLabel):
                shown: Callable[[], str] = getattr(widget, "shown_text", widget.text)
                if widget.text() and shown() == widget.text() and self.reads(widget):
                    found.append(widget.text())
            elif isinstance(widget, QAbstractButton) and widget.text() and self.reads(widget):
                found.append(widget.text())
            elif isinstance(widget, QTableView) and self.reads(widget):
                found += self.heads(widget)
        return "\n".join(found)

    def heads(self, table: QTableView) -> list[str]:
        """Of the columns that are seen whole."""
        header, model = table.horizontalHeader(), table.model()
        right = table.viewport().width()
        return [
            str(model.headerData(at, Qt.Orientation.Horizontal)).replace("\n", " ")
            for at in range(header.count())
            if header.sectionViewportPosition(at) + header.sectionSize(at) <= right
        ]

    def label(self, name: str) -> str:
        """A label by its name: all of its words are on screen."""
        return self.label_of(self.person.find(QLabel, name))

    def label_of(self, label: QLabel) -> str:
        assert self.reads(label), label.text()
        shown: Callable[[], str] = getattr(label, "shown_text", label.text)
        assert shown() == label.text(), f"of “{label.text()}” only “{shown()}” is shown"
        return str(label.text())


@pytest.fixture
def reader(open_window: Any) -> Reader:
    """The text is typed and continued, and the section opened by its button: all by hand."""
    person = open_window()
    desk = person.app.desk
    person.window.resize(1440, 900)
    person.qtbot.waitUntil(lambda: desk.loader.state.state == "ready", timeout=60_000)
    for name, value in SETTINGS.items():
        desk.settings.set(name, value)
    person.click("new_text_button")
    person.qtbot.keyClicks(person.find(QPlainTextEdit, "text_document"), TEXT)
    person.click("continue_button")
    person.qtbot.waitUntil(
        lambda: not desk.replies.is_generating and person.reply() is not None, timeout=90_000
    )
    person.click("section_button")
    person.wait(lambda: person.window.findChild(Section, "section"))
    looking = person.window.section_acts.looking()
    person.wait(lambda: len(looking.traces) == N_TOKENS and looking.words is not None)
    return Reader(person)


def choose_first(reader: Reader) -> None:
    """The first row of the table, by a click."""
    table = reader.person.find(QTableView, "token_table")
    where = table.visualRect(table.model().index(0, 1)).center()
    reader.person.qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=where)


# --- the panels ----------------------------------------------------------------------------------


def test_each_word_stands_beside_its_number(reader: Reader, truth: Truth) -> None:
    person = reader.person
    person.wait(lambda: "12 tokens · choose one" in reader.label("section_token"))
    the_token(reader, truth)
    the_sampling(reader, truth)
    the_logits(reader, truth)
    the_cache(reader, truth)
    the_prompt(reader, truth)
    the_time(reader, truth)
    ten_words_are_on_screen(reader)


def the_token(reader: Reader, truth: Truth) -> None:
    """Token and ID, with the probability that softmax makes of the logits."""
    panel = reader.open_panel("Tokens")
    assert "Choose a token" in reader.person.find(QTableView, "alternatives_table").empty_words
    choose_first(reader)
    share = f"{100 * softmax(truth.logits)[truth.paris]:.1f}"
    assert reader.label("section_token") == "·Paris · token 1 of the reply"
    of_stage = {
        each.stage.name: each for each in reader.person.find(PipelineLine, "pipeline_line").buttons
    }
    logit = float(of_stage["Logit"].figure.replace("−", "-"))
    assert (of_stage["ID"].figure, of_stage["Probability"].figure) == (
        str(truth.paris),
        f"{share}%",
    )
    assert logit == pytest.approx(truth.logits[truth.paris], abs=0.06)
    assert of_stage["Prompt"].figure == f"{len(truth.prompt)} tokens"
    table = reader.person.find(QTableView, "token_table")
    heads = reader.heads(table)
    assert {"Token", "ID", "Prob. %"} <= set(heads)
    row = [str(table.model().index(0, at).data()) for at in range(len(heads))]
    found = dict(zip(heads, row, strict=True))
    assert (found["Token"], found["ID"], found["Prob. %"]) == ("·Paris", str(truth.paris), share)
    others = reader.person.find(QTableView, "alternatives_table")
    shown = [str(others.model().index(at, 1).data()) for at in range(2)]
    assert [number_in(each) for each in shown] == pytest.approx(
        100 * softmax(truth.logits)[truth.order[:2]], abs=0.06
    )
    assert "12 tokens" in reader.words(panel)


def the_sampling(reader: Reader, truth: Truth) -> None:
    """Top-k, top-p and temperature: what each left of 49,152."""
    reader.open_panel("Sampling", "Chain")
    room = reader.person.find(ChainRoom, "chain_room")
    reader.person.wait(lambda: all(card.evidence.isVisible() for card in room.chain.cards))
    stages = truth.after(k=40, top_p=0.95, min_p=0.05, t=0.8)
    titles = {TopK: "Top-k", TopP: "Top-p", MinP: "Min-p", Temperature: "Temperature"}
    values = {TopK: "40", TopP: "0.95", MinP: "0.05", Temperature: "0.8"}
    cards = {type(card.link.stage): card for card in room.chain.cards}
    before = len(truth.logits)
    for (kind, title), left in zip(titles.items(), stages, strict=True):
        card = cards[kind]
        assert reader.reads(card.title)
        assert card.title.text() == title
        field = next(iter(card.fields.values()))
        assert reader.reads(field)
        assert isinstance(field, QLineEdit)
        assert field.text() == values[kind]
        n_left = int(np.isfinite(left).sum())
        assert reader.reads(card.evidence.left)
        assert card.evidence.left.text() == f"{n_left:,} left"
        removed = f"−{before - n_left:,} removed" if n_left < before else "removes none"
        assert card.evidence.removed_button.text() == removed
        assert reader.reads(card.evidence.bars)
        shares = [bar.share for bar in card.evidence.bars.bars]
        assert shares[0] == pytest.approx(softmax(left)[truth.paris], abs=1e-5)
        assert shares == pytest.approx(softmax(left)[truth.order[: len(shares)]], rel=1e-3)
        before = n_left
    sentence = cards[Temperature].sentence
    assert reader.reads(sentence)
    assert "Divides all logits by t before softmax" in sentence.text()


def the_logits(reader: Reader, truth: Truth) -> None:
    """Logit and softmax, moved live."""
    reader.open_panel("Sampling", "What if")
    card = reader.person.find(LiveCard, "live_card")
    reader.person.wait(lambda: len(card.bars.rows) > 2)
    assert reader.label_of(card.title) == "Live: logits, softmax, cuts"
    probabilities, after = softmax(truth.logits), truth.after(k=40, top_p=0.95, min_p=0.05, t=0.8)
    for row, token_id in list(zip(card.bars.rows, truth.order, strict=False))[:4]:
        assert number_in(row.logit) == pytest.approx(truth.logits[token_id], abs=0.06)
        assert row.before_share == pytest.approx(probabilities[token_id], abs=1e-3)
        if np.isfinite(after[-1][token_id]):
            assert row.after_share == pytest.approx(softmax(after[-1])[token_id], abs=1e-3)
        else:
            assert row.after.startswith("cut: ")


def the_cache(reader: Reader, truth: Truth) -> None:
    """KV cache: the prompt's cells and those of all tokens but the last, which nothing follows."""
    panel = reader.open_panel("Cache")
    assert isinstance(panel, CachePanel)
    n_cells = len(truth.prompt) + N_TOKENS - 1
    reader.person.wait(lambda: reader.label("cache_cells") == f"KV cache: {n_cells} of 8,192 cells")
    assert reader.label("cache_where") == (
        f"cell {len(truth.prompt)} · position {len(truth.prompt)} · ·Paris · ID {truth.paris}"
    )
    for row, words, number in (
        (panel.reused, "reused", 0),
        (panel.evaluated, "processed (prefill)", len(truth.prompt)),
        (panel.written, "generated (decode)", N_TOKENS),
    ):
        assert reader.label_of(row.label) == words
        assert reader.label_of(row.value) == str(number)


def the_prompt(reader: Reader, truth: Truth) -> None:
    panel = reader.open_panel("Prompt")
    n = len(truth.prompt)
    reader.person.wait(lambda: reader.label("prompt_size") == f"{n} tokens · {len(TEXT)} bytes")
    words = reader.words(panel)
    assert f"0 tokens from the KV cache, {n} processed (prefill)." in words
    assert panel.text.isVisible()


def the_time(reader: Reader, truth: Truth) -> None:
    """Prefill and decode: how many tokens, and how long."""
    panel = reader.open_panel("Time")
    assert isinstance(panel, TimePanel)
    reader.person.wait(lambda: len(panel.parts.parts) > 3)
    rows = {row[0].text(): row for row in panel.parts._rows}
    for name, n_tokens in (
        ("Prefill", len(truth.prompt)),
        ("First token", 1),
        ("Decode", N_TOKENS - 1),
        ("Total", N_TOKENS),
    ):
        cells = rows[name]
        for cell in cells:
            assert not cell.text() or reader.reads(cell), cell.text()
        assert cells[3].text() == str(n_tokens)
        assert number_in(cells[1].text()) > 0
    assert reader.reads(panel.line)
    assert panel.line.figures["prefill"].startswith(f"{len(truth.prompt)} tokens · ")
    assert panel.line.figures["decode"].startswith(f"{N_TOKENS} tokens · ")


def ten_words_are_on_screen(reader: Reader) -> None:
    """Each in the panel where it belongs, without hovering."""
    for panel, room, words in (
        ("Tokens", "This reply", ("token", "ID")),
        ("Sampling", "Chain", ("Temperature", "Top-k", "Top-p")),
        ("Sampling", "What if", ("logit", "softmax")),
        ("Cache", "", ("KV cache", "prefill", "decode")),
        ("Prompt", "", ("KV cache", "prefill")),
        ("Time", "", ("Prefill", "Decode")),
    ):
        shown = reader.open_panel(panel, room)
        for word in words:
            reader.person.wait(lambda shown=shown, word=word: word in reader.words(shown))
