"""What somebody chose to export, and what each kind of file is called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Form = Literal["json", "markdown", "html", "pdf", "docx", "training", "tokens"]
Shape = Literal["messages", "sharegpt"]
Paper = Literal["A4", "Letter"]

SUFFIXES: Final[dict[Form, str]] = {
    "json": ".json",
    "markdown": ".md",
    "html": ".html",
    "pdf": ".pdf",
    "docx": ".docx",
    "training": ".jsonl",
    "tokens": ".csv",
}
TOGETHER: Final[frozenset[Form]] = frozenset(("json", "training"))
"""Several chats are one file; of the others each is a file of its own."""
AS_READ: Final[frozenset[Form]] = frozenset(("html", "pdf", "docx"))
"""Made to be read; of these a text document is its text, not the changes that made it."""

ZIP: Final = ".zip"


@dataclass(frozen=True, slots=True)
class Choices:
    """`branches`: all versions, not only those on screen. `tints`: replies as their tokens, each
    with its probability. `alternatives`: how many of each token. `shape` is that of training
    files, where a chat's system prompt can be left out."""

    form: Form = "json"
    branches: bool = False
    reasoning: bool = True
    tints: bool = False
    system: bool = True
    shape: Shape = "messages"
    alternatives: int = 10
    paper: Paper = "A4"
