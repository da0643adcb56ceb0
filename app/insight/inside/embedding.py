"""Vectors of tokens, compared and laid out: neighbours, analogies, a map of chosen words.

All cosines are of *centred* rows (the mean of the whole vocabulary taken off, see
`process/probe/answers/embedding.py`) and over all dimensions; the map is a picture of that, and
says how much of it is lost.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from app.engine.protocol.embedding_messages import NearestTokens
from app.engine.protocol.pieces import Pieces

Values = np.ndarray[Any, Any]

SAME_LENGTH: Final = 0.1
"""Where 98 % of all rows lie this close together, as a share of the median, length says nothing."""

_MULTIPLE: Final = 1e-3
"""What may be left, of a vector's length, where it is a multiple of another one."""


# --- spellings ----------------------------------------------------------------------------------


def spelling(text: str) -> str:
    """What the spellings of a word have in common: ` dog`, `Dog` and `DOG` are one.

    Spaces at both ends are dropped, compatibility forms (ﬁ, full width) resolved, capitals made
    small. What is spaces alone keeps its spelling.

    >>> [spelling(text) for text in (" dog", "DOG", "Dogs", ". ", " ")]
    ['dog', 'dog', 'dogs', '.', ' ']
    """
    return unicodedata.normalize("NFKC", text).strip().casefold() or text


