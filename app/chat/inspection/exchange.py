"""Two words exchanged: the network reads a text in both orders, and what changes is told.

What must hold: a newer question ends an older one; nothing of the text is kept here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from app.chat.inspection.questions import Newest, Questions
from app.chat.surroundings import Still, Surroundings
from app.chat.weights.file_work import answer, begin
from app.engine.protocol.adapter_messages import Adapters
from app.engine.protocol.inside_messages import Inside, LookInside

if TYPE_CHECKING:
    from app.insight.inside.exchange import Exchanged
    from app.insight.inside.word_spans import Span

WANTED: Final = ["logits", "residual"]

SAME: Final = "Choose two different words: exchanging equal ones changes nothing."
NO_PLACES: Final = "Choose two words before the selected token."
NO_SCORES: Final = "This model's scores can't be read, so there is nothing to compare."
NOT_COMPARED: Final = "The two orders couldn't be compared ({fault})."


class Exchanges:
    """`ask` never waits: `then` or `failed` (with a sentence) is called once, unless a newer
    question, `stop`, or `still` says that nobody waits any more."""

    def __init__(self, around: Surroundings, questions: Questions) -> None:
        self._around = around
        self._questions = questions
        self._newest = Newest(questions)

    def ask(
        self,
        token_ids: Sequence[int],
        one: Span,
        other: Span,
        then: Callable[[Exchanged], None],
        failed: Callable[[str], None],
        progress: Callable[[int, int], None] = lambda done, total: None,
        *,
        still: Still,
        adapters: Adapters | None = None,
    ) -> None:
        """What changes for the last of `token_ids` where the tokens of two places [first, end)
        before it are exchanged. `progress`: tokens that have been read, of both texts. `adapters`:
        those of its reply."""
        from app.insight.inside.exchange import exchanged  # numpy, when somebody asks

        is_newest = self._newest.begin()
        ids = list(token_ids)
        try:
            other_ids = exchanged(ids, one, other)
        except ValueError:
            failed(NO_PLACES)
            return
        if other_ids == ids:
            failed(SAME)
            return

        def counts() -> bool:
            return is_newest() and still()

        def look(ids: list[int], n_before: int, take: Callable[[Inside], None]) -> None:
            self._newest.request_id = self._questions.ask(
                LookInside(0, ids, WANTED, adapters=adapters),
                Inside,
                take,
                failed,
                still=counts,
                progress=lambda done, total: progress(n_before + done, 2 * total),
            )

        def compare(before: Inside, after: Inside) -> None:
            work, _ = begin(lambda: _compared(before, after), "exchange")
            answer(self._around, work, then, failed, _sentence, counts)

        look(
            ids,
            0,
            lambda before: look(other_ids, len(ids) - 1, lambda after: compare(before, after)),
        )

    def stop(self) -> None:
        """No answer is wanted any more: nobody is called."""
        self._newest.begin()


class _NoScores(Exception):  # noqa: N818
    """There is nothing to compare."""


def _compared(before: Inside, after: Inside) -> Exchanged:
    """On a thread: a large vocabulary takes some ten milliseconds."""
    from app.insight.inside.arrays import arrays_of
    from app.insight.inside.exchange import compare

    one, other = arrays_of(before), arrays_of(after)
    if "logits" not in one or "logits" not in other:
        raise _NoScores
    has_streams = "residual" in one and "residual" in other
    streams = (one["residual"], other["residual"]) if has_streams else None
    return compare(one["logits"], other["logits"], streams)


def _sentence(error: BaseException) -> str:
    return (
        NO_SCORES
        if isinstance(error, _NoScores)
        else NOT_COMPARED.format(fault=type(error).__name__)
    )
