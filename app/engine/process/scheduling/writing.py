"""How a drawn token becomes part of a reply, waits for a choice, or is taken back.

    scores → draw → (step mode: wait) → end token? stop? → banned string? → append, say so

Banned strings: while the last tokens may be the beginning of one, their text is held back, and
what is needed to go back before each of them is kept: its scores, the chain before it was drawn,
the text machines before its bytes. At a match cells, chain and text go back to before the token
in which the match begins, that token is banned at its position, and another one is drawn from
the kept scores. Bans at one position add up; they end when the reply goes on from another
token before it. Without a possible match nothing of this is kept.

The token that completes a banned string is announced too, then taken back, so that the trace can
show it. A reply that has drawn again for long (`REDRAW_S`) goes on in the next step, so that others
get their tokens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.engine.process.cache.slot import Drawn, HeldToken, Phase, Slot, SlotReply
from app.engine.process.drafting.state import Proposal
from app.engine.process.native.weights import Weights
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.chain import Moment
from app.engine.process.scheduling.reasoning_limit import (
    BANNED_CLOSING,
    ENDED,
    NOT_ALLOWED,
    closing_ids,
    limit_of,
)
from app.engine.process.scheduling.rows import Row
from app.engine.process.trace.effects import are_complete
from app.engine.process.trace.measuring import Measurer
from app.engine.process.trace.outbox import TokenRecord
from app.engine.process.trace.scores import ScoreBuffers, ScoreRows
from app.engine.process.trace.shortlist import Scores, ShortlistFinder
from app.engine.protocol.messages import Event, TextTakenBack
from app.engine.protocol.thinking_messages import ended_sentence
from app.engine.text.text import Match, Piece
from app.refusal import Refusal

Clock = Callable[[], float]

REDRAW_S: Final = 0.050
"""How long a reply may draw again in one step: a banned string may be in nearly every token, and
others wait for the step's end. Nothing is lost by leaving off."""

BANNED_CHOICE: Final = (
    "Your token completes a banned string, so it was removed. Unban the string to allow it."
)
BUFFERS_PER_SLOT: Final = 5
"""Of scores, where they are kept: those of the passes that the outbox still has, and one more."""

_SHORTEST: Final = 64
"""Candidates to look out for where the trace wants fewer: a top-k of usual size is served too."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The scheduler's methods that a writer uses."""

    emit: Callable[[Event | TokenRecord], None]
    end: Callable[[Slot, str, str], None]
    flush: Callable[[SlotReply, list[Piece]], None]
    note: Callable[[SlotReply, str, str], None]
    tell_calls: Callable[[SlotReply], None]
    restart: Callable[[SlotReply], None]
    make_room: Callable[[Slot], bool]


