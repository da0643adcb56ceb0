"""What the header's window says in words. No Qt."""

from __future__ import annotations

from app.amounts import bytes_words
from app.library.header_shown import HeaderShown, one_line


def is_part(shown: HeaderShown) -> bool:
    """Whether the file is one of a split set."""
    return shown.header.metadata.get("split.count", 1) not in (0, 1)


def summary(shown: HeaderShown) -> str:
    """The facts in a line or two."""
    facts, header = shown.facts, shown.header
    parts = [
        facts.architecture and f"{facts.architecture} ({facts.kind})",
        facts.n_parameters and f"{facts.n_parameters:,} parameters",
        facts.quantisation,
        facts.bits_per_weight and f"{facts.bits_per_weight:.2f} bits per weight",
        facts.n_layer is not None and f"{facts.n_layer} layers",
        facts.n_ctx_train is not None and f"context window {facts.n_ctx_train:,} tokens",
        facts.n_vocab is not None and f"vocabulary of {facts.n_vocab:,}",
        facts.licence and f"licence {facts.licence}",
        bytes_words(header.size_bytes) + (" in this part" if is_part(shown) else ""),
        f"GGUF version {header.version}",
        shown.missing and f"missing {', '.join(shown.missing[:3])}",
    ]
    return one_line(" · ".join(str(part) for part in parts if part), 600)


def counted(n_shown: int, n_all: int, what: str) -> str:
    plural = "" if n_all == 1 else "s"
    if n_shown == n_all:
        return f"{n_all:,} {what}{plural}"
    return f"{n_shown:,} of {n_all:,} {what}{plural}"
