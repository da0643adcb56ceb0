"""Sizes that several parts of the window share, in px at 100 %. Nothing is imported here: the
first frame needs them before the parts are."""

from typing import Final

COLUMN_PX: Final = 720
"""The widest that text and composer become."""
SIDE_PX: Final = 24
"""The least that is free beside them."""
SIDEBAR_PX: Final = 236
BOTH_FROM_PX: Final = 620
"""From this width on sidebar and chat fit side by side."""
CHAT_PX: Final = BOTH_FROM_PX - SIDEBAR_PX
"""A column that was made wider than at first leaves the chat so much."""
SECTION_PX: Final = 400
ALL_FROM_PX: Final = 1020
"""From this width on sidebar, chat and section fit side by side."""
STATUS_FROM_PX: Final = 320
"""From this height of the chat on the status line is shown."""


def beside_column(width: int, column: int, least: int) -> tuple[int, int]:
    """What is free left and right of a column in the middle; an odd pixel is right of it.

    >>> beside_column(1043, 720, 24), beside_column(700, 720, 24)
    ((161, 162), (24, 24))
    """
    left = max(least, (width - column) // 2)
    return left, max(least, width - left - column)


def beside_chat(width: int, wanted: int, at_first: int, chat: int) -> int:
    """How wide a column beside the chat is, of `width` for both: where room is short, the chat has
    its own before the column has more than `at_first`.

    >>> beside_chat(1000, 500, 300, 400), beside_chat(800, 500, 300, 400)
    (500, 400)
    >>> beside_chat(600, 500, 300, 400), beside_chat(600, 250, 300, 400)
    (300, 250)
    """
    return min(wanted, max(at_first, width - chat))