class Writer:
    """Draws for the replies of one context, one token at a time."""

    def __init__(
        self, weights: Weights, calls: Calls, clock: Clock, *, measures: bool = False
    ) -> None:
        """`measures`: tokens are measured here, before the next decode, where their scores lie;
        else beside it, from a copy. Beside a device that costs nothing. On a processor the decode
        would wait as long for the measuring as for this, and for the copy, too."""
        self._rows = ScoreRows(weights.context, weights.vocabulary.n_vocab)
        self._measurer = Measurer(weights.vocabulary.n_vocab) if measures else None
        self._vocabulary = weights.vocabulary
        self._n_ctx = weights.n_ctx
        self._candidates = Candidates(weights.vocabulary.n_vocab)
        # A pass of eight replies takes eight, and the outbox has those of four passes: fresh ones
        # took 4 ms of each pass with 262,144 scores.
        most = max(ScoreBuffers.MOST, BUFFERS_PER_SLOT * weights.n_slots)
        self._buffers = ScoreBuffers(weights.vocabulary.n_vocab, most)
        self._finder = ShortlistFinder(weights.vocabulary.n_vocab)
        self._calls = calls
        self._clock = clock

    # --- drawing ----------------------------------------------------------------------------

    def draw(self, row: Row, slot: Slot) -> None:
        """The decode has given scores for the row: draw, and go on from there; where the draw is
        what was proposed, its cell is filled and its scores are there already."""
        reply = row.reply
        if not row.proposed:
            self._offer(
                slot, reply, self._drawn(reply, self._rows.at(row.index), self._rows.latest)
            )
            return
        assert reply.drafts is not None
        reply.drafts.begin_pass(row.proposed)
        try:
            self._follow(row, slot, reply.drafts.pending)
        finally:
            reply.drafts.pending.clear()
            self._drop_rejected(slot, reply)

    def _follow(self, row: Row, slot: Slot, pending: deque[Proposal]) -> None:
        reply = row.reply
        for index in range(row.start, row.index + 1):
            scores = self._rows.at(index)
            self._offer(slot, reply, self._drawn(reply, scores, self._rows.latest))
            is_writing = slot.reply is reply and reply.phase is Phase.WRITING
            if reply.request.stop or reply.request.expired:
                return
            if not pending or not is_writing or reply.next_token != pending[0].token_id:
                return
            row.n_accepted += 1
            slot.cells.extend([pending.popleft().token_id])

    def _drop_rejected(self, slot: Slot, reply: SlotReply) -> None:
        """Cells that the decode filled and no draw has taken. A window that has moved on for them
        cannot go back: then all is read again."""
        slot.cells.repair()
        if slot.cells.usable(len(slot.cells)) is not None:
            slot.cells.clear()
        expected = reply.n_tokens - 1
        if slot.reply is reply and reply.phase is Phase.WRITING and len(slot.cells) < expected:
            self._calls.restart(reply)

    def _keep(self, drawn: Drawn) -> Drawn:
        """For longer than until the next decode, which writes over scores that are not copied."""
        if drawn.lies_at:
            drawn.scores, drawn.lies_at = self._buffers.copy(drawn.scores), 0
        return drawn

    def _drawn(self, reply: SlotReply, scores: Scores, lies_at: int) -> Drawn:
        """Draw from `scores` (left as they are); what is banned at this position is left out."""
        moment = reply.chain.before_draw() if reply.banned is not None else None
        shortlist = self._finder.find(scores, max(reply.request.generate.alternatives, _SHORTEST))
        try:
            draw = reply.chain.draw(
                scores,
                self._candidates,
                record=reply.request.generate.record_stages,
                banned=reply.bans,
                shortlist=shortlist,
            )
        except BaseException:
            if moment is not None:
                moment.free()
            raise
        ms = (self._clock() - reply.last_at) * 1000
        proposed = () if reply.drafts is None else reply.drafts.drawn(draw.token_id)
        return Drawn(
            draw.token_id,
            scores,
            lies_at,
            draw.snapshots,
            ms,
            draw.uniform,
            moment,
            shortlist,
            proposed=proposed,
        )

    def _offer(self, slot: Slot, reply: SlotReply, drawn: Drawn | None) -> None:
        """Append what was drawn; again and again where it completes banned strings. What takes
        too long goes on in the next step."""
        until = self._clock() + REDRAW_S
        while drawn is not None:
            if reply.n_inserted:
                drawn = self._insert(slot, reply, drawn)
            elif reply.forced:
                drawn = self._force(slot, reply, reply.forced.popleft(), drawn)
            elif reply.request.hold:
                reply.held, reply.phase = self._keep(drawn), Phase.HELD
                reply.held_at = self._clock()
                reply.request.timeline.drawn(reply.held_at)
                reply.request.choice = None
                self._calls.emit(self._record(reply, drawn.token_id, drawn, held=True))
                return
            else:
                drawn = self._append(slot, reply, drawn.token_id, drawn)
            if reply.request.stop or reply.request.expired:
                if drawn is not None:
                    _free(drawn)
                return
            if drawn is not None and self._clock() >= until:
                reply.held, reply.phase = self._keep(drawn), Phase.REDRAWING
                return

    def _force(self, slot: Slot, reply: SlotReply, token_id: int, drawn: Drawn) -> Drawn | None:
        """The token that was chosen beforehand takes the place of the drawn one."""
        if refused := self._refused(reply, token_id):
            _free(drawn)
            raise Refusal("bad_setting", refused, "choice")
        drawn.is_chosen = True
        return self._append(slot, reply, token_id, drawn)

    def _insert(self, slot: Slot, reply: SlotReply, drawn: Drawn) -> Drawn | None:
        """What closes reasoning takes the place of the drawn token, as far as a grammar allows."""
        token_id = reply.forced.popleft()
        reply.n_inserted -= 1
        if not reply.chain.allows(token_id):
            self._give_up_closing(reply)
            self._calls.note(reply, "bad_choice", NOT_ALLOWED)
            return self._append(slot, reply, drawn.token_id, drawn)
        drawn.is_chosen = drawn.is_inserted = True
        if not reply.n_inserted:
            limit = reply.ended_at_limit
            self._calls.note(reply, ENDED, ended_sentence(limit))
        return self._append(slot, reply, token_id, drawn)

    @staticmethod
    def _give_up_closing(reply: SlotReply) -> None:
        reply.n_inserted = reply.ended_at_limit = 0
        reply.has_no_limit = reply.text.counts_thought = True
        reply.forced.clear()

    def draw_on(self, slot: Slot) -> None:
        """Go on where the last step has left off."""
        reply = slot.reply
        assert reply is not None
        drawn, reply.held = reply.held, None
        self._offer(slot, reply, drawn)

    def leave_hold(self, slot: Slot) -> None:
        """Step mode: a token was chosen, or the reply runs on."""
        reply = slot.reply
        assert reply is not None
        assert reply.held is not None
        request, drawn = reply.request, reply.held
        choice, request.choice = request.choice, None
        token_id = drawn.token_id if choice is None else choice
        refused = self._refused(reply, token_id)
        if refused:
            self._calls.note(reply, "bad_choice", refused)
            self._calls.emit(self._record(reply, drawn.token_id, drawn, held=True))
            return
        drawn.is_chosen = token_id != drawn.token_id
        reply.held, reply.phase = None, Phase.WRITING
        reply.leave_hold(self._clock())
        self._offer(slot, reply, self._append(slot, reply, token_id, drawn))

    def _refused(self, reply: SlotReply, token_id: int) -> str:
        """Why a token cannot be chosen; native code would end the process."""
        if not 0 <= token_id < self._vocabulary.n_vocab:
            return f"Token {token_id} doesn't exist. Choose another one."
        if not reply.chain.allows(token_id):
            return f"The grammar doesn't allow token {token_id} here. Choose another one."
        return ""

    # --- appending --------------------------------------------------------------------------

    def _append(self, slot: Slot, reply: SlotReply, token_id: int, drawn: Drawn) -> Drawn | None:
        """The token becomes part of the reply, unless it ends it. Returns what was drawn instead
        of a token that had to be taken back."""
        try:
            return self._take_in(slot, reply, token_id, drawn)
        except BaseException:
            _free(drawn)
            raise

    def _take_in(self, slot: Slot, reply: SlotReply, token_id: int, drawn: Drawn) -> Drawn | None:
        is_end = self._vocabulary.is_eog(token_id) or token_id in reply.stop_ids
        if is_end and not drawn.is_inserted:  # the end of one channel is not the reply's
            _free(drawn)
            if self._vocabulary.is_eog(token_id):
                self._calls.end(slot, "end_token", _words(self._vocabulary.piece(token_id)))
            else:
                self._calls.end(slot, "stop_string", reply.stop_ids[token_id])
            return None
        shown = reply.marks.get(token_id) or self._vocabulary.shown_piece(token_id)
        taken = reply.banned.feed(shown) if reply.banned is not None else 0
        if taken:
            return self._take_back(slot, reply, token_id, drawn, taken)
        released = self._hold_back(reply, token_id, drawn)
        pieces, stop = reply.take(token_id, shown, self._clock())
        if reply.banned is not None and reply.banned.n_held:
            reply.held_back[-1].pieces = pieces
            pieces = []
        first, *others = [*released, *pieces] or [("content", "")]
        used = len(slot.cells)
        self._calls.emit(self._record(reply, token_id, drawn, piece=first, used=used))
        self._calls.flush(reply, others)
        self._calls.tell_calls(reply)
        self._go_on(slot, reply, token_id, stop, used)
        return None

    def _go_on(
        self, slot: Slot, reply: SlotReply, token_id: int, stop: Match | None, used: int
    ) -> None:
        if stop is not None:
            self._calls.end(slot, stop.reason, stop.words)
        elif len(reply.generated) == reply.request.generate.max_tokens:
            self._calls.end(slot, "max_tokens", f"{len(reply.generated):,}")
        elif used >= self._n_ctx and not self._calls.make_room(slot):
            self._calls.end(slot, "context_full", f"{self._n_ctx:,} tokens")
        elif len(slot.cells) < reply.n_tokens - 1:
            self._calls.restart(reply)  # the cells could not be cut back, or shifted
        else:
            reply.next_token, reply.phase = token_id, Phase.WRITING
            if limit_of(reply):
                self._close_at_limit(reply)

    def _close_at_limit(self, reply: SlotReply) -> None:
        closing = closing_ids(reply, self._vocabulary)
        if closing:
            reply.forced.extend(closing)
            reply.n_inserted, reply.ended_at_limit = len(closing), limit_of(reply)
            reply.text.counts_thought = False

    def _record(
        self,
        reply: SlotReply,
        token_id: int,
        drawn: Drawn,
        *,
        piece: Piece = ("content", ""),
        used: int = 0,
        held: bool = False,
    ) -> TokenRecord:
        generate = reply.request.generate
        rejected = self._rejected_pieces(token_id, drawn)
        measured, scores = None, None
        if self._measurer is not None:
            wanted = generate.alternatives
            measured = self._measurer.measure(
                drawn.scores, token_id, wanted, drawn.shortlist, drawn.lies_at
            )
        if measured is None or rejected or not are_complete(drawn.snapshots):
            scores = self._keep(drawn).scores
        return TokenRecord(
            request_id=generate.id,
            index=len(reply.generated) - (0 if held else 1),
            token_id=token_id,
            piece=self._vocabulary.piece(token_id),
            scores=scores,
            measured=measured,
            snapshots=drawn.snapshots,
            alternatives=generate.alternatives,
            ms=drawn.ms,
            uniform=None if drawn.is_chosen else drawn.uniform,
            chosen=drawn.is_chosen,
            inserted=drawn.is_inserted,
            part=piece[0],
            text=piece[1],
            context_used=used,
            held=held,
            shortlist=drawn.shortlist,
            proposed=drawn.proposed,
            proposed_pieces=rejected,
        )

    def _rejected_pieces(self, token_id: int, drawn: Drawn) -> tuple[bytes, ...]:
        """Of what was proposed, where something else came."""
        if not drawn.proposed or drawn.proposed[0].token_id == token_id:
            return ()
        return tuple(self._vocabulary.piece(each.token_id) for each in drawn.proposed)

    # --- banned strings ---------------------------------------------------------------------

    def _hold_back(self, reply: SlotReply, token_id: int, drawn: Drawn) -> list[Piece]:
        """Before the token is accepted: keep the way back to before it, if it may belong to a
        banned string. Returns the text of those that cannot any more."""
        if reply.banned is None:
            return []
        moment, drawn.moment = drawn.moment, None
        bans, reply.bans = reply.bans, set()
        if reply.banned.n_held == 0:
            if moment is not None:
                moment.free()
            return reply.release(0)
        assert moment is not None
        reply.chain.complete(moment)
        mark, after = reply.text.mark(), reply.last_at
        reply.held_back.append(HeldToken(token_id, self._keep(drawn), moment, mark, bans, after))
        return reply.release(reply.banned.n_held)

    def _take_back(
        self, slot: Slot, reply: SlotReply, token_id: int, drawn: Drawn, taken: int
    ) -> Drawn | None:
        """A banned string is complete. Go back to before the first of the last `taken` tokens (the
        one just drawn is the last) and draw another one there."""
        assert reply.banned is not None
        if drawn.is_inserted:
            self._give_up_closing(reply)
            self._calls.note(reply, "bad_choice", BANNED_CLOSING)
        elif drawn.is_chosen:
            reply.forced.clear()
            self._calls.note(reply, "bad_choice", BANNED_CHOICE)
        reply.generated.append(token_id)
        used = len(slot.cells)
        self._calls.emit(self._record(reply, token_id, drawn, used=used))
        self._calls.emit(TextTakenBack(reply.request.id, taken))
        del reply.generated[len(reply.generated) - taken :]
        first: HeldToken | None = None
        for _ in range(taken - 1):
            if first is not None:
                first.moment.free()
            first = reply.held_back.pop()
        if first is not None:
            reply.request.timeline.take_back(first.after, taken - 1)
        self._restore(reply, drawn if first is None else first, token_id)
        self._cut_back(slot, reply)
        self._calls.flush(reply, reply.release(reply.banned.n_held))
        reply.next_token = None
        if reply.request.stop or reply.request.expired:
            return None
        before = drawn if first is None else first.drawn
        return self._drawn(reply, before.scores, before.lies_at)

    def _restore(self, reply: SlotReply, back_to: Drawn | HeldToken, token_id: int) -> None:
        """Chain, text and bans as they were before that token was drawn, and the token banned."""
        accepted = len(reply.generated)
        if isinstance(back_to, HeldToken):
            reply.chain.restore(back_to.moment, accepted)
            reply.text.restore(back_to.mark)
            reply.bans = back_to.bans | {back_to.token_id}
            _free(back_to.drawn)
        else:
            moment: Moment | None = back_to.moment
            assert moment is not None
            reply.chain.restore(moment, accepted)
            reply.bans = reply.bans | {token_id}

    @staticmethod
    def _cut_back(slot: Slot, reply: SlotReply) -> None:
        """The cells back to the reply's last token; all go where the architecture cannot, and
        `_go_on` has everything read again."""
        keep = reply.n_tokens
        if reply.drafts is not None:
            reply.drafts.forget()
        if keep < len(slot.cells) and slot.cells.usable(keep) is not None:
            slot.cells.clear()
        else:
            slot.cells.cut(keep)


def _free(drawn: Drawn) -> None:
    if drawn.moment is not None:
        drawn.moment.free()
        drawn.moment = None


def _words(piece: bytes) -> str:
    return piece.decode("utf-8", "replace")
