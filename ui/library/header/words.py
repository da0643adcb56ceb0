"""What the header's window says in words. No Qt."""

from __future__ import annotations

from app.amounts import bytes_words
from app.gguf.projector import ProjectorFacts
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
        facts.projector is not None and projector_words(facts.projector),
        facts.takes_pictures and "chat template has a place for pictures or sounds",
        facts.licence and f"licence {facts.licence}",
        bytes_words(header.size_bytes) + (" in this part" if is_part(shown) else ""),
        f"GGUF version {header.version}",
        shown.missing and f"missing {', '.join(shown.missing[:3])}",
    ]
    return one_line(" · ".join(str(part) for part in parts if part), 600)


def projector_words(projector: ProjectorFacts) -> str:
    """How it projects, for what, and for models of which embedding.

    >>> from app.gguf.projector import Encoder
    >>> projector_words(ProjectorFacts("gemma3", True, False, (2560,), Encoder(image_size=896)))
    'projects gemma3 · for pictures of 896 × 896 · for models with an embedding of 2,560'
    """
    size = projector.vision.image_size
    sees = f"pictures of {size:,} × {size:,}" if size else "pictures"
    senses = " and ".join([sees] * projector.sees + ["sounds"] * projector.hears)
    width = projector.widths[0] if len(projector.widths) == 1 else 0
    parts = [
        projector.kind and f"projects {projector.kind}",
        f"for {senses}",
        width and f"for models with an embedding of {width:,}",
    ]
    return " · ".join(str(part) for part in parts if part)


def counted(n_shown: int, n_all: int, what: str) -> str:
    plural = "" if n_all == 1 else "s"
    if n_shown == n_all:
        return f"{n_all:,} {what}{plural}"
    return f"{n_shown:,} of {n_all:,} {what}{plural}"
