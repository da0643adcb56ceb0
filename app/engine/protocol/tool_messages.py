"""Tools on the wire: what a reply may call, and what it called.

A tool is described as OpenAI's function form has it: a name, a sentence, and a JSON schema of its
arguments. What a reply calls comes as the weights wrote it: `arguments` is JSON text that nobody
has held against the schema (a grammar may have, see `ChatPrompt.tool_choice`), so whoever runs it
reads it as untrusted. Nobody here runs anything.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from app.engine.protocol.frames import Amount, Count, Name, Text, WireMessage

Part = Literal["content", "reasoning", "call"]
"""Of a reply's text. "call": a call as the weights wrote it, marks included; it is in no
`Summary.text`. One that turns out to be none comes again as content (`BAD_CALL`)."""

AUTO: Final = "auto"
NONE: Final = "none"
REQUIRED: Final = "required"
"""What `ChatPrompt.tool_choice` may be beside the name of a tool."""

CALLED: Final = "tool_calls"
"""`Summary.stop_reason` of a reply that ended with calls."""

BAD_CALL: Final = "bad_tool_call"
"""The kind of the note that says why a call could not be read."""

LOOSE_CALL: Final = "loose_tool_call"
"""The kind of the note that says that no grammar held a call to its tool's schema."""

MAX_BOUND_SCHEMA: Final = 16 * 1024
"""Characters of a tool's schema that a grammar is made of; a larger one takes longer than anybody
waits."""

MAX_TOOLS: Final = 1024
MAX_CALLS: Final = 128
"""Of one reply."""


class Tool(WireMessage, frozen=True, tag=True):
    """`parameters`: a JSON schema of an object, as text."""

    name: str
    description: str = ""
    parameters: str = "{}"


class ToolCall(WireMessage, frozen=True, tag=True):
    """`id`: the family's own, or one that was made for it, so that a result can name it."""

    id: Name
    name: Name
    arguments: Text = "{}"


Calls = Annotated[list[ToolCall], msgspec.Meta(max_length=MAX_CALLS)]


class ToolCalled(WireMessage, frozen=True, tag=True):
    """A call of a reply is whole; `index` counts from 0. The reply may go on with another one."""

    id: Amount
    index: Count
    call: ToolCall
