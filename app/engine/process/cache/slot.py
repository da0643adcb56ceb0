"""A slot is one sequence of the KV cache and the reply that is being written in it.

`cells.py` mirrors what llama.cpp holds for the sequence. `SlotReply` is one request's way from
prompt to ending:

    reading (prefill) → writing (one token per step) ⇄ held (step mode) → ended

redrawing is a writing reply that has not found a token that it may say yet (`writing.py`),
restarting one that has lost its cells and reads everything again as soon as there is room.
Neither knows about other slots; `scheduler.py` brings them together in batches.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Protocol

from app.engine.process.cache.calling import calling_of
from app.engine.process.cache.cells import Cells
from app.engine.process.drafting.state import DraftState, Proposal
from app.engine.process.native.adapters import NO_ADAPTERS, AdapterSet
from app.engine.process.native.projector import Chunk
from app.engine.process.native.vocabulary import Vocabulary
from app.engine.process.sampling.banned import BannedMatcher
from app.engine.process.sampling.chain import Chain, Moment
from app.engine.process.trace.effects import Snapshot
from app.engine.process.trace.shortlist import Scores, Shortlist
from app.engine.process.trace.timeline import Timeline
from app.engine.prompts.media import by_first_cell, is_media, whole_length
from app.engine.prompts.midway import Stretch, ids_without, rest_without
from app.engine.prompts.prompt import PromptNote
from app.engine.prompts.tokens import PromptPart
from app.engine.protocol.media_messages import MediaSpan
from app.engine.protocol.messages import Generate, Summary, tokens_per_s
from app.engine.protocol.midway_messages import ContextShift
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, CutMessage
from app.engine.protocol.timeline_messages import SpanKind
from app.engine.protocol.tool_messages import ToolCall
from app.engine.text.call_form import CallForm
from app.engine.text.calls import Bad
from app.engine.text.channels import ChannelSplitter
from app.engine.text.reasoning import (
    SECTIONS,
    ReasoningSplitter,
    answer_tags,
    last_opened,
    opened_reasoning,
    opened_section,
    unclosed_reasoning,
    used_tags,
)
from app.engine.text.text import Match, Piece, ReplyText, Splitter, TextMark
from app.refusal import Refusal

BEGINNING_REFUSED: Final = (
    "The grammar doesn't allow the start of this reply. Turn the grammar off, or branch at the "
    "first token."
)


class PreparedPrompt(Protocol):
    """What `prompt.build_prompt` returns, as far as a slot needs it (`BuiltPrompt` says more)."""

    @property
    def ids(self) -> list[int]: ...
    @property
    def rendered(self) -> str: ...
    @property
    def notes(self) -> Sequence[PromptNote]: ...
    @property
    def cut(self) -> Sequence[CutMessage]: ...
    @property
    def turn_end(self) -> str: ...
    @property
    def n_begun(self) -> int: ...
    @property
    def n_continued(self) -> int: ...
    @property
    def parts(self) -> Sequence[PromptPart]: ...
    @property
    def stretches(self) -> Sequence[Stretch]: ...
    @property
    def tail(self) -> bytes: ...
    @property
    def template(self) -> str: ...
    @property
    def calls(self) -> CallForm | None: ...
    @property
    def call_grammars(self) -> Mapping[str, str]: ...
    @property
    def loose_tools(self) -> frozenset[str]: ...
    @property
    def media(self) -> Sequence[MediaSpan]: ...
    @property
    def chunks(self) -> Sequence[object]: ...


class Phase(Enum):
    READING = auto()
    WRITING = auto()
    HELD = auto()
    REDRAWING = auto()
    RESTARTING = auto()


_SINCE: Final[dict[Phase, SpanKind]] = {Phase.HELD: "held", Phase.RESTARTING: "room"}
"""What the time was spent on that a reply in this phase has not accounted for yet."""


@dataclass(slots=True)
class Request:
    """A request as it waits and runs. `stop`, `expired`, `hold` and `choice` are set by the
    thread that reads commands. `position` is the one last announced while it waited."""

    generate: Generate
    prompt: PreparedPrompt
    timeline: Timeline
    stop: bool = False
    expired: bool = False
    hold: bool = False
    choice: int | None = None
    position: int = 0
    timer: threading.Timer | None = None
    notes: list[str] = field(default_factory=list)
    adapters: AdapterSet = NO_ADAPTERS

    @property
    def id(self) -> int:
        return self.generate.id

    @property
    def arrived(self) -> float:
        return self.timeline.arrived

    @property
    def is_persons(self) -> bool:
        """Whether somebody waits for it now."""
        return not (self.generate.is_background or self.generate.is_guest)

    @property
    def is_passing(self) -> bool:
        """Whether nobody goes on from its cells: it belongs to no chat, and reuses none itself."""
        return not (self.generate.conversation or self.generate.reuse_prefix)


@dataclass(slots=True)
class Drawn:
    """A token that was drawn but not yet appended (step mode keeps it until it is chosen, and a
    reply that draws again until the next step). `lies_at`: the address of its scores while they
    are where llama.cpp has written them, until the next decode; 0: they are a copy. `is_chosen`:
    another one takes its place. `proposed`: what a draft had here, and behind it. `is_inserted`:
    the engine's own, which closes reasoning at its limit."""

    token_id: int
    scores: Scores
    lies_at: int
    snapshots: tuple[Snapshot, ...]
    ms: float
    uniform: float | None = None
    moment: Moment | None = None
    shortlist: Shortlist | None = None
    is_chosen: bool = False
    proposed: tuple[Proposal, ...] = ()
    is_inserted: bool = False


