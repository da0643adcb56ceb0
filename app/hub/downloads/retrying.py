"""When a download is tried again: waits that grow, with some chance in them, and how often.

What a server asks for (Retry-After, `ratelimit`) is waited three times in a row; then the waits
grow all the same. 1 MiB more is progress, and the count begins again.
"""

from __future__ import annotations

from typing import Final

MAX_ATTEMPTS: Final = {"": 8, "other_content": 2, "web_page": 4, "wrong_length": 3}
"""By the kind of fault: attempts without progress between them."""


def wait_s(attempt: int) -> float:
    """Seconds before the next attempt, after so many that failed (from 1): about 2, 4, 8 … 300."""
    from tenacity import RetryCallState, Retrying, wait_exponential_jitter

    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = attempt
    return float(wait_exponential_jitter(multiplier=2, max=300, jitter=1)(state))
