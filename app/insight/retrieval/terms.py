"""The words of a text as they are compared: without case, and without spaces where there are none.

    "The HARBOUR's 14 piers"    ->   the, harbour, harbo*, s, 14, piers
    "東京タワー"                  ->   東京, 京タ, タワ, ワー

Chinese, Japanese, Thai and some others put no space between words. Of those every two neighbours
are a term: most words there have about two characters, and pairs that cross a border are rare
elsewhere.

A word of more than five letters counts twice: as it stands, and by its first five letters. So
"harbours" in a question finds "harbour" in a text, in any language whose words bend at their end,
and the very word still counts for more. (McNamee and Mayfield, "Character N-Gram Tokenization for
European Language Text Retrieval", Information Retrieval 7, 2004: cutting words off does about as
well as a stemmer made for each language.)
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

STEM: Final = 5
UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_WORDS: Final = re.compile(f"(?P<unspaced>[{UNSPACED}]+)|(?P<word>[^\\W{UNSPACED}]+)")
_SOFT_HYPHEN: Final = "\u00ad"


def terms(text: str) -> list[str]:
    """All terms, in order, as often as they stand there.

    >>> terms("Ｈarbours, 14")
    ['harbours', 'harbo*', '14']
    >>> terms("東京都")
    ['東京', '京都']
    """
    plain = unicodedata.normalize("NFKC", text.replace(_SOFT_HYPHEN, "")).casefold()
    found: list[str] = []
    for match in _WORDS.finditer(plain):
        word = match.group()
        if match.lastgroup == "unspaced":
            found += [word[at : at + 2] for at in range(max(1, len(word) - 1))]
            continue
        found.append(word)
        if len(word) > STEM and word.isalpha():
            found.append(f"{word[:STEM]}*")
    return found
