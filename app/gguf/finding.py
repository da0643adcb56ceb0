"""Finds the weights in a place: which files there are, and which of them are one entry.

Three steps, so that each can be done and tested alone. `scan` walks one place and says what
lies there (paths, stamps, no content). `look_at` reads the header of one file. `entries` is
arithmetic: out of all that was seen in all places it makes one `FoundWeights` for each network.
What must hold:

* A walk ends: folders are known by device and inode, so no loop of links is walked twice, and
  what cannot be read is named while the rest goes on.
* The same file is one entry, however many paths lead to it (links, hard links, a folder inside
  another one, NFC and NFD); so is the same content in several files, once that is known.
* What is not whole is never taken for whole: neither a file under the name that programs give
  to a download they have begun, nor one beside such a file, nor a set with parts missing.

All of it is for a thread: disks sleep, and networks hang. `pace` is called at every step; it
may wait, and raises to end the walk.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from app.gguf.facts import Facts, TypeShare, facts_of
from app.gguf.header import HeaderRefused, read_header
from app.gguf.places import Layout, Origin, Place
from app.gguf.split_names import part_names, split_name

ENDING: Final = ".gguf"
PARTIAL_ENDINGS: Final = (
    ".part",
    ".partial",
    ".incomplete",
    ".crdownload",
    ".download",
    ".downloadinprogress",
    ".aria2",
    ".opdownload",
    ".!qb",
    ".!ut",
    ".bc!",
    ".tmp",
)
"""What programs add to the name of a file that they have not fetched whole. Some (Firefox, aria2)
put an empty or a sparse file under the final name beside it."""
PARTIAL_BEGINNINGS: Final = ("incomplete-", "downloading_")
NOT_ENTERED: Final = frozenset(
    {
        "$recycle.bin",
        ".fseventsd",
        ".spotlight-v100",
        ".trash",
        ".trashes",
        ".git",
        "lost+found",
        "system volume information",
    }
)
"""Trash and what belongs to the file system: nobody keeps weights there to use them."""
MAX_MANIFEST_BYTES: Final = 1 << 20
MAX_PARTS: Final = 1000
_NOT_REAL: Final = tuple(Path(name) for name in ("/proc", "/sys", "/dev", "/run"))
_SINGLE: Final = (Origin.INCLUDED, Origin.OPENED)
"""Files: whoever loads one that may not be read is told so then."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_PLAIN_STEMS: Final = frozenset({"model", "ggml-model", "mmproj", "mmproj-model", "adapter"})
"""File names that say nothing: there the folder tells the weights' name."""

Pace = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Stamp:
    """While nothing of this has changed, neither has the content of the file."""

    size_bytes: int
    mtime_ns: int
    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class SeenFile:
    """One path to a file that may hold weights.

    `real` is the path without links. `names` are what another program calls it. `named_sha256`
    is the hash that its store names it by: what is claimed, not what was computed. `is_begun`:
    a program has begun to fetch it, and has not ended.
    """

    path: Path
    real: Path
    stamp: Stamp
    origin: Origin
    names: tuple[str, ...] = ()
    named_sha256: str = ""
    is_begun: bool = False


@dataclass(slots=True)
class Scan:
    """What lies in one place. `troubles` are sentences; `folders` has the time of the last
    change in each folder that was walked, by which a change is found again."""

    place: Place
    files: list[SeenFile] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    folders: dict[Path, int] = field(default_factory=dict)

    def add_trouble(self, path: Path, error: OSError) -> None:
        others = "leave out weights of other programs under “Folders…”"
        instead = "remove the folder here" if self.place.is_chosen else others
        self.troubles.append(sentence_of(path, error, instead))


