"""Grammars on the wire: whether one can be used, asked while it is written."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from app.engine.protocol.frames import FEW, Amount, Count, Sentence, WireMessage

MAX_GRAMMAR_BYTES: Final = 64 * 1024
"""Of a grammar, and of a schema."""


class CheckGrammar(WireMessage, frozen=True, tag=True):
    """Whether a reply could be bound by this; one of the two is given. -> GrammarChecked"""

    id: Amount
    grammar: str = ""
    json_schema: str = ""


class GrammarChecked(WireMessage, frozen=True, tag=True):
    """`sentence`: why it cannot be used; nothing: it can. `line` and `column` (of characters) count
    from 1, and are 0 where the whole is meant. `notes`: what of a schema is not held."""

    sentence: Sentence = ""
    line: Count = 0
    column: Count = 0
    notes: Annotated[list[Sentence], FEW] = msgspec.field(default_factory=list)
