"""Every fact of the tour, in the window with both files, against what is worked out here once more:
llama.cpp's own scores and heads from a process that has nothing of the app, the arrays that
`main.py inside` saves, and the tensors as they lie in the file.
"""

from __future__ import annotations

import contextlib
import io
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from gguf import GGUFReader, GGUFValueType, LlamaFileType
from native_reading import NativeReading, native_reading
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QPushButton
from recurrent_gguf import tiny_mamba
from reference_weights import Weights
from small_networks import WINDOW, small_network

from app.command_line import inside
from app.engine.planning.host_memory import host_memory
from app.gguf.fingerprint import fast_hash
from app.gguf.header import read_header
from app.insight.inside.embedding import singular
from app.insight.inside.position import NO_POSITION
from app.insight.tour.names import NAMES
from ui.section.inside.panel import InsidePanel
from ui.tour.live_facts import LiveFacts

N_TOKENS: Final = 6
SETTINGS: Final = {"n_threads": 1, "seed": 7, "temperature": 0.8, "max_tokens": N_TOKENS}
QUESTION: Final = "What is the capital of France?"
TEXT: Final = "The capital of France is Paris, and the capital of Germany is"
LAYER, HEAD = 3, 1
CHUNK: Final = 16_384

ELSEWHERE: Final = {
    *("no_attention", "position_otherwise", "n_window_layers", "window", "n_reused"),
    "draft",
}
"""Facts of other files, and of a second reply."""
OF_TEMPLATE: Final = {"n_template"}


class Follower:
    """The window with one file, one reply, and its first token, all of whose facts are wanted."""

    def __init__(self, person: Any) -> None:
        self.person = person
        self.desk = person.app.desk
        acts = person.window.section_acts
        self.facts = LiveFacts(acts.looking(), self.desk, acts._bridge, person.window)
        self.looking = acts.looking()
        self.go_to: Callable[[str], None] = acts.go_to
        self.facts.follow(acts.section())

    @property
    def message(self) -> Any:
        return self.looking.message

    @property
    def panel(self) -> Any:
        return self.person.window.section_acts.section().panel()

    def wait(self, condition: Callable[[], Any]) -> None:
        self.person.qtbot.waitUntil(lambda: bool(condition()), timeout=20_000)

    def look(self, names: set[str]) -> None:
        """At the first token, with the panel Inside beside it."""
        self.facts.want(frozenset(names))
        self.wait(lambda: len(self.looking.traces))
        self.looking.select(0)
        self.go_to("Inside")
        assert isinstance(self.panel, InsidePanel)
        self.wait(lambda: (seen := self.panel.view.seen) is not None and seen.is_whole)

    def button(self, name: str) -> QPushButton:
        found: QPushButton = self.person.find(QPushButton, name)
        return found


@pytest.fixture
def ask(open_window: Any) -> Callable[[Path, bool], Follower]:
    """Opens the window with a file; a reply is written in a chat, or a text is continued."""

    def write(path: Path, is_chat: bool) -> Follower:
        person = open_window(None, "--gguf", str(path))
        desk = person.app.desk
        person.qtbot.waitUntil(lambda: desk.loader.state.state == "ready", timeout=60_000)
        for name, value in SETTINGS.items():
            desk.settings.set(name, value)
        if is_chat:
            desk.replies.send(QUESTION)
        else:
            person.click("new_text_button")
            person.qtbot.keyClicks(person.find(QPlainTextEdit, "text_document"), TEXT)
            person.click("continue_button")
        person.qtbot.waitUntil(
            lambda: person.reply() is not None and not desk.replies.is_generating, timeout=90_000
        )
        return Follower(person)

    return write


def shown(text: str) -> str:
    return text.replace(" ", "·").replace("\n", "↵")


@dataclass
class Truth:
    """`a`: what `main.py inside` saved. `ids` of the prompt; `target`: the first token written."""

    path: Path
    a: dict[str, np.ndarray[Any, Any]]
    native: NativeReading
    weights: Weights
    target: int

    @property
    def ids(self) -> list[int]:
        return [int(each) for each in self.a["token_ids"]]

    @property
    def order(self) -> np.ndarray[Any, Any]:
        return np.argsort(-self.native.logits, kind="stable")

    def piece(self, token: int) -> str:
        return shown(self.native.pieces[token].decode("utf-8", "replace"))

    def place(self, at: int) -> str:
        return self.piece(self.ids[at])


