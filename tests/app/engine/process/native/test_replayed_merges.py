"""The merges that are shown end in llama.cpp's own tokens, on both test files and on the rules by
which other vocabularies cut words."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as with_changes
from functools import lru_cache
from pathlib import Path

import pytest
from awkward_texts import AWKWARD
from examples import examples
from gguf_writer import (
    _BYTE_TO_UNICODE,
    Shape,
    Vocabulary as Written,
    bpe_vocabulary,
    spm_vocabulary,
    tiny_llama,
)
from hypothesis import HealthCheck, given, settings, strategies as st
from native_session import load_quietly

from app.engine.process.native.native import NativeLog
from app.engine.process.native.vocabulary import Vocabulary
from app.engine.process.native.weights import Weights
from app.engine.protocol.frames import clean_text
from app.gguf.vocabulary import (
    BYTE,
    CONTROL,
    UNKNOWN,
    USER_DEFINED,
    FileVocabulary,
    read_vocabulary,
)
from app.insight.tokenizer.merges import replay
from app.insight.tokenizer.word_split import KNOWN_RULES, split_words

pytestmark = pytest.mark.weights

MIXTURES = st.lists(st.sampled_from(AWKWARD), max_size=3).map("".join)
BYTE_OF = {character: byte for byte, character in _BYTE_TO_UNICODE.items()}
DENSE = "aA1 \t\n\r'sS.,-éß中٣🙂\u0301\u00a0\u2028"
ANY_TEXT = st.text(max_size=60) | st.text(alphabet=DENSE, max_size=40)


@pytest.fixture(scope="module")
def starter_file(starter_gguf: Path) -> FileVocabulary:
    return read_vocabulary(starter_gguf)


@pytest.fixture(scope="module")
def gemma_file(gemma_gguf: Path) -> FileVocabulary:
    return read_vocabulary(gemma_gguf)


@lru_cache(maxsize=2)
def controls_of(native: Vocabulary) -> frozenset[int]:
    return frozenset((native.attributes & 8).nonzero()[0].tolist())


def check(text: str, native: Vocabulary, file: FileVocabulary, *, special: bool) -> str:
    """The replay ends where llama.cpp ends, and spells the same bytes. How words were found."""
    text = clean_text(text)
    ids = native.tokenize(text, special=special)
    controls = controls_of(native)
    found = replay(text, ids, file, special=special, controls=controls)
    spelled = b"".join(map(native.piece, ids))
    parts = list(found.start)
    for step in found.steps:
        before = parts[step.at : step.at + step.taken]
        assert b"".join(part.data for part in before) == b"".join(part.data for part in step.into)
        parts[step.at : step.at + step.taken] = step.into
    assert [part.token_id for part in parts] == ids
    assert b"".join(part.data for part in found.start) == spelled
    assert b"".join(part.data for part in parts) == spelled
    return found.words_from


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("text", AWKWARD)
def test_the_replay_ends_in_the_same_ids(
    text: str,
    special: bool,
    starter: Weights,
    gemma: Weights,
    starter_file: FileVocabulary,
    gemma_file: FileVocabulary,
) -> None:
    assert check(text, starter.vocabulary, starter_file, special=special) == "rule"
    assert check(text, gemma.vocabulary, gemma_file, special=special) == "text"


@given(text=MIXTURES | ANY_TEXT, special=st.booleans())
@settings(max_examples=examples(150))
def test_any_text_ends_in_the_same_ids(
    text: str,
    special: bool,
    starter: Weights,
    gemma: Weights,
    starter_file: FileVocabulary,
    gemma_file: FileVocabulary,
) -> None:
    check(text, starter.vocabulary, starter_file, special=special)
    check(text, gemma.vocabulary, gemma_file, special=special)


def test_token_by_token_it_ends_there_too(starter: Weights, starter_file: FileVocabulary) -> None:
    """As for a rule that is not known."""
    unknown = with_changes(starter_file, pre="a rule of tomorrow")
    for text in AWKWARD[1:]:
        assert check(text, starter.vocabulary, unknown, special=True) == "tokens"


def test_4000_characters_without_a_space_are_replayed_within_two_seconds(
    gemma: Weights, gemma_file: FileVocabulary, starter: Weights, starter_file: FileVocabulary
) -> None:
    text = ("Donaudampfschifffahrt" * 200)[:4000]
    for native, file in ((gemma.vocabulary, gemma_file), (starter.vocabulary, starter_file)):
        begun = time.thread_time()
        check_ids = native.tokenize(text)
        found = replay(text, check_ids, file)
        assert time.thread_time() - begun < 2.0
        assert found.ids == check_ids


@pytest.mark.parametrize("which", ["starter", "gemma"])
def test_every_piece_leads_to_its_id_and_back(which: str, request: pytest.FixtureRequest) -> None:
    """piece → ID → piece over the whole vocabulary: the file's text of each ID leads to that ID
    alone, and spells the very bytes that llama.cpp gives for it."""
    native: Vocabulary = request.getfixturevalue(which).vocabulary
    file: FileVocabulary = request.getfixturevalue(f"{which}_file")
    assert len(file.tokens) == len(file.types) == native.n_vocab
    assert [file.ids[text] for text in file.tokens] == list(range(native.n_vocab))
    assert [
        token_id
        for token_id, text in enumerate(file.tokens)
        if native.piece(token_id) != spelled_out(text, file.types[token_id], file.model)
    ] == []


def spelled_out(text: str, kind: int, model: str) -> bytes:
    """A token's bytes by the rules of its file, written down here once more."""
    if kind == BYTE:
        return bytes.fromhex(text[3:5])
    if kind in (CONTROL, UNKNOWN, USER_DEFINED):
        return text.encode()
    if model == "llama":
        return text.replace("\u2581", " ").encode()
    return bytes(BYTE_OF[character] for character in text)