@dataclass(slots=True)
class HeldToken:
    """A token whose text is held back, since a banned string may begin in it: the way back.
    `after`: when the token before it was taken."""

    token_id: int
    drawn: Drawn
    moment: Moment
    mark: TextMark
    bans: set[int]
    after: float
    pieces: list[Piece] = field(default_factory=list)


class SlotReply:
    """One request being answered in a slot. Holds numbers and text; decides nothing.

    `prompt_ids`: what there is of its prompt; `stretches`: what can still go of it."""

    def __init__(self, request: Request, vocabulary: Vocabulary, chain: Chain) -> None:
        generate = request.generate
        self.request = request
        self.ids: list[int] = request.prompt.ids
        self.prompt_ids: list[int] = request.prompt.ids
        self.stretches = list(request.prompt.stretches)
        self.shifts: list[ContextShift] = []
        self.pictures = {
            picture_key(self.ids, span.start): chunk
            for span, chunk in zip(request.prompt.media, request.prompt.chunks, strict=True)
            if isinstance(chunk, Chunk)
        }
        self.chain = chain
        prompt, marks = request.prompt, vocabulary.channel_marks
        splitter = splitter_for(
            generate, prompt.rendered, template=prompt.template, has_channels=bool(marks)
        )
        self.calling = calling_of(generate, prompt.calls, prompt.call_grammars)
        self.marks = marks if isinstance(splitter, ChannelSplitter) else {}
        if isinstance(splitter, ReasoningSplitter):
            own = generate.prompt.reasoning_tags if isinstance(generate.prompt, ChatPrompt) else ()
            self.marks = shown_tags(splitter.tag_texts, vocabulary, own)
        whole: Splitter | None = splitter
        if self.calling is not None:
            self.marks = self.calling.marks(vocabulary) | self.marks
            whole = self.calling.around(splitter)
        stops, self.stop_ids = split_stops(generate.stop, vocabulary, self.marks)
        self.stop_ids |= {
            i: vocabulary.piece(i).decode("utf-8", "replace") for i in generate.stop_ids
        }
        self.text = ReplyText(
            stops,
            whole,
            prompt.turn_end,
            stops_in_reasoning=generate.stop_in_reasoning,
            tail=prompt.tail,
        )
        if self.text.closing_by_force:  # it goes on inside its reasoning
            self.text.n_thought = prompt.n_continued
        self.phase = Phase.READING
        self.generated: list[int] = []
        self.next_token: int | None = None
        self.held: Drawn | None = None
        self.forced = deque(generate.forced_ids)
        self.n_inserted = 0
        self.ended_at_limit = 0
        self.has_no_limit = False
        banned = list(generate.sampling.banned_strings)
        banned += self.calling.banned if self.calling is not None else []
        self.banned = BannedMatcher(banned) if banned else None
        self.held_back: list[HeldToken] = []
        self.bans: set[int] = set()
        self.drafts: DraftState | None = None
        self.reused = 0
        self.reuse_source = ""
        self.evaluated = 0
        self.scored = 0
        self.retried = False
        self.started = 0.0
        self.read_at = 0.0
        self.first_at = 0.0
        self.last_at = 0.0
        self.held_at = 0.0
        self.waited_before_s = 0.0
        self.waited_s = 0.0

    @property
    def begin_ids(self) -> list[int]:
        """What it begins with: the last tokens of its prompt."""
        ids = self.request.prompt.ids
        return ids[len(ids) - self.request.prompt.n_begun :]

    def begin(self, shown: Callable[[int], bytes]) -> list[Piece]:
        """Let chain and text see what the reply begins with; the pieces to show. `shown`: the
        bytes that a token has in a text. Raises Refusal."""
        pieces: list[Piece] = []
        for token_id in self.begin_ids:
            if not self.chain.allows(token_id):
                raise Refusal("bad_setting", BEGINNING_REFUSED, "choice")
            self.chain.accept(token_id)
            pieces += self.text.begin(self.marks.get(token_id) or shown(token_id))
        self._bind_call()
        return pieces

    def _bind_call(self) -> None:
        if self.calling is not None:
            self.calling.bind(self.text, self.chain)

    def found(self) -> list[tuple[int, ToolCall] | Bad]:
        """Calls that are whole, with their number, and those that are none, once each; not those
        whose text is held back."""
        is_held = self.banned is not None and self.banned.n_held
        return [] if self.calling is None or is_held else self.calling.found(self.text)

    def picture_at(self, at: int) -> tuple[Chunk, int] | None:
        """The part of a picture that cell `at` is to be computed from, and where in it."""
        if not is_media(self.ids[at]):
            return None
        start = whole_length(self.ids, at)
        return self.pictures[picture_key(self.ids, start)], at - start

    @property
    def is_background(self) -> bool:
        """Whether it rests while others read or write, and gives way to them."""
        return self.request.generate.is_background

    @property
    def is_guest(self) -> bool:
        """Whether another program asked for it, so that a person's replies come first."""
        return self.request.generate.is_guest

    @property
    def is_persons(self) -> bool:
        return self.request.is_persons

    @property
    def n_tokens(self) -> int:
        """Of what there is of its prompt, and of what it has written."""
        return len(self.prompt_ids) + len(self.generated)

    def leave_out(self, gone: Sequence[Stretch]) -> None:
        """These stretches of the prompt are gone, and what was drawn stands nearer to the rest."""
        self.prompt_ids = ids_without(self.prompt_ids, gone)
        self.stretches = rest_without(self.stretches, gone)
        self.ids = [*self.prompt_ids, *self.generated]

    def leave_hold(self, now: float) -> None:
        """What somebody thought about is not the engine's time."""
        self.request.timeline.mark("held", now)
        if self.first_at:
            self.waited_s += now - self.held_at
        else:
            self.waited_before_s += now - self.held_at
        self.held_at = 0.0

    def close(self) -> None:
        """Free what is native; the reply has ended."""
        if self.held is not None and self.held.moment is not None:
            self.held.moment.free()
        self.release(0)
        self.chain.close()

    def release(self, n_held: int) -> list[Piece]:
        """Let go of all but the last `n_held` tokens that were held back; return their text."""
        pieces: list[Piece] = []
        while len(self.held_back) > n_held:
            token = self.held_back.pop(0)
            token.moment.free()
            pieces += token.pieces
        return pieces

    def take(self, token_id: int, shown: bytes, now: float) -> tuple[list[Piece], Match | None]:
        """Append a token; return the pieces to show and what it completed that ends the reply."""
        self.generated.append(token_id)
        self.chain.accept(token_id)
        self.first_at = self.first_at or now
        self.last_at = now
        self.request.timeline.token(now)
        reading = self.text.feed(shown)
        self._bind_call()
        return reading.pieces, reading.stop

    def summary(
        self,
        stop_reason: str,
        stop_detail: str,
        *,
        now: float,
        n_threads: int,
        used: int,
        n_ctx: int,
    ) -> Summary:
        """How the reply stands now. Call `text.flush()` first if it has ended."""
        arrived = self.request.arrived
        decode_s = max(self.last_at - self.first_at - self.waited_s, 0.0)
        waiting_s = now - self.held_at if self.held_at else 0.0
        return Summary(
            text=self.text.content,
            reasoning=self.text.reasoning,
            token_ids=list(self.generated),
            stop_reason=stop_reason,
            stop_detail=stop_detail,
            seed=self.chain.seed,
            prompt_tokens=len(self.request.prompt.ids),
            reused=self.reused,
            evaluated=self.evaluated,
            generated=len(self.generated),
            first_token_s=self.first_at - arrived - self.waited_before_s if self.first_at else 0.0,
            prefill_s=max((self.read_at or now) - self.started, 0.0) if self.started else 0.0,
            decode_s=decode_s,
            total_s=now - arrived - self.waited_before_s - self.waited_s - waiting_s,
            tokens_per_s=tokens_per_s(len(self.generated), decode_s),
            n_threads=n_threads,
            context_used=used,
            context_size=n_ctx,
            rendered_prompt=self.request.prompt.rendered,
            notes=list(self.request.notes),
            cut=list(self.request.prompt.cut),
            shifts=list(self.shifts),
            reuse_source=self.reuse_source,
            timeline=self.request.timeline.spans(now, _SINCE.get(self.phase, "ending")),
            drafts=None if self.drafts is None else self.drafts.report(),
            reasoning_tokens=self.text.n_thought,
            reasoning_limit=self.ended_at_limit,
            adapters=list(self.request.adapters.used),
            tool_calls=[] if self.calling is None else list(self.calling.calls),
        )


