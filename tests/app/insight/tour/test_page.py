"""The page of a token: alone in the world, escaped, bounded, and true to its numbers."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings, strategies as st
from made_prompts import shown
from PySide6.QtSvg import QSvgRenderer
from read_page import Element, check_alone, pictures, read_page

from app.amounts import percent, time_text
from app.chat.tour.chapters import chapters
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import SURVIVED, StageEffect, TokenTrace
from app.engine.protocol.prompt_messages import ShownPart
from app.engine.protocol.stages import Dist, Temperature, TopK
from app.insight.inside.attention import hardest_look
from app.insight.inside.wrote import Contribution, Written
from app.insight.prompt.parts import tokens_of
from app.insight.time.timeline import Stretch
from app.insight.tour.facts import Fact, size
from app.insight.tour.page.layers import MOST_CELLS, MOST_HEADS, MOST_LAYERS, MOST_NUMBERS
from app.insight.tour.page.material import Entry, Head, Material, Passage, Run, Told
from app.insight.tour.page.page import PICTURES, STYLE, html_of
from app.insight.tour.page.words import FIRST_WORDS, LAST_WORDS
from ui.look.colors import DARK, LIGHT, Colors

N_LAYER, N_HEAD, N_EMBD, N_VOCAB = 4, 3, 70, 50
PIECES = (b"<s>", b"<user>", b"The", b" capital\n", b" of", b" is", b" Paris", b".")
AT = 6
IDS = (*range(AT), 17, 9)
NAN_LAYER = 1
WHEN = datetime(2026, 11, 29, 17, 5, tzinfo=UTC)
HEAD = Head("Where is Paris?", "SmolLM2 135M", WHEN)
MOST_BYTES = 1_000_000


def word(token_id: int) -> str:
    return f"w{token_id}"


def arrays_of(
    n_layer: int = N_LAYER, n_head: int = N_HEAD, n_tok: int = AT, n_embd: int = N_EMBD
) -> dict[str, Any]:
    source = np.random.default_rng(7)

    def floats(*shape: int) -> Any:
        return source.normal(size=shape).astype(np.float32)

    attention = source.dirichlet([0.4] * n_tok, (n_layer, n_head)).astype(np.float32)
    attention[NAN_LAYER] = np.nan
    ffn = floats(n_layer, n_embd)
    ffn[NAN_LAYER] = np.nan
    logits = floats(N_VOCAB)
    lens_ids = source.integers(0, N_VOCAB, (n_layer, 10)).astype(np.int32)
    lens_ids[-1, 0] = IDS[AT]
    return {
        "embedding": floats(n_embd),
        "attention": attention,
        "attn_out": floats(n_layer, n_embd),
        "ffn_out": ffn,
        "residual": floats(n_layer, n_embd),
        "logits": logits,
        "lens_ids": lens_ids,
        "lens_logits": -np.sort(-floats(n_layer, 10)),
        "lens_total": np.full(n_layer, 3.0, np.float32),
        "lens_target_ranks": np.arange(n_layer, dtype=np.int32)[::-1, None].copy(),
        "lens_target_logits": floats(n_layer, 1),
    }


def written_of(n: int = 14) -> Written:
    parts = [Contribution("embedding", 2.0), Contribution("FFN of layer 3", -1.5, Cut("ffn", 3))]
    parts += [Contribution(f"head {at} of layer 2", 1 / (at + 2)) for at in range(n - 2)]
    total = math.fsum(part.value for part in parts)
    return Written(17, 3, total + 0.25, total, tuple(parts), 0.25, N_LAYER, N_HEAD, (), {})


def token_of(piece: bytes = b" Paris", uniform: float = 0.3) -> TokenTrace:
    """Five candidates; top-k left three of them, which temperature 1 weighs 0.5 : 0.3 : 0.2."""
    chances = [0.4, 0.24, 0.16, 0.1, 0.06]
    return TokenTrace(
        index=0,
        token_id=17,
        piece=piece,
        logprob=math.log(0.4),
        rank=1,
        entropy=1.5,
        alternative_ids=Array.of("i4", [17, 3, 5, 8, 2]),
        alternative_logprobs=Array.of("f4", [math.log(chance) for chance in chances]),
        stages=[StageEffect("top-k", 3, 0.5), StageEffect("temperature", 3, 0.5),
                StageEffect("dist", 3, 0.5)],
        ms=20.0,
        removed_by=Array("u1", [5], bytes([SURVIVED] * 3 + [0, 0])),
        uniform=uniform,
        log_total=12.0,
    )  # fmt: skip


FACTS = {
    "token": Fact("·Paris", "·Paris"),
    "n_prompt": Fact(6, "6"),
    "choice": Fact(0.3, "0.30"),
    "kv_per_token": size(23_040),
    "kv_used": size(23_040 * 8),
    "kv_full": size(94_371_840),
    "size_at_16": Fact(269e6, "269 MB at 16 bits"),
    "size_at_8": Fact(134.5e6, "135 MB at 8 bits"),
    "size_at_4": Fact(67.25e6, "67.3 MB at 4 bits"),
    "file_size": size(98.3e6),
    "memory_total": size(16.8e9),
    "step_with": Fact(18.0, "18.0 ms"),
    "step_without": Fact(690.0, "690 ms"),
}

LINE = (
    Stretch("queued", 0.0, 10.0),
    Stretch("prefill", 10.0, 60.0, 6, 1, 6),
    Stretch("first", 70.0, 1.0, 1),
    Stretch("decode", 71.0, 29.0, 1, 1, 1),
)


def prompt_of(pieces: Sequence[bytes]) -> Any:
    n = len(pieces)
    parts = [ShownPart(0, 2, "scaffold"), ShownPart(2, n, "user")]
    return tokens_of(shown(parts, pieces))


@pytest.fixture
def material() -> Material:
    return Material(
        facts=FACTS,
        ids=IDS,
        pieces=PIECES,
        at=AT,
        word=word,
        n_prompt=AT,
        prompt=prompt_of(PIECES[:AT]),
        arrays=arrays_of(),
        written=written_of(),
        token=token_of(),
        index=0,
        stages=(TopK(3), Temperature(1.0), Dist()),
        n_vocab=N_VOCAB,
        stretches=LINE,
        token_ms=(1.0, 29.0),
    )


def told_of(*runs: Run) -> list[Told]:
    """All chapters with all of their steps; the first one says something."""
    said = iter([tuple(runs)])
    return [
        Told(each.title, tuple(Passage(step.name, next(said, ())) for step in each.steps))
        for each in chapters()
    ]


def page_of(material: Material, head: Head = HEAD, *runs: Run) -> Element:
    return read_page(html_of(head, told_of(*runs), (), material))


def lacks(page: Element) -> list[str]:
    return [each.text for each in page.all("p", "lack")]


# --- the page as a whole ------------------------------------------------------------------------


def test_every_picture_belongs_to_a_step() -> None:
    steps = {f"{n}/{step.name}" for n, each in enumerate(chapters(), 1) for step in each.steps}
    assert set(PICTURES) <= steps


def test_it_stands_alone(material: Material) -> None:
    page = page_of(material)
    check_alone(page)
    assert page.all("h1")[0].text == "Follow one token: “·Paris”"
    assert page.all("title")[0].text == page.all("h1")[0].text
    assert page.all("blockquote")[0].text == "Where is Paris?"
    assert "SmolLM2 135M · 2026-11-29 17:05" in page.text
    assert lacks(page) == []
    assert len(pictures(page)) == sum(map(len, PICTURES.values()))


def test_terms_lead_to_the_glossary_once(material: Material) -> None:
    runs = (Run("A "), Run("token", "token"), Run(", a "), Run("token", "token"), Run("."))
    html = html_of(HEAD, told_of(*runs), [Entry("token", "A piece of text.")], material)
    page = read_page(html)
    check_alone(page)
    links = page.all("a")
    assert [(link.text, link.attributes["href"]) for link in links] == [("token", "#term-token")]
    assert "A token, a token." in page.text
    assert [each.text for each in page.all("dt")] == ["token"]


def test_the_line_has_its_figures_and_dashes(material: Material) -> None:
    (line,) = page_of(material).all("ol", "line")
    figures = {e.all("small")[0].text: e.all("b")[0].text for e in line.all("li")}
    assert figures["Token"] == "·Paris"
    assert figures["Prompt"] == "6 tokens"
    assert figures["Choice"] == "drawn 0.30"
    assert figures["Logit"] == "–"


def test_what_is_not_known_is_a_sentence(material: Material) -> None:
    bare = Material({}, IDS[AT:], PIECES[AT:], 0, word, missing={"inside": "No model is loaded."})
    page = page_of(bare)
    check_alone(page)
    assert set(pictures(page)) == {"Tokens and their IDs"}
    assert "No model is loaded." in lacks(page)
    without = replace(material, arrays={}, missing={"attention": "It has no attention."})
    page = page_of(without)
    assert "It has no attention." in lacks(page)
    assert "All heads" not in pictures(page)


def test_colours_are_those_of_the_window() -> None:
    light, _, dark = STYLE.read_text("utf-8").partition("@media screen")
    for text, colors in ((light, LIGHT), (dark, DARK)):
        assert _color(text, "plane") == colors.chat
        assert _color(text, "card") == colors.card
        assert _color(text, "ink") == colors.ink
        assert _color(text, "dim") == colors.dim
        assert _color(text, "accent") == colors.accent
        assert _color(text, "second") == colors.second
        assert _color(text, "line") == colors.line
        assert _color(text, "hover") == colors.hover
        for name, full in _ORIGINS(colors).items():
            channels = [int(part) for part in _color(text, name).split(",")]
            assert "#" + "".join(f"{channel:02x}" for channel in channels) == full


def _ORIGINS(colors: Colors) -> dict[str, str]:  # noqa: N802 - a table
    return {
        "accent-rgb": colors.accent,
        "template": colors.from_template,
        "system": colors.from_system,
        "you": colors.from_you,
        "attachment": colors.from_attachment,
        "reply": colors.from_reply,
        "tool": colors.from_tool,
    }


def _color(text: str, name: str) -> str:
    found = re.search(rf"--{name}: ([^;]+);", text)
    assert found is not None, name
    return found[1]


# --- its numbers --------------------------------------------------------------------------------


def test_the_prompt_is_there_with_its_origins(material: Material) -> None:
    found = pictures(page_of(material))["The prompt"]
    words = [each for each in found.element.all("span") if "title" in each.attributes]
    assert [each.text for each in words] == [
        "<s>", "<user>", "The", "·capital↵", "·of", "·is"
    ]  # fmt: skip
    assert [each.attributes["class"] for each in words] == ["o-scaffold"] * 2 + ["o-user"] * 4
    assert words[3].attributes["title"] == "position 3, ID 103: you"
    assert found.rows == [["template", "2", percent(2 / 6)], ["you", "4", percent(4 / 6)]]
    assert found.bars == pytest.approx([100 * 2 / 6, 100 * 4 / 6], abs=1e-3)


def test_tokens_have_their_ids(material: Material) -> None:
    chips = page_of(material).all("ol", "chips")[0].all("li")
    told = [(e.all("b")[0].text, e.all("small")[0].text) for e in chips]
    assert told[AT] == ("·Paris", "17")
    assert [pair[1] for pair in told] == [str(each) for each in IDS]
    assert [e.attributes.get("class") for e in chips] == [None] * AT + ["now", None]


def test_the_vector_is_drawn_number_by_number(material: Material) -> None:
    found = pictures(page_of(material))["The vector of “·is”"]
    vector = material.arrays["embedding"]
    full = float(np.abs(vector).max())
    cells = sorted(
        (*((c, 1.0) for c in found.shapes("plus")), *((c, -1.0) for c in found.shapes("minus"))),
        key=lambda cell: (float(cell[0]["y"]), float(cell[0]["x"])),
    )
    drawn = [sign * float(cell["fill-opacity"]) * full for cell, sign in cells]
    assert drawn == pytest.approx(vector.tolist(), abs=full / 1000)
    said = found.element.all("p", "all")[0].text.replace("−", "-").split()
    assert [float(each) for each in said] == pytest.approx(vector.tolist(), rel=1e-3)
    assert f"{float(np.linalg.norm(vector)):.4g} long" in found.note


def test_attention_is_painted_as_it_is(material: Material) -> None:
    found = pictures(page_of(material))
    attention = material.arrays["attention"]
    mean = np.delete(attention, NAN_LAYER, 0).reshape(-1, AT).astype(np.float64).mean(0)
    picture = found["Where “·is” looks"]
    words = picture.element.all("span", "look")
    assert [w.attributes["title"] for w in words] == [
        f"position {at}: {percent(float(share))}" for at, share in enumerate(mean)
    ]
    strengths = [float(w.attributes["style"].removeprefix("--s:")) for w in words]
    assert strengths == pytest.approx([0.0, *(mean[1:] / mean[1:].max())], abs=1e-3)
    best = int(mean.argmax())
    assert picture.rows[0][1] == percent(float(mean[best]))
    assert picture.rows[0][0].endswith(f"(position {best})")
    looks = {at: look for at, rows in enumerate(attention) if (look := hardest_look(rows))}
    layer = max(looks, key=lambda at: looks[at].weight)
    head = found[f"Where head {looks[layer].head} of layer {layer} looks"]
    strongest = float(attention[layer, looks[layer].head].max())
    assert head.rows[0][1] == percent(strongest)


def test_every_head_is_a_tile(material: Material) -> None:
    found = pictures(page_of(material))["All heads"]
    attention = material.arrays["attention"]
    tiles = found.element.all("g")
    assert len(tiles) == (N_LAYER - 1) * N_HEAD
    drawn = np.zeros((N_LAYER, N_HEAD, AT))
    for cell in found.shapes("plus"):
        head, at = divmod(round(float(cell["x"])), AT + 1)
        drawn[int(float(cell["y"])), head, at] = float(cell["fill-opacity"])
    true = np.nan_to_num(attention)
    assert drawn == pytest.approx(np.where(true >= 0.01, true, 0.0), abs=6e-4)
    at = int(attention[2, 1].argmax())
    words = f"Layer 2, head 1: {percent(float(attention[2, 1, at]))} on"
    assert any(tile.all("title")[0].text.startswith(words) for tile in tiles)
    assert found.rows[NAN_LAYER] == [str(NAN_LAYER), "–", "–", "–"]
    for layer in (0, 2, 3):
        look = hardest_look(attention[layer])
        assert look is not None
        assert found.rows[layer][1] == str(look.head)
        assert found.rows[layer][3] == percent(look.weight)


def test_what_layers_add_is_length_by_length(material: Material) -> None:
    found = pictures(page_of(material))["What each layer adds"]
    arrays = material.arrays
    lengths = np.linalg.norm(arrays["residual"].astype(np.float64), axis=1)
    attn = np.linalg.norm(arrays["attn_out"].astype(np.float64), axis=1) / lengths
    ffn = np.linalg.norm(arrays["ffn_out"].astype(np.float64), axis=1) / lengths
    for layer in range(N_LAYER):
        second = "–" if layer == NAN_LAYER else percent(float(ffn[layer]))
        told = [str(layer), percent(float(attn[layer])), second, f"{lengths[layer]:.4g}"]
        assert found.rows[layer] == told
    full = max(np.nanmax(attn), np.nanmax(ffn))
    shares = [s for pair in zip(attn, ffn, strict=True) for s in pair if not math.isnan(s)]
    assert found.bars == pytest.approx([100 * s / full for s in shares], abs=1e-2)


def test_the_lens_tells_word_chance_and_rank(material: Material) -> None:
    found = pictures(page_of(material))["The lens"]
    arrays = material.arrays
    for layer, row in enumerate(found.rows):
        chance = min(math.exp(arrays["lens_logits"][layer, 0] - 3.0), 1.0)
        assert row == [
            str(layer),
            f"w{arrays['lens_ids'][layer, 0]}",
            percent(chance),
            str(N_LAYER - layer),
        ]
    assert str(N_LAYER - 1) in found.marked


def test_who_wrote_it_adds_up(material: Material) -> None:
    found = pictures(page_of(material))["Who wrote “w17” rather than “w3”"]
    written = material.written
    assert written is not None
    rows = {row[0]: float(row[1].replace("−", "-")) for row in found.rows}
    assert rows["embedding"] == 2.0
    assert rows["FFN of layer 3"] == -1.5
    assert rows["unexplained"] == 0.25
    assert rows["all together"] == pytest.approx(written.difference, abs=5e-4)
    others = math.fsum(part.value for part in written.contributions[12:])
    assert rows["2 others"] == pytest.approx(others, abs=5e-4)
    assert math.fsum(rows.values()) - rows["all together"] == pytest.approx(
        written.difference, abs=1e-2
    )
    styles = [bar.attributes["style"] for bar in found.element.all("i")]
    assert styles[:2] == ["margin-left:50%;width:50%", "margin-left:12.5%;width:37.5%"]


def test_scores_are_those_of_the_network(material: Material) -> None:
    found = pictures(page_of(material))["Scores and probabilities before sampling"]
    logits = material.arrays["logits"].astype(np.float64)
    chances = np.exp(logits) / np.exp(logits).sum()
    order = np.argsort(-logits)
    for rank, (row, token_id) in enumerate(zip(found.rows, order[:10], strict=False), 1):
        logit = f"{logits[token_id]:+.2f}".replace("-", "−")
        assert row == [f"w{token_id}", str(rank), logit, percent(float(chances[token_id]))]
    assert found.marked == ["w17"]


def test_without_the_network_scores_are_those_of_the_record(material: Material) -> None:
    found = pictures(page_of(replace(material, arrays={})))
    rows = found["Scores and probabilities before sampling"].rows
    assert rows[0] == ["w17", "1", f"{math.log(0.4) + 12:+.2f}", "40%"]
    assert [row[3] for row in rows] == ["40%", "24%", "16%", "10%", "6.0%"]


def test_the_draw_is_a_mark_on_what_was_left(material: Material) -> None:
    found = pictures(page_of(material))
    assert found["What sampling left"].rows == [
        ["before sampling", "–", "40%"],
        ["top-k", "3", "50%"],
        ["temperature", "3", "50%"],
        ["dist", "3", "50%"],
    ]
    draw = found["The draw"]
    assert draw.rows == [["w17", "40%", "50%"], ["w3", "24%", "30%"], ["w5", "16%", "20%"]]
    assert draw.marked == ["w17"]
    (own,) = draw.shapes("now")
    assert (float(own["x"]), float(own["width"])) == pytest.approx((0, 500), abs=0.1)
    assert [float(part["width"]) for part in draw.shapes("part")] == pytest.approx(
        [300, 200], abs=0.1
    )
    (mark,) = draw.shapes("mark")
    assert float(mark["x"]) + 1 == pytest.approx(300)
    assert "reaches from 0.0000 to 0.5000. The number 0.3000 fell on it." in draw.note


def test_a_draw_whose_mark_cannot_be_placed_says_why(material: Material) -> None:
    found = pictures(page_of(replace(material, token=token_of(uniform=0.9))))
    assert found["The draw"].shapes("mark") == []
    assert "The order of the candidates wasn't recorded." in found["The draw"].element.text


def test_time_is_where_it_went(material: Material) -> None:
    found = pictures(page_of(material))["Where the time went"]
    assert found.rows == [
        ["Queue", time_text(10), "10%", "–", "–"],
        ["Prefill", time_text(60), "60%", "6", "100.0"],
        ["First token", time_text(1), "1.0%", "1", "–"],
        ["Decode", time_text(29), "29%", "1", "34.5"],
    ]
    assert found.bars == pytest.approx([10, 60, 1, 29])
    drawn = [*found.shapes("l-waited"), *found.shapes("l-prefill"), *found.shapes("l-decode")]
    assert [float(each["x"]) for each in drawn] == [0, 100, 710, 700]
    assert [float(each["width"]) for each in drawn] == [100, 600, 290, 10]
    (mark,) = found.shapes("mark")
    assert (float(mark["x"]), float(mark["width"])) == (700, 10)
    assert f"came {time_text(71)} after the message" in found.note


def test_amounts_are_drawn_to_scale(material: Material) -> None:
    found = pictures(page_of(material))
    assert found["Memory"].rows == [
        ["16 bits for each parameter", "269 MB"],
        ["8 bits", "135 MB"],
        ["4 bits", "67.3 MB"],
        ["this file", "98.3 MB"],
        ["KV cache of a full context window", "94.4 MB"],
        ["memory of that computer", "16.8 GB"],
    ]
    amounts = [269e6, 134.5e6, 67.25e6, 98.3e6, 94_371_840, 16.8e9]
    assert found["Memory"].bars == pytest.approx([n / 168e6 for n in amounts], abs=1e-3)
    kept = found["What the KV cache takes"]
    assert [row[1] for row in kept.rows] == ["23 kB", "184 kB", "94.4 MB"]
    assert found["The next token"].rows == [
        ["with the KV cache", "18.0 ms"],
        ["without it", "690 ms"],
    ]


# --- hostile and large --------------------------------------------------------------------------

HOSTILE = ("<script>alert(1)</script>", "</style><img src=x onerror=1>", '" onload="x', "&lt;", "'")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_token_that_looks_like_markup_is_text(material: Material, text: str) -> None:
    _check_hostile(material, text)


@settings(max_examples=examples(40), deadline=None)
@given(text=st.text(st.characters(codec=None), min_size=1, max_size=40))
def test_whatever_it_says_the_page_is_whole(text: str) -> None:
    piece = text.encode("utf-8", "surrogatepass")
    source = Material(
        facts=FACTS, ids=IDS, pieces=PIECES, at=AT, word=word, n_prompt=AT,
        prompt=prompt_of(PIECES[:AT]), arrays=arrays_of(), written=written_of(),
        token=token_of(piece), index=0, stages=(TopK(3), Temperature(1.0), Dist()),
        n_vocab=N_VOCAB, stretches=LINE, token_ms=(1.0, 29.0),
    )  # fmt: skip
    _check_hostile(source, text)


def _check_hostile(material: Material, text: str) -> None:
    piece = text.encode("utf-8", "surrogatepass")
    pieces = (*PIECES[:2], piece, *PIECES[3:AT], piece, PIECES[-1])
    hostile = replace(
        material,
        facts={**FACTS, "token": Fact(text, text), "ending": Fact(text, text)},
        pieces=pieces,
        prompt=prompt_of(pieces[:AT]),
        word=lambda token_id: text,
        missing=dict.fromkeys(("written", "attn_out"), text),
        written=None,
    )
    head = Head(text, text, WHEN, (text,))
    runs = (Run(text), Run(text, text))
    html = html_of(head, told_of(*runs), [Entry(text, text)], hostile)
    html.encode("utf-8")
    page = read_page(html)
    check_alone(page)
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    shown = "".join(c if _is_text(c) else "\ufffd" for c in lines)
    assert page.all("blockquote")[0].text == shown
    assert page.all("dd")[0].text == shown


def _is_text(character: str) -> bool:
    """By the words of the HTML standard: no surrogate, noncharacter or control but white space."""
    code = ord(character)
    is_control = unicodedata.category(character) == "Cc" and character not in "\n\t"
    is_last_of_plane = code <= 0xFFFF and code & 0xFFFE == 0xFFFE
    return not (
        is_control or 0xD800 <= code < 0xE000 or 0xFDD0 <= code < 0xFDF0 or is_last_of_plane
    )


@pytest.mark.soak
def test_the_largest_page_is_bounded(material: Material) -> None:
    """A long text in a large network, of the longest words."""
    n_tok, n_layer, n_head = 3_000, 126, 128
    pieces = [b"\xf0\x9f\x8f\xb4" * 60] * (n_tok + 50)
    rich = arrays_of(n_layer, 2, n_tok, 16_384)
    rich["attention"] = np.tile(rich["attention"], (1, n_head // 2, 1))
    large = replace(
        material,
        ids=[3] * len(pieces),
        pieces=pieces,
        at=n_tok,
        n_prompt=n_tok,
        prompt=prompt_of(pieces[:n_tok]),
        arrays=rich,
        stretches=tuple(Stretch("decode", 2.0 * at, 2.0, 1, 1, 1) for at in range(512)),
        token_ms=[2.0] * 512,
    )
    html = html_of(HEAD, told_of(), (), large)
    assert len(html.encode()) < MOST_BYTES
    page = read_page(html)
    check_alone(page)
    found = pictures(page)
    assert len(found["All heads"].shapes("plus")) <= MOST_CELLS
    assert f"{MOST_LAYERS} of {n_layer} layers are shown" in found["All heads"].note
    assert f"The first {MOST_HEADS} of {n_head} heads are shown" in found["All heads"].note
    assert "Of 3,000 tokens the first and the last 31 are shown." in found["All heads"].note
    n_left_out = n_tok - FIRST_WORDS - LAST_WORDS
    assert f"{n_left_out:,} tokens left out" in found["The prompt"].element.text
    vector = next(each for name, each in found.items() if name.startswith("The vector"))
    assert f"The first {MOST_NUMBERS:,} of 16,384 numbers" in vector.note
    assert "112 shortest stretches aren’t drawn" in found["Where the time went"].note


def test_pictures_are_svg_that_others_can_draw(material: Material) -> None:
    html = html_of(HEAD, told_of(), (), material)
    drawn = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(drawn) == 4
    for svg in drawn:
        made = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
        renderer = QSvgRenderer(made.encode())
        assert renderer.isValid()
        width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', svg).groups())  # type: ignore[union-attr]
        box = renderer.viewBoxF()
        assert (box.width(), box.height()) == (width, height)
