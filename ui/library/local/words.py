"""What is said of weights on this machine. Pure; no Qt."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.amounts import bytes_words
from ui.widgets.figures import parameters_text

if TYPE_CHECKING:
    from app.gguf.local.entries import FoundWeights
    from app.gguf.local.projecting import Projector
    from app.library.local import LocalSnapshot

MAX_ALSO: Final = 3
KINDS: Final = {
    "base": "no chat template",
    "embedding": "embedding",
    "adapter": "adapter",
    "projector": "projector",
    "other": "not for chat",
}


def place_text(path: Path, home: Path) -> str:
    """A folder, with `~` for the home folder."""
    try:
        return str(Path("~") / path.relative_to(home))
    except ValueError:
        return str(path)


def one_line(text: str) -> str:
    """A name from a disk, fit to be shown."""
    return "".join(c if c.isprintable() else "�" for c in text)


def second_line(weights: FoundWeights, home: Path, senses: str = "") -> str:
    """Below the name: why it cannot be used, else where it lies. `senses`: what it sees by, or of a
    projector, what it lets models do."""
    if weights.trouble and not is_projector(weights):
        return one_line(weights.trouble)
    kind = KINDS.get(weights.facts.kind if weights.facts is not None else "", "")
    parts = f"{len(weights.parts)} files" if len(weights.parts) > 1 else ""
    also = ""
    if weights.also_at:
        n_more = len(weights.also_at) - 1
        also = f"also at {place_text(weights.also_at[0].parent, home)}"
        also += f" and {n_more:,} more" if n_more else ""
    where = place_text(weights.path.parent, home)
    return one_line(" · ".join(part for part in (kind, senses, parts, where, also) if part))


def is_projector(weights: FoundWeights) -> bool:
    """Whether it is a whole one, which is of use beside a model."""
    return weights.facts is not None and weights.facts.kind == "projector" and not weights.missing


def senses_of(projector: Projector | None) -> str:
    """What a model that is loaded with it can do, and by which file.

    >>> senses_of(None)
    ''
    """
    if projector is None:
        return ""
    return f"{projector.senses}: {projector.path.name}, {bytes_words(projector.size_bytes)}"


def whole_words(weights: FoundWeights, senses: str = "") -> str:
    """All that is to be said of where it lies, for who chose it."""
    lines = [weights.trouble] if weights.trouble else []
    lines += [f"{senses[:1].upper()}{senses[1:]}."] if senses else []
    lines.append(str(weights.path))
    lines += [f"Also at {path}" for path in weights.also_at[:MAX_ALSO]]
    if len(weights.also_at) > MAX_ALSO:
        lines.append(f"And at {len(weights.also_at) - MAX_ALSO:,} more places.")
    if weights.sha256:
        how = "computed" if weights.is_computed else "from its name, not computed yet"
        lines.append(f"SHA-256 {weights.sha256[:16]}… ({how})")
    return "\n".join(one_line(line) for line in lines)


def status_text(snapshot: LocalSnapshot, n_shown: int) -> str:
    """How many there are, and what is still going on."""
    n_all = len(snapshot.entries)
    size = bytes_words(sum(weights.size_bytes for weights in snapshot.entries))
    some = f"{n_shown:,} of {n_all:,}" if n_shown != n_all else f"{n_all:,}"
    words = f"{some} found · {size}" if n_all else ""
    if snapshot.is_looking:
        return f"{words} · looking…" if words else "Looking…"
    if snapshot.n_unhashed:
        files = "1 file" if snapshot.n_unhashed == 1 else f"{snapshot.n_unhashed:,} files"
        return f"{words} · {files} left to compare by content"
    return words


def folded(text: str) -> str:
    """As names are compared: letters great or small, accents on their own or not."""
    return unicodedata.normalize("NFC", text.casefold())


def matches(weights: FoundWeights, words: list[str], senses: str = "") -> bool:
    """Whether each word (folded) stands in something that is known of the weights."""
    facts = weights.facts
    known = [weights.name, weights.origin, senses, *map(str, weights.all_paths)]
    if facts is not None:
        known += [facts.architecture, facts.quantisation, facts.name, facts.licence]
        known.append(parameters_text(facts.n_parameters))
        known.append(KINDS.get(facts.kind, ""))
    text = folded("\n".join(known))
    return all(word in text for word in words)