def truth_of(path: Path, is_chat: bool, target: int, folder: Path, others: list[int]) -> Truth:
    out = folder / "inside.npz"
    text = [QUESTION] if is_chat else [TEXT, "--raw"]
    options = ["--gguf", str(path), "--threads", "1", "--out", str(out)]
    with contextlib.redirect_stdout(io.StringIO()):
        assert inside.main([*text, *options]) == 0
    with np.load(out) as file:
        arrays = dict(file)
    ids = [int(each) for each in arrays["token_ids"]]
    wanted = {*ids, target, *others, *arrays["lens_ids"][:, 0].tolist()}
    wanted |= {int(each) for each in np.argsort(-arrays["logits"])[:2]}
    native = native_reading(
        path,
        texts=[QUESTION if is_chat else TEXT],
        prompt=ids,
        pieces=sorted(int(each) for each in wanted),
    )
    return Truth(path, arrays, native, Weights(path), target)


# --- worked out here ----------------------------------------------------------------------------


def of_attention(truth: Truth) -> dict[str, Any]:
    """By plain loops over all layers, heads and tokens."""
    rows = truth.a["attention"].tolist()
    n_head, n_tok = len(rows[0]), len(rows[0][0])
    every = [row for layer in rows for row in layer]
    mean = [math.fsum(row[at] for row in every) / len(every) for at in range(n_tok)]
    share, layer, head, at = max(
        (weight, -layer, -head, -at)
        for layer, heads in enumerate(rows)
        for head, row in enumerate(heads)
        for at, weight in enumerate(row)
        if at
    )
    chosen = rows[LAYER][HEAD]
    most = max(range(n_tok), key=chosen.__getitem__)
    looked_at = max(range(1, n_tok), key=mean.__getitem__)
    n_kv_head = truth.a["k_after"].shape[1]
    return {
        "n_head": n_head,
        "n_kv_head": n_kv_head,
        "n_heads": n_head * len(rows),
        "sink_share": mean[0],
        "looked_at": truth.place(looked_at),
        "look_head": f"head {-head} of layer {-layer}",
        "look_token": truth.place(-at),
        "look_share": share,
        "chosen_head": f"Head {HEAD} of layer {LAYER}",
        "chosen_token": truth.place(most),
        "chosen_share": chosen[most],
    }


def of_layers(truth: Truth) -> dict[str, Any]:
    best = truth.a["lens_ids"][:, 0].tolist()
    found: dict[str, Any] = {
        "n_layer": len(best),
        "chosen_layer": LAYER,
        "layer_best": truth.piece(best[LAYER]),
    }
    if best[-1] == truth.target:
        leads = next(at for at in range(len(best)) if set(best[at:]) == {truth.target})
        return {**found, "lead_layer": leads}
    rank = 1 + int((truth.native.logits > truth.native.logits[truth.target]).sum())
    found["end_rank"] = rank
    return {**found, "first_lead": best.index(truth.target)} if truth.target in best else found


def rank_after(truth: Truth, layer: int) -> int:
    """Of the token that came next, were `layer` the last one: the stream through the last norm and
    the output matrix, as the file has them."""
    stream = truth.a["residual"][layer].astype(np.float64)
    normed = _normed(truth, stream).astype(np.float32)
    name = _output(truth)
    scores = [
        truth.weights.matrix(name, (first, min(first + CHUNK, truth.weights.n_rows(name)))) @ normed
        for first in range(0, truth.weights.n_rows(name), CHUNK)
    ]
    every = np.concatenate(scores)
    return 1 + int((every > every[truth.target]).sum())


def _output(truth: Truth) -> str:
    return "output.weight" if "output.weight" in truth.weights else "token_embd.weight"


def _scale(truth: Truth, stream: np.ndarray[Any, Any]) -> float:
    epsilon = truth.weights.number("attention.layer_norm_rms_epsilon")
    return 1 / math.sqrt(float((stream * stream).mean()) + epsilon)


