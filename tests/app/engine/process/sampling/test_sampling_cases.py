"""Sampling's rows of the field cases (B10, B11, B12, B17), and the settings beside the chain."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from each import each
from gguf_writer import bpe_vocabulary, spm_vocabulary, tiny_llama
from native_session import GREEDY, NativeSession, load_quietly

from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.chain import Chain, NoCandidate, check
from app.engine.process.sampling.registry import biases_of
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.messages import Failed, Finished, Note, Summary
from app.engine.protocol.stages import (
    AdaptiveP,
    Dist,
    Dry,
    DynamicTemperature,
    Greedy,
    LogitBias,
    Mirostat,
    MirostatV2,
    Sampling,
    TokenBias,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)

pytestmark = pytest.mark.weights

NAN, INF = math.nan, math.inf
TEXTS: list[Any] = ["—", "🙂", "", "x" * 10_240, "a\0b", "\ud83d", 7, None, 1.5, b"x", ["x"], True]

# --- B17: every setting that is a text ------------------------------------------------------------


def text_settings(text: Any) -> dict[str, Sampling]:
    return {
        "filters[0].biases[0]": Sampling([LogitBias([TokenBias(text=text, bias=1.0)])]),
        "filters[0].breakers": Sampling([Dry(breakers=[text])]),
        "grammar": Sampling(grammar=text),
        "json_schema": Sampling(json_schema=text),
        "banned_strings[0]": Sampling(banned_strings=[text]),
    }


@pytest.mark.parametrize("field", text_settings("x"))
@pytest.mark.parametrize("text", TEXTS, ids=repr)
def test_every_text_is_taken_or_refused_in_words(
    field: str, text: Any, made_session: NativeSession, made: Weights
) -> None:
    """B17."""
    sampling = text_settings(text)[field]
    prompt = made.vocabulary.tokenize("Once")
    request = made_session.add(prompt, sampling, max_tokens=2)
    made_session.run()
    ending = made_session.ending(request)
    if isinstance(ending, Failed):
        assert ending.kind == "bad_setting"
        assert ending.evidence.startswith(field.split("[0]")[0])
        assert ending.sentence.endswith(".")
        assert len(ending.sentence) < 250
    else:
        assert text in ("—", "🙂", "") or field == "filters[0].biases[0]"
    assert made_session.reply(prompt, GREEDY, max_tokens=1).generated == 1


@pytest.mark.parametrize("text", ["—", "🙂", "x" * 10_240])
def test_every_stop_text_is_taken_or_refused(
    text: str, made_session: NativeSession, made: Weights
) -> None:
    """B17."""
    request = made_session.add(made.vocabulary.tokenize("Once"), max_tokens=2, stop=[text])
    made_session.run()
    assert isinstance(made_session.ending(request), Failed if len(text) > 4096 else Finished)


# --- nonsense numbers -----------------------------------------------------------------------------

NUMBERS: dict[str, Any] = {
    "filters[0].multiplier": lambda x: Sampling([Dry(multiplier=x)]),
    "filters[0].base": lambda x: Sampling([Dry(base=x)]),
    "filters[0].allowed_length": lambda x: Sampling([Dry(allowed_length=x)]),
    "filters[0].last_n": lambda x: Sampling([Dry(last_n=x)]),
    "filters[0].n": lambda x: Sampling([TopNSigma(x)]),
    "filters[0].p": lambda x: Sampling([Typical(x)]),
    "filters[0].min_keep": lambda x: Sampling([Typical(0.5, x)]),
    "filters[0].probability": lambda x: Sampling([Xtc(x)]),
    "filters[0].threshold": lambda x: Sampling([Xtc(0.5, x)]),
    "filters[0].t": lambda x: Sampling([DynamicTemperature(x)]),
    "filters[0].spread": lambda x: Sampling([DynamicTemperature(1.0, x)]),
    "filters[0].exponent": lambda x: Sampling([DynamicTemperature(1.0, 0.5, x)]),
    "filters[0].biases[0].bias": lambda x: Sampling([LogitBias([TokenBias(1, bias=x)])]),
    "filters[0].biases[0].token_id": lambda x: Sampling([LogitBias([TokenBias(x)])]),
    "select.tau": lambda x: Sampling([], Mirostat(tau=x)),
    "select.eta": lambda x: Sampling([], MirostatV2(eta=x)),
    "select.m": lambda x: Sampling([], Mirostat(m=x)),
    "select.target": lambda x: Sampling([], AdaptiveP(target=x)),
    "select.decay": lambda x: Sampling([], AdaptiveP(decay=x)),
    "min_tokens": lambda x: Sampling(min_tokens=x),
    "seed": lambda x: Sampling(seed=x),
}
NONSENSE: list[Any] = [NAN, INF, -INF, -1e9, 1e30, 10**400, "—", "", "9" * 10_240, True, [1], b"1"]


@each("field", NUMBERS)
@each("value", NONSENSE)
def test_nonsense_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(BadSetting) as caught:
        check(NUMBERS[field](value))
    assert caught.value.field == field
    assert caught.value.sentence.endswith(".")
    assert len(caught.value.sentence) < 200


@pytest.mark.parametrize(
    ("sampling", "field"),
    [
        (Sampling(ban_end_token=1), "ban_end_token"),  # type: ignore[arg-type]
        (Sampling([LogitBias([TokenBias(1, ban="yes")])]), "filters[0].biases[0].ban"),  # type: ignore[arg-type]
        (Sampling([LogitBias([TokenBias()])]), "filters[0].biases[0]"),
        (Sampling([LogitBias([TokenBias(1, "both")])]), "filters[0].biases[0]"),
        (Sampling([LogitBias(["—"])]), "filters[0].biases[0]"),  # type: ignore[list-item]
        (Sampling([LogitBias([TokenBias(1)] * 2000)]), "filters[0].biases"),
        (Sampling([Dry(breakers=["x"] * 100)]), "filters[0].breakers"),
        (Sampling([Dry(breakers="x")]), "filters[0].breakers"),  # type: ignore[arg-type]
        (Sampling(banned_strings="x"), "banned_strings"),  # type: ignore[arg-type]
        (Sampling(banned_strings=["x"] * 100), "banned_strings"),
        (Sampling([], TopP()), "select"),  # type: ignore[arg-type]
        (Sampling([Mirostat()]), "filters"),  # type: ignore[list-item]
        (Sampling([AdaptiveP(), TopK()]), "filters"),  # type: ignore[list-item]
    ],
    ids=range(13),
)
def test_wrong_shapes_are_refused(sampling: Sampling, field: str) -> None:
    with pytest.raises(BadSetting) as caught:
        check(sampling)
    assert caught.value.field == field
    assert len(caught.value.sentence) < 200


def test_bias_of_no_token_is_refused(made_session: NativeSession, made: Weights) -> None:
    n_vocab = made.vocabulary.n_vocab
    for token_id in (n_vocab, 2**31):
        request = made_session.add([1], Sampling([LogitBias([TokenBias(token_id, bias=1.0)])]))
        failed = made_session.ending(request)
        assert isinstance(failed, Failed)
        assert failed.evidence == "filters[0].biases[0].token_id"


# --- B10, B11, B12: how replies stop --------------------------------------------------------------


def test_stop_string_over_three_tokens_is_never_shown(
    session: NativeSession, starter: Weights
) -> None:
    """B10. Near misses are shown at the end."""
    prompt = starter.vocabulary.tokenize("The capital of France is")
    plain = session.reply(prompt, max_tokens=10)
    pieces = [t.token.piece.decode() for t in session.tokens(1)]
    stop = "".join(pieces[3:6]).strip()
    request = session.add(prompt, max_tokens=10, stop=[stop])
    session.run()
    ending = session.ending(request)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    assert ending.result.stop_reason == "stop_string"
    assert ending.result.stop_detail == stop
    assert stop not in session.streamed(request)
    assert session.streamed(request) == ending.result.text == plain.text[: plain.text.index(stop)]
    near = session.reply(prompt, max_tokens=10, stop=[plain.text[-7:] + "!"])
    assert near.text == plain.text == session.streamed(3)


def test_stop_by_text_and_by_id(tmp_path: Any, native_log: NativeLog) -> None:
    """B11. Both end the reply, and neither shows anything of the token."""
    vocabulary = bpe_vocabulary(["alpha", " beta"])
    alpha, beta = vocabulary.id_of("alpha"), vocabulary.id_of(" beta")
    path = tmp_path / "stops.gguf"
    tiny_llama(path, vocabulary=vocabulary, successors={alpha: beta, beta: alpha})
    weights = load_quietly(path, native_log, n_ctx=256, n_threads=1)
    session = NativeSession(weights, native_log)
    by_id = session.reply([alpha], max_tokens=9, stop_ids=[beta])
    assert (by_id.text, by_id.stop_reason, by_id.stop_detail) == ("", "stop_string", " beta")
    by_text = session.reply([alpha], max_tokens=9, stop=[" beta"])
    assert (by_text.text, by_text.stop_reason) == ("", "stop_string")
    refused = session.add([alpha], max_tokens=9, stop_ids=[weights.vocabulary.n_vocab])
    failed = session.ending(refused)
    assert isinstance(failed, Failed)
    assert failed.evidence == "stop_ids"
    weights.close()


def test_stop_by_the_text_of_a_control_token(made_session: NativeSession, made: Weights) -> None:
    """B11. The token is drawn, ends the reply, and its text appears nowhere."""
    text = next(t for t in made.vocabulary.control_texts if "im_start" in t)
    token_id = made.vocabulary.control_ids[text]
    push = LogitBias([TokenBias(token_id, bias=1000.0)])
    prompt = made.vocabulary.tokenize("Once")
    for fields in ({"stop": [text]}, {"stop_ids": [token_id]}):
        summary = made_session.reply(prompt, Sampling([push], Greedy()), max_tokens=5, **fields)
        assert (summary.text, summary.stop_reason, summary.generated) == ("", "stop_string", 0)
        assert summary.stop_detail == text


def test_endless_repetition_meets_hard_caps(tmp_path: Any, native_log: NativeLog) -> None:
    """B12. On tokens, on the context, and on time."""
    vocabulary = bpe_vocabulary(["alpha"])
    alpha = vocabulary.id_of("alpha")
    path = tmp_path / "loop.gguf"
    tiny_llama(path, vocabulary=vocabulary, successors={alpha: alpha})
    weights = load_quietly(path, native_log, n_ctx=256, n_threads=1)
    session = NativeSession(weights, native_log)
    assert session.reply([alpha], max_tokens=20).stop_reason == "max_tokens"
    full = session.reply([alpha])
    assert (full.stop_reason, full.context_used) == ("context_full", 256)
    began = time.perf_counter()
    request = session.add([alpha], deadline_s=0.05)
    while session.scheduler.has_work and time.perf_counter() - began < 20:
        time.sleep(0.01)  # a slow machine: the deadline comes before the context is full
        session.scheduler.step()
    ending = session.ending(request)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    assert ending.result.stop_reason == "deadline"
    weights.close()


# --- beside the chain -----------------------------------------------------------------------------


def test_smallest_length_and_banned_end_tokens(made_session: NativeSession, made: Weights) -> None:
    end = made.vocabulary.eos_id
    push = LogitBias([TokenBias(end, bias=1000.0)])
    prompt = made.vocabulary.tokenize("Once")
    assert made_session.reply(prompt, Sampling([push], Greedy()), max_tokens=8).generated == 0
    short = made_session.reply(prompt, Sampling([push], Greedy(), min_tokens=3), max_tokens=8)
    assert (short.generated, short.stop_reason) == (3, "end_token")
    never = made_session.reply(prompt, Sampling([push], Greedy(), ban_end_token=True), max_tokens=8)
    assert (never.generated, never.stop_reason) == (8, "max_tokens")
    assert not set(never.token_ids) & set(made.vocabulary.eog_ids)


def test_only_end_tokens_left_and_banned_fails_in_words(starter: Weights) -> None:
    n_vocab = starter.vocabulary.n_vocab
    scores = np.full(n_vocab, -np.inf, np.float32)
    scores[starter.vocabulary.eog_ids] = 1.0
    sampling = Sampling([], Greedy(), ban_end_token=True)
    chain = Chain(sampling, n_vocab=n_vocab, n_ctx=64, vocabulary=starter.vocabulary)
    with pytest.raises(NoCandidate) as caught:
        chain.draw(scores, Candidates(n_vocab))
    assert caught.value.evidence == "end-token-ban"
    chain.close()


def test_bias_by_text_means_every_token_of_it_as_written(starter: Weights) -> None:
    """Without variants: “cat” is not “ cat”. Control-token text is ordinary text here."""
    vocabulary = starter.vocabulary
    for text in ("cat", " cat", "—🙂", "<|im_start|>"):
        ids = vocabulary.tokenize(text)
        found = biases_of(LogitBias([TokenBias(text=text, bias=2.0)]), vocabulary)
        assert found == dict.fromkeys(ids, 2.0)
    assert not set(vocabulary.tokenize("<|im_start|>")) & set(vocabulary.control_ids.values())
    twice = LogitBias([TokenBias(5, bias=2.0), TokenBias(5, bias=-0.5), TokenBias(6, ban=True)])
    assert biases_of(twice, vocabulary) == {5: 1.5, 6: -math.inf}


@pytest.mark.parametrize("prefix", [True, False])
def test_bias_by_text_means_no_space_that_the_vocabulary_puts_before_it(
    prefix: bool, tmp_path: Path, native_log: NativeLog
) -> None:
    made = spm_vocabulary(["cat", " cat"], add_space_prefix=prefix)
    tiny_llama(tmp_path / "prefix.gguf", vocabulary=made)
    weights = load_quietly(tmp_path / "prefix.gguf", native_log, n_ctx=256, n_threads=1)
    assert (weights.vocabulary.tokenize("cat") == [made.id_of(" cat")]) == prefix
    for text in ("cat", " cat"):
        found = biases_of(LogitBias([TokenBias(text=text, ban=True)]), weights.vocabulary)
        assert list(found) == [made.id_of(text)]
    weights.close()


def test_ban_by_text_keeps_it_out(session: NativeSession, starter: Weights) -> None:
    prompt = starter.vocabulary.tokenize("The capital of France is")
    ban = LogitBias([TokenBias(text=" Paris", ban=True)])
    summary = session.reply(prompt, Sampling([ban], Greedy()), max_tokens=5)
    assert starter.vocabulary.tokenize(" Paris")[0] not in summary.token_ids


def test_settings_without_effect_are_noted(made_session: NativeSession, made: Weights) -> None:
    prompt = made.vocabulary.tokenize("Once")
    request = made_session.add(prompt, Sampling([TopP(1.0)], Dist(), seed=1), max_tokens=1)
    made_session.run()
    notes = [e for e in made_session.of(request) if isinstance(e, Note)]
    assert [(n.kind, n.sentence) for n in notes] == [
        ("no_effect", "Top-p 1 keeps every token, so it has no effect.")
    ]
    request = made_session.add(prompt, Sampling(seed=1), max_tokens=1)
    made_session.run()
    assert not [e for e in made_session.of(request) if isinstance(e, Note)]


def test_dry_samplers_are_kept_for_the_next_request(starter: Weights) -> None:
    """Looking for breakers goes through the whole vocabulary: once."""

    def seconds() -> float:
        began = time.perf_counter()
        sampling = Sampling([Dry(breakers=["\n", "once only"])])
        Chain(
            sampling, n_vocab=starter.vocabulary.n_vocab, n_ctx=64, vocabulary=starter.vocabulary
        ).close()
        return time.perf_counter() - began

    first = seconds()
    assert min(seconds() for _ in range(5)) < first / 2


def test_schema_of_ten_kilobytes_works(starter: Weights) -> None:
    """B17: long is not wrong."""
    schema = json.dumps({"enum": [f"value number {i}" for i in range(600)]})
    assert len(schema) > 10_000
    check(Sampling(json_schema=schema), starter.vocabulary)
