"""Whether two files mean the same by a token's ID: compared by tokens and ends, not by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gguf_writer import Vocabulary, bpe_vocabulary, spm_vocabulary, tiny_llama

from app.gguf.vocabulary import VocabularyMark, difference, read_vocabulary

WORDS = bpe_vocabulary(["hello"])
IDS = "tokenizer.ggml.{}_token_id"


def mark(tmp_path: Path, vocabulary: Vocabulary = WORDS, **options: Any) -> VocabularyMark:
    path = tmp_path / "weights.gguf"
    tiny_llama(path, vocabulary=vocabulary, **options)
    return read_vocabulary(path).mark


def test_other_weights_with_the_same_tokens_are_the_same(tmp_path: Path) -> None:
    other = mark(tmp_path, seed=7, template=None, metadata={"general.name": "Another family"})
    assert difference(mark(tmp_path), other) == ""


@pytest.mark.parametrize(
    ("vocabulary", "metadata", "words"),
    [
        (spm_vocabulary(["hello"]), {}, "a different kind of tokeniser (llama)"),
        (bpe_vocabulary(["hello!"]), {}, f"{len(WORDS) + 1:,} tokens, not {len(WORDS):,}"),
        (bpe_vocabulary(["jello"]), {}, "different tokens"),
        (WORDS, {IDS.format("bos"): 3}, "a different begin token"),
        (WORDS, {IDS.format("eos"): 1}, "a different end token"),
        (WORDS, {IDS.format("eot"): 1}, "a different end-of-turn token"),
        (WORDS, {IDS.format("padding"): 1}, ""),
        (
            WORDS,
            {"tokenizer.ggml.add_bos_token": True},
            "different rules for start and end tokens",
        ),
    ],
)
def test_what_differs_is_named(
    tmp_path: Path, vocabulary: Vocabulary, metadata: dict[str, Any], words: str
) -> None:
    other = mark(tmp_path, vocabulary, metadata=metadata)
    assert difference(mark(tmp_path), other) == words


def test_real_files(starter_gguf: Path, gemma_gguf: Path) -> None:
    starter, gemma = read_vocabulary(starter_gguf).mark, read_vocabulary(gemma_gguf).mark
    assert difference(starter, starter) == difference(gemma, gemma) == ""
    assert difference(starter, gemma) == "a different kind of tokeniser (llama)"
    assert (starter.n_tokens, gemma.n_tokens) == (49_152, 262_144)