def _normed(truth: Truth, stream: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return stream * _scale(truth, stream) * truth.weights.tensor("output_norm.weight")


def of_heads(truth: Truth, other: int) -> dict[str, Any]:
    """Head by head: its slice of W_O times what it found, along the difference of both scores. A
    Gemma norms what attention wrote once more, with a scale of its own."""
    weights, heads = truth.weights, truth.native.heads.astype(np.float64)
    n_head = truth.a["attention"].shape[1]
    name = _output(truth)
    row, other_row = (weights.matrix(name, (at, at + 1))[0] for at in (truth.target, other))
    last = truth.a["residual"][-1].astype(np.float64)
    along = (row - other_row) * weights.tensor("output_norm.weight") * _scale(truth, last)
    wrote = np.zeros((len(heads), n_head))
    for layer, found in enumerate(heads):
        mixing = weights.tensor(f"blk.{layer}.attn_output.weight").astype(np.float64)
        direction = along
        post = f"blk.{layer}.post_attention_norm.weight"
        if post in weights:
            direction = along * weights.tensor(post) * _scale(truth, mixing @ found)
        shares = (direction @ mixing) * found
        wrote[layer] = shares.reshape(n_head, -1).sum(axis=1)
    layer, head = divmod(int(wrote.argmax()), n_head)
    return {
        "other": truth.piece(other),
        "top_head": f"head {head} of layer {layer}",
        "top_head_logits": float(wrote.max()),
    }


def n_said(truth: Truth) -> int:
    """Tokens of all messages: in ChatML what stands between a role's line and the next mark."""
    pieces = [truth.piece(token) for token in truth.ids]
    begins = [at + 3 for at, piece in enumerate(pieces) if piece == "<|im_start|>"]
    ends = [at for at, piece in enumerate(pieces) if piece == "<|im_end|>"]
    return sum(end - begin for begin, end in zip(begins, ends, strict=False))


def of_scores(truth: Truth) -> dict[str, Any]:
    logits, (best, second) = truth.native.logits, truth.order[:2]
    total = math.log(math.fsum(np.exp(logits - logits.max()))) + float(logits.max())
    lead = float(logits[best] - logits[second])
    return {
        "logit": float(logits[truth.target]),
        "probability": float(logits[truth.target]) - total,
        "rank": 1 + int((logits > logits[truth.target]).sum()),
        "best": truth.piece(int(best)),
        "second": truth.piece(int(second)),
        "lead": lead,
        "odds": math.exp(lead),
        "n_vocab": len(logits),
    }


def of_draw(truth: Truth, uniform: float) -> dict[str, Any]:
    """Top-k, top-p, min-p, temperature, one after the other in float64; the number that was drawn
    falls on the stretch of the token that was taken."""
    kept = [(float(truth.native.logits[at]), int(at)) for at in truth.order[:40]]

    def shares(kept: list[tuple[float, int]]) -> list[float]:
        weights = [math.exp(logit - kept[0][0]) for logit, _ in kept]
        return [weight / math.fsum(weights) for weight in weights]

    sums = list(accumulate(shares(kept)))
    kept = kept[: 1 + next(at for at, total in enumerate(sums) if total >= 0.95)]
    least = 0.05 * shares(kept)[0]
    kept = [each for each, share in zip(kept, shares(kept), strict=True) if share >= least]
    kept = [(logit / SETTINGS["temperature"], at) for logit, at in kept]
    drawn, sums = shares(kept), [0.0, *accumulate(shares(kept))]
    at = [token for _, token in kept].index(truth.target)
    assert sums[at] - 1e-3 <= uniform <= sums[at + 1] + 1e-3
    return {"n_left": len(kept), "draw_share": drawn[at], "temperature": 0.8, "top_k": 40} | {
        "top_p": 0.95,
        "seed": SETTINGS["seed"],
    }


class Reader(GGUFReader):
    """Passes over arrays: of a long vocabulary it makes a million small ones, and none is needed
    here."""

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], Any, Any]:
        if raw_type != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        kind, n_items = struct.unpack_from("<IQ", self.data, orig_offs)
        end = orig_offs + 12
        if kind == GGUFValueType.STRING:
            for _ in range(n_items):
                end += 8 + struct.unpack_from("<Q", self.data, end)[0]
        else:
            end += n_items * np.dtype(self.gguf_scalar_to_np[GGUFValueType(kind)]).itemsize
        return end - orig_offs, [], [], [GGUFValueType.ARRAY]


