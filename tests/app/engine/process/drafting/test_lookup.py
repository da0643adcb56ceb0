"""What a lookup proposes, against a search of the whole text by hand."""

from __future__ import annotations

from hypothesis import given, strategies as st

from app.engine.process.drafting.lookup import Chances, Lookup

IDS = st.lists(st.integers(0, 3), max_size=60)


def longest_match(ids: list[int]) -> int:
    """The longest run of last tokens, three to 32, that stands before as well."""
    ends = range(3, len(ids))
    return max((n for n in range(3, 33) for end in ends if _stands(ids, end, n)), default=0)


def _stands(ids: list[int], end: int, n: int) -> bool:
    return n <= end and ids[end - n : end] == ids[-n:]


@given(IDS, st.integers(0, 60), st.integers(1, 15))
def test_what_is_proposed_stood_behind_the_same_words(
    ids: list[int], split: int, most: int
) -> None:
    lookup = Lookup(ids[:split])
    for token_id in ids[split:]:
        lookup.feed(token_id)
    found = lookup.propose(most)
    assert len(lookup) == len(ids)
    assert bool(found) == bool(longest_match(ids))
    if found:
        said = [*ids, *found]
        assert len(found) == most
        assert any(
            said[end : end + most] == found and _stands(ids, end, 3) for end in range(3, len(ids))
        )


@given(IDS)
def test_of_several_places_the_one_with_the_longest_match_is_taken(ids: list[int]) -> None:
    assert Lookup(ids).length == longest_match(ids)


def test_a_place_is_followed_as_long_as_it_tells_right() -> None:
    lookup = Lookup([*range(20), 0, 1, 2])
    for token_id in range(3, 9):
        assert lookup.propose(2) == [token_id, token_id + 1]
        lookup.feed(token_id)
    assert lookup.length == 9
    lookup.feed(77)
    assert lookup.propose(2) == []


def test_chances_follow_what_came_true_by_length() -> None:
    chances = Chances()
    before = chances.of(3), chances.of(16)
    for _ in range(200):
        chances.learn(3, False)
        chances.learn(40, True)
    assert chances.of(3) < 0.1 < before[0]
    assert chances.of(16) > 0.95 > before[1]
