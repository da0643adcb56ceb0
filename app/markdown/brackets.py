"""Which brackets can be a link's: asked before markdown-it looks for its end.

For each `[`, markdown-it reads on to the bracket that closes it, and within that for each further
one: 50,000 `[` in a reply took half a second to show. Here all brackets of a paragraph are
matched once, in one pass, and a `[` that cannot begin a link is not read at all.

What must hold: a bracket is given up only where CommonMark could make nothing of it. So code,
addresses and what a backslash escapes is passed over, as CommonMark does; and in a text with
formulas, whose brackets need not match, nothing is given up unless it is brackets for the most
part; there also what is nested deeper than anybody writes is given up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline

    Rule = Callable[[StateInline, bool], bool]

DENSE = 64
"""So few brackets are read quickly, whatever they are."""
NO_FORMULAS = 400
"""So many in one paragraph (of at most 3,000 characters) are those of no formula."""
MAX_DEPTH = 20
"""Pictures in the labels of pictures: each is read once for every one around it."""

_HIDDEN = r"\\.|(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)|<[A-Za-z][A-Za-z0-9+.-]{1,31}:[^<>\s]*>"
_STEP = re.compile(rf"{_HIDDEN}|[\[\]]", re.DOTALL)


def use(markdown: MarkdownIt) -> None:
    """Lets the rules of links and images look only at brackets that may be theirs."""
    from markdown_it.rules_inline import image, link

    markdown.inline.ruler.at("link", _guarded(link, 0))
    markdown.inline.ruler.at("image", _guarded(image, 1))


def _guarded(rule: Rule, offset: int) -> Rule:
    """`offset`: where the rule's bracket stands behind its position (an image begins with `!`)."""

    def read(state: StateInline, silent: bool) -> bool:
        at = state.pos + offset
        if state.src[at : at + 1] != "[":
            return False
        has_references = bool(state.env.get("references"))
        if at not in (beginnings(state.src, has_references) or (at,)):
            return False
        return rule(state, silent)

    return read


@lru_cache(maxsize=16)
def beginnings(text: str, has_references: bool) -> frozenset[int] | None:
    """Where a `[` may begin a link or an image; None: anywhere.

    A link is `[…](…)`, or, where labels are defined, `[…][label]` or `[label]`; a label holds no
    bracket.

    >>> dense = "[" * 99 + "a](b)"
    >>> sorted(beginnings(dense, False)), beginnings("[a](b)", False)
    ([-1, 98], None)
    """
    number = text.count("[")
    if number <= DENSE or (number <= NO_FORMULAS and ("$" in text or "\\(" in text)):
        return None if "](" in text or has_references else frozenset((-1,))
    opened: list[tuple[int, int]] = []  # where, and how deep what it holds is nested so far
    found = [-1]
    last_opened = -1
    for step in _STEP.finditer(text):
        if step[0] == "[":
            last_opened = step.start()
            opened.append((last_opened, 0))
        elif step[0] == "]" and opened:
            start, depth = opened.pop()
            after = text[step.end() : step.end() + 1]
            is_label = has_references and (after == "[" or start == last_opened)
            if (after == "(" or is_label) and (depth < MAX_DEPTH or number <= NO_FORMULAS):
                found.append(start)
                depth += 1
            if opened:
                opened[-1] = (opened[-1][0], max(opened[-1][1], depth))
    return frozenset(found)
