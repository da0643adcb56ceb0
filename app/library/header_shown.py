"""All that a header says, in the rows that are shown and searched. Made beside the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Final

from app.gguf.facts import Facts, facts_of
from app.gguf.header import (
    ARRAY,
    KIND_NAMES,
    MAIN_TEMPLATE,
    STRING,
    TEMPLATE_KEY,
    Entry,
    Header,
    TensorInfo,
    Value,
    read_header,
)
from app.gguf.local.split_names import part_names, split_name
from app.gguf.refusal import HeaderRefused
from app.gguf.values import NewValue, text_of_value

PREVIEW_CHARACTERS: Final = 200
MAX_PARTS: Final = 256
"""Of a split set that are looked into."""
SOUGHT_CHARACTERS: Final = 20_000
"""How far into a value a search looks."""


@dataclass(frozen=True, slots=True)
class ValueRow:
    """One key. `entry` is None where it is to be added, `new` its new value, if it gets one;
    `is_removed` if it is to be taken out."""

    key: str
    kind_name: str
    preview: str
    sought: str
    entry: Entry | None
    new: NewValue | None = None
    is_removed: bool = False

    @property
    def is_changed(self) -> bool:
        return self.is_removed or self.new is not None


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One tensor; `begins` counts from the start of its file, which is number `part` of a split
    set, or 0 where there is only one."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    n_weights: int
    size_bytes: int
    begins: int
    part: int
    sought: str

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.size_bytes / self.n_weights if self.n_weights else 0.0


@dataclass(frozen=True)
class HeaderShown:
    """`values` are in the file's order, and so are `tensors`, those of all parts of a split set.
    `missing` names the parts of the set that are not there."""

    header: Header
    facts: Facts
    values: tuple[ValueRow, ...]
    tensors: tuple[TensorRow, ...]
    missing: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return self.header.path

    @cached_property
    def templates(self) -> dict[str, str]:
        """Name → chat template, the main one ("default") first."""
        found = {}
        for name in self.header.template_names:
            key = TEMPLATE_KEY + (f".{name}" if name != MAIN_TEMPLATE else "")
            found[name] = str(self.header.metadata.get(key, ""))
        return found


def read_shown(path: Path) -> HeaderShown:
    """Read a file's header, and those of the other parts where it is one of a split set. Raises
    HeaderRefused for the file itself; a part that cannot be read counts as missing."""
    header, split = read_header(path), split_name(path.name)
    if split is None or split.of > MAX_PARTS:
        return shown({0: header})
    parts, missing = {split.part: header}, []
    for number, name in enumerate(part_names(split), 1):
        if number == split.part:
            continue
        try:
            parts[number] = read_header(path.with_name(name))
        except HeaderRefused:
            missing.append(name)
    return shown(dict(sorted(parts.items())), of=split.part, missing=missing)


def shown(parts: Mapping[int, Header], of: int = 0, missing: Sequence[str] = ()) -> HeaderShown:
    """`parts`: number → header, in order; the values are those of part `of`. A file that is whole
    is part 0."""
    header = parts[of]
    return HeaderShown(
        header=header,
        facts=facts_of(header, *(other for number, other in parts.items() if number != of)),
        values=tuple(value_row(key, header, None) for key in header.entries),
        tensors=tuple(
            _tensor_row(tensor, number, each.data_offset)
            for number, each in parts.items()
            for tensor in each.tensors
        ),
        missing=tuple(missing),
    )


def value_row(
    key: str, header: Header, new: NewValue | None, *, is_removed: bool = False
) -> ValueRow:
    """The row of a key as it is, or as it is to be."""
    entry = header.entries.get(key)
    if new is not None:
        kind_name, value = kind_name_of(new), new.value
        text = text_of_value(value)
        preview = one_line(text, PREVIEW_CHARACTERS)
    else:
        assert entry is not None
        kind_name, text = entry.kind_name, _text_of(key, header)
        preview = one_line(text, PREVIEW_CHARACTERS) if text else _counted(entry)
    sought = f"{key}\n{kind_name}\n{text[:SOUGHT_CHARACTERS]}".casefold()
    return ValueRow(key, kind_name, preview, sought, entry, new, is_removed)


def kind_name_of(new: NewValue) -> str:
    name = KIND_NAMES[new.kind]
    return f"{name} of {KIND_NAMES[new.item_kind]}" if new.kind == ARRAY else name


def one_line(text: str, limit: int) -> str:
    """A text in one line, cut; what cannot be seen has a sign.

    >>> one_line("a\\nb\\x1b[0m", 5)
    'a↵b�[…'
    """
    cut = text[:limit]
    signs = {"\n": "↵", "\t": "→", "\r": "␍"}
    line = "".join(c if c.isprintable() else signs.get(c, "�") for c in cut)
    return line + "…" * (len(text) > limit)


def matches(sought: str, words: Sequence[str]) -> bool:
    """Whether each of the casefolded words is found."""
    return all(word in sought for word in words)


def _text_of(key: str, header: Header) -> str:
    """A value as text; "" for what was passed over, and for what is empty."""
    value: Value | None = header.metadata.get(key)
    return "" if value is None else text_of_value(value)


def _counted(entry: Entry) -> str:
    if entry.kind == ARRAY:
        return f"{entry.count:,} item{'' if entry.count == 1 else 's'}"
    return f"a text of {entry.count:,} bytes" if entry.kind == STRING and entry.count else ""


def _tensor_row(tensor: TensorInfo, part: int, data_offset: int) -> TensorRow:
    return TensorRow(
        name=tensor.name,
        type_name=tensor.type_name,
        shape=tensor.shape,
        n_weights=prod(tensor.shape),
        size_bytes=tensor.size_bytes,
        begins=data_offset + tensor.offset,
        part=part,
        sought=f"{tensor.name}\n{tensor.type_name}".casefold(),
    )
