"""Which of a repository's projectors goes with which of its models: folder, name, precision."""

from __future__ import annotations

from collections.abc import Iterable

from app.gguf.local.projecting import BITS, likeness
from app.hub.records import HubFile


def projectors_for(name: str, files: Iterable[HubFile]) -> tuple[HubFile, ...]:
    """For the model of this name (with its folder), the best first: the nearest, then the most
    alike, then by precision.

    >>> def file(name, bits):
    ...     return HubFile("a/b", "main", (name,), (9,), ("",), bits, is_projector=True)
    >>> some = [file("mmproj-F32.gguf", "F32"), file("mmproj-F16.gguf", "F16"), file("x.gguf", "")]
    >>> [each.name for each in projectors_for("tiny-Q4_0.gguf", some[:2])]
    ['mmproj-F16.gguf', 'mmproj-F32.gguf']
    """
    folder, _, plain = name.rpartition("/")

    def rank(each: HubFile) -> tuple[object, ...]:
        its_folder, _, its_name = each.name.rpartition("/")
        bits = BITS.index(each.quantisation) if each.quantisation in BITS else len(BITS)
        return (its_folder != folder, -likeness(plain, its_name), bits, each.size_bytes, its_name)

    able = [each for each in files if each.is_projector and not each.missing]
    return tuple(sorted(able, key=rank))
