"""Where mathematics begins and ends in Markdown: rules for markdown-it.

What must hold: money and shell variables are not mathematics. `\\(…\\)`, `\\[…\\]` always are;
`$…$` and `$$…$$` only if the dollars hug what is between them and that looks like a formula.

One symbol alone is one (`$n$`), one number alone is not (`$1$`, `$24000$`, `$0.60$`): small models
write prices that way, and a price without its dollar sign says something else, where a number in
the letters of the text loses nothing. Between `\\(` and `\\)` a number is a formula.

>>> [inline_formula(text, 0) for text in ("$x^2$", "$24000 or $40000", "$HOME and $x$")]
[('$', 'x^2', 5), None, None]
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

MAX_INLINE = 1000

_PAIRS = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}
_MONEY = re.compile(r"[\d\s.,:;%€£¥+\-–/()kKmMbB]*")
# A command, a script, a relation: what prose between two dollar signs hardly has.
_FORMULA = re.compile(
    r"\\[A-Za-z]|\\[,;!{}|]|[\^_=<>+*|≤≥≠≈∈×·∞√∑∫]|[A-Za-z)]\s*[-/]\s*[A-Za-z(]"
    r"|(?:\b[A-Za-z]|\))\s*[-/]\s*\d"
)
# What is a formula without any sign of one: x, 2x, f(x), AB, a, b, c, [0, 1], n!
_SYMBOL = re.compile(
    r"-?(?:\d*[A-Za-zα-ωΑ-Ω]'{0,3}!?|[A-Za-z]{2}|[A-Z]{3}|[A-Za-z]\([A-Za-z0-9, ]+\)"
    r"|[A-Za-z](?:, ?[A-Za-z])+|[\[(] ?[-\w.]+(?:, ?[-\w.]+)+ ?[\])])"
)
# Brackets that were only escaped: "\\[several words\\]".
_PROSE = re.compile(r"\s*[A-Za-z][a-z]{2,}(?: [A-Za-z][a-z]*)+[.,!?]?\s*")
_STARTS_WITH_NUMBER = re.compile(r"\s*[\d.]")
_STRONG = re.compile(r"\\[A-Za-z%]|[\^_=]")


def looks_like_formula(tex: str) -> bool:
    """Whether what stands between dollar signs is mathematics and not money or prose.

    >>> [looks_like_formula(t) for t in ("x", "n + 1", "n/2", "5", "20-30", "and got", "\\\\$0.60")]
    [True, True, True, False, False, False, False]
    """
    if "\\$" in tex or "`" in tex or _MONEY.fullmatch(tex):
        return False
    if _SYMBOL.fullmatch(tex.strip()):
        return True
    wanted = _STRONG if _STARTS_WITH_NUMBER.match(tex) else _FORMULA
    return wanted.search(tex) is not None


def inline_formula(text: str, start: int, end: int | None = None) -> tuple[str, str, int] | None:
    """The formula that begins at a position: its opening delimiter, TeX, where it ends."""
    end = len(text) if end is None else end
    opening = text[start : start + 2]
    if opening in _PAIRS:
        closing = _PAIRS[opening]
        stop = text.find(closing, start + 2, end)
        tex = text[start + 2 : stop]
        if stop < 0 or not tex.strip() or _PROSE.fullmatch(tex):
            return None
        if opening == "$$" and not looks_like_formula(tex):
            return None
        return opening, tex, stop + 2
    return _dollar_formula(text, start, end)


def _dollar_formula(text: str, start: int, end: int) -> tuple[str, str, int] | None:
    if text[start : start + 1] != "$" or (start and (text[start - 1].isalnum())):
        return None
    stop = start + 1
    while True:
        stop = text.find("$", stop, min(end, start + MAX_INLINE))
        if stop < 0:
            return None
        if text[stop - 1] != "\\":
            break
        stop += 1
    tex = text[start + 1 : stop]
    after = text[stop + 1 : min(stop + 2, end)]
    if not tex or tex[0].isspace() or tex[-1].isspace() or "\n" in tex:
        return None
    if after.isalnum() or after == "$" or not looks_like_formula(tex):
        return None
    return "$", tex, stop + 1


def money_end(text: str, start: int, end: int) -> int | None:
    """Where `$\\$0.60$` ends: money that somebody set as a formula stays as it is written."""
    match = re.compile(r"\$\\\$[\d.,\s]+\$").match(text, start, end)
    return match.end() if match else None


def use(markdown: MarkdownIt) -> None:
    """Teach a parser what mathematics is: tokens math_inline and math_block, TeX as content."""
    markdown.inline.ruler.before("escape", "math_inline", _inline_rule)
    markdown.block.ruler.before(
        "fence", "math_block", _block_rule, {"alt": ["paragraph", "blockquote", "list"]}
    )


def _inline_rule(state: StateInline, silent: bool) -> bool:
    start = state.pos
    if state.src[start] not in "$\\":
        return False
    found = inline_formula(state.src, start, state.posMax)
    if found is None:
        return _literal_run(state, silent)
    opening, tex, end = found
    if not silent:
        token = state.push("math_inline", "math", 0)
        token.content = tex
        token.markup = state.src[start:end]
        token.meta = {"is_display": opening in ("$$", "\\[")}
    state.pos = end
    return True


def _literal_run(state: StateInline, silent: bool) -> bool:
    """Delimiters that are no mathematics stand as they are written, escapes included."""
    start = state.pos
    end = money_end(state.src, start, state.posMax)
    opening = state.src[start : start + 2]
    if end is None and opening in _PAIRS:
        stop = state.src.find(_PAIRS[opening], start + 2, state.posMax)
        if stop < 0 and opening != "$$":
            end = start + 2
        elif stop > 0 and opening == "$$":
            end = stop + 2
    if end is None:
        return False
    if not silent:
        state.pending += state.src[start:end]
    state.pos = end
    return True


def _block_rule(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """A formula whose delimiters begin and end lines of their own, in any container."""
    if state.is_code_block(first):
        return False
    head = state.src[state.bMarks[first] + state.tShift[first] : state.eMarks[first]]
    opening = head[:2]
    if opening not in ("$$", "\\["):
        return False
    closing = _PAIRS[opening]
    lines = [head[2:]]
    line = first
    while closing not in lines[-1]:
        line += 1
        if line >= last or state.isEmpty(line) or state.sCount[line] < state.blkIndent:
            return False
        lines.append(state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]])
    tex, _, rest = "\n".join(lines).partition(closing)
    if rest.strip() or not tex.strip():
        return False
    if opening == "$$" and len(lines) == 1 and not looks_like_formula(tex):
        return False
    if silent:
        return True
    token = state.push("math_block", "math", 0)
    token.block = True
    token.content = tex
    token.markup = f"{opening}{tex}{closing}"
    token.map = [first, line + 1]
    state.line = line + 1
    return True