@dataclass(frozen=True, slots=True)
class LookedFile:
    """A file with what its header says, or why it cannot be used. `sha256` was computed."""

    seen: SeenFile
    facts: Facts | None = None
    trouble: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class FoundWeights:
    """One network on this machine.

    `path` is what is loaded: the (first) file. `parts` are all files of a split set that are
    there, `missing` the names of those that are not. `also_at` has the same content elsewhere,
    `links` are other paths to the same files.
    `trouble` says why it cannot be chatted with, and what to do. `sha256` is the whole content's
    (empty for a set of parts, and where it is not known); `is_computed`: not only claimed by
    the name of a blob.
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

    @property
    def can_load(self) -> bool:
        return not self.trouble

    @property
    def all_paths(self) -> tuple[Path, ...]:
        """Every path at which this content was found."""
        return (self.path, *self.parts[1:], *self.also_at, *self.links)


# --- walking ----------------------------------------------------------------------------------


def scan(place: Place, pace: Pace = lambda: None) -> Scan:
    """What lies in the place. A folder that is not there is a trouble only if it was chosen."""
    found = Scan(place)
    try:
        info = place.path.stat()
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        if place.is_chosen or (not is_gone and place.origin not in _SINGLE):
            found.add_trouble(place.path, error)
        return found
    if stat.S_ISREG(info.st_mode):
        _take_one(found)
    elif place.layout is Layout.OLLAMA:
        _scan_ollama(found, pace)
    else:
        _walk(found, place.path, pace)
    return found


def has_changed(found: Scan, pace: Pace = lambda: None) -> bool:
    """Whether anything in a scanned place is not as it was. Asks for times and sizes only."""
    if not found.folders and not found.files:
        return _is_there(found.place.path)
    for folder, changed_ns in found.folders.items():
        pace()
        try:
            if folder.stat().st_mtime_ns != changed_ns:
                return True
        except OSError:
            return True
    for seen in found.files:
        pace()
        try:
            if stamp_of(seen.path.stat()) != seen.stamp:
                return True
        except OSError:
            return True
    return False


def sentence_of(path: Path, error: OSError, instead: str = "remove the folder here") -> str:
    """Why a folder or a file cannot be looked into, and what to do; `instead` is the other way."""
    if isinstance(error, PermissionError):
        return f"“{path}” may not be read. Change its permissions, or {instead}."
    if isinstance(error, FileNotFoundError):
        return f"“{path}” is not there. Connect its disk, or {instead}."
    if isinstance(error, NotADirectoryError):
        return f"“{path}” is not a folder. Choose the folder that it lies in."
    reason = error.strerror or type(error).__name__
    return f"“{path}” cannot be read ({reason}). Check the disk or the connection to it."


def stamp_of(info: os.stat_result) -> Stamp:
    return Stamp(info.st_size, info.st_mtime_ns, info.st_dev, info.st_ino)


def _walk(found: Scan, top: Path, pace: Pace) -> None:
    """Every folder below `top` once; by links only those that are not reached without."""
    entered: set[object] = set()
    waiting, linked = [(top, Path(os.path.realpath(top)))], list[tuple[Path, Path]]()
    while waiting or linked:
        folder, real = waiting.pop() if waiting else linked.pop()
        pace()
        if real in _NOT_REAL:
            continue
        try:
            info = folder.stat()
            identity = (info.st_dev, info.st_ino) if info.st_ino else os.fspath(real)
            if identity in entered:
                continue
            entered.add(identity)
            with os.scandir(folder) as opened:
                listed = sorted(opened, key=lambda entry: entry.name)
        except OSError as error:
            if not isinstance(error, FileNotFoundError) or folder == top:
                found.add_trouble(folder, error)
            continue
        found.folders[folder] = info.st_mtime_ns
        names = {entry.name.casefold() for entry in listed}
        for entry in listed:
            pace()
            path, below = folder / entry.name, real / entry.name
            if _is_folder(entry):
                if not _may_enter(entry.name):
                    continue
                if _is_link(entry):
                    linked.append((path, Path(os.path.realpath(path))))
                else:
                    waiting.append((path, below))
            elif is_weights_name(entry.name):
                _take_file(found, path, below, entry, names)


def _take_one(found: Scan) -> None:
    """A place that is a file: that file, or the split set that it is a part of."""
    path = found.place.path
    split = split_name(path.name)
    names = part_names(split) if split is not None and split.of <= MAX_PARTS else [path.name]
    for name in names:
        other = path.with_name(name)
        try:
            info = other.stat()
        except OSError:
            continue  # a missing part is named by its set
        real = Path(os.path.realpath(other))
        begun = any(_is_there(other.with_name(name + e)) for e in PARTIAL_ENDINGS)
        called = (found.place.name,) if found.place.name else ()
        origin, by_name = found.place.origin, _named_by(real)
        found.files.append(SeenFile(other, real, stamp_of(info), origin, called, by_name, begun))


def _may_enter(name: str) -> bool:
    folded = name.casefold()
    return folded not in NOT_ENTERED and not folded.startswith(".trash-")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_link(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink() or (sys.version_info >= (3, 12) and entry.is_junction())
    except OSError:
        return True


def is_weights_name(name: str) -> bool:
    """Whether a file is called as whole weights are.

    >>> is_weights_name("Tiny-Q4_K_M.GGUF"), is_weights_name("tiny.gguf.part")
    (True, False)
    """
    folded = name.casefold()
    if folded.startswith("._"):  # what macOS puts beside each file on a foreign disk
        return False
    return folded.endswith(ENDING) and not folded.startswith(PARTIAL_BEGINNINGS)


def _take_file(
    found: Scan, path: Path, real: Path, entry: os.DirEntry[str], names: set[str]
) -> None:
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            return
        if _is_link(entry):
            real = Path(os.path.realpath(path))
    except OSError as error:
        if _is_link(entry) and isinstance(error, FileNotFoundError):
            found.troubles.append(
                f"“{path}” leads to a file that is not there any more. Download it again, or "
                "delete the link."
            )
        else:
            found.add_trouble(path, error)
        return
    folded = entry.name.casefold()
    found.files.append(
        SeenFile(
            path,
            real,
            stamp_of(info),
            found.place.origin,
            named_sha256=_named_by(real),
            is_begun=any(folded + ending in names for ending in PARTIAL_ENDINGS),
        )
    )


def _named_by(real: Path) -> str:
    """The SHA-256 that a blob in Hugging Face's cache is called by, if it is one."""
    is_blob = real.parent.name == "blobs" and _SHA256.fullmatch(real.name)
    return real.name if is_blob else ""


