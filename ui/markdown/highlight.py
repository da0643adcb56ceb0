"""Code → coloured runs, by Pygments. Imported at the first code block with a known language."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pygments.lexer import Lexer

# Pygments' token names, longest first where they nest, and the colour that they get.
_COLORS = {
    ("Comment",): "code_comment",
    ("Keyword", "Type"): "code_type",
    ("Keyword",): "code_keyword",
    ("Operator", "Word"): "code_keyword",
    ("Literal", "String"): "code_string",
    ("Literal", "Number"): "code_number",
    ("Literal", "Date"): "code_number",
    ("Name", "Function"): "code_name",
    ("Name", "Class"): "code_type",
    ("Name", "Exception"): "code_type",
    ("Name", "Namespace"): "code_type",
    ("Name", "Builtin"): "code_builtin",
    ("Name", "Decorator"): "code_builtin",
    ("Name", "Tag"): "code_keyword",
    ("Name", "Attribute"): "code_name",
    ("Name", "Constant"): "code_number",
    ("Generic", "Heading"): "code_name",
    ("Generic", "Subheading"): "code_name",
    ("Generic", "Inserted"): "code_string",
    ("Generic", "Deleted"): "code_number",
    ("Generic", "Prompt"): "code_comment",
}

Run = tuple[int, int, str]


def runs(code: str, language: str) -> Iterator[Run]:
    """(start, length, name of a colour) for everything that is not plain ink, in order.

    The iterator is lazy: a caller may take as many runs as it has time for.
    """
    lexer = _lexer(language)
    if lexer is None:
        return
    for start, token, text in _tokens(lexer, code):
        color = _color(tuple(token))
        if color and text.strip():
            yield start, len(text), color


def _tokens(lexer: Lexer, code: str) -> Iterator[tuple[int, Any, str]]:
    # The unprocessed ones keep positions: get_tokens() strips and adds line feeds.
    tokens: Iterator[tuple[int, Any, str]] = lexer.get_tokens_unprocessed(code)
    return tokens


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    if not language:
        return None
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language.lower())
    except ClassNotFound:
        return None


@lru_cache(maxsize=512)
def _color(token: tuple[str, ...]) -> str:
    for size in range(len(token), 0, -1):
        if color := _COLORS.get(token[:size]):
            return color
    return ""
