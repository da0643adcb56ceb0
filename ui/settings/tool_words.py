"""How a tool server is, in words. No Qt."""

from __future__ import annotations

from app.tools.records import ServerState
from app.tools.servers import ToolServer, joined_line


def state_words(state: ServerState) -> str:
    """
    >>> state_words(ServerState("a")), state_words(ServerState("a", "starting"))
    ('off', 'starting…')
    """
    match state.state:
        case "off":
            return "off"
        case "starting":
            return "starting…"
        case "failed":
            return "failed"
        case "ended":
            return "ended"
    parts = [counted(len(state.tools), "tool")]
    if state.resources:
        parts.append(counted(len(state.resources), "resource"))
    if state.prompts:
        parts.append(counted(len(state.prompts), "prompt"))
    return f"ready, {', '.join(parts)}"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def where_words(server: ToolServer) -> str:
    """The command, or the address."""
    return server.address or joined_line(server.command, server.arguments)
