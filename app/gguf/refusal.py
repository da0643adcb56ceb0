"""Why a file cannot be used, in words for the user."""

from __future__ import annotations

from app.refusal import Refusal


class HeaderRefused(Refusal):
    """The file cannot be used."""


class Fault(Exception):  # noqa: N818
    """What is wrong with the file, found where its name is not known: `words` go on from it."""

    def __init__(self, kind: str, words: str, evidence: str = "") -> None:
        super().__init__(words)
        self.kind = kind
        self.words = words
        self.evidence = evidence


def damaged(reason: str, evidence: str = "") -> Fault:
    """A file that starts as a GGUF and then says what cannot be."""
    return Fault("not_a_gguf", f"is damaged: {reason}. Download it again.", evidence)


def incomplete(have: int, expected: int | None) -> Fault:
    """A file that ends too early; `expected` is None where it ends inside its own header."""
    if expected is None:
        words = f"is incomplete: it ends after {have:,} bytes, within its header."
    else:
        words = f"is incomplete: {have:,} of {expected:,} bytes."
    return Fault("incomplete_file", f"{words} Download it again.")
