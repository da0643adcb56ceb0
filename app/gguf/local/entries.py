"""Which files on this machine are one entry: arithmetic on what was seen and read.

The same file is one entry, however many paths lead to it (links, hard links, a folder inside
another one, NFC and NFD); so is a split set, and the same content in several files, once that is
known. A set with parts missing is named as such. A blob of Hugging Face's or Ollama's is named by
its SHA-256: that counts until it is computed, and one that turns out to be something else is named
as damaged.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from app.gguf.facts import Facts, TypeShare
from app.gguf.local.places import Origin
from app.gguf.local.seen import LookedFile, SeenFile
from app.gguf.local.split_names import part_names, set_name

_PLAIN_STEMS: Final = frozenset({"model", "ggml-model", "mmproj", "mmproj-model", "adapter"})
"""File names that say nothing: there the folder tells the weights' name."""


@dataclass(frozen=True, slots=True)
class FoundWeights:
    """One network on this machine.

    `path` is what is loaded: the (first) file. `parts` are all files of a split set that are
    there, `missing` the names of those that are not. `also_at` has the same content elsewhere,
    `links` are other paths to the same files.
    `trouble` says why it cannot be chatted with, and what to do. `sha256` is the whole content's
    (empty for a set of parts, and where it is not known); `is_computed`: not only claimed by
    the name of a blob. `kept_with`: as `SeenFile`'s, of all paths.
    """

    path: Path
    parts: tuple[Path, ...]
    missing: tuple[str, ...]
    size_bytes: int
    origin: str
    name: str
    also_at: tuple[Path, ...] = ()
    links: tuple[Path, ...] = ()
    facts: Facts | None = None
    trouble: str = ""
    sha256: str = ""
    is_computed: bool = False
    kept_with: tuple[str, ...] = ()

    @property
    def can_load(self) -> bool:
        return not self.trouble

    @property
    def all_paths(self) -> tuple[Path, ...]:
        """Every path at which this content was found."""
        return (self.path, *self.parts[1:], *self.also_at, *self.links)


def entries(looked: Iterable[LookedFile]) -> tuple[FoundWeights, ...]:
    """One entry for each network, by name."""
    found = [_entry(group) for group in _sets(looked)]
    merged = [_merged(same) for same in _by_content(found)]
    return tuple(sorted(merged, key=lambda e: (e.name.casefold(), os.fspath(e.path))))


@dataclass(frozen=True, slots=True)
class _File:
    """One file, by whatever paths."""

    looked: LookedFile
    others: tuple[Path, ...]
    links: tuple[Path, ...]


_ORDER: Final = {origin: number for number, origin in enumerate(Origin)}
_Rank = tuple[bool, int, bool, int, str]


def _rank(looked: LookedFile) -> _Rank:
    """Of several paths to one content the first in this order is shown."""
    seen = looked.seen
    return (
        bool(looked.trouble),
        _ORDER[seen.origin],
        seen.path != seen.real,
        len(seen.path.parts),
        os.fspath(seen.path),
    )


def _identity(looked: LookedFile) -> object:
    """What all paths to one file have in common."""
    stamp = looked.seen.stamp
    return (stamp.device, stamp.inode) if stamp.inode else plain(looked.seen.real)


def _file(group: list[LookedFile]) -> _File:
    """One file by all its paths, the one that is shown first."""
    first = group[0]
    if len(group) == 1:
        return _File(first, (), ())
    names = dict.fromkeys(name for each in group for name in each.seen.names)
    kept = dict.fromkeys(name for each in group for name in each.seen.kept_with)
    named = next((each.seen.named_sha256 for each in group if each.seen.named_sha256), "")
    sha256 = next((each.sha256 for each in group if each.sha256), "")
    seen = replace(first.seen, names=tuple(names), named_sha256=named, kept_with=tuple(kept))
    reals = {plain(first.seen.real)}
    others: list[Path] = []
    links: list[Path] = []
    for each in group[1:]:
        if plain(each.seen.real) not in reals:  # a hard link: another real path of the same file
            reals.add(plain(each.seen.real))
            others.append(each.seen.path)
        elif each.seen.path != first.seen.path:
            links.append(each.seen.path)
    return _File(replace(first, seen=seen, sha256=sha256), tuple(others), tuple(links))


def plain(path: Path) -> str:
    """A path as file systems compare it that do not tell NFC from NFD; and, on Windows, great
    letters from small ones."""
    text = unicodedata.normalize("NFC", os.fspath(path))
    return text.casefold() if sys.platform == "win32" else text


def _sets(looked: Iterable[LookedFile]) -> Iterator[list[_File]]:
    """Files alone, and the parts of split sets together, in order."""
    alone: dict[object, list[LookedFile]] = defaultdict(list)
    sets: dict[object, dict[int, list[LookedFile]]] = defaultdict(lambda: defaultdict(list))
    for each in looked:
        path = each.seen.path
        split = set_name(path.name)
        if split is None or split.of == 1:
            alone[_identity(each)].append(each)
        else:
            sets[plain(path.parent), plain(Path(split.stem)), split.of][split.part].append(each)
    for group in alone.values():
        yield [_file(sorted(group, key=_rank))]
    for parts in _joined_sets(list(sets.values())):
        yield [_file(parts[number]) for number in sorted(parts)]


