"""What the host tells of its servers: frozen values without anything of `mcp` in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

State = Literal["off", "starting", "ready", "failed", "ended"]


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool as its server describes it, bounded. `schema`: JSON text of what its arguments must
    be; `trouble` says why it cannot be offered (empty: it can); `fingerprint` is that of everything
    that a person allows when allowing it."""

    server_id: str
    name: str
    title: str = ""
    description: str = ""
    schema: str = "{}"
    fingerprint: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class ServerResource:
    """`uri` is what it is asked for by."""

    uri: str
    name: str
    description: str = ""
    mime_type: str = ""


@dataclass(frozen=True, slots=True)
class PromptArgument:
    name: str
    description: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class ServerPrompt:
    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerState:
    """How a server is and what it offers. `sentence`: what happened, where something did. `note`:
    what is worth knowing of one that works. `program`: its own name and version."""

    server_id: str
    state: State = "off"
    sentence: str = ""
    note: str = ""
    program: str = ""
    tools: tuple[ServerTool, ...] = ()
    resources: tuple[ServerResource, ...] = ()
    prompts: tuple[ServerPrompt, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call, or a question, ended. kind: done, failed (`text` is a sentence), cancelled.

    `is_error`: the tool itself says that it failed. `whole`: see `answers.Answer`.
    """

    kind: Literal["done", "failed", "cancelled"]
    text: str = ""
    whole: str = ""
    is_error: bool = False
    took_s: float = 0.0
    notes: tuple[str, ...] = field(default=())
