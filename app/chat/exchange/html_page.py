"""A chat as one web page, as it looks in the window.

What must hold: it loads nothing and runs nothing, whatever the chat says: no script, no address
that a browser asks by itself, and a policy that forbids both; what anybody wrote is text. It is
made piece by piece, so that a long chat isn't held whole.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from app.chat.attachments.document_parts import sent_of
from app.chat.exchange.choices import Choices
from app.chat.exchange.html_blocks import BlockWriter, code_card
from app.chat.exchange.pictures import type_of
from app.chat.exchange.reading import Chat, Stretch, trouble_of, who_said
from app.chat.replies.calls import calls_of
from app.engine.protocol.messages import TokenTrace
from app.insight.tour.page.markup import Markup, escaped, tag
from app.insight.trace.message_tokens import MessageTokens
from app.insight.trace.text_places import TextPlaces
from app.insight.trace.token_groups import Groups
from app.insight.trace.tokens_shown import percent, strength
from app.local_time import here
from app.markdown.whole import whole_blocks
from models.records import Attachment, Message, Role

STYLE: Final = Path(__file__).parents[3] / "resources" / "export" / "page.css"

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""A browser that obeys it loads and runs nothing, whatever else this file may hold."""

N_TINTS: Final = 16
_CLASSES: Final = {
    Role.USER: "you",
    Role.ASSISTANT: "reply",
    Role.SYSTEM: "system",
    Role.TOOL: "tool",
}


def page(chat: Chat, choices: Choices, now: datetime) -> Iterator[str]:
    """The file, piece by piece."""
    stretches = chat.stretches(all_versions=choices.branches)
    yield '<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escaped(POLICY)}">\n'
    yield '<meta name="referrer" content="no-referrer">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f'<meta name="generator" content="Cutaway">\n{tag("title", chat.title)}\n'
    yield f"<style>\n{STYLE.read_text('utf-8')}</style>\n</head>\n<body>\n<main>\n"
    yield tag("h1", chat.title, class_="title", dir="auto")
    yield tag("p", _about(chat, stretches), class_="about")
    if chat.conversation.system_prompt:
        said = tag("div", chat.conversation.system_prompt, class_="fold plain", dir="auto")
        yield tag("details", tag("summary", "System prompt"), said)
    for stretch in stretches:
        if stretch.number:
            yield f'\n<section class="branch" id="b{stretch.number}">'
            yield tag("h2", f"Branch {stretch.number}")
            yield tag("p", _branches_off(chat, stretch), class_="about")
        for message in stretch.messages:
            chat.step()
            yield from _message(chat, message, choices)
        if stretch.number:
            yield "</section>\n"
    yield tag("footer", f"Exported by Cutaway on {now.astimezone():%Y-%m-%d %H:%M}.")
    yield "\n</main>\n</body>\n</html>\n"


def _about(chat: Chat, stretches: Sequence[Stretch]) -> str:
    count = len(chat.numbers)
    words = [f"{here(chat.conversation.created_at):%Y-%m-%d}"]
    words.append("1 message" if count == 1 else f"{count:,} messages")
    if len(stretches) > 1:
        words.append("1 branch" if len(stretches) == 2 else f"{len(stretches) - 1:,} branches")
    return " · ".join(words)


def _branches_off(chat: Chat, stretch: Stretch) -> Markup:
    if stretch.above is None:
        return escaped("Begins the chat anew.")
    number = chat.numbers[stretch.above.id]
    return Markup(f"Goes on after {tag('a', f'message {number}', href=f'#m{number}')}.")


def _message(chat: Chat, message: Message, choices: Choices) -> Iterator[str]:
    number = chat.numbers[message.id]
    yield f'\n<article class="{_CLASSES[message.role]}" id="m{number}">'
    yield tag("p", *_head(chat, message), class_="head")
    yield from _attached(chat, message.attachments)
    if message.role is Role.TOOL:
        called = (tag("pre", message.reasoning, dir="auto"),) if message.reasoning else ()
        result = tag("pre", message.content, dir="auto")
        fold = tag("div", *called, result, class_="fold")
        yield tag("details", tag("summary", "Result"), fold)
    elif message.role is Role.ASSISTANT:
        yield from _reply(chat, message, choices)
    elif message.content.strip():
        yield '<div class="said">'
        yield from _text(chat, message.content, is_plain=True)
        yield "</div>"
    for call in calls_of(message):
        name = tag("p", f"Called: {call.name}", class_="attached")
        yield name + code_card(call.arguments, "json")
    if trouble := trouble_of(message):
        yield tag("p", trouble, class_="trouble", dir="auto")
    if message.counts.generated is not None and message.role is Role.ASSISTANT:
        yield tag("p", _figures(message), class_="figures")
    yield "</article>\n"


