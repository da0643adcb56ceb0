"""Figures of a page against those of `main.py inside`, run apart from it, on both files."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from read_page import check_alone, pictures, read_page

from app.chat.events import PageSaved, TraceRead
from app.chat.tour.wish import Wish
from app.command_line import inside
from app.insight.inside.attention import hardest_look
from app.insight.trace.tokens_shown import visible

pytestmark = pytest.mark.weights

TEXT = "The capital of France is"
NEAR = 0.02
"""Relative: another shape of batches moves numbers a little (design §4, Exactness)."""


@pytest.fixture(params=["starter_gguf", pytest.param("gemma_gguf", marks=pytest.mark.soak)])
def gguf(request: pytest.FixtureRequest) -> Path:
    return Path(request.getfixturevalue(request.param))


@pytest.fixture
def room(forked_engines: None, make_room: Any, data_dir: Path, gguf: Path) -> Any:
    room = make_room(gguf=gguf, is_real=True)
    for name, value in (("n_threads", 1), ("temperature", 0.8), ("seed", 3), ("max_tokens", 3)):
        room.desk.settings.set(name, value)
    return room.start_ready()


def share(words: str) -> float:
    return float(re.sub(r"[<>%]", "", words)) / 100


def is_near(words: str, true: float) -> bool:
    """A share as it is written: within its last digit, and what batches make."""
    digits = len(words.rstrip("%").partition(".")[2])
    return math.isclose(share(words), true, rel_tol=NEAR, abs_tol=1.01 * 10 ** (-2 - digits))


def number(words: str) -> float:
    return float(words.replace("−", "-").replace(",", ""))


def test_each_figure_is_that_of_the_command_line(room: Any, gguf: Path, tmp_path: Path) -> None:
    reply = room.ask(TEXT)
    assert reply.error is None
    room.desk.growing.read_trace(reply.id)
    traces = room.until(lambda: room.of(TraceRead) and room.of(TraceRead)[-1].tokens, "trace")
    room.desk.pages.save(Wish(reply, traces, 0, TEXT), str(tmp_path / "page.html"))
    room.until(lambda: room.of(PageSaved), "the page")
    html = (tmp_path / "page.html").read_text("utf-8")
    assert len(html.encode()) < 1_000_000
    page = read_page(html)
    check_alone(page)
    found = pictures(page)
    assert page.all("p", "lack") == []

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        argv = [TEXT, "--gguf", str(gguf), "--threads", "1", "--json"]
        assert inside.main([*argv, "--out", str(tmp_path / "out.npz")]) == 0
    said = json.loads(printed.getvalue())
    arrays = dict(np.load(tmp_path / "out.npz"))
    n_tok = len(said["tokens"])
    assert said["token"] == n_tok - 1

    # Words and IDs
    token = traces[0]
    chips = page.all("ol", "chips")[0].all("li")
    own = next(at for at, chip in enumerate(chips) if chip.attributes.get("class") == "now")
    ids = [int(chip.all("small")[0].text) for chip in chips[:own]]
    assert ids == [each["id"] for each in said["tokens"]][-len(ids) :]
    assert chips[own].all("small")[0].text == str(token.token_id)
    assert page.all("h1")[0].text == f"Follow one token: “{visible(token.piece)}”"

    # The vector
    vector = next(one for name, one in found.items() if name.startswith("The vector"))
    told = [number(each) for each in vector.element.all("p", "all")[0].text.split()]
    assert told == pytest.approx(arrays["embedding"].tolist(), rel=NEAR, abs=1e-4)

    # Attention
    attention = arrays["attention"][:, :, :n_tok].astype(np.float64)
    mean = np.nanmean(attention, axis=(0, 1))
    painted = next(one for name, one in found.items() if one.title.endswith(" heads")
                   and name.startswith("Where"))  # fmt: skip
    titles = [word.attributes["title"] for word in painted.element.all("span", "look")]
    assert len(titles) == n_tok
    assert all(is_near(t.rpartition(" ")[2], mean[at]) for at, t in enumerate(titles))
    for layer, row in enumerate(found["All heads"].rows):
        look = hardest_look(arrays["attention"][layer][:, :n_tok])
        assert look is not None
        assert is_near(row[3], look.weight)
    tiles = found["All heads"].element.all("g")
    assert len(tiles) == attention.shape[0] * attention.shape[1]
    strongest = attention.max(axis=2).ravel()
    named = [tile.all("title")[0].text.partition(": ")[2].partition(" on ")[0] for tile in tiles]
    assert all(is_near(words, strongest[at]) for at, words in enumerate(named))

    # Layers and lens
    for row, lens, layer in zip(
        found["What each layer adds"].rows, found["The lens"].rows, said["layers"], strict=True
    ):
        assert is_near(row[1], layer["attention_share"])
        assert is_near(row[2], layer["ffn_share"])
        assert number(row[3]) == pytest.approx(layer["norm"], rel=NEAR)
        assert is_near(lens[2], layer["lens"]["probability"])

    # Who wrote it: the sum is the difference of two real scores
    rows = next(one.rows for name, one in found.items() if name.startswith("Who wrote"))
    values = {name: number(words) for name, words in rows}
    together = values.pop("all together")
    assert math.fsum(values.values()) == pytest.approx(together, abs=0.02)

    # Scores, before and after sampling
    scores = found["Scores and probabilities before sampling"].rows
    for row, best in zip(scores, said["next"], strict=False):
        assert number(row[2]) == pytest.approx(best["logit"], abs=0.1)
        assert is_near(row[3], best["probability"])
    assert [row[0] for row in scores][:1] == [visible(said["next"][0]["text"].encode())]
    stages = found["What sampling left"].rows[1:]
    assert [number(row[1]) for row in stages] == [stage.left for stage in token.stages]
    assert all(is_near(r[2], s.probability) for r, s in zip(stages, token.stages, strict=True))
    if found["The draw"].shapes("mark"):
        (mark,) = found["The draw"].shapes("mark")
        assert (float(mark["x"]) + 1) / 1000 == pytest.approx(token.uniform, abs=1e-3)
        (part,) = found["The draw"].shapes("now")
        start, width = float(part["x"]) / 1000, float(part["width"]) / 1000
        assert start - 1e-3 <= token.uniform <= start + width + 1e-3
        assert width == pytest.approx(token.stages[-1].probability, abs=2e-3)

    # What it costs
    loaded = room.desk.loader.loaded
    memory = {row[0]: row[1] for row in found["Memory"].rows}
    assert memory["this file"] == f"{gguf.stat().st_size / 1e6:.3g} MB"
    assert memory["16 bits for each parameter"] == f"{loaded.n_params * 2 / 1e6:.3g} MB"
    spans = reply.settings["timeline"]
    prefill = math.fsum(span[1] for span in spans if span[0] == "prefill")
    whole = math.fsum(span[1] for span in spans)
    time = {row[0]: row for row in found["Where the time went"].rows}
    assert is_near(time["Prefill"][2], prefill / whole)