# --- Ollama -----------------------------------------------------------------------------------

_OLLAMA_KINDS: Final = {
    "application/vnd.ollama.image.model": "",
    "application/vnd.ollama.image.projector": " (projector)",
    "application/vnd.ollama.image.adapter": " (adapter)",
}


def _scan_ollama(found: Scan, pace: Pace) -> None:
    """Names from the manifests, weights where their blobs lie."""
    blobs = found.place.path / "blobs"
    named: dict[Path, SeenFile] = {}
    for manifest, name in _manifests(found, pace):
        for digest, kind in _layers(manifest):
            pace()
            label = name + kind
            path = next(filter(_is_there, _blob_paths(blobs, digest)), None)
            if path is None:
                found.troubles.append(
                    f"“{label}” of Ollama is incomplete: its weights are not there. Pull it again."
                )
                continue
            if path in named:
                names = (*named[path].names, label)
                named[path] = replace(named[path], names=tuple(dict.fromkeys(names)))
                continue
            try:
                info = path.stat()
            except OSError as error:
                found.add_trouble(path, error)
                continue
            real = Path(os.path.realpath(path))
            named[path] = SeenFile(
                path, real, stamp_of(info), Origin.OLLAMA, (label,), named_sha256=digest
            )
    found.files.extend(named.values())


def _blob_paths(blobs: Path, digest: str) -> tuple[Path, Path]:
    """Where a blob lies; the second is how Ollama called it before 2024."""
    return blobs / f"sha256-{digest}", blobs / f"sha256:{digest}"


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _manifests(found: Scan, pace: Pace) -> Iterator[tuple[Path, str]]:
    """Each manifest with the name that Ollama shows for it."""
    top = found.place.path / "manifests"
    entered: set[tuple[int, int]] = set()
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        pace()
        try:
            info = folder.stat()
            if (info.st_dev, info.st_ino) in entered and info.st_ino:
                continue
            entered.add((info.st_dev, info.st_ino))
            with os.scandir(folder) as opened:
                listed = sorted(opened, key=lambda entry: entry.name)
        except OSError as error:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                found.add_trouble(folder, error)
            continue
        found.folders[folder] = info.st_mtime_ns
        for entry in listed:
            path = folder / entry.name
            if _is_folder(entry):
                waiting.append(path)
            elif not entry.name.startswith("."):
                yield path, ollama_name(path.relative_to(top).parts)