def of_file(truth: Truth, loaded: Any) -> dict[str, Any]:
    """From the table of tensors, as the package gguf reads it."""
    reader = Reader(truth.path)
    sizes = {each.name: int(each.n_elements) for each in reader.tensors}
    n_params, n_bytes = sum(sizes.values()), sum(int(each.n_bytes) for each in reader.tensors)
    in_ffns = sum(n for name, n in sizes.items() if ".ffn_" in name or "post_ffw" in name)
    number = truth.weights.number
    n_head, n_kv = int(number("attention.head_count")), int(number("attention.head_count_kv"))
    d_head = int(number("attention.key_length", number("embedding_length") / n_head))
    file_type = int(reader.fields["general.file_type"].contents())
    return {
        "n_params": n_params,
        "size_at_16": 2 * n_params,
        "size_at_8": n_params,
        "size_at_4": n_params / 2,
        "ffn_share": in_ffns / n_params,
        "bits_per_weight": 8 * n_bytes / n_params,
        "quantisation": LlamaFileType(file_type).name.removeprefix("MOSTLY_"),
        "file_size": truth.path.stat().st_size,
        "n_embd": int(number("embedding_length")),
        "n_pairs": int(number("rope.dimension_count", d_head)) // 2,
        "kv_per_token": int(number("block_count")) * n_kv * 2 * d_head * 2,
        "hash_loaded": fast_hash(read_header(truth.path)),
        "hash_now": fast_hash(read_header(truth.path)),
        "memory_total": host_memory()[1],
        "flash": "on" if loaded.flash_attention else "off",
        "n_slots": loaded.n_slots,
        "kv_full": sum(part.size_bytes for part in loaded.memory if part.what == "kv"),
    }


def of_reply(truth: Truth, text: str, message: Any, token: Any) -> dict[str, Any]:
    line = message.settings["timeline"]
    ms = {
        kind: math.fsum(row[1] for row in line if row[0] == kind) for kind in ("prefill", "decode")
    }
    n_prompt, n_decoded = len(truth.ids), N_TOKENS - 1
    read, written = n_prompt / ms["prefill"] * 1000, n_decoded / ms["decode"] * 1000
    return {
        "token": truth.piece(truth.target),
        "id": truth.target,
        "nth": 1,
        "n_bytes": len(truth.native.pieces[truth.target]),
        "token_bytes": " ".join(f"{each:02X}" for each in truth.native.pieces[truth.target]),
        "token_time": token.ms,
        "uniform": token.uniform,
        "choice": token.uniform,
        "read": truth.place(-1),
        "position": n_prompt - 1,
        "n_before": n_prompt - 1,
        "n_prompt": n_prompt,
        "n_message_tokens": len(truth.native.ids[0]),
        "n_message_words": len(text.split()),
        "n_reply": N_TOKENS,
        "prefill_speed": read,
        "decode_speed": written,
        "read_speedup": read / written,
        "ending": "it reached the token limit",
        "reply_time": message.counts.total_s,
    }


def is_nearest(truth: Truth, said: str, word_of: Callable[[int], str]) -> None:
    """No other word points more nearly the same way, all vectors taken from their mean."""
    name, own = "token_embd.weight", truth.ids[-1]
    n_rows = truth.weights.n_rows(name)
    chunks = [(first, min(first + CHUNK, n_rows)) for first in range(0, n_rows, CHUNK)]
    mean = sum(truth.weights.matrix(name, each).sum(axis=0, dtype=np.float64) for each in chunks)
    mean = (mean / n_rows).astype(np.float32)
    one = truth.weights.matrix(name, (own, own + 1))[0] - mean
    cosines = np.concatenate(
        [
            (rows @ one) / np.linalg.norm(rows, axis=1)
            for each in chunks
            for rows in [truth.weights.matrix(name, each) - mean]
        ]
    )
    order = np.argsort(-cosines)[:200]
    other = next(
        word for at in order if singular(word := word_of(int(at))) != singular(word_of(own))
    )
    assert shown(other) == said


EXACT_NUMBERS: Final = 1e-9
NEAR: Final = {
    **dict.fromkeys(("logit", "probability", "lead", "top_head_logits"), 0.05),
    **dict.fromkeys(("draw_share", "sink_share", "look_share", "chosen_share"), 5e-3),
}
"""How near: both processes round the factors of quantised products, in batches of their own."""


