"""Characters that nobody sees and every model reads: where they are, and what is shown for them.

Text that is pasted, or that a model writes, can carry a second text: Unicode's tag characters
(U+E0000 to U+E007F) spell ASCII without a width, and a row of variation selectors or of spaces
without a width spells bytes. A message then costs twice the tokens that its letters do, and may
say something else to the model than to the person.

What must hold: what is shown has as many UTF-16 units as the text, so that positions, and so
selection and copy, stay those of the source; and what languages and emoji are written with is no
hidden text: the flags of England, Scotland and Wales, one selector behind its character, one
joiner or one break between two letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ui.widgets.utf16 import utf16_length

MARK: Final = "□"
"""Stands for a whole run of them."""
_FILL: Final = "\u2060"
_TAGS: Final = "\U000e0000-\U000e007f"
_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_WITHOUT_WIDTH: Final = "\u200b-\u200d\u2060-\u2064\ufeff"
_FLAG: Final = re.compile("\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f")
_RUN: Final = re.compile(
    f"\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f|[{_TAGS}]+"
    f"|(?<=[{_SELECTORS}])[{_SELECTORS}]+"
    f"|[{_WITHOUT_WIDTH}]{{4,}}|[\u202d\u202e]"
)
"""A flag comes first, to be passed over. The last two turn the order of what follows around."""


def runs(text: str) -> Iterator[tuple[int, int]]:
    """Where each stretch of hidden characters begins and ends.

    >>> list(runs("a\U000e0041\U000e0042b")), list(runs("\U0001f3f4\U000e0067\U000e007f"))
    ([(1, 3)], [])
    """
    if text.isascii():
        return
    for found in _RUN.finditer(text):
        if _FLAG.fullmatch(found[0]) is None:
            yield found.span()


def note(text: str) -> str:
    """What to say of a message whose text holds hidden characters; "" of all others.

    >>> note("Hi\U000e0041\U000e0042")
    'Contains 2 invisible characters (□) that the model can read'
    >>> note("Hi")
    ''
    """
    number = sum(end - start for start, end in runs(text))
    if not number:
        return ""
    characters = "1 invisible character" if number == 1 else f"{number:,} invisible characters"
    return f"Contains {characters} ({MARK}) that the model can read"


def shown(text: str) -> str:
    """The text with a mark for each hidden stretch, and as long as before in UTF-16 units.

    >>> shown("a\U000e0041\U000e0042b") == "a□" + 3 * "\u2060" + "b"
    True
    """
    pieces, at = [], 0
    for start, end in runs(text):
        length = utf16_length(text[start:end])
        pieces += [text[at:start], MARK, _FILL * (length - 1)]
        at = end
    return "".join((*pieces, text[at:])) if pieces else text
