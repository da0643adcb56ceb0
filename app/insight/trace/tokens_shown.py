"""How tokens are shown: bytes made visible, tokens of one character joined, and their tints.

A token is bytes, and may be the middle of a character. So tokens are shown in groups: the fewest
that spell whole characters. Bytes that are no UTF-8 at all stand alone, as hexadecimal numbers.

    "Tür"    T · C3 · BC 72        one group per line:   "T"   "ür" (two tokens)
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Final, Literal, Protocol

from app.engine.protocol.messages import TokenTrace

Tint = Literal["probability", "rank", "entropy", "surprise", "time"]

TINTS: Final[dict[Tint, str]] = {
    "probability": "Probability before samplers",
    "rank": "Rank before samplers",
    "entropy": "Entropy before samplers",
    "surprise": "Surprise at the draw",
    "time": "Time",
}
"""What can be tinted, and its caption."""

UNKNOWN: Final = "—"
"""In the place of a figure that nobody measured."""
_VISIBLE: Final = {" ": "·", "\u00a0": "␣", "\n": "↵", "\r": "␍", "\t": "⇥"}
SIGNS: Final = frozenset((*_VISIBLE.values(), "⟨", "⟩"))
"""With what pieces are made visible."""
_LONE_SELECTORS: Final = re.compile(
    "(?:^|(?<=[\ufe00-\ufe0f\U000e0100-\U000e01ef]))[\ufe00-\ufe0f\U000e0100-\U000e01ef]+"
)
"""Variation selectors that stand behind no character."""
_INVISIBLE: Final = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"))
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_MOST_BITS: Final = 10.0
_MOST_RANK: Final = 1024
_SLOWEST: Final = 3.0


def begins_anew(piece: bytes) -> bool:
    """Whether what it begins with cannot go on with a character (UTF-8: 10xxxxxx does)."""
    return bool(piece) and piece[0] & 0xC0 != 0x80


def visible(data: bytes) -> str:
    """Bytes as text in which nothing is invisible: spaces, line ends, controls, broken bytes.

    >>> visible(b" a\\n"), visible(b"\\xff"), visible("\\u200b".encode())
    ('·a↵', '⟨FF⟩', '⟨U+200B⟩')
    """
    text = data.decode("utf-8", "surrogateescape")
    return _LONE_SELECTORS.sub(_codes, "".join(map(_visible_character, text)))


def _codes(found: re.Match[str]) -> str:
    return "".join(f"⟨U+{ord(character):04X}⟩" for character in found[0])


def _visible_character(character: str) -> str:
    if character in _VISIBLE:
        return _VISIBLE[character]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"⟨{code - 0xDC00:02X}⟩"
    if unicodedata.category(character) in _INVISIBLE:
        return f"⟨U+{code:04X}⟩"
    return character


def percent(logprob: float) -> str:
    """A probability in percent, with as many digits as tell it from 0.

    >>> percent(math.log(0.773)), percent(math.log(0.00012)), percent(-math.inf)
    ('77.3', '0.012', '0')
    """
    share = 100 * math.exp(min(logprob, 0.0)) if not math.isnan(logprob) else 0.0
    if share == 0:
        return "0"
    return f"{share:.1f}" if share >= 1 else f"{share:.2g}" if share >= 1e-4 else f"{share:.0e}"


def quoted(word: str) -> str:
    """
    >>> quoted("·Paris")
    '“·Paris”'
    """
    return f"“{word}”"


def hexadecimal(piece: bytes) -> str:
    """
    >>> hexadecimal(b" a")
    '20 61'
    """
    return piece.hex(" ").upper()


def safe_cell(text: str) -> str:
    """For a table that somebody opens in a spreadsheet: what would be a formula there is text.

    >>> safe_cell("=1+1"), safe_cell("a=1")
    ("'=1+1", 'a=1')
    """
    return f"'{text}" if text.startswith(_FORMULA) else text


def bits_text(bits: float | None) -> str:
    """
    >>> bits_text(1.5), bits_text(None)
    ('1.50', '—')
    """
    return UNKNOWN if bits is None or math.isnan(bits) else f"{max(0.0, bits):.2f}"


def rank_text(rank: int | None) -> str:
    """
    >>> rank_text(1200), rank_text(None)
    ('1,200', '—')
    """
    return f"{rank:,}" if rank else UNKNOWN


def surprise_at_draw(token: TokenTrace) -> float | None:
    """−log2 of the probability that the token had where it was drawn, in bits; None where the
    stages were not recorded."""
    if not token.stages or token.stages[-1].probability <= 0:
        return None
    return max(0.0, -math.log2(token.stages[-1].probability))  # in this order no −0


class Figures(Protocol):
    """What a token's trace says in numbers, whether it is made whole or only its row is read."""

    @property
    def logprob(self) -> float: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def entropy(self) -> float | None: ...
    @property
    def ms(self) -> float: ...


def strength(token: Figures, tint: Tint, usual_ms: float = 0.0) -> float | None:
    """How strongly a token is tinted, from 0 (sure, quick) to 1; None where it is not recorded.
    Surprise is known of a whole trace only.

    probability: 1 − p. rank: log2, full at 1,024. entropy and surprise: full at 10 bits. time:
    against the usual one, full at three times that.
    """
    value: float | None = None
    if tint == "probability":
        value = 1 - math.exp(min(token.logprob, 0.0))
    elif tint == "rank":
        value = math.log2(token.rank) / math.log2(_MOST_RANK) if token.rank else None
    elif tint == "entropy":
        value = None if token.entropy is None else token.entropy / _MOST_BITS
    elif tint == "surprise":
        bits = surprise_at_draw(token) if isinstance(token, TokenTrace) else None
        value = None if bits is None else bits / _MOST_BITS
    else:
        value = token.ms / (_SLOWEST * usual_ms) if usual_ms > 0 else None
    if value is None or math.isnan(value):
        return None
    return min(max(value, 0.0), 1.0)
