"""What a request may say, judged without llama.cpp, a vocabulary or a context.

Whoever builds a request can ask before anything is sent, and the supervisor asks before it sends:
a number of any size that a person, a file or the database has is then a sentence, not a fault on
a thread. What needs the loaded weights (a token's ID, a grammar, the prompt's length) is judged
by the engine's `admission.py`.
"""

from __future__ import annotations

import re
from typing import Final

from app.engine.protocol.adapter_messages import check_adapters
from app.engine.protocol.bounds import BadSetting, Bounds, check_list, check_number, shown_text
from app.engine.protocol.cut_messages import check_cuts
from app.engine.protocol.draft_messages import check_drafts
from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import ChatPrompt
from app.engine.protocol.stage_rules import check_stages
from app.engine.protocol.template_variables import read_variables
from app.engine.protocol.tool_messages import AUTO, MAX_TOOLS, NONE, REQUIRED

MAX_STOPS: Final = 64
MAX_STOP_CHARACTERS: Final = 4096
MAX_TOKENS: Final = 10_000_000
MAX_ALTERNATIVES: Final = 64
MAX_DEADLINE_S: Final = 1_000_000
"""Eleven days; a timer takes no more than 292 years."""

_TOOL_NAME: Final = re.compile(r"[\w.\-/:]{1,128}", re.ASCII)
_LARGEST_ID: Final = 2**31 - 1

_NUMBERS: Final = (
    (
        "max_tokens",
        "The maximum number of tokens",
        Bounds(0, MAX_TOKENS, f"0 (no limit) to {MAX_TOKENS:,}", whole=True),
    ),
    (
        "alternatives",
        "Alternatives",
        Bounds(0, MAX_ALTERNATIVES, f"between 0 and {MAX_ALTERNATIVES}", whole=True),
    ),
    ("deadline_s", "The deadline", Bounds(0, MAX_DEADLINE_S, f"0 (none) to {MAX_DEADLINE_S:,} s")),
)


MAX_BUDGET: Final = 10_000_000

_BUDGET: Final = Bounds(0, MAX_BUDGET, f"0 (no limit) to {MAX_BUDGET:,}", whole=True)


def check_request(generate: Generate, n_vocab: int | None = None) -> None:
    """Raise BadSetting for the first value that cannot be used. Without the size of the vocabulary
    a token's ID may be any that a vocabulary could have; grammars are not looked at."""
    check_stages(generate.sampling, n_vocab)
    check_cuts(generate.cuts or ())
    check_drafts(generate.drafts)
    check_adapters(generate.adapters)
    for field, label, bounds in _NUMBERS:
        check_number(getattr(generate, field), label, field, bounds)
    if isinstance(generate.prompt, ChatPrompt):
        check_tools(generate.prompt)
        budget = generate.prompt.reasoning_budget
        read_variables(generate.prompt.variables)
        check_number(budget, "The reasoning limit", "reasoning_budget", _BUDGET)
    if len(generate.stop) > MAX_STOPS:
        raise BadSetting("stop", f"At most {MAX_STOPS} stop strings can be set.")
    for stop in generate.stop:
        if not 0 < len(stop) <= MAX_STOP_CHARACTERS:
            raise BadSetting(
                "stop", f"A stop string must have 1 to {MAX_STOP_CHARACTERS:,} characters."
            )
    check_list(generate.stop_ids, "The list of stop tokens", "stop_ids", most=MAX_STOPS)
    most = _LARGEST_ID if n_vocab is None else n_vocab - 1
    bounds = Bounds(0, most, f"a token's ID, 0 to {most:,}", whole=True)
    for token_id in generate.stop_ids:
        check_number(token_id, "A stop token", "stop_ids", bounds)


def check_tools(prompt: ChatPrompt) -> None:
    """Raise BadSetting for tools that no reply could call."""
    if len(prompt.tools) > MAX_TOOLS:
        raise BadSetting("tools", f"A reply can be offered at most {MAX_TOOLS:,} tools.")
    names = [tool.name for tool in prompt.tools]
    for name in names:
        if not _TOOL_NAME.fullmatch(name):
            raise BadSetting(
                "tools",
                f"“{shown_text(name)}” can't be the name of a tool. Use 1 to 128 letters, digits, "
                "and the signs . _ - / : only.",
            )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadSetting("tools", f"Two tools are called “{twice}”. Rename one of them.")
    if prompt.tool_choice not in (AUTO, NONE, REQUIRED, *names):
        raise BadSetting(
            "tool_choice",
            f"The tool choice is “{shown_text(prompt.tool_choice)}”. Use auto, none, required or "
            "the name of a tool.",
        )
    if prompt.tool_choice == REQUIRED and not names:
        raise BadSetting("tool_choice", "A tool call is required, but no tools are on offer.")