@pytest.mark.soak
@pytest.mark.weights
@pytest.mark.parametrize(
    ("name", "is_chat"),
    [("starter_gguf", True), ("gemma_gguf", False)],
)
def test_every_fact_is_what_was_measured(
    name: str,
    is_chat: bool,
    request: pytest.FixtureRequest,
    ask: Callable[[Path, bool], Follower],
    tmp_path: Path,
) -> None:
    path: Path = request.getfixturevalue(name)
    follower = ask(path, is_chat)
    live, looking = follower.facts, follower.looking
    follower.go_to("Cache")
    live.want(frozenset(NAMES))
    follower.wait(follower.button("measure_button").isEnabled)
    follower.button("measure_button").click()
    follower.wait(lambda: "cache_gain" in live.facts)
    follower.look(set(NAMES))
    view = follower.panel.view
    view.choose_head(LAYER, HEAD)
    next(card for card in follower.panel.cards if card.name == "machine").set_open(True)
    follower.wait(follower.button("inside_machine_flash").isEnabled)
    follower.button("inside_machine_flash").click()
    expected = set(NAMES) - ELSEWHERE - (set() if is_chat else OF_TEMPLATE)
    if "first_lead" not in live.facts:  # compared below with what the lens says
        expected -= {"first_lead"}
    expected -= {"end_rank" if "lead_layer" in live.facts else "lead_layer"}
    follower.wait(lambda: expected <= set(live.facts))
    found = live.facts
    assert set(found) == expected

    token = looking.traces[0]
    runner_up = next(v for v in view.votes.rows if v.token_id != token.token_id)
    truth = truth_of(path, is_chat, token.token_id, tmp_path, [runner_up.token_id])
    numbers = {
        **of_reply(truth, QUESTION if is_chat else TEXT, follower.message, token),
        **of_attention(truth),
        **of_layers(truth),
        **of_heads(truth, next(int(at) for at in truth.order if at != truth.target)),
        **of_scores(truth),
        **of_draw(truth, token.uniform),
        **of_file(truth, looking.loaded),
        "layer_rank": rank_after(truth, LAYER),
    }
    numbers["n_cells"] = numbers["n_prompt"] + N_TOKENS - 1  # nothing was read behind the last one
    numbers["kv_used"] = numbers["n_cells"] * numbers["kv_per_token"]
    if is_chat:
        numbers["n_template"] = numbers["n_prompt"] - n_said(truth)
    measured = {each for each in expected if each.startswith(("step_", "flash_", "cache_"))}
    assert set(numbers) | measured | {"nearest"} == expected
    off = {
        each: (found[each].value, value)
        for each, value in numbers.items()
        if not _is_near(each, found[each].value, value)
    }
    assert off == {}
    is_nearest(truth, found["nearest"].text, looking.words.text)
    assert found["cache_gain"].value == pytest.approx(
        float(found["step_without"].value) / float(found["step_with"].value)
    )
    words = follower.person.find(QLabel, "inside_machine_flash_words").text()
    assert f"differ by up to {found['flash_difference'].text}." in words
    cells = {label.text() for label in follower.panel.findChildren(QLabel)}
    assert {found["flash_on_time"].text, found["flash_off_time"].text} <= cells


def _is_near(name: str, found: float | str, value: float | str) -> bool:
    if isinstance(value, str) or isinstance(found, str):
        return found == value
    if name == "odds":
        return abs(math.log(float(found) / value)) < NEAR["lead"]
    if name == "layer_rank":  # of 49,152 scores some lie within rounding of each other
        return abs(found - value) <= max(1, 0.02 * value)
    return abs(found - value) <= NEAR.get(name, EXACT_NUMBERS * max(1.0, abs(value)))


# --- other files --------------------------------------------------------------------------------


def test_a_file_without_attention_says_so(
    ask: Callable[[Path, bool], Follower], tmp_path: Path
) -> None:
    tiny_mamba(tmp_path / "mamba.gguf")
    follower = ask(tmp_path / "mamba.gguf", False)
    follower.look({"no_attention", "position_otherwise", "n_pairs", "sink_share", "ffn_share"})
    live = follower.facts
    follower.wait(lambda: {"no_attention", "position_otherwise"} <= set(live.facts))
    assert live.facts["position_otherwise"].text == NO_POSITION
    assert live.facts["no_attention"].text == follower.panel.view.seen.missing["attention"]
    assert not {"n_pairs", "sink_share", "n_head", "look_head", "chosen_head"} & set(live.facts)


def test_layers_with_a_window_are_counted_once_the_text_is_longer(
    ask: Callable[[Path, bool], Follower], tmp_path: Path
) -> None:
    small_network(tmp_path / "window.gguf", "window")
    follower = ask(tmp_path / "window.gguf", False)
    follower.look({"n_window_layers", "window", "n_pairs", "position_otherwise"})
    live = follower.facts
    follower.wait(lambda: {"n_window_layers", "n_pairs"} <= set(live.facts))
    assert (live.facts["n_window_layers"].value, live.facts["window"].value) == (6, WINDOW)
    assert "position_otherwise" not in live.facts
