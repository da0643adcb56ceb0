"""Tokens that are found against looking at each piece by itself."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st
from made_words import made_pieces

from app.engine.protocol.pieces import Pieces
from app.insight.tokenizer import vocabulary_search
from app.insight.tokenizer.vocabulary_search import BREATH, WINDOW, as_bytes, parse_ids, search

TEXTS = ["a", "aa", "Aa", " a", "the", "re", "her", "ü", "Ü", "\n", "", "1", "12", "€", "e", "ab"]


def found(pieces: Pieces, query: str) -> list[int]:
    return [token_id for token_id in search(pieces, query) if token_id is not None]


@given(
    texts=st.lists(st.sampled_from(TEXTS), max_size=30),
    query=st.sampled_from(["a", "A", "aa", "Aa", "ere", "re", "ü", "Ü", " a", "€", "x", "th"]),
)
def test_each_piece_that_holds_the_text_is_found_once_and_in_order(
    texts: list[str], query: str
) -> None:
    pieces = made_pieces([text.encode() for text in texts])
    is_small = query == query.lower()
    assert found(pieces, query) == [
        token_id
        for token_id, text in enumerate(texts)
        if query in (text.lower() if is_small else text)
    ]


@given(
    texts=st.lists(st.sampled_from(TEXTS), max_size=30),
    query=st.sampled_from(["a", "A", "aa", "Aa", "ere", "re", "ü", "her", "the", "0x61", "12"]),
    size=st.integers(1, 9),
)
def test_where_the_row_is_cut_for_pauses_nothing_is_lost(
    texts: list[str], query: str, size: int
) -> None:
    pieces = made_pieces([text.encode() for text in texts])
    whole = found(pieces, query)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary_search, "WINDOW", size)
        assert found(pieces, query) == whole


def test_an_id_comes_first_and_only_once() -> None:
    pieces = made_pieces([b"0", b"1", b"11", b"x1"])
    assert found(pieces, "3") == [3]
    assert found(pieces, " 1 ") == [1]
    assert found(pieces, "1") == [1, 2, 3]
    assert found(pieces, "99") == []


def test_a_number_that_no_vocabulary_reaches_is_only_a_text() -> None:
    """Python refuses to read more than 4,300 digits."""
    assert found(made_pieces([b"7", b"77"]), "7" * 5000) == []
    assert found(made_pieces([b"a"] * 8), "0" * 5000 + "7") == [7]


def test_bytes_are_found_as_they_are() -> None:
    pieces = made_pieces([b"a", b"A", b"\xff", "€".encode(), b"\x82", b" \xe2\x82", b"0x41"])
    assert found(pieces, "0x41") == [1]
    assert found(pieces, "0x61") == [0]
    assert found(pieces, "0xFF") == [2]
    assert found(pieces, "E2 82") == [3, 5]
    assert found(pieces, "0xe2, 0x82") == [3, 5]


def test_spaces_and_line_ends_may_be_written_as_they_are_shown() -> None:
    pieces = made_pieces([b" the", b"the", b"\n", b"\xc2\xb7"])
    assert found(pieces, "·the") == [0]
    assert found(pieces, "↵") == [2]
    assert found(pieces, "·") == [0, 3]


def test_a_query_is_no_pattern() -> None:
    pieces = made_pieces([b".*", b"ab", b"(", b"[^"])
    assert found(pieces, ".*") == [0]
    assert found(pieces, "(") == [2]
    assert found(pieces, "[^") == [3]
    assert found(pieces, "") == []


@pytest.mark.parametrize(
    ("query", "data"),
    [("the", None), ("be", None), ("be ef", b"\xbe\xef"), ("0x0", None), ("0x", None), ("", None)],
)
def test_what_means_bytes(query: str, data: bytes | None) -> None:
    assert as_bytes(query) == data


N_TOKENS = 262_144
SLICE_S = 0.004


@pytest.fixture(scope="module")
def many_pieces() -> Pieces:
    return made_pieces([b"e%d" % at for at in range(N_TOKENS)])


@pytest.mark.parametrize("query", ["e", "e1", "zzqxqz", "Zzqxqz", "zz zz", "e" * 200])
def test_262144_tokens_are_searched_with_pauses(many_pieces: Pieces, query: str) -> None:
    """Between two moments to pause the window's thread is held for so long at most (processor
    seconds), also where nothing is found; in the whole the commonest letter takes less than a
    second."""
    pieces = many_pieces
    whole, longest, n_pauses, since = time.thread_time(), 0.0, 0, time.thread_time()
    for token_id in search(pieces, query):
        if token_id is None:
            now = time.thread_time()
            longest, since, n_pauses = max(longest, now - since), now, n_pauses + 1
    assert time.thread_time() - whole < 1.0
    assert n_pauses >= len(pieces.blob) // WINDOW
    assert n_pauses >= (N_TOKENS // BREATH if query == "e" else 0)
    assert longest < SLICE_S


@given(st.lists(st.integers(0, 10**6)), st.sampled_from([" ", ", ", ",", "\n", ";", "  "]))
def test_ids_are_read_as_they_were_written(ids: list[int], between: str) -> None:
    plain = between.join(map(str, ids))
    assert parse_ids(plain) == parse_ids(f"[{plain}]") == parse_ids(f"  ({plain}) ") == ids
    assert parse_ids(str(ids)) == ids


@pytest.mark.parametrize("text", ["1 two", "-1", "1.5", "٣", "0x20", "9" * 5000])
def test_what_is_no_id_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match="isn't an ID"):
        parse_ids(text)
