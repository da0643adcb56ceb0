"""What a chat template lets a reply do about reasoning: asked for, and as it is told.

The template process finds it out (`app/engine/templates/thinking.py`); the engine keeps what each
choice means, and the window is told the names alone.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from app.engine.protocol.frames import FEW, Amount, Text, WireMessage, Word

AUTO: Final = ""
ON: Final = "on"
OFF: Final = "off"
"""Choices that have the same name whatever the template; all others are efforts."""


def ended_sentence(limit: int) -> str:
    """What is said where reasoning was closed by force."""
    return f"Reasoning ended at the limit of {limit:,} token{'' if limit == 1 else 's'}."


class ReadThinking(WireMessage, frozen=True, tag=True):
    """What can be chosen with this template (None: the file's own, or the one of that name) where
    it is given these `variables` (JSON). -> ThinkingOffer"""

    id: Amount
    template: str | None = None
    template_name: str | None = None
    reasoning_tags: list[tuple[str, str]] = msgspec.field(default_factory=list)
    variables: str = ""


class ThinkingOffer(WireMessage, frozen=True, tag=True):
    """`choices`: on, off, and the efforts that the template names, in their order; none: it has no
    switch. `auto`: which of them the template takes by itself; empty where that is none of them.
    `variables`: the other names that it reads. `has_reasoning`: it writes or speaks of reasoning
    tags, so its replies may reason, with a switch or without."""

    choices: Annotated[list[Word], FEW] = msgspec.field(default_factory=list)
    auto: Word = ""
    variables: Annotated[list[Word], FEW] = msgspec.field(default_factory=list)
    has_reasoning: bool = False


class ThinkingChoice(WireMessage, frozen=True, tag=True):
    """What a choice means to the template: `variables` to give it (JSON), and `flag`, a text in the
    system prompt that it looks for. `opens`: a prompt then ends inside reasoning.
    `needs_no_system`: with a system prompt the template passes over it (Granite)."""

    name: Word
    variables: Text = ""
    flag: Text = ""
    opens: bool = False
    needs_no_system: bool = False


class TemplateInspected(WireMessage, frozen=True, tag=True):
    """All that was found out. `budget`: the variable, if any, that takes a number of tokens.
    `usual_opens`: a prompt for which nothing was chosen ends inside reasoning."""

    offer: ThinkingOffer = msgspec.field(default_factory=ThinkingOffer)
    choices: Annotated[list[ThinkingChoice], FEW] = msgspec.field(default_factory=list)
    budget: Word = ""
    usual_opens: bool = False

    def choice(self, name: str) -> ThinkingChoice | None:
        """None for auto, and for what this template does not know."""
        same = (one for one in self.choices if one.name.lower() == name.lower())
        return next((one for one in self.choices if one.name == name), next(same, None))