def empty_summary(generate: Generate, n_ctx: int) -> Summary:
    """Of a reply that was stopped before its prompt was even built."""
    return Summary("stopped", seed=generate.sampling.seed or 0, context_size=n_ctx)


@dataclass(frozen=True, slots=True)
class Origins:
    """Where the tokens of a sequence come from: the last prompt's `parts`, which cover its first
    `n_prompt` tokens, then the reply to it, which is the message `reply_id`. `media`: its pictures
    by the ID of their first cell."""

    parts: Sequence[PromptPart] = ()
    n_prompt: int = 0
    reply_id: str = ""
    media: Mapping[int, MediaSpan] = field(default_factory=dict)


def origins_of(request: Request) -> Origins:
    prompt = request.prompt
    media = by_first_cell(prompt.ids, prompt.media)
    return Origins(prompt.parts, len(prompt.ids), request.generate.reply_id, media)


def picture_key(ids: Sequence[int], start: int) -> tuple[int, ...]:
    """What tells a part of a picture from all others: bits enough of its hash."""
    return tuple(ids[start : start + 4])


class Slot:
    """A sequence, what it holds, and the reply that is written in it, if any."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.reply: SlotReply | None = None
        self.conversation = ""
        self.origins = Origins()
        self.is_stored = False
        self.used_at = 0.0

    @property
    def is_idle(self) -> bool:
        return self.reply is None


def split_stops(
    stops: list[str], vocabulary: Vocabulary, tags: Collection[int] = ()
) -> tuple[list[str], dict[int, str]]:
    """Stop strings as text to match, and as control tokens (their text is never shown). `tags` are
    those whose text is."""
    ids = {
        token_id: stop
        for stop in stops
        if (token_id := vocabulary.control_ids.get(stop)) is not None and token_id not in tags
    }
    return [stop for stop in stops if stop not in ids.values()], ids


def shown_tags(
    texts: Iterable[str], vocabulary: Vocabulary, own: Iterable[tuple[str, str]] = ()
) -> dict[int, bytes]:
    """ID → bytes of the tags that are control tokens: as text they tell reasoning apart. `own`: the
    tags of one's own among them; of these each control token is shown that they are made of."""
    known = vocabulary.control_ids
    shown = {known[text]: text.encode() for text in texts if text in known}
    pairs = [*own, *([] if "<|open|>" not in known else SECTIONS)]
    for tag in (tag for pair in pairs for tag in pair):
        ids = vocabulary.tokenize(tag, special=True)
        shown |= {i: vocabulary.piece(i) for i in ids if vocabulary.is_control(i)}
    return shown


