"""Replies that other programs asked for (`Generate.is_guest`) beside those of a person.

A person comes first: they are admitted before all guests, take the slot of one where none is idle,
and while theirs is read, or is about to come, guests rest. While a person's reply is written,
guests may slow it down by one part in `SHARE` of its time, so that a long chat does not starve
them: they join a step when their account allows it, and pay what that step took longer than the
last one without them. Where a step costs the same with them (a device that waits for memory), they
join nearly every one.

A single step that took far longer than it costs (the machine did something else) is not paid for
whole: guests would rest for many seconds.

    person alone 20 ms, 20 ms, … (+2.5 ms each)  →  joint step 28 ms (-8 ms)  →  person alone …
"""

from __future__ import annotations

from typing import Final

SHARE: Final = 8
MOST_S: Final = 0.1
"""What an account holds at most: no burst of guests follows a long time without them."""
MOST_OWED_S: Final = 0.25
MOST_OWED_STEPS: Final = 4
"""What it owes at most, whichever is more: in seconds (a prompt is read in steps of 0.15 s beside
somebody who writes, `pace.py`), or in steps of the person alone, where one takes that long."""


class GuestShare:
    """
    >>> share = GuestShare()
    >>> for _ in range(8):
    ...     share.after(0.02, persons=True, guests=False)
    >>> share.may_join
    True
    >>> share.after(0.05, persons=True, guests=True)
    >>> share.may_join, round(share.account_s, 4)
    (False, -0.0075)
    >>> share.after(30.0, persons=True, guests=True)
    >>> share.account_s
    -0.25
    """

    def __init__(self) -> None:
        self.account_s = 0.0
        self._alone_s = 0.0

    @property
    def may_join(self) -> bool:
        """Whether the next step of a person's reply may have guests in it."""
        return self.account_s > 0

    def after(self, seconds: float, *, persons: bool, guests: bool) -> None:
        """A step took so long. One in which a person's prompt was read is none of these."""
        if not persons:
            return
        if not guests:
            self._alone_s = seconds
            self.account_s = min(self.account_s + seconds / SHARE, MOST_S)
            return
        alone_s = min(self._alone_s, seconds)
        owed_s = max(MOST_OWED_S, MOST_OWED_STEPS * alone_s)
        left_s = self.account_s + alone_s / SHARE - (seconds - alone_s)
        self.account_s = max(min(left_s, MOST_S), -owed_s)
