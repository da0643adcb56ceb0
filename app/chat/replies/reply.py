"""One growing reply: what has arrived of it, and the message that it is at its end."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from app.chat.events import StatusFigures
from app.chat.replies.calls import calls_of, with_calls
from app.chat.replies.recorded import at_end
from app.chat.replies.traces import MAX_TOKENS
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import (
    Failed,
    Finished,
    Generate,
    Stopped,
    Summary,
    TextFlushed,
    TextTakenBack,
    TokenArrived,
    TokenTrace,
)
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, TextPrompt
from app.engine.protocol.tool_messages import ToolCall
from app.engine.text.calls import half_call
from app.insight.trace.alternatives import NO_ID
from app.insight.trace.table import TraceTable
from models.records import Message, MessageCounts, MessageState

CLOSED_SENTENCE: Final = "Cutaway closed before this reply finished."
_ENGINE_DEATHS: Final = frozenset({"native_error", "out_of_memory", "server_error", "unreachable"})


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a reply begins with: the text of another version, or what the user wrote.

    `token_ids` are known where the loaded weights wrote that text, and all of it; None: the
    engine tokenises it, and the reply has no IDs of its own then.
    """

    content: str
    reasoning: str = ""
    token_ids: tuple[int, ...] | None = None
    source_id: str | None = None

    def __bool__(self) -> bool:
        # Without a text: it was cut off inside of its first character.
        return bool(self.content or self.reasoning or self.token_ids)

    @property
    def traces(self) -> TraceTable | None:
        """What was recorded of its last tokens."""
        return None

    def as_said(self) -> ChatMessage | None:
        """As the engine is told of it."""
        if not self:
            return None
        ids = None if self.token_ids is None else list(self.token_ids)
        return ChatMessage("assistant", self.content, self.reasoning or None, ids)

    def as_recorded(self) -> dict[str, Any]:
        """As it stands in the reply's settings: what was given, and not drawn."""
        return {
            "characters": len(self.content),
            "reasoning_characters": len(self.reasoning),
            "tokens": None if self.token_ids is None else len(self.token_ids),
            "message_id": self.source_id,
        }


@dataclass(frozen=True, slots=True)
class Branch(Beginning):
    """A reply that goes another way from a token on: the tokens before it, by ID, and those that
    were chosen in its place. The engine says what they spell. `weights_hash`: whose IDs they are.
    `drawn_with`: up to which place of the trace its first tokens were drawn with which recorded
    chain, in order.
    """

    head: TraceTable = field(default_factory=TraceTable)
    chosen_ids: tuple[int, ...] = ()
    weights_hash: str = ""
    drawn_with: tuple[tuple[int, Any], ...] = ()

    def __bool__(self) -> bool:
        return True

    @property
    def traces(self) -> TraceTable | None:
        return self.head

    def as_said(self) -> ChatMessage | None:
        return None

    def as_recorded(self) -> dict[str, Any]:
        return Beginning.as_recorded(self) | {
            "traced": len(self.head),
            "chosen": list(self.chosen_ids),
            "drawn_with": [list(each) for each in self.drawn_with],
        }

    def begun(self, request: Generate) -> Generate:
        """The request, with what it begins with."""
        assert isinstance(request.prompt, ChatPrompt | TextPrompt)
        prompt = msgspec.structs.replace(request.prompt, begin_ids=list(self.token_ids or ()))
        return msgspec.structs.replace(request, prompt=prompt, forced_ids=list(self.chosen_ids))


@dataclass(frozen=True, slots=True)
class TextBranch(Beginning):
    """A reply that goes another way from a token on where a server writes, which goes on from a
    text. `head`: the tokens before, and behind them the one that was chosen, if its figures are
    known: it stood among the candidates. `path`: of the model that is to go on."""

    head: TraceTable = field(default_factory=TraceTable)
    is_chosen: bool = False
    path: str = ""

    @property
    def traces(self) -> TraceTable | None:
        return self.head

    def as_recorded(self) -> dict[str, Any]:
        n_before = len(self.head) - self.is_chosen
        return Beginning.as_recorded(self) | {
            "tokens": n_before,
            "traced": n_before,
            "chosen": [NO_ID] * self.is_chosen,
            "by_text": True,
        }


