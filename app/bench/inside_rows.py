"""What looking inside costs: the rows of `bench` about the probe.

    click       nothing is there of a text of 500 tokens but a chat's cells: until the first arrays
                are here, as the panel asks for them, and until the lens is
    next        another token of the same text
    beside      a reply while one token after another is looked at, and the same reply alone
    long        a text of 8,000 tokens whose cells a chat has; and one that nobody has read

The first two are held against a limit in seconds, the third against the same reply alone, the last
against the tokens that it cannot do without.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

from app.bench.sides import BenchError, Session, Window, text_prompt
from app.engine.protocol.inside_messages import Inside, LookInside
from app.engine.protocol.prompt_messages import IdsPrompt, PromptShown, ReadPrompt

FIRST: Final = (
    "embedding",
    "attn_out",
    "ffn_out",
    "residual",
    "logits",
    "attention",
    "k_after",
    "value_norms",
)
"""What the panel asks for first; then the lens."""

CHAT_TOKENS: Final = 500
LONG_TOKENS: Final = 8000
FIRST_LIMIT_S: Final = 0.5
LENS_LIMIT_S: Final = 1.5
LEAST_SPEED: Final = 0.95
BESIDE_S: Final = 10.0
"""A reply is measured for so long: at the beginning of a shorter one a slice weighs too much."""

N_NEXT: Final = 5


def text_of(session: Session, n_tokens: int) -> list[int]:
    """The bench's text as token IDs, again and again up to so many."""
    shown, _ = session.told(ReadPrompt(0, text_prompt()), PromptShown)
    ids = list(memoryview(shown.token_ids.data).cast("i"))
    return (ids * (n_tokens // len(ids) + 1))[:n_tokens]


def have_read(session: Session, ids: Sequence[int], seed: int = 1) -> None:
    """A chat whose cells hold this text."""
    session.answer(session.ask(IdsPrompt(list(ids)), 2, trace=False, seed=seed))


def look(session: Session, ids: Sequence[int], want: Sequence[str]) -> tuple[Inside, float]:
    return session.told(LookInside(0, list(ids), list(want), [ids[0]]), Inside)


class Clicks:
    """Seconds of clicks in chats of 500 tokens."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.whole: list[float] = []
        self.next_first: list[float] = []
        self.next_whole: list[float] = []
        self.n_read: list[int] = []

    def measure(self, session: Session) -> None:
        """The first click of a session, which makes the context, and some more in the same text."""
        ids = text_of(session, CHAT_TOKENS)
        have_read(session, ids)
        for back in range(N_NEXT + 1):
            looked, first = look(session, ids[: CHAT_TOKENS - back], FIRST)
            _, lens = look(session, ids[: CHAT_TOKENS - back], ["lens"])
            (self.next_first if back else self.first).append(first)
            (self.next_whole if back else self.whole).append(first + lens)
            self.n_read.append(looked.n_read)

    def values(self, what: str) -> dict[str, Any]:
        first, following = getattr(self, what), getattr(self, f"next_{what}")
        return {
            "app": statistics.median(first),
            "bare": FIRST_LIMIT_S if what == "first" else LENS_LIMIT_S,
            "app_runs": first,
            "next_token": statistics.median(following),
            "tokens_read": self.n_read,
            "unit": "s",
        }


def beside(session: Session, tokens: int, rounds: int) -> tuple[list[float], list[float], int]:
    """Tokens/s of a reply while the inside of a text is looked at without a pause, and of the same
    reply alone, in turns; and how many questions were answered meanwhile."""
    ids = text_of(session, CHAT_TOKENS)
    have_read(session, ids, seed=2)
    look(session, ids, FIRST)
    probed: list[float] = []
    alone: list[float] = []
    n_looks = 0
    for number in range(rounds):
        for is_probed in (True, False) if number % 2 == 0 else (False, True):
            reply = session.ask(text_prompt(), tokens)
            while is_probed and not session.has_ended(reply):
                # A token further back each time, so that none is there already.
                n_tokens = CHAT_TOKENS - n_looks % (CHAT_TOKENS // 2)
                look(session, ids[:n_tokens], [*FIRST, "lens"])
                n_looks += 1
            arrivals = session.answer(reply).arrivals
            (probed if is_probed else alone).append(Window(tokens).rate(arrivals))
    return probed, alone, n_looks


class LongChat:
    """Clicks in a text of so many tokens that a chat's cells hold, and in one that nobody has read.
    Raises BenchError where there is no room for it."""

    def __init__(
        self, session: Session, tell: Callable[[str], None], n_tokens: int = LONG_TOKENS
    ) -> None:
        if session.loaded.n_ctx < n_tokens + 2:
            raise BenchError(f"The context window has {session.loaded.n_ctx:,} tokens.")
        self._n_tokens = n_tokens
        ids = text_of(session, n_tokens)
        tell(f"a chat of {n_tokens:,} tokens")
        have_read(session, ids)
        self.cached, self.cached_s = look(session, ids, FIRST)
        self.next, self.next_s = look(session, ids[:-100], FIRST)
        tell("another text of that length, which has to be read")
        new = next(token for token in ids if token != ids[0])
        self.unread, self.unread_s = look(session, [new, *ids[1:]], FIRST)

    def values(self, what: str) -> dict[str, Any]:
        """Tokens that were computed, the one that is looked at among them."""
        is_cached = what == "cached"
        seen = self.cached if is_cached else self.unread
        return {
            "app": seen.n_read + 1,
            "bare": 1 if is_cached else self._n_tokens,
            "copied": seen.n_copied,
            "seconds": self.cached_s if is_cached else self.unread_s,
            "next_token_seconds": self.next_s,
            "next_token_read": self.next.n_read,
            "unit": "tokens",
        }
