"""Text to IDs and back, on the starter vocabulary and on made-up ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from gguf_writer import Vocabulary as FileVocabulary, bpe_vocabulary, spm_vocabulary, tiny_llama
from native_session import load_quietly

from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.vocabulary import Vocabulary
from app.engine.process.native.weights import Weights

pytestmark = pytest.mark.weights

AWKWARD = [
    "",
    " ",
    "\n\n\n",
    "  leading and trailing  ",
    "def f(x):\n\treturn x",
    "👩‍👩‍👧‍👦🇩🇪🙂",
    "模型是一个",
    "e\u0301 \u00e9",
    "a\u0000b",
    "Ünïcödé",
    "\r\n",
    "x" * 5000,
]


@pytest.fixture
def vocabulary(starter: Weights) -> Vocabulary:
    return starter.vocabulary


MakeVocabulary = Callable[[FileVocabulary], Vocabulary]


@pytest.fixture
def made_up(tmp_path: Path, native_log: NativeLog) -> Iterator[MakeVocabulary]:
    opened: list[Weights] = []

    def make(file_vocabulary: FileVocabulary) -> Vocabulary:
        path = tmp_path / f"tiny{len(opened)}.gguf"
        tiny_llama(path, vocabulary=file_vocabulary)
        opened.append(load_quietly(path, native_log, n_ctx=256))
        return opened[-1].vocabulary

    yield make
    for weights in opened:
        weights.close()


@pytest.mark.parametrize("text", AWKWARD, ids=range(len(AWKWARD)))
def test_pieces_of_a_text_are_its_bytes(vocabulary: Vocabulary, text: str) -> None:
    """B04, B19."""
    ids = vocabulary.tokenize(text)
    assert b"".join(vocabulary.piece(i) for i in ids) == text.encode()


@pytest.mark.parametrize("token_id", [-1, -(2**31), 10**6, 2**40])
def test_ids_that_are_none_have_no_piece(vocabulary: Vocabulary, token_id: int) -> None:
    with pytest.raises(IndexError):
        vocabulary.piece(token_id)


def test_special_parsing_only_where_asked(vocabulary: Vocabulary) -> None:
    text = "a<|im_end|>b"
    assert 2 in vocabulary.tokenize(text, special=True)
    assert 2 not in vocabulary.tokenize(text)
    pieces = b"".join(vocabulary.piece(i) for i in vocabulary.tokenize(text))
    assert pieces == text.encode()


def test_lone_surrogates_are_replaced(vocabulary: Vocabulary) -> None:
    """B18."""
    ids = vocabulary.tokenize("a\ud83d b")
    assert b"".join(vocabulary.piece(i) for i in ids).decode() == "a\ufffd b"


def test_control_tokens_and_ends(vocabulary: Vocabulary) -> None:
    assert vocabulary.control_ids["<|im_end|>"] == 2
    assert len(vocabulary.control_texts) == 17
    assert (vocabulary.bos_text, vocabulary.bos_id) == ("<|im_start|>", 1)
    assert (vocabulary.eos_text, vocabulary.eos_id) == ("<|im_end|>", 2)
    assert [i for i in range(100) if vocabulary.is_eog(i)] == vocabulary.eog_ids == [0, 2, 4]
    assert vocabulary.piece(2) == b"<|im_end|>"
    assert vocabulary.shown_piece(2) == b""
    assert vocabulary.shown_piece(500) == vocabulary.piece(500) != b""


def test_bos_is_added_once_where_asked(made_up: MakeVocabulary) -> None:
    spm = made_up(spm_vocabulary(["hello"], add_bos=True))
    assert spm.add_bos
    plain, with_bos = spm.tokenize("hello"), spm.tokenize("hello", add_bos=True)
    assert with_bos == [spm.bos_id, *plain]
    assert spm.bos_text == "<s>"
    bpe = made_up(bpe_vocabulary(["hello"], control=(), add_bos=False))
    assert not bpe.add_bos


@pytest.mark.parametrize(("add_bos", "add_eos"), [(False, True), (True, True), (True, False)])
def test_a_whole_text_has_the_ends_that_llama_cpp_gives_it(
    made_up: MakeVocabulary, *, add_bos: bool, add_eos: bool
) -> None:
    plain = bpe_vocabulary(["hello"], add_bos=add_bos)
    found = made_up(dataclasses.replace(plain, add_eos=add_eos))
    ids = (llama.llama_token * 16)()
    count = llama.llama_tokenize(found._handle, b"hello", 5, ids, 16, True, False)
    assert found.with_ends(found.tokenize("hello")) == list(ids[:count])


def test_user_defined_tokens_are_found_in_any_text(made_up: MakeVocabulary) -> None:
    found = made_up(bpe_vocabulary(["hello"], user_defined=["<tool>"]))
    (token_id,) = found.tokenize("<tool>", special=False)
    assert found.piece(token_id) == b"<tool>"
    assert "<tool>" not in found.control_texts


def test_reasoning_tags_are_shown_even_as_control_tokens(made_up: MakeVocabulary) -> None:
    control = ("<|im_start|>", "<think>", "</think>", "<|im_end|>")
    found = made_up(bpe_vocabulary(["hello"], control=control))
    think = found.control_ids["<think>"]
    assert found.shown_piece(think) == b"<think>"
    assert found.shown_piece(found.control_ids["<|im_start|>"]) == b""


def test_bytes_that_are_no_tokens_of_their_own(made_up: MakeVocabulary) -> None:
    found = made_up(spm_vocabulary(["hello"]))
    ids = found.tokenize("🙂")
    data = b"".join(found.piece(i) for i in ids)
    assert data.lstrip(b" ") == "🙂".encode()
    assert len(ids) >= 4


def test_table_holds_every_piece(vocabulary: Vocabulary) -> None:
    table = vocabulary.table()
    offsets = np.frombuffer(table.offsets.check().data, "<i8")
    attributes = np.frombuffer(table.attributes.check().data, "<i4")
    assert len(offsets) == vocabulary.n_vocab + 1
    assert offsets[-1] == len(table.blob)
    for token_id in (0, 2, 28_120, 49_151):
        piece = table.blob[offsets[token_id] : offsets[token_id + 1]]
        assert piece == vocabulary.piece(token_id)
    assert attributes[2] & 8
    assert not attributes[500] & 8


def test_every_piece_goes_back_to_an_id_with_the_same_bytes(vocabulary: Vocabulary) -> None:
    for token_id in range(100, vocabulary.n_vocab, 997):
        piece = vocabulary.piece(token_id)
        try:
            text = piece.decode()
        except UnicodeDecodeError:
            continue
        ids = vocabulary.tokenize(text)
        assert b"".join(vocabulary.piece(i) for i in ids) == piece
