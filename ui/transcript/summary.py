"""The words around a message: its quiet line of figures, and what went wrong. No Qt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from app.chat.attachments.kinds import AUDIO, PICTURE
from app.chat.replies.beam_versions import beams_of
from app.chat.replies.calls import answered_by
from app.chat.replies.cut_versions import cuts_of
from app.chat.replies.recorded import REASONING
from app.chat.replies.summary_nodes import stands_of
from app.insight.time.drafts import from_stored
from models.records import Message, MessageState, Role
from ui.markdown import hidden
from ui.widgets.figures import rate_text, seconds_text

_ENDINGS = {
    "end_token": "finished",
    "turn_end": "finished",
    "max_tokens": "reached the token limit",
    "stop_string": "hit a stop string",
    "tool_calls": "called tools",
    "context_full": "context window full",
    "stopped": "stopped by you",
    "deadline": "timed out",
}
_NAMES = {
    Role.USER: "You",
    Role.ASSISTANT: "Reply",
    Role.SYSTEM: "System prompt",
    Role.TOOL: "Tool",
}
_TROUBLES = {
    MessageState.FAILED: "This reply failed. The partial text is kept.",
    MessageState.INTERRUPTED: "This reply was interrupted. The partial text is kept.",
    MessageState.UNREADABLE: "This message can't be read. It is kept unchanged.",
}


LEAVE_FIRST = (
    "reused",
    "drafts",
    "first_token",
    "rate",
    "left_out",
    "shifted",
    "ending",
    "tokens",
)


def ending_text(message: Message) -> str:
    """Why a reply ended, in a few words; empty while it runs, where that is not known, and
    where a whole sentence says it (`trouble_text`)."""
    if message.state is MessageState.STOPPED:
        return _ENDINGS["stopped"]
    if message.state in _TROUBLES:
        return ""
    reason = message.stop_reason or ""
    return _ENDINGS.get(reason, reason.replace("_", " "))


def figures_text(message: Message, fits: Callable[[str], bool] = lambda _: True) -> str:
    """tokens · tokens/s · first token · reused/evaluated · limit of reasoning · left out · why it
    ended.

    Where it does not fit, whole parts leave, the least important first; one always stays.
    """
    parts = {name: text for name, text in _figures(message) if text}
    for name in LEAVE_FIRST:
        if len(parts) <= 1 or fits(_joined(parts)):
            break
        parts.pop(name, None)
    return _joined(parts)


def _joined(parts: dict[str, str]) -> str:
    return " · ".join(parts.values())


def _figures(message: Message) -> Iterator[tuple[str, str]]:
    counts, cut = message.counts, _left_out(message)
    if counts.generated is not None:
        yield "tokens", f"{counts.generated:,} token{'' if counts.generated == 1 else 's'}"
    if counts.tokens_per_s:
        yield "rate", rate_text(counts.tokens_per_s)
    if counts.first_token_s is not None:
        yield "first_token", f"first token {seconds_text(counts.first_token_s)}"
    if counts.reused is not None and counts.evaluated is not None:
        yield "reused", f"{counts.reused:,} prompt tokens cached, {counts.evaluated:,} processed"
    yield "drafts", _drafted(message)
    if limit := _reasoning_limit(message):
        yield "limit", f"reasoning ended at the limit of {limit:,} token{'' if limit == 1 else 's'}"
    if (version := cuts_of(message.settings)) is not None:
        yield "cut", version.label
    if (beam := beams_of(message.settings)) is not None:
        yield "beams", beam.label
    if cut:
        which = "" if message.settings.get("context_policy") == "keep_ends" else "older "
        where = "" if which else " in the middle"
        yield "left_out", f"{cut:,} {which}message{'' if cut == 1 else 's'}{where} dropped"
    if shifts := _shifts(message):
        n_messages = sum(shift["n_messages"] for shift in shifts)
        what = f"{n_messages:,} message{'' if n_messages == 1 else 's'}" if n_messages else "text"
        again = any(shift["was_read_again"] for shift in shifts)
        how = "rest processed again" if again else "cache shifted"
        yield "shifted", f"{what} dropped midway ({how})"
    yield "ending", ending_text(message)


def _drafted(message: Message) -> str:
    """What speculative decoding gained, or that it was switched off."""
    figures = from_stored(message.settings.get("draft_report"))
    if figures is None or not figures.passes:
        return ""
    if figures.off:  # slower, or the draft model failed
        is_slower = figures.gain is not None and figures.gain < 1
        return "drafts off: slower" if is_slower else "drafts switched off"
    gain = f", {figures.gain:.1f}× as fast" if figures.gain is not None else ""
    return f"{figures.accepted:,} of {figures.proposed:,} drafts accepted{gain}"


def _reasoning_limit(message: Message) -> int:
    """After how many tokens its reasoning was closed by force; 0: it was not."""
    found = message.settings.get(REASONING)
    limit = found.get("limit") if isinstance(found, dict) else None
    return limit if isinstance(limit, int) and limit > 0 else 0


def _left_out(message: Message) -> int:
    """How many messages the context policy left out of the prompt. What is stored is untrusted."""
    cut = message.settings.get("cut")
    number = cut.get("n_messages") if isinstance(cut, dict) else None
    return number if isinstance(number, int) and number > 0 else 0


def dropped_midway(message: Message) -> tuple[int, bool]:
    """How many tokens left the prompt while the reply was written, and whether the rest was read
    again."""
    shifts = _shifts(message)
    n_tokens = [shift.get("n_tokens") for shift in shifts]
    total = sum(n for n in n_tokens if isinstance(n, int) and n > 0)
    return total, any(shift["was_read_again"] for shift in shifts)


def _shifts(message: Message) -> list[dict[str, Any]]:
    """Each time that the window was full in the middle of the reply; stored, so untrusted."""
    shifts = message.settings.get("shifts")
    if not isinstance(shifts, list):
        return []
    return [
        shift
        for shift in shifts
        if isinstance(shift, dict)
        and isinstance(shift.get("n_messages"), int)
        and isinstance(shift.get("was_read_again"), bool)
    ]


def trouble_text(message: Message) -> str:
    """The sentence for a message that did not end well; empty for all others."""
    if message.state not in _TROUBLES:
        return ""
    return message.error or _TROUBLES[message.state]


def continuation_trouble(message: Message) -> str:
    """The sentence under a document whose last continuation failed or added nothing; else empty."""
    if message.state is MessageState.COMPLETE and not message.content and not message.reasoning:
        return f"Nothing was added ({ending_text(message) or 'ended at once'})."
    return trouble_text(message)


def speaker(message: Message) -> str:
    """Who says it, for screen readers and labels."""
    stands = stands_of(message)
    if stands is not None:
        return stands.words
    name = answered_by(message).name
    return f"Result of {name}" if name else _NAMES[message.role]


def version_text(message: Message) -> str:
    """Which of several versions this is: "2/3"."""
    return f"{message.sibling_index + 1}/{message.sibling_count}"


_KINDS: Final = {PICTURE: "picture", AUDIO: "sound"}


def spoken_text(message: Message) -> str:
    """The whole message as a screen reader says it."""
    text = (
        message.reasoning if message.role is Role.TOOL and not message.content else message.content
    )
    parts = [f"{speaker(message)}: {text}"]
    if message.attachments:
        names = (f"{_KINDS.get(a.kind, 'file')} {a.name}" for a in message.attachments)
        parts.append(f"Attached: {', '.join(names)}.")
    if message.sibling_count > 1:
        parts.append(f"Version {message.sibling_index + 1} of {message.sibling_count}.")
    parts += [hidden.note(message.content), trouble_text(message), figures_text(message)]
    return "\n".join(part for part in parts if part)
