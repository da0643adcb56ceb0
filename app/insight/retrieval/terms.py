"""The words of a text as they are compared: without case, and without spaces where there are none.

    "The HARBOUR's 14 piers"    ->   the, harbour, harbo*, s, 14, piers
    "東京タワー"                  ->   東京, 京タ, タワ, ワー
    "Zürich"                    ->   zurich, zuric*

Accents, and the points of Arabic and Hebrew, are often left out by who asks; signs that are part of
a letter, as Devanagari's vowels or か and が, are not.

Chinese, Japanese, Thai and some others put no space between words. Of those every two neighbours
are a term: most words there have about two characters, and pairs that cross a border are rare
elsewhere. So are those of Hangul, whose particles are joined to the words: 서울 finds 서울은.

A word of more than five letters counts twice: as it stands, and by its first five letters. So
"harbours" in a question finds "harbour" in a text, in any language whose words bend at their end,
and the very word still counts for more. (McNamee and Mayfield, "Character N-Gram Tokenization for
European Language Text Retrieval", Information Retrieval 7, 2004: cutting words off does about as
well as a stemmer made for each language.)
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Final

STEM: Final = 5
UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_HANGUL: Final = "\uac00-\ud7a3"
_PAIRED: Final = UNSPACED + _HANGUL
_LETTER: Final = f"[^\\W{_PAIRED}]"


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What is left out, the soft hyphen among it; and words. Python's `\\w` has no marks."""
    marks = [c for c in map(chr, range(0x300, 0x20000)) if unicodedata.category(c)[0] == "M"]
    # Those with lower numbers are viramas, nuktas and the marks of kana.
    left_out = "".join(c for c in marks if unicodedata.combining(c) > 9)
    word = f"{_LETTER}+(?:[{''.join(marks)}]+{_LETTER}*)*"
    return re.compile(f"[\u00ad{left_out}]+"), re.compile(f"(?P<pairs>[{_PAIRED}]+)|{word}")


def terms(text: str) -> list[str]:
    """All terms, in order, as often as they stand there.

    >>> terms("Ｈarbours, 14")
    ['harbours', 'harbo*', '14']
    >>> terms("東京都")
    ['東京', '京都']
    """
    left_out, words = _patterns()
    if not text.isascii():
        bare = left_out.sub("", unicodedata.normalize("NFKD", text))
        text = unicodedata.normalize("NFC", bare)
    found: list[str] = []
    for match in words.finditer(text.casefold()):
        word = match.group()
        if match.lastgroup:
            found += [word[at : at + 2] for at in range(max(1, len(word) - 1))]
            continue
        found.append(word)
        if len(word) > STEM and word.isalpha():
            found.append(f"{word[:STEM]}*")
    return found
