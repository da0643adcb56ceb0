"""One reply of another app that holds several steps: thought, said, called, answered, said again.

Here each step is a message of its own. The last one keeps the reply's key, so that what follows it
hangs below all of it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from app.chat.exchange.brought import shapes
from app.chat.exchange.brought.trees import Node, tool_call
from app.engine.protocol.tool_messages import ToolCall
from models.records import Role


@dataclass(frozen=True, slots=True)
class Said:
    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    text: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Called:
    call: ToolCall


@dataclass(frozen=True, slots=True)
class Result:
    """`call`: whose; known by its id, or by its name alone."""

    call: ToolCall
    text: str


Step = Said | Thought | Called | Result


def stepped(whole: Node, steps: Iterable[Step]) -> list[Node]:
    """The nodes of a reply, whose own text is that of the steps. `whole` has all that belongs to
    the reply; its files and faults go with the last one."""
    found: list[Node] = []
    now = _next(whole, found)
    for step in steps:
        match step:
            case Said(text):
                now.content = _joined(now.content, text)
            case Thought(text, seconds):
                if now.content.strip() or now.calls:
                    found.append(now)
                    now = _next(whole, found)
                now.reasoning = _joined(now.reasoning, text)
                now.seconds = seconds if now.seconds is None else now.seconds + (seconds or 0)
            case Called(call):
                now.calls.append(call)
            case Result(call, text):
                if now.content.strip() or now.reasoning.strip() or now.calls:
                    found.append(now)
                answer = replace(_next(whole, found), role=Role.TOOL, content=text, answers=call)
                found.append(answer)
                now = _next(whole, found)
    last = replace(now, key=whole.key, files=whole.files, error=whole.error, state=whole.state)
    return [*found, last]


def _next(whole: Node, before: list[Node]) -> Node:
    return replace(
        whole,
        key=f"{whole.key} step {len(before)}",
        parent=before[-1].key if before else whole.parent,
        content="",
        reasoning="",
        seconds=None,
        calls=[],
        files=[],
        error="",
    )


def _joined(before: str, text: str) -> str:
    if not before or not text:
        return before + text
    return before + ("" if before.endswith("\n") or text.startswith("\n") else "\n\n") + text


# --- reasoning that stands in the text ----------------------------------------------------------

_THINK: Final = re.compile(
    r"<(think|thinking|thought|reasoning)>\n?(.*?)(?:</\1>\s*|\Z)", re.DOTALL | re.IGNORECASE
)
_BLOCK: Final = "<details"
_BLOCK_END: Final = "</details>"
_SUMMARY: Final = "<summary>"
_SUMMARY_END: Final = "</summary>"
_NAMED: Final = re.compile(r'(?<![a-z_])([a-z_]{1,40})="([^"]*)"')


def without_thoughts(text: str) -> Iterator[Step]:
    """Text with `<think>` at its beginning, as local models write it.

    >>> list(without_thoughts("<think>Hm.</think>\\n\\nYes."))
    [Thought(text='Hm.', seconds=None), Said(text='Yes.')]
    """
    at = 0
    while (found := _THINK.match(text, at + _blank(text, at))) is not None:
        if found[2].strip():
            yield Thought(found[2].strip())
        at = found.end()
    if "</think>" in text[at:] and "<think>" not in text[at:]:  # whose beginning the template wrote
        thought, _, rest = text[at:].partition("</think>")
        yield Thought(thought.strip())
        text, at = rest.lstrip("\n"), 0
    if text[at:].strip():
        yield Said(text[at:])


def _blank(text: str, at: int) -> int:
    return len(text[at : at + 64]) - len(text[at : at + 64].lstrip())


def without_details(text: str) -> Iterator[Step]:
    """Text with Open WebUI's blocks for reasoning, tools and code in it; others stay as they are.

    >>> block = '<details type="reasoning" done="true" duration="3">\\n<summary>x</summary>\\n> A'
    >>> list(without_details(block + "\\n</details>\\nYes."))
    [Thought(text='A', seconds=3.0), Said(text='Yes.')]
    """
    at, begin = 0, text.find(_BLOCK)
    while begin >= 0:
        inside = text.find(">", begin) + 1
        end = text.find(_BLOCK_END, inside)
        if not inside or end < 0:
            break
        named = dict(_NAMED.findall(text[begin:inside]))
        steps = _block(named, text[inside:end])
        if steps is not None:
            yield from without_thoughts(text[at:begin])
            yield from steps
            at = end + len(_BLOCK_END)
            at += len(text[at : at + 8]) - len(text[at : at + 8].lstrip("\n"))
        begin = text.find(_BLOCK, end)
    yield from without_thoughts(text[at:])


def _block(named: dict[str, str], inside: str) -> list[Step] | None:
    inside = inside.strip("\n")
    if inside.startswith(_SUMMARY) and _SUMMARY_END in inside:
        inside = inside.partition(_SUMMARY_END)[2].strip("\n")
    match named.get("type"):
        case "reasoning":
            lines = (line.removeprefix(">").removeprefix(" ") for line in inside.split("\n"))
            return [Thought("\n".join(lines), shapes.number(named.get("duration")))]
        case "tool_calls":
            arguments, result = (
                shapes.unquoted(html.unescape(named.get(name, "")))
                for name in ("arguments", "result")
            )
            call = tool_call(named.get("id", ""), html.unescape(named.get("name", "")), arguments)
            called: list[Step] = [Called(call)]
            return [*called, Result(call, result)] if named.get("done") != "false" else called
        case "code_interpreter":
            output = shapes.unquoted(html.unescape(named.get("output", "")))
            call = tool_call("", "code_interpreter", {"code": inside})
            return [Called(call), Result(call, output)] if output else [Called(call)]
    return None
