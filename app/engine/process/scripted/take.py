"""One reply of the scripted engine while it is played: text, counts and times so far."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from app.engine.process.drafting.state import DraftState, Proposal
from app.engine.process.scripted.script import CLOSING, ScriptCall, ScriptToken
from app.engine.process.trace.timeline import Pass, Timeline
from app.engine.prompts.media import by_first_cell, known_spans
from app.engine.prompts.midway import (
    ids_without,
    parts_without,
    rest_without,
    shift_of,
    to_leave_out,
)
from app.engine.prompts.prompt import BuiltPrompt
from app.engine.prompts.tokens import PromptPart
from app.engine.protocol.adapter_messages import AdapterUsed
from app.engine.protocol.draft_messages import Drafts
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.media_messages import MediaSpan
from app.engine.protocol.messages import Generate, Summary, tokens_per_s
from app.engine.protocol.midway_messages import ContextShift
from app.engine.protocol.prompt_messages import ChatPrompt
from app.engine.protocol.thinking_messages import ended_sentence
from app.engine.protocol.timeline_messages import SpanKind
from app.engine.protocol.tool_messages import Part, ToolCall, ToolCalled
from app.engine.text.text import Piece, ReplyText


@dataclass(frozen=True, slots=True)
class Said:
    """The tokens of a reply that was played, and in which part each of them was."""

    token_ids: list[int]
    parts: list[Part]

    def begins_with(self, token_ids: Sequence[int]) -> bool:
        return self.token_ids[: len(token_ids)] == list(token_ids)


class _GivenParts:
    """The script says in which part a reply is; no tag does."""

    unclosed = is_at_a_tag = False

    def __init__(self) -> None:
        self.part: Part = "content"

    @property
    def closing(self) -> str:
        return CLOSING.decode() if self.part == "reasoning" else ""

    def feed(self, text: str) -> list[Piece]:
        return [(self.part, text)]

    def flush(self) -> list[Piece]:
        return []


class Take:
    """Counts and times are of this playing; the seed is the request's, or 1."""

    def __init__(
        self, command: Generate, loaded: Loaded, prompt_tokens: int, prompt: BuiltPrompt
    ) -> None:
        self.command = command
        self.prompt_tokens = self._prompt_tokens = prompt_tokens
        self.reused = 0
        self.adapters: list[AdapterUsed] = []
        self.reuse_source = ""
        self.token_ids: list[int] = []
        self.forced = deque(command.forced_ids)
        self._parts: list[Part] = []
        self._held_at = 0.0
        self._waited_before_s = 0.0
        self._waited_s = 0.0
        self.stop_reason = "end_token"
        self.reasoning_limit = 0
        self.notes = [note.sentence for note in prompt.notes]
        self._loaded = loaded
        self._prompt = prompt
        self._known = by_first_cell(prompt.ids, prompt.media)
        self._shifts: list[ContextShift] = []
        self._given = _GivenParts()
        self._text = ReplyText(
            [stop for stop in command.stop if stop],
            self._given,
            stops_in_reasoning=command.stop_in_reasoning,
            tail=prompt.tail,
        )
        self._stopped_by = ""
        self._seed = command.sampling.seed
        self._began = self._lap = time.monotonic()
        self._prefilled = self._began
        self._first: float | None = None
        self._taken_at: list[float] = []
        self._timeline = Timeline(self._began)
        self._since: SpanKind = "ending"
        self._drafts = DraftState(command.drafts or Drafts())
        self._drafts.name = "draft.gguf" if self._drafts.kind == "model" else ""
        self._pass: list[float] = []
        self._calls: list[ToolCall] = []
        self._calling: list[str] = []

    @property
    def part(self) -> Part:
        return self._given.part

    @property
    def is_at_limit(self) -> bool:
        """Whether its reasoning has had all the tokens that it may have."""
        prompt = self.command.prompt
        limit = prompt.reasoning_budget if isinstance(prompt, ChatPrompt) else 0
        return self.reasoning_limit > 0 or 0 < limit <= self._text.n_thought

    def end_reasoning(self) -> str:
        """Its reasoning is closed by force; returns what is said of it, once."""
        if self.reasoning_limit:
            return ""
        assert isinstance(self.command.prompt, ChatPrompt)
        self.reasoning_limit = self.command.prompt.reasoning_budget
        self._text.counts_thought = False
        return ended_sentence(self.reasoning_limit)

    def go_over(self, part: Part) -> list[Piece]:
        """What comes next is of this part; return what was held back of another one."""
        held = self._text.end_part() if part != self._given.part else []
        self._given.part = part
        return held

    def call(self, call: ScriptCall) -> ToolCalled:
        """A call is whole."""
        index, request_id = len(self._calls), self.command.id
        called = ToolCall(call.id or f"call_{request_id}_{index}", call.name, call.arguments_text)
        self._calls.append(called)
        self._calling.clear()
        return ToolCalled(request_id, index, called)

    @property
    def prompt_ids(self) -> list[int]:
        return self._prompt.ids

    @property
    def prompt_parts(self) -> list[PromptPart]:
        return self._prompt.parts

    @property
    def context_used(self) -> int:
        return self.prompt_tokens + len(self.token_ids)

    @property
    def begin_ids(self) -> list[int]:
        """What the reply begins with: the last tokens of its prompt."""
        return self._prompt.ids[len(self._prompt.ids) - self._prompt.n_begun :]

    def begin(self, piece: bytes) -> list[Piece]:
        """Take in one of those; return the text that may now be shown."""
        self._parts.append(self.part)
        return self._text.begin(piece)

    def left_of(self, steps: Iterable[ScriptToken]) -> Iterator[ScriptToken]:
        """A script without the tokens that the reply has begun with, and as long as what was
        chosen for it."""
        to_skip = self._prompt.n_begun
        for step in steps:
            if step.piece is not None and to_skip:
                to_skip -= 1
            else:
                yield step
        while self.forced:
            yield ScriptToken(text=" ", ms=1)

    def said(self) -> Said:
        return Said([*self.begin_ids, *self.token_ids], self._parts)

    def begin_hold(self) -> None:
        self._held_at = time.monotonic()
        self._timeline.drawn(self._held_at)
        self._since = "held"

    def end_hold(self) -> None:
        """What the user thought about is not the engine's time."""
        self._lap = time.monotonic()
        self._timeline.mark("held", self._lap)
        self._since = "ending"
        if self._first is None:
            self._waited_before_s += self._lap - self._held_at
        else:
            self._waited_s += self._lap - self._held_at

    @property
    def media(self) -> list[MediaSpan]:
        return known_spans(self._prompt.ids, self._known)

    def see(self) -> None:
        """A picture was looked at."""
        self._timeline.mark("seeing", time.monotonic())

    def read(self, n_tokens: int) -> None:
        """A chunk of the prompt was read."""
        self._timeline.latest = Pass(1, n_tokens)
        self._timeline.prefilled(self._began, time.monotonic(), n_tokens)

    def end_prefill(self) -> None:
        self._prefilled = self._lap = time.monotonic()
        self._timeline.mark("between", self._lap)

    def lap_ms(self) -> float:
        """Milliseconds since the last token (or the end of prefill)."""
        now = time.monotonic()
        lap, self._lap = now - self._lap, now
        return lap * 1000

    @property
    def evaluated(self) -> int:
        return self._prompt_tokens - self.reused

    @property
    def dropped(self) -> int:
        """Tokens that left the prompt in the middle of the reply."""
        return self._prompt_tokens - self.prompt_tokens

    def make_room(self) -> ContextShift | None:
        """Where the window is full, leave out of the prompt what its policy says, if anything."""
        if self.context_used < self._loaded.n_ctx:
            return None
        gone = to_leave_out(self._prompt.stretches, self.context_used, self._loaded.n_ctx)
        if not gone:
            return None
        self._shifts.append(shift_of(gone, len(self.token_ids)))
        self.notes.append(self._shifts[-1].sentence)
        self.prompt_tokens -= self._shifts[-1].n_tokens
        self._prompt = replace(
            self._prompt,
            ids=ids_without(self._prompt.ids, gone),
            parts=parts_without(self._prompt.parts, gone),
            stretches=rest_without(self._prompt.stretches, gone),
        )
        return self._shifts[-1]

    def ends_before_token(self) -> bool:
        """Whether there is room for one more token; if not, why is kept."""
        if self.command.max_tokens and len(self.token_ids) >= self.command.max_tokens:
            self.stop_reason = "max_tokens"
        elif self.context_used >= self._loaded.n_ctx:
            self.stop_reason = "context_full"
        elif self.command.deadline_s and time.monotonic() - self._began > self.command.deadline_s:
            self.stop_reason = "deadline"
        else:
            return False
        return True

    def add(self, token_id: int, piece: bytes) -> list[Piece]:
        """Take in one token and return the text that may now be shown."""
        if self._first is None:
            self._first = self._lap
        self._timeline.token(self._lap)
        self._timeline.latest = Pass(1, 1)
        self._taken_at.append(self._lap)
        self.token_ids.append(token_id)
        self._parts.append(self.part)
        reading = self._text.feed(piece)
        self._stopped_by = reading.stop.words if reading.stop is not None else ""
        self._calling += [text for part, text in reading.pieces if part == "call"]
        return reading.pieces

    def note_draft(self, token: ScriptToken, ms: float) -> None:
        """A pass ends with the first token that nobody had proposed."""
        self._pass.append(ms / 1000)
        if token.drafted:
            return
        n_accepted = len(self._pass) - 1
        proposed = [Proposal(at) for at in range(n_accepted + len(token.rejected))]
        if proposed:
            self._drafts.begin_pass(proposed)
            for at in range(n_accepted):
                self._drafts.drawn(at)
                self._drafts.pending.popleft()
            self._drafts.drawn(-1)
            self._drafts.pending.clear()
        self._drafts.time(sum(self._pass), len(self._pass), drafted=bool(proposed))
        self._pass.clear()

    def take_back(self, n_tokens: int) -> None:
        since = self._taken_at[-n_tokens - 1 :][0] if len(self._taken_at) > n_tokens else 0.0
        self._timeline.take_back(max(since, self._prefilled), n_tokens)
        for column in (self.token_ids, self._parts, self._taken_at):
            del column[-n_tokens:]

    def is_stopped_by_string(self) -> bool:
        if not self._stopped_by:
            return False
        self.stop_reason = "stop_string"
        return True

    def flush(self) -> list[Piece]:
        """The end: what was held back; of a call that it was in the middle of, all."""
        pieces = self._text.flush().pieces
        half, self._calling = "".join(self._calling), []
        if half:
            self._given.part = "content"
            pieces += self._text.feed(half.encode()).pieces
        return pieces

    def summary(self, stop_reason: str) -> Summary:
        now = time.monotonic()
        generated = len(self.token_ids)
        first_s = (self._first or now) - self._began - self._waited_before_s
        decode_s = self._lap - self._first - self._waited_s if self._first else 0.0
        waiting_s = now - self._held_at if self._since == "held" else 0.0
        return Summary(
            text=self._text.content,
            reasoning=self._text.reasoning,
            token_ids=self.token_ids,
            stop_reason=stop_reason,
            stop_detail=self._stopped_by,
            seed=1 if self._seed is None else self._seed,
            prompt_tokens=self._prompt_tokens,
            reused=self.reused,
            evaluated=self.evaluated,
            generated=generated,
            first_token_s=first_s,
            prefill_s=self._prefilled - self._began,
            decode_s=decode_s,
            total_s=now - self._began - self._waited_before_s - self._waited_s - waiting_s,
            tokens_per_s=tokens_per_s(generated, decode_s),
            n_threads=self._loaded.n_threads,
            context_used=self.context_used,
            context_size=self._loaded.n_ctx,
            rendered_prompt=self._prompt.rendered,
            notes=self.notes,
            reasoning_tokens=self._text.n_thought,
            reasoning_limit=self.reasoning_limit,
            cut=self._prompt.cut,
            shifts=self._shifts,
            reuse_source=self.reuse_source,
            prompt_ids=self._prompt.ids if self.command.score_prompt else None,
            timeline=self._timeline.spans(now, self._since),
            drafts=self._drafts.report() if self._drafts.passes or self.command.drafts else None,
            adapters=list(self.adapters),
            tool_calls=list(self._calls),
        )