def _joined_sets(sets: list[dict[int, list[LookedFile]]]) -> list[dict[int, list[LookedFile]]]:
    """Sets that lie in one folder each; one all of whose files are in another one as well, by
    links, is no entry of its own. So every revision in a cache stands for itself."""
    for parts in sets:
        for group in parts.values():
            group.sort(key=_rank)
    sets.sort(key=lambda parts: (-len(parts), _rank(parts[min(parts)][0])))
    joined: list[dict[int, list[LookedFile]]] = []
    having: dict[object, list[dict[int, list[LookedFile]]]] = defaultdict(list)
    for parts in sets:
        files = _files_of(parts)
        same = (kept for kept in having[next(iter(files))] if files <= _files_of(kept))
        whole = next(same, None)
        if whole is None:
            joined.append(parts)
            for file in files:
                having[file].append(parts)
            continue
        for number, group in parts.items():
            whole[number] += group
    return joined


def _files_of(parts: dict[int, list[LookedFile]]) -> set[object]:
    return {(number, _identity(group[0])) for number, group in parts.items()}


@dataclass(frozen=True, slots=True)
class _Entry:
    weights: FoundWeights
    rank: _Rank
    content: object
    """What two files of the same content have in common; None where that is not known."""
    guess: object
    """The same where it is likely, as long as it is not known: the same size, and the same name
    but for NFC and NFD."""


def _entry(files: list[_File]) -> _Entry:
    first = files[0].looked
    seen = first.seen
    split = set_name(seen.path.name)
    missing: tuple[str, ...] = ()
    if split is not None:
        there = {file.looked.seen.path.name for file in files}
        missing = tuple(name for name in part_names(split) if name not in there)
    hashes = [file.looked.sha256 or file.looked.seen.named_sha256 for file in files]
    size = sum(file.looked.seen.stamp.size_bytes for file in files)
    is_single = split is None
    weights = FoundWeights(
        path=seen.path,
        parts=tuple(file.looked.seen.path for file in files),
        missing=missing,
        size_bytes=size,
        origin=seen.origin,
        name=_name(seen, split.stem if split is not None else ""),
        also_at=files[0].others,
        links=tuple(path for file in files for path in file.links),
        facts=_joined([file.looked.facts for file in files]),
        trouble=_trouble(files, missing),
        sha256=hashes[0] if is_single else "",
        is_computed=is_single and bool(first.sha256),
        kept_with=seen.kept_with,
    )
    content = (size, tuple(hashes)) if all(hashes) and not missing else None
    return _Entry(weights, _rank(first), content, (size, plain(seen.path)))


def _name(seen: SeenFile, stem: str) -> str:
    if seen.names:
        return ", ".join(seen.names)
    stem = stem or seen.path.stem
    if stem.casefold() in _PLAIN_STEMS and seen.path.parent.name:
        folder = seen.path.parent.name
        return folder if stem.casefold().endswith("model") else f"{folder} ({stem})"
    return stem


def _trouble(files: list[_File], missing: tuple[str, ...]) -> str:
    if missing:
        shown = ", ".join(f"“{name}”" for name in missing[:3])
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        verb, them = ("is", "it") if len(missing) == 1 else ("are", "them")
        return f"{shown}{more} {verb} missing. Download {them} into the same folder."
    for file in files:
        looked = file.looked
        if looked.trouble:
            return looked.trouble
        if looked.sha256 and looked.seen.named_sha256 not in ("", looked.sha256):
            return (
                f"The content of “{looked.seen.path.name}” doesn't match the checksum in its "
                "name, so the file is damaged. Download it again."
            )
    facts = files[0].looked.facts
    return facts.trouble if facts is not None else ""


def _joined(all_facts: Sequence[Facts | None]) -> Facts | None:
    """What the parts of a set say together: the first has the keys, each its own tensors."""
    known = [facts for facts in all_facts if facts is not None]
    if not known or len(known) < len(all_facts):
        return None
    if len(known) == 1:
        return known[0]
    shares: dict[str, TypeShare] = {}
    for share in (share for facts in known for share in facts.types):
        before = shares.get(share.type_name, TypeShare(share.type_name, 0, 0, 0))
        shares[share.type_name] = TypeShare(
            share.type_name,
            before.n_tensors + share.n_tensors,
            before.n_weights + share.n_weights,
            before.size_bytes + share.size_bytes,
        )
    n_weights = sum(share.n_weights for share in shares.values())
    n_bits = 8 * sum(share.size_bytes for share in shares.values())
    return replace(
        known[0],
        n_parameters=sum(facts.n_parameters for facts in known),
        types=tuple(sorted(shares.values(), key=lambda share: -share.size_bytes)),
        bits_per_weight=n_bits / n_weights if n_weights else 0.0,
    )


def _by_content(found: list[_Entry]) -> list[list[_Entry]]:
    groups: dict[object, list[_Entry]] = {}
    guessed: dict[object, list[_Entry]] = {}
    for entry in sorted(found, key=lambda entry: entry.content is None):
        if entry.content is not None:
            group = groups.setdefault(entry.content, [])
            guessed.setdefault(entry.guess, group)
        else:
            group = guessed.setdefault(entry.guess, [])
            groups.setdefault(id(group), group)
        group.append(entry)
    return list({id(group): group for group in groups.values()}.values())


def _merged(same: list[_Entry]) -> FoundWeights:
    same.sort(key=lambda entry: entry.rank)
    first, *rest = (entry.weights for entry in same)
    if not rest:
        return first
    also_at = list(first.also_at)
    for weights in rest:
        also_at += [weights.path, *weights.also_at]
    return replace(
        first,
        also_at=tuple(dict.fromkeys(path for path in also_at if path != first.path)),
        links=tuple(path for weights in (first, *rest) for path in weights.links),
        is_computed=first.is_computed and all(weights.is_computed for weights in rest),
        kept_with=tuple(name for weights in (first, *rest) for name in weights.kept_with),
    )
