"""How a text is cut into words before a byte-level BPE merges anything.

A merge never crosses the border of a word. Where the borders are is a rule of the vocabulary's
makers: each has its own regular expression, and a GGUF names it (`tokenizer.ggml.pre`). The
expressions speak of letters (\\p{L}), numbers (\\p{N}) and white space. So each character first
becomes one letter for what it is, and the rule is an ordinary pattern over these:

    text     It's 1999, naïve  \\n
    kinds    aa.a 0000. aaaaa  n          a letter, 0 number, . other, n line end, space itself
    gpt-2    It|'s| 1999|,| naïve|  \\n
    smollm   It|'s| |1|9|9|9|,| naïve|  \\n      each digit alone

Only rules that are proved against llama.cpp are here; whoever meets another name has to take
the borders from elsewhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Final

_SPACES: Final = frozenset(
    "\t\v\f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
)
_CONTRACTION: Final = re.compile("'s|'t|'re|'ve|'m|'ll|'d")
_ANY_CONTRACTION: Final = re.compile("'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]")

# In each: words with what may stand before them, numbers, signs, then white space, of which the
# last one is left to the word behind it.
_GPT2: Final = re.compile(r" ?a+| ?0+| ?\.+|[ sn]+(?![^ sn])|[ sn]+")
_LLAMA3: Final = re.compile(r"[ s.]?a+|0{1,3}| ?\.+n*|[ sn]*n+|[ sn]+(?![^ sn])|[ sn]+")
_QWEN2: Final = re.compile(r"[ s.]?a+|0| ?\.+n*|[ sn]*n+|[ sn]+(?![^ sn])|[ sn]+")


def split_words(text: str, pre: str) -> list[str] | None:
    """The words of a text, which join to it again; None where the rule is not known.

    >>> split_words("It's 1999, naïve", "smollm")
    ['It', "'s", ' ', '1', '9', '9', '9', ',', ' naïve']
    >>> split_words("Hello", "a rule of tomorrow") is None
    True
    """
    rule = _RULES.get(pre)
    return None if rule is None else rule(text)


def _gpt2(text: str) -> list[str]:
    return _cut(text, _GPT2, _CONTRACTION)


def _digits_then_gpt2(text: str) -> list[str]:
    """Each number is a word of its own; what is between is cut as a text of its own."""
    numbers = re.compile("0")
    kinds, found, start = kinds_of(text), [], 0
    for number in numbers.finditer(kinds):
        found += _gpt2(text[start : number.start()])
        found.append(text[number.start() : number.end()])
        start = number.end()
    return found + _gpt2(text[start:])


def _llama3(text: str) -> list[str]:
    return _cut(text, _LLAMA3, _ANY_CONTRACTION)


def _qwen2(text: str) -> list[str]:
    return _cut(text, _QWEN2, _ANY_CONTRACTION)


def _cut(text: str, rule: re.Pattern[str], contraction: re.Pattern[str]) -> list[str]:
    """At each place the first alternative that fits: contractions are looked for first."""
    kinds, found, at = kinds_of(text), [], 0
    while at < len(text):
        match = contraction.match(text, at) or rule.match(kinds, at)
        end = at + 1 if match is None else match.end()
        found.append(text[at:end])
        at = end
    return found


def kinds_of(text: str) -> str:
    """
    >>> kinds_of("Ab 12, \\t\\n")
    'aa 00. sn'
    """
    return "".join(map(_kind, text))


@lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    if character in " ":
        return " "
    if character in "\r\n":
        return "n"
    if character in _SPACES:
        return "s"
    category = unicodedata.category(character)[0]
    return "a" if category == "L" else "0" if category == "N" else "."


_RULES: Final[dict[str, Callable[[str], list[str]]]] = {
    **dict.fromkeys(("gpt-2", "mpt", "olmo", "jais", "phi-2"), _gpt2),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"), _digits_then_gpt2
    ),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe"), _llama3),
    **dict.fromkeys(("qwen2", "stablelm2"), _qwen2),
}

KNOWN_RULES: Final = tuple(_RULES)
TAKES_WHOLE_WORDS: Final = frozenset(("llama3", "llama-v3", "llama-bpe"))
"""Where a word that is a token is taken whole, without a merge (llama.cpp's `ignore_merges`)."""