NOTHING: Final = Beginning("", "", ())


def beginning_of(source: Message, weights_hash: str) -> Beginning:
    """The beginning that another version's whole text is."""
    is_own = bool(weights_hash) and source.weights_hash == weights_hash
    # What a stop string, or the turn's end, swallowed is in the IDs and not in the text; so is what
    # was held back when a reply ended by force.
    # Behind a call comes its result: who goes on goes on behind the text, and may call again.
    has_called = bool(calls_of(source))
    has_ended = source.state in (MessageState.COMPLETE, MessageState.STOPPED)
    is_whole = has_ended and source.stop_reason not in ("stop_string", "turn_end")
    is_whole = is_whole and not has_called
    ids = source.token_ids if is_own and is_whole and source.token_ids else None
    return Beginning(source.content, source.reasoning, ids, source.id)


@dataclass(slots=True)
class Reply:
    """A reply in the making. `message` is its row as it was first stored (streaming).

    `request_id` is None until the engine was asked; `is_stop_wanted` covers a Stop that
    comes before that; `queue_place`: where it
    stands in the engine's queue (1 is next), 0 while it is written. `unshown` is text (with its
    part) that no view has been told of yet. `is_beside`: it is one of several answers that were
    asked for at once. `changes`: settings that are its own. `traces` hold what was drawn, which
    begins after the tokens of `beginning`, if that has no traces of its own. `was_held`: it waited
    for choices, so its speed by the clock says nothing; `held_at`: since when it does, `waited_s`:
    how long it did before, which is in no other figure. `calling`: what has come of the call that
    is being written; `calls`: those that are whole. `reasoning_at`: when the first and the last
    token of its reasoning came.
    """

    message: Message
    beginning: Beginning = NOTHING
    is_beside: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)
    request_id: int | None = None
    is_stop_wanted: bool = False
    queue_place: int = 0
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calling: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    traces: TraceTable = field(default_factory=TraceTable)
    unshown: list[tuple[str, str]] = field(default_factory=list)
    asked_at: float = 0.0
    first_token_at: float | None = None
    last_token_at: float = 0.0
    reasoning_at: tuple[float, float] | None = None
    context_used: int = 0
    figures_at: float = 0.0
    was_held: bool = False
    held_at: float | None = None
    waited_s: float = 0.0

    def __post_init__(self) -> None:
        if self.beginning.traces is not None:
            self.traces = self.beginning.traces.head(len(self.beginning.traces))
        self.content += [self.beginning.content] if self.beginning.content else []
        self.reasoning += [self.beginning.reasoning] if self.beginning.reasoning else []
        self.token_ids += self.beginning.token_ids or ()

    @property
    def conversation_id(self) -> str:
        return self.message.conversation_id

    @property
    def n_given(self) -> int:
        """How many of `token_ids` were there before."""
        return len(self.beginning.token_ids or ())

    @property
    def n_generated(self) -> int:
        return len(self.token_ids) - self.n_given

    @property
    def known_ids(self) -> tuple[int, ...] | None:
        """The IDs of the whole text, where they are known."""
        if self.beginning.token_ids is None or -1 in self.token_ids:
            return None
        return tuple(self.token_ids)

    def placed(self, token: TokenTrace) -> TokenTrace:
        """A token with its place in the whole trace: the engine counts what it has written."""
        n_before = len(self.beginning.traces or ())
        return msgspec.structs.replace(token, index=n_before + token.index) if n_before else token

    def take_token(self, event: TokenArrived, now: float) -> None:
        """`event.token` is placed already. It counts from when it was drawn."""
        if self.held_at is not None:
            self.waited_s += now - self.held_at
            self.held_at = None
        now -= self.waited_s
        self.token_ids.append(event.token.token_id)
        if len(self.traces) < MAX_TOKENS:
            self.traces.append(event.token)
        self.context_used = event.context_used
        self.last_token_at = now
        if self.first_token_at is None:
            self.first_token_at = now
        if event.part == "reasoning":
            self.reasoning_at = (self.reasoning_at[0] if self.reasoning_at else now, now)
        self._take_text(event.text, event.part)

    def hold(self, now: float) -> None:
        """Step mode: a token was drawn, and somebody thinks about it."""
        self.was_held = True
        if self.held_at is None:
            self.held_at = now

    def take_back(self, event: TextTakenBack) -> None:
        """The last tokens are no part of the reply; their text never came."""
        kept = max(self.n_generated - event.n_tokens, 0)
        del self.token_ids[self.n_given + kept :]
        self.traces.truncate(len(self.beginning.traces or ()) + kept)

    def take_flushed(self, event: TextFlushed) -> None:
        self._take_text(event.text, event.part)

    def _take_text(self, text: str, part: str) -> None:
        if not text:
            return
        parts = {"reasoning": self.reasoning, "call": self.calling}
        parts.get(part, self.content).append(text)
        if self.unshown and self.unshown[-1][1] == part:
            self.unshown[-1] = (self.unshown[-1][0] + text, part)
        else:
            self.unshown.append((text, part))

    def take_call(self, call: ToolCall) -> None:
        """It is whole; what is written of one from now on is another's."""
        self.calls.append(call)
        self.calling.clear()

    def texts(self) -> tuple[str, str]:
        """(content, reasoning) so far. The pieces are joined once and kept joined."""
        for pieces in (self.content, self.reasoning):
            if len(pieces) > 1:
                pieces[:] = ["".join(pieces)]
        return ("".join(self.content), "".join(self.reasoning))

    def snapshot(self, shown: Message | None = None) -> Message:
        """The message as it stands now. `shown`: which version it is, of how many by now."""
        place = shown or self.message
        content, reasoning = self.texts()
        return dataclasses.replace(
            self.message,
            content=content,
            reasoning=reasoning,
            token_ids=self.known_ids,
            counts=dataclasses.replace(self.message.counts, reasoning_s=self.reasoning_s),
            settings=with_calls(self.message.settings, self.calls),
            sibling_index=place.sibling_index,
            sibling_count=place.sibling_count,
        )

    @property
    def reasoning_s(self) -> float | None:
        """How long its reasoning took, as it arrived; None without any."""
        return self.reasoning_at[1] - self.reasoning_at[0] if self.reasoning_at else None

    def figures(self, context_size: int, n_threads: int) -> StatusFigures:
        """Live figures; tokens/s counts as llama-bench does, from the second token on."""
        generated, rate, first = self.n_generated, None, None
        if self.first_token_at is not None:
            first = self.first_token_at - self.asked_at
            spent = self.last_token_at - self.first_token_at
            if generated > 1 and spent > 0 and not self.was_held:
                rate = (generated - 1) / spent
        return StatusFigures(generated, rate, first, self.context_used, context_size, n_threads)

    def ended(self, ending: Finished | Stopped | Failed) -> Message:
        """The message as this ending leaves it. Text that arrived is never lost."""
        summary = ending.partial if isinstance(ending, Failed) else ending.result
        message = self.snapshot()
        if isinstance(summary, Summary):
            message = self._with_summary(message, summary)
        if isinstance(ending, Failed):
            return self._failed(message, ending)
        state = MessageState.STOPPED if isinstance(ending, Stopped) else MessageState.COMPLETE
        reason = message.stop_reason or ("stopped" if isinstance(ending, Stopped) else None)
        return dataclasses.replace(message, state=state, stop_reason=reason, error=None)

    def _failed(self, message: Message, ending: Failed) -> Message:
        has_text = bool(message.content or message.reasoning)
        is_cut = ending.kind in _ENGINE_DEATHS and has_text
        state = MessageState.INTERRUPTED if is_cut else MessageState.FAILED
        return dataclasses.replace(
            message, state=state, stop_reason=ending.kind, error=ending.sentence
        )

    def closed(self) -> Message:
        """The message as an orderly end of the app leaves it."""
        return dataclasses.replace(
            self.snapshot(), state=MessageState.INTERRUPTED, error=CLOSED_SENTENCE
        )

    def _with_summary(self, message: Message, summary: Summary) -> Message:
        """What the engine measured. Its text is authoritative unless it is shorter than what
        came: a summary made up after the child's death may know less than the reader of its
        tokens."""
        given = self.beginning
        begun, reasoning = given.content, given.reasoning + summary.reasoning
        if summary.tool_calls and begun:  # a half call that it went on with is one now
            n_call = half_call(begun, [call.name for call in summary.tool_calls])
            begun = begun[: len(begun) - n_call]
        content = begun + summary.text
        n_given = len(given.content) - len(begun)
        if len(content) + len(reasoning) + n_given >= len(message.content) + len(message.reasoning):
            ids = None
            if given.token_ids is not None and "token_ids" not in summary.unknown:
                ids = (*given.token_ids, *summary.token_ids)
            message = dataclasses.replace(
                message, content=content, reasoning=reasoning, token_ids=ids
            )
        calls = summary.tool_calls or self.calls
        return dataclasses.replace(
            message,
            stop_reason=summary.stop_reason or None,
            seed=None if "seed" in summary.unknown else summary.seed,
            settings=with_calls(at_end(message.settings, summary), calls),
            rendered_prompt=summary.rendered_prompt,
            counts=dataclasses.replace(_counts(summary), reasoning_s=self.reasoning_s),
        )