@pytest.mark.parametrize("which", ["starter", pytest.param("gemma", marks=pytest.mark.soak)])
def test_pieces_as_texts_are_tokenised_and_spelled_again(
    which: str, request: pytest.FixtureRequest
) -> None:
    native: Vocabulary = request.getfixturevalue(which).vocabulary
    file: FileVocabulary = request.getfixturevalue(f"{which}_file")
    for token_id in range(0, native.n_vocab, native.n_vocab // examples(2000)):
        piece = native.piece(token_id)
        if b"\xef\xbf\xbd" not in piece.decode(errors="replace").encode():
            assert check(piece.decode(), native, file, special=False) in ("rule", "text")


@contextmanager
def tiny(
    path: Path, vocabulary: Written, log: NativeLog, metadata: dict[str, bool] | None = None
) -> Iterator[tuple[Vocabulary, FileVocabulary]]:
    tiny_llama(path, vocabulary=vocabulary, shape=Shape(n_embd=64), metadata=metadata)
    weights = load_quietly(path, log, n_ctx=256, n_threads=1)
    try:
        yield weights.vocabulary, read_vocabulary(path)
    finally:
        weights.close()


@pytest.mark.parametrize("pre", KNOWN_RULES)
def test_words_are_cut_as_llama_cpp_cuts_them(
    pre: str, tmp_path: Path, native_log: NativeLog
) -> None:
    """In this vocabulary everything merges with everything in reach, so that only the borders of
    words stop it: tokens are words, as far as they are not longer than two characters."""
    letters = "aA1 \t\n'sS.,é中"
    pairs = [left + right for left in letters for right in letters]
    vocabulary = bpe_vocabulary(pairs, pre=pre)
    with tiny(tmp_path / "rule.gguf", vocabulary, native_log) as (native, file):

        @given(text=st.text(alphabet=letters, max_size=24))
        @settings(max_examples=examples(200), suppress_health_check=list(HealthCheck))
        def ends_by_the_rule(text: str) -> None:
            assert check(text, native, file, special=False) == "rule"
            assert "".join(split_words(text, pre) or ()) == text

        ends_by_the_rule()


@pytest.mark.parametrize("prefix", [None, True, False])
def test_sentencepiece_with_and_without_a_space_before_texts(
    prefix: bool | None, tmp_path: Path, native_log: NativeLog
) -> None:
    vocabulary = spm_vocabulary(user_defined=["<own>"], add_space_prefix=prefix)
    with tiny(tmp_path / "spm.gguf", vocabulary, native_log) as (native, file):
        for text in (*AWKWARD, "hello world<own> the capital<|im_end|>x"):
            for special in (False, True):
                assert check(text, native, file, special=special) == "text"


def test_sentencepiece_without_scores(tmp_path: Path, native_log: NativeLog) -> None:
    vocabulary = with_changes(spm_vocabulary(), scores=())
    with tiny(tmp_path / "unscored.gguf", vocabulary, native_log) as (native, file):
        for text in AWKWARD:
            assert check(text, native, file, special=False) == "text"


UNIGRAM_PIECES = {
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyzT▁.,", -8.0),
    "\u2581the": -3.0,
    "\u2581cap": -6.5,
    "ital": -6.0,
    "capital": -13.0,
    "\u2581capital": -12.6,
    "\u2581o": -5.0,
    "of": -5.5,
    "th": -7.0,
    "he": -6.0,
    "<own>": 0.0,
}


@pytest.mark.parametrize("keys", [{}, {"add_space_prefix": True}, {"remove_extra": True}])
def test_unigram_ends_there_too(
    keys: dict[str, bool], tmp_path: Path, native_log: NativeLog
) -> None:
    tokens = ["<pad>", "</s>", "<unk>", *UNIGRAM_PIECES]
    types = [CONTROL, CONTROL, UNKNOWN, *[1] * len(UNIGRAM_PIECES)]
    types[-1] = USER_DEFINED
    vocabulary = Written(
        model="t5",
        tokens=tokens,
        types=types,
        scores=[0.0, 0.0, 0.0, *UNIGRAM_PIECES.values()],
        eos_id=1,
        unk_id=2,
        add_space_prefix=keys.get("add_space_prefix"),
    )
    extra = {"tokenizer.ggml.remove_extra_whitespaces": True} if "remove_extra" in keys else {}
    with tiny(tmp_path / "unigram.gguf", vocabulary, native_log, extra) as (native, file):

        @given(
            text=st.text(alphabet="abcdefhilopt T.,é中\n", max_size=20)
            | st.lists(
                st.sampled_from(["the", " ", "capital", " capital", "of", "<own>", "</s>", "🙂"])
            ).map("".join),
            special=st.booleans(),
        )
        @settings(max_examples=examples(300), suppress_health_check=list(HealthCheck))
        def ends_by_the_best_sum(text: str, special: bool) -> None:
            ids = native.tokenize(text, special=special)
            found = replay(text, ids, file, special=special, controls=controls_of(native))
            assert (found.ids, found.words_from) == (ids, "sum")

        ends_by_the_best_sum()
