"""What the network made of tokens that nobody wrote, and a desk that answers by hand."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from made_prompts import shown
from recording_desk import FakeDesk

from app.chat.inspection.inside import ReadText, Seen
from app.chat.surroundings import Still
from app.engine.process.scripted.inside import MadeUpNetwork
from app.engine.protocol.inside_messages import WANTED, LookInside
from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.prompt_messages import ShownPart
from app.insight.inside.arrays import arrays_of
from app.insight.prompt.parts import tokens_of
from models.records import Message

N_VOCAB = 300
PROMPT = (b"<s>", b"The", b" capital", b" is")


@cache
def _network() -> MadeUpNetwork:
    return MadeUpNetwork(N_VOCAB)


def text_of(message: Message, traces: Sequence[TokenTrace]) -> ReadText:
    """A prompt of four tokens, and the reply."""
    prompt = tokens_of(shown([ShownPart(0, len(PROMPT), "text")], PROMPT))
    ids = array("i", [*prompt.ids, *(token.token_id for token in traces)])
    pieces = tuple(token.piece for token in traces)
    return ReadText(message.id, message.weights_hash or "", prompt, ids, 0, pieces)


def seen_of(ids: Sequence[int], place: int, want: Sequence[str] = WANTED, **missing: str) -> Seen:
    """As the made-up network has it; it votes for the token that comes next."""
    target = ids[place + 1] if place + 1 < len(ids) else None
    targets = [] if target is None else [target]
    command = LookInside(0, list(ids[: place + 1]), list(want), targets)
    told = _network().look(command, target, missing)
    reasons = {each.name: each.sentence for each in told.missing}
    return Seen(place, target, arrays_of(told), reasons, is_whole=True)


class AnsweredByHand:
    """Stands for `desk.inside`: questions wait until the test answers them."""

    def __init__(self, desk: FakeDesk) -> None:
        self.why_not = ""
        self.asked: list[tuple[int, tuple[str, ...]]] = []
        self.n_stopped = 0
        self.gives_text = True
        self._open: tuple[Any, ...] | None = None
        self._read_for: list[tuple[Callable[[], None], Still]] = []
        desk.loader.loaded = None
        desk.loader.is_loading = False
        desk.inside.refusal = lambda _message: self.why_not
        desk.inside.read = self._read
        desk.inside.look = self._look
        desk.inside.stop = self._stop

    def _read(
        self,
        message: Message,
        traces: Sequence[TokenTrace],
        then: Callable[[ReadText], None],
        failed: Callable[[str], None],
        *,
        still: Still,
    ) -> None:
        self._read_for.append((lambda: then(text_of(message, traces)), still))
        if self.gives_text:
            self.give_text()

    def _look(
        self,
        text: ReadText,
        place: int,
        want: tuple[str, ...],
        then: Callable[[Seen], None],
        failed: Callable[[str], None],
        progress: Callable[[int, int], None] = lambda done, total: None,
        *,
        still: Still,
    ) -> None:
        self.asked.append((place, want))
        self._open = (text, place, want, then, failed, progress, still)

    def _stop(self) -> None:
        self.n_stopped += 1
        self._open = None

    def give_text(self) -> None:
        """To whoever waits for it still; each is answered once."""
        waiting, self._read_for = self._read_for, []
        for give, still in waiting:
            if still():
                give()

    @property
    def is_asked(self) -> bool:
        return self._open is not None

    def answer(self, *, is_whole: bool = True, **missing: str) -> None:
        """Without `is_whole` the lens is still on its way."""
        assert self._open is not None
        self.late_answer(is_whole=is_whole, **missing)()

    def late_answer(self, *, is_whole: bool = True, **missing: str) -> Callable[[], None]:
        """To what is asked now, to be given later."""
        assert self._open is not None
        text, place, want, then, _failed, _progress, still = self._open
        now = [name for name in want if is_whole or name != "lens"]
        seen = replace(seen_of(text.ids, place, now, **missing), is_whole=is_whole)
        return lambda: then(seen) if still() else None

    def fail(self, sentence: str) -> None:
        assert self._open is not None
        self._open[4](sentence)

    def progress(self, done: int, total: int) -> None:
        assert self._open is not None
        self._open[5](done, total)
