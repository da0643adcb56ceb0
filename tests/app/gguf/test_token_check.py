"""Tokens with the same text are refused before llama.cpp aborts at them.

That it does is tried by `make soak`, in forks: an abort takes it seconds.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gguf_writer import Vocabulary, bpe_vocabulary, spm_vocabulary, tiny_llama
from hostile_native import ends_well

from app.gguf import token_check
from app.gguf.token_check import TOKENS_KEY, read_for_load
from app.refusal import Refusal

SPM, BPE = spm_vocabulary(), bpe_vocabulary()
N = len(SPM)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "weights.gguf"


def with_last(vocabulary: Vocabulary, *texts: str) -> Vocabulary:
    """The last tokens have these texts."""
    return replace(vocabulary, tokens=[*vocabulary.tokens[: -len(texts)], *texts])


BAD = [
    (with_last(SPM, "same", "same"), f"“same” twice (IDs {N - 2} and {N - 1})"),
    (with_last(SPM, "<s>"), f"“<s>” twice (IDs 1 and {N - 1})"),
    (with_last(BPE, "same", "same"), f"“same” twice (IDs {len(BPE) - 2} and {len(BPE) - 1})"),
    (with_last(SPM, "same\0one", "same\0two"), "“same” twice"),
    (with_last(SPM, f"[EMPTY_{N - 1}]", ""), f"“[EMPTY_{N - 1}]” twice"),
]
GOOD = [SPM, BPE, with_last(SPM, "", ""), with_last(SPM, "\0one", "\0two")]


@pytest.mark.parametrize(("vocabulary", "words"), BAD)
def test_two_with_the_same_text_are_refused_before_a_load(
    path: Path, vocabulary: Vocabulary, words: str
) -> None:
    tiny_llama(path, vocabulary=vocabulary)
    with pytest.raises(Refusal) as refused:
        read_for_load(str(path))
    assert words in refused.value.sentence


NO_FIT = [
    (replace(BPE, model="llama"), "lacks tokens for 162 of the 256 bytes"),
    (spm_vocabulary(byte_tokens=False), "of the 256 bytes"),
    (replace(SPM, model="bert"), "tokens for single bytes"),
    (
        replace(bpe_vocabulary([]), model="bert", tokens=BPE.tokens[:90], types=BPE.types[:90]),
        "the separator",
    ),
]
"""Each with the model of another kind of vocabulary, or without what its model needs."""


@pytest.mark.parametrize(("vocabulary", "words"), NO_FIT)
def test_a_model_that_does_not_fit_its_tokens_is_refused(
    path: Path, vocabulary: Vocabulary, words: str
) -> None:
    tiny_llama(path, vocabulary=vocabulary)
    with pytest.raises(Refusal) as refused:
        read_for_load(str(path))
    assert words in refused.value.sentence


@pytest.mark.parametrize("vocabulary", GOOD)
def test_others_are_taken(path: Path, vocabulary: Vocabulary) -> None:
    tiny_llama(path, vocabulary=vocabulary)
    assert read_for_load(str(path)).array_counts[TOKENS_KEY] == len(vocabulary)


@pytest.mark.weights
@pytest.mark.soak
def test_llama_cpp_takes_and_aborts_as_is_said(path: Path) -> None:
    for vocabulary in [*GOOD, *(bad for bad, _ in BAD)]:
        tiny_llama(path, vocabulary=vocabulary)
        assert ends_well(path) == (vocabulary in GOOD), vocabulary.tokens[-2:]


def test_more_than_any_real_vocabulary_is_not_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_llama(path, vocabulary=with_last(SPM, "same", "same"))
    monkeypatch.setattr(token_check, "MAX_COUNT", N - 1)
    assert read_for_load(path).array_counts[TOKENS_KEY] == N
