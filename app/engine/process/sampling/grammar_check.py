"""Answers `CheckGrammar`: llama.cpp's own parser looks at a grammar that is being written."""

from __future__ import annotations

from app.engine.process.native.vocabulary import Vocabulary
from app.engine.process.sampling.grammar import check_grammar, schema_notes
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.grammar_messages import CheckGrammar, GrammarChecked


def checked_grammar(command: CheckGrammar, vocabulary: Vocabulary) -> GrammarChecked:
    try:
        check_grammar(command.grammar, command.json_schema, vocabulary)
    except BadSetting as refused:
        line, column = refused.place or (0, 0)
        return GrammarChecked(refused.sentence, line, column)
    return GrammarChecked(notes=list(schema_notes(command.json_schema)))
