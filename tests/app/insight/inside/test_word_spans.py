"""Words of tokens, and two of them that can change places."""

from __future__ import annotations

import random

from app.insight.inside.word_spans import MOST_TOKENS, last_words, words_of


def test_every_token_is_in_one_word() -> None:
    chance = random.Random(2)
    for _ in range(50):
        pieces = [chance.choice([" a", "b", ".", " ", "9", "", " long"]) for _ in range(40)]
        spans = words_of(pieces)
        assert [token for span in spans for token in range(*span)] == list(range(40))
        for first, end in spans:
            assert end - first <= MOST_TOKENS
            assert all(not piece.startswith(" ") for piece in pieces[first + 1 : end])


def test_a_script_without_spaces_is_not_one_word() -> None:
    assert len(words_of(list("東京都の人口は約千四百万人"))) == 13


def test_words_to_exchange_are_long_different_and_before_the_last() -> None:
    assert last_words(["a", " b", " c"]) == ((0, 1), (1, 2))
    assert last_words([" same", " same", " end"]) is None
    assert last_words([" long", " word", " lo", "ng", ".", " x"]) == ((1, 2), (2, 4))
    assert last_words([" alone"]) is None
    assert last_words([]) is None