def singular(text: str) -> str:
    """The same, with English plurals undone: ` dog`, `Dogs` and `dog's` are one.

    -ies → -y, -es behind a hiss, -s behind anything but s, u and i; 's, too. That folds a few words
    that are none (`news`); never two that differ elsewhere.

    >>> [singular(text) for text in ("Dogs", " Cities", "boxes", "class", "bus", "'s")]
    ['dog', 'city', 'box', 'class', 'bus', "'s"]
    """
    word = spelling(text)
    if not word[:1].isalpha():
        return word
    for ending in ("'s", "’s"):
        word = word.removesuffix(ending)
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and word[-2] not in "sui":
        return word[:-1]
    return word


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Tokens that spell one word, the nearest first. `rank` (from 0) and `cosine` are those of the
    first one. `is_input`: one of them was asked with; `is_variant`: none was, but it spells a word
    that was asked with in another way."""

    token_ids: tuple[int, ...]
    rank: int
    cosine: float
    is_input: bool = False
    is_variant: bool = False


def folded(
    token_ids: Sequence[int],
    cosines: Sequence[float],
    text_of: Callable[[int], str],
    inputs: Sequence[int] = (),
) -> tuple[Neighbour, ...]:
    """A ranking with the spellings of a word in one place; of a sum (several inputs) plurals stay
    apart, since they may be what it is about: dogs − dog + cat. Inputs stay where they are ranked:
    an analogy that ends at one of its own words is none, and leaving them out would hide that."""
    asked = set(inputs)
    fold = singular if len(asked) < 2 else spelling
    asked_words = {fold(text_of(token_id)) for token_id in inputs}
    places: dict[str, int] = {}
    found: list[Neighbour] = []
    for rank, (token_id, cosine) in enumerate(zip(token_ids, cosines, strict=True)):
        word = fold(text_of(token_id))
        at = places.setdefault(word, len(found))
        if at == len(found):
            found.append(Neighbour((), rank, float(cosine), is_variant=word in asked_words))
        old = found[at]
        is_input = old.is_input or token_id in asked
        found[at] = Neighbour(
            (*old.token_ids, token_id),
            old.rank,
            old.cosine,
            is_input,
            word in asked_words and not is_input,
        )
    return tuple(found)


def folded_words(
    told: NearestTokens, inputs: Sequence[int], words: Pieces | None
) -> tuple[Neighbour, ...]:
    """An answer of the engine, folded by what its tokens spell: those without words (the vocabulary
    isn't read, or it is a piece of a character) by their IDs."""

    def text_of(token_id: int) -> str:
        try:
            return f"ID {token_id}" if words is None else words.piece(token_id).decode()
        except UnicodeDecodeError:
            return f"ID {token_id}"

    ids, cosines = told.token_ids.numbers(), told.cosines.numbers()
    return folded(list(map(int, ids)), cosines, text_of, inputs)


def outcome(neighbours: Sequence[Neighbour]) -> Neighbour | None:
    """What an analogy gives: the first word that was not put in. None where there is no other."""
    others = (each for each in neighbours if not each.is_input and not each.is_variant)
    return next(others, None)


# --- lengths ------------------------------------------------------------------------------------


def is_length_telling(first: float, median: float, last: float) -> bool:
    """Whether the rows' lengths differ enough to say something; `first` and `last`: at 1 and 99 %.

    >>> is_length_telling(1.8, 3.1, 7.5), is_length_telling(1.02, 1.03, 1.05)
    (True, False)
    """
    return median > 0 and (last - first) / median > SAME_LENGTH


def lengths_said(first: float, median: float, last: float) -> str:
    """That in a sentence for a person."""
    if not median > 0:
        return "All vectors are zero."
    if is_length_telling(first, median, last):
        return f"98% of all vectors are {first:.2f} to {last:.2f} long; the median is {median:.2f}."
    return f"All vectors are about {median:.2f} long, so length says nothing here."


def input_scale(row: Values, entered: Values) -> float | None:
    """By how much a row of the file is multiplied before the first layer reads it (`entered`,
    measured): Gemma's by sqrt(n_embd), most by 1. None where it is no multiple, so that something
    was added (a learned position) or normalised.

    The scale that leaves least is s = (row · entered) ÷ (row · row).
    """
    own, other = row.astype(np.float64), entered.astype(np.float64)
    square, length = float(own @ own), float(np.linalg.norm(other))
    if not square > 0 or not length > 0:
        return None
    scale = float(own @ other) / square
    left = float(np.linalg.norm(other - scale * own))
    return scale if left <= _MULTIPLE * length else None


# --- words on a map -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WordMap:
    """`points` [n, 2]. `variance` [2]: the share of all variance that each axis shows. `neighbours`
    [n, k]: the nearest of the other words, by cosine in all dimensions, best first; `kept` [n]: the
    share of them that are among the k nearest on the map."""

    points: Values
    variance: Values
    neighbours: Values
    kept: Values

    @property
    def share_shown(self) -> float:
        """Of all variance."""
        return float(self.variance.sum())

    @property
    def share_kept(self) -> float:
        """Of all neighbours; 1 where there are none."""
        return float(self.kept.mean()) if self.kept.size else 1.0


def directions(rows: Values, mean: Values) -> Values:
    """Rows without the mean of the vocabulary, each one long, [n, d] float64. So their products are
    cosines, and the nearest by distance is the nearest by angle: ‖u − v‖² = 2 − 2 cos."""
    centred = rows.astype(np.float64) - mean
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    found: Values = np.divide(centred, lengths, out=np.zeros_like(centred), where=lengths > 0)
    return found


def word_map(rows: Values, mean: Values, k: int = 5) -> WordMap:
    """Lay out chosen words: `rows` [n, d] of the file, `mean` [d] of the whole vocabulary.

    The two axes are those along which *these* words differ most (principal components, from the
    singular values of their directions). Axes of the whole vocabulary would show what tells common
    tokens from rare ones, and keep half as many neighbours. An axis has no direction of its own:
    the word that lies farthest out is put on its positive side, so that the same words always give
    the same map. Takes n² · d steps.
    """
    units = directions(np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0), mean)
    n = len(units)
    points, variance = np.zeros((n, 2)), np.zeros(2)
    if n > 1:
        spread = units - units.mean(axis=0)
        left, sizes, _ = np.linalg.svd(spread, full_matrices=False)
        n_axes = min(2, len(sizes))
        points[:, :n_axes] = left[:, :n_axes] * sizes[:n_axes]
        farthest = points[np.abs(points).argmax(axis=0), [0, 1]]
        points *= np.where(farthest < 0, -1.0, 1.0)
        total = float((sizes**2).sum())
        if total > 0:
            variance[:n_axes] = sizes[:n_axes] ** 2 / total
    k = max(0, min(k, n - 1))
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    neighbours, shown = _nearest(-(units @ units.T), k), _nearest(apart, k)
    kept = np.ones(n)
    for word in range(n if k else 0):
        kept[word] = np.isin(neighbours[word], shown[word]).mean()
    return WordMap(points, variance, neighbours, kept)


def _nearest(distances: Values, k: int) -> Values:
    """[n, k]: the others with the smallest distances, of equal ones the earlier."""
    apart = distances.copy()
    np.fill_diagonal(apart, np.inf)
    found: Values = np.argsort(apart, axis=1, kind="stable")[:, :k]
    return found