def ollama_name(parts: Sequence[str]) -> str:
    """As `ollama list` shows it.

    >>> ollama_name(("registry.ollama.ai", "library", "llama3.2", "3b"))
    'llama3.2:3b'
    >>> ollama_name(("hf.co", "someone", "tiny-GGUF", "Q4_K_M"))
    'hf.co/someone/tiny-GGUF:Q4_K_M'
    """
    *place, tag = parts
    if place[:1] == ["registry.ollama.ai"]:
        place = place[1:]
    if place[:1] == ["library"]:
        place = place[1:]
    return "/".join(place) + f":{tag}"


def _layers(manifest: Path) -> Iterator[tuple[str, str]]:
    """Digest and kind of each layer that holds a GGUF file."""
    try:
        if not manifest.is_file():
            return
        with manifest.open("rb") as file:
            value: Any = json.loads(file.read(MAX_MANIFEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return
    layers = value.get("layers") if isinstance(value, dict) else None
    for layer in layers if isinstance(layers, list) else ():
        if not isinstance(layer, dict):
            continue
        kind = _OLLAMA_KINDS.get(str(layer.get("mediaType")))
        digest = str(layer.get("digest")).removeprefix("sha256:")
        if kind is not None and _SHA256.fullmatch(digest):
            yield digest, kind


# --- looking into one file --------------------------------------------------------------------


def look_at(seen: SeenFile) -> LookedFile:
    """What the header of the file says, or the sentence why it cannot be used."""
    if seen.is_begun:
        return LookedFile(
            seen,
            trouble=f"“{seen.path.name}” is still being downloaded by another program. "
            "Wait until it is whole.",
        )
    try:
        facts = facts_of(read_header(seen.path, for_chat=False))
    except HeaderRefused as refused:
        return LookedFile(seen, trouble=refused.sentence)
    return LookedFile(seen, facts)


# --- what is one entry ------------------------------------------------------------------------


def entries(looked: Iterable[LookedFile]) -> tuple[FoundWeights, ...]:
    """One entry for each network, by name."""
    files = _by_identity(looked)
    found = [_entry(group) for group in _sets(files)]
    merged = [_merged(same) for same in _by_content(found)]
    return tuple(sorted(merged, key=lambda e: (e.name.casefold(), os.fspath(e.path))))


@dataclass(frozen=True, slots=True)
class _File:
    """One file, by whatever paths."""

    looked: LookedFile
    others: tuple[Path, ...]
    links: tuple[Path, ...]


_Rank = tuple[bool, int, bool, int, str]


def _rank(looked: LookedFile) -> _Rank:
    """Of several paths to one content the first in this order is shown."""
    seen = looked.seen
    return (
        bool(looked.trouble),
        list(Origin).index(seen.origin),
        seen.path != seen.real,
        len(seen.path.parts),
        os.fspath(seen.path),
    )


def _by_identity(looked: Iterable[LookedFile]) -> list[_File]:
    groups: dict[object, list[LookedFile]] = defaultdict(list)
    for each in looked:
        stamp = each.seen.stamp
        key: object = (stamp.device, stamp.inode) if stamp.inode else plain(each.seen.real)
        groups[key].append(each)
    return [_file(group) for group in groups.values()]


def _file(group: list[LookedFile]) -> _File:
    group.sort(key=_rank)
    first = group[0]
    names = dict.fromkeys(name for each in group for name in each.seen.names)
    named = next((each.seen.named_sha256 for each in group if each.seen.named_sha256), "")
    sha256 = next((each.sha256 for each in group if each.sha256), "")
    seen = replace(first.seen, names=tuple(names), named_sha256=named)
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


def _sets(files: list[_File]) -> Iterator[list[_File]]:
    """Files alone, and the parts of split sets together, in order."""
    sets: dict[object, dict[int, _File]] = defaultdict(dict)
    for file in files:
        path = file.looked.seen.path
        split = split_name(path.name)
        if split is None:
            yield [file]
        else:
            sets[plain(path.parent), split.stem, split.of].setdefault(split.part, file)
    for parts in sets.values():
        yield [parts[number] for number in sorted(parts)]


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
    split = split_name(seen.path.name)
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
                f"The content of “{looked.seen.path.name}” is not what its name says, so the "
                "file is damaged. Download it again."
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
    )