def _counts(summary: Summary) -> MessageCounts:
    """What the engine counted. Without a number of threads the summary was made up after the
    child's death: what nobody measured is unknown then, and not 0."""
    counts = MessageCounts(
        prompt_tokens=summary.prompt_tokens,
        reused=summary.reused,
        evaluated=summary.evaluated,
        generated=summary.generated,
        first_token_s=summary.first_token_s if summary.generated else None,
        total_s=summary.total_s,
        tokens_per_s=summary.tokens_per_s,
        context_used=summary.context_used,
        context_size=summary.context_size,
    )
    if summary.unknown or summary.n_threads:
        names = {name for name in summary.unknown if hasattr(counts, name)}
        return dataclasses.replace(counts, **dict.fromkeys(names))
    return dataclasses.replace(
        counts,
        prompt_tokens=summary.prompt_tokens or None,
        reused=None,
        evaluated=None,
        first_token_s=None,
        total_s=None,
    )


def in_the_apps_words(
    failed: Failed, loaded: Loaded | None, policy: str, *, has_result: bool = False
) -> Failed:
    """A prompt that is too long, with what can be done about it in the window. `has_result`: it
    ends with what a tool said."""
    tokens, _, size = failed.evidence.partition("/")
    if not (tokens.isdecimal() and size.isdecimal()):
        return failed
    chat, steps = "This chat", "Start a new chat, write a shorter message, "
    if has_result:
        steps = "Shorten the tool's result, start a new chat, "
    if policy == "stop":
        steps += "allow older messages to be dropped (Settings → Chat), or "
    else:
        chat = "Even after dropping older messages, this chat still"
        steps = steps.replace("message,", "message or summary,") if policy == "summarize" else steps
        steps += "or "
    if loaded is None or loaded.n_ctx < loaded.n_ctx_train:
        steps += "set a larger context window in Settings → Engines and reload the model."
    else:
        steps += "choose another model."
    facts = f"{chat} has {int(tokens):,} tokens, but the context window holds only {int(size):,}."
    return msgspec.structs.replace(failed, sentence=f"{facts} {steps}")


STORED_AT_END: Final = (
    "content",
    "reasoning",
    "token_ids",
    "state",
    "stop_reason",
    "error",
    "seed",
    "settings",
    "weights_name",
    "rendered_prompt",
    "counts",
)


def fields_at_end(message: Message) -> dict[str, Any]:
    """What the store is told about a reply that has ended."""
    return {name: getattr(message, name) for name in STORED_AT_END}