def _head(chat: Chat, message: Message) -> Iterator[Markup]:
    yield tag("b", who_said(message), dir="auto")
    yield escaped(f" · {here(message.created_at):%Y-%m-%d %H:%M}")
    if message.sibling_count > 1:
        yield escaped(f" · version {message.sibling_index + 1} of {message.sibling_count}")
    others = chat.branches_at.get(message.id, ())
    for place, number in enumerate(others):
        yield escaped(", " if place else " · also: ")
        yield tag("a", f"branch {number}", href=f"#b{number}")


def _figures(message: Message) -> str:
    generated, rate = message.counts.generated or 0, message.counts.tokens_per_s
    words = "1 token" if generated == 1 else f"{generated:,} tokens"
    return f"{words} · {rate:.1f} tokens/s" if rate else words


def _reply(chat: Chat, message: Message, choices: Choices) -> Iterator[str]:
    traces = chat.trace(message) if choices.tints else []
    if traces and message.reasoning and not choices.reasoning:
        traces = _without_reasoning(traces, message)
    if traces:
        yield from _tokens(traces)
        return
    if message.reasoning and choices.reasoning:
        yield "<details><summary>Reasoning</summary>"
        yield '<div class="fold">'
        yield from _text(chat, message.reasoning)
        yield "</div></details>"
    yield from _text(chat, message.content)


def _without_reasoning(traces: list[TokenTrace], message: Message) -> list[TokenTrace]:
    """Empty where it can't be told with which token the answer begins."""
    places = TextPlaces(MessageTokens(traces=traces), message.reasoning or "", message.content)
    first = places.token_at("content", 0)
    return [] if first is None else traces[first:]


def _text(chat: Chat, text: str, *, is_plain: bool = False) -> Iterator[str]:
    yield '<div class="text">'
    yield from BlockWriter(chat.drawings).pieces(whole_blocks(text, is_plain=is_plain))
    yield "</div>"


def _tokens(traces: Sequence[TokenTrace]) -> Iterator[str]:
    """The text letter by letter, a background behind each token. Those that spell one character
    together are one."""
    groups = Groups()
    groups.feed(token.piece for token in traces)
    yield '<p class="tokens">'
    for place, spelled in enumerate(groups.spellings):
        inside = [traces[at] for at in range(groups.firsts[place], groups.end_of(place))]
        least = max(strength(token, "probability") or 0.0 for token in inside)
        level = min(N_TINTS - 1, math.floor(least * N_TINTS))
        said = ", ".join(f"ID {token.token_id} · {percent(token.logprob)}%" for token in inside)
        yield tag("span", spelled.raw, class_=f"t{level}", title=said)
    yield "</p>"


def _attached(chat: Chat, attachments: Sequence[Attachment]) -> Iterator[str]:
    for attachment in attachments:
        found = chat.picture(attachment)
        kind = type_of(found) if found else ""
        if found and kind:
            address = f"data:{kind};base64,{base64.b64encode(found).decode()}"
            caption = tag("figcaption", attachment.name, class_="attached", dir="auto")
            yield f'<figure><img src="{address}" alt="{escaped(attachment.name)}">'
            yield f"{caption}</figure>"
        else:
            yield tag("p", *_named(attachment), class_="attached", dir="auto")


def _named(attachment: Attachment) -> Iterator[Markup]:
    yield tag("b", attachment.name)
    if parts := parts_sent(attachment):
        yield escaped(f" · {parts}")


def parts_sent(attachment: Attachment) -> str:
    """Which parts of a document went into the prompt, in words; empty where all of it did."""
    parts = sent_of(attachment)
    if parts is None:
        return ""
    return ", ".join(dict.fromkeys(part.label for part in parts if part.label)) or "not quoted"