def splitter_for(
    generate: Generate, rendered: str, *, template: str = "", has_channels: bool = False
) -> Splitter | None:
    """Chat replies are told apart; in plain text and raw IDs a tag is text like any other.
    `has_channels`: the vocabulary has their marks; a template must have written them too."""
    prompt = generate.prompt
    if not isinstance(prompt, ChatPrompt):
        return None
    last = prompt.messages[-1] if prompt.continue_last and prompt.messages else None
    if has_channels and "<|message|>" in rendered:
        return _channels_after(last)
    tags = used_tags(prompt.reasoning_tags, rendered, template)
    answers = answer_tags(template)
    if last is not None and last.role == "assistant" and last.content:
        inside, section = unclosed_reasoning(last.content, tags), opened_section(rendered, answers)
        if not inside and not section:
            return None
        return ReasoningSplitter(tags, inside=inside, answers=answers, section=section)
    if last is not None and last.role == "assistant" and last.reasoning:
        inside = last_opened(rendered, tags)
        return ReasoningSplitter(tags, inside=inside, keep_breaks=True, answers=answers)
    inside, is_named = opened_reasoning(rendered, tags) or (None, True)
    section = "" if inside else opened_section(rendered, answers)
    return ReasoningSplitter(
        tags, inside=inside, is_named=is_named, answers=answers, section=section
    )


def _channels_after(last: ChatMessage | None) -> ChannelSplitter:
    if last is None or last.role != "assistant" or not (last.content or last.reasoning):
        return ChannelSplitter()
    return ChannelSplitter(inside="content" if last.content else "reasoning")
