"""The vocabulary as a file holds it: sound ones, odd ones, and how long a large one takes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from gguf_writer import Typed, bpe_vocabulary, spm_vocabulary, write_gguf

from app.gguf.refusal import HeaderRefused
from app.gguf.vocabulary import BYTE, NORMAL, read_vocabulary


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "weights.gguf"


def test_bpe_has_merges_and_ranks(path: Path) -> None:
    written = bpe_vocabulary(["hello"], pre="smollm")
    write_gguf(path, vocabulary=written)
    found = read_vocabulary(path)
    assert (found.model, found.pre) == ("gpt2", "smollm")
    assert found.tokens == tuple(written.tokens)
    assert found.types == bytes(written.types)
    assert found.merges == tuple(written.merges) == ("h e", "he l", "hel l", "hell o")
    assert found.ranks["hel l"] == 2
    assert found.rank_of_token[written.id_of("hell")] == 2
    assert found.rank_of_token[written.id_of("h")] == -1
    assert not found.add_space_prefix
    assert not found.scores


def test_sentencepiece_has_scores(path: Path) -> None:
    written = spm_vocabulary(["hello"])
    write_gguf(path, vocabulary=written)
    found = read_vocabulary(path)
    assert list(found.scores) == list(written.scores)
    assert found.types[found.ids["<0x0A>"]] == BYTE
    assert found.add_space_prefix
    write_gguf(path, vocabulary=spm_vocabulary(["hello"], add_space_prefix=False))
    assert not read_vocabulary(path).add_space_prefix


def test_whole_tokens_come_longest_first(path: Path) -> None:
    write_gguf(path, vocabulary=bpe_vocabulary(["x"], control=["<a>", "<long>"]))
    found = read_vocabulary(path)
    assert [found.tokens[i] for i in found.whole_ids] == ["<|endoftext|>", "<long>", "<a>"]


def test_lists_of_the_wrong_kind_or_length_count_as_none(path: Path) -> None:
    odd = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["a", "b", "a"],
        "tokenizer.ggml.token_type": Typed("array:i32", [99, -1]),
        "tokenizer.ggml.scores": Typed("array:f32", [1.0]),
        "tokenizer.ggml.merges": [1, 2],
    }
    write_gguf(path, metadata=odd)
    found = read_vocabulary(path)
    assert found.types == bytes([NORMAL] * 3)
    assert (list(found.scores), found.merges) == ([], ())
    assert found.ids == {"a": 2, "b": 1}, "of equal texts the last one, as in llama.cpp"


def test_a_damaged_file_is_refused(path: Path) -> None:
    write_gguf(path, vocabulary=bpe_vocabulary(["hello"]))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(HeaderRefused):
        read_vocabulary(path)


@pytest.mark.weights
def test_262144_tokens_are_read_within_four_seconds(gemma_gguf: Path) -> None:
    begun = time.thread_time()
    found = read_vocabulary(gemma_gguf)
    assert time.thread_time() - begun < 4.0
    assert len(found.tokens) == len(found.types) == len(found.scores) == 262_144
