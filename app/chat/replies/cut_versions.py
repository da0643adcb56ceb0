"""Versions of a reply that are written with parts of the network cut out, recorded as such.

`CUTS` in a reply's settings: what `recorded` has, so that it is labelled for good and can be run
again. What the file or a newer version wrote may be anything: what can't be read is no cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.cut_messages import Cut, CutMode, check_cuts
from app.engine.protocol.messages import Generate
from app.insight.inside.cuts import label_of

CUTS: Final = "cuts"

Part = Literal["whole", "cut", "control"]
"""What a version is for: nothing is cut in it, what was asked for, or other parts by chance."""

WHOLE: Final = "Nothing cut"
CONTROL: Final = "Control: {label}"


class CutVersion(msgspec.Struct, frozen=True):
    """`of`: the reply that was asked about, from which of its `index` tokens on. `group`: versions
    that were written together, from one shared beginning, have the same. `seed`: which the control
    was chosen by."""

    parts: list[Cut]
    mode: CutMode = "mean"
    role: Part = "cut"
    of: str = ""
    index: int = 0
    group: str = ""
    seed: int = 0

    @property
    def label(self) -> str:
        """
        >>> CutVersion([Cut("head", 3, 1)], "mean", "control").label
        'Control: without head 1 of layer 3 (mean)'
        """
        if self.role == "whole":
            return WHOLE
        label = label_of(self.parts, self.mode)
        return (
            CONTROL.format(label=label) if self.role == "control" else label[0].upper() + label[1:]
        )


def as_recorded(version: CutVersion) -> dict[str, Any]:
    """As it stands in a reply's settings."""
    stored: dict[str, Any] = msgspec.to_builtins(version)
    return stored


def cuts_of(settings: Mapping[str, Any]) -> CutVersion | None:
    """How a reply was cut; None where it was not, or nobody can tell any more."""
    try:
        version = msgspec.convert(settings[CUTS], CutVersion)
        check_cuts(version.parts)
    except (KeyError, msgspec.ValidationError, BadSetting):
        return None
    return version


def with_cuts(request: Generate, recorded: Any) -> Generate:
    """The request, to be written as that version was."""
    version = cuts_of({CUTS: recorded})
    if version is None:
        return request
    return msgspec.structs.replace(request, cuts=version.parts, cut_mode=version.mode)


def versions_of(
    cuts: Sequence[Cut], control: Sequence[Cut], mode: CutMode, *, seed: int, **said: Any
) -> list[CutVersion]:
    """The three that are held against each other; without a control two."""
    made = [CutVersion([], mode, "whole", **said), CutVersion(list(cuts), mode, "cut", **said)]
    if control:
        made.append(CutVersion(list(control), mode, "control", seed=seed, **said))
    return made
