"""Which projector belongs to which weights: by who keeps them together, folder, name and header.

    find_projectors(path)      looks on the disk, beside one file: for a thread
    Pairing(found).of(weights) the same of all that the library has found, at once

What must hold: a projector whose vectors can't be as long as the weights' embedding is never
among them, nor one that lies somewhere else and that no program keeps with them. The first of
several is taken: the nearest, then the one whose name fits best, then by `BITS`.

A plain `mmproj-F16.gguf` in a folder of many models is for those of them that have a place for
pictures in their template, and for any model that is alone there. A name that says another model is
no match, however near it lies: another number or letter is another model, since sisters differ in
nothing else (MiniCPM-V and -o, Qwen2-VL and Qwen2.5-VL: the same embedding). llama.cpp reads a
projector out of one file, so one that is split is none.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from app.gguf.facts import facts_of
from app.gguf.header import read_header
from app.gguf.local.entries import FoundWeights
from app.gguf.local.finding import MAX_BESIDE, is_projector_name
from app.gguf.local.ollama_store import layers_beside
from app.gguf.local.split_names import set_name
from app.gguf.projector import ProjectorFacts
from app.gguf.refusal import HeaderRefused

MAX_READ: Final = 32
LOOK_S: Final = 3.0
"""For the folders around a file: one of them may be a network drive that hangs."""
BITS: Final = ("F16", "BF16", "Q8_0", "F32")
"""The best first: BF16 is slow on most processors, F32 tells no more than F16."""
_WORDS: Final = re.compile(r"[^\w.]+|_|\.(?!\d)|(?<!\d)\.")
_POINTS: Final = re.compile(r"(?<=\d)_(?=\d)")
"""2_6 is 2.6."""
_NOISE: Final = re.compile(
    r"ud|i1|i?q\d[\w.]*|(bf|f|fp)(16|32)|mxfp\d|nvfp\d|k|[xms]{0,2}[msl]|[01]|mmproj|projector|model"
    r"|ggml|gguf|it|instruct|chat|of|\d{5}"
)
"""Words in names that say how something is stored, and not what it is."""
_ENOUGH: Final = 0.75


@dataclass(frozen=True, slots=True)
class Projector:
    """A projector's file on this machine. `quantisation`: of its weights ("F16")."""

    path: Path
    size_bytes: int
    facts: ProjectorFacts
    quantisation: str = ""

    @property
    def senses(self) -> str:
        """What the model can do with it, in words."""
        both = "sees pictures and hears" if self.facts.sees else "hears"
        return both if self.facts.hears else "sees pictures"


# --- beside one file ------------------------------------------------------------------------------


def find_projectors(path: Path | str) -> tuple[Projector, ...]:
    """Those beside a file, the best one first. Reads folders and headers; what can't be read is not
    there."""
    path = Path(path)
    kept = layers_beside(path)
    real = Path(os.path.realpath(path))
    near = _in_time(each for place in dict.fromkeys((path, real)) for each in _near(place))
    if not kept and not near:
        return ()
    try:
        header = read_header(path)
        facts = facts_of(header)
    except HeaderRefused:
        return ()
    alone = all(_is_alone(each.name, _listed(each.parent)) for each in (path, real))
    own = _Side((path, real), (facts.name,), facts.n_embd, facts.takes_pictures, alone)
    found = []
    for each in dict.fromkeys((*kept, *near)):
        try:
            told = facts_of(read_header(each))
            size = each.stat().st_size
        except (HeaderRefused, OSError):
            continue
        if told.projector is not None:
            projector = Projector(each, size, told.projector, told.quantisation)
            found.append(_Other(projector, (each,), (each.stem, told.name), each in kept))
    return _ranked(own, found)


def _in_time(near: Iterator[Path]) -> tuple[Path, ...]:
    """What is found before time is up, on a thread that may hang for ever."""
    found: dict[Path, None] = {}

    def look() -> None:
        for path in near:
            found[path] = None
            if len(found) == MAX_READ:
                return

    looking = threading.Thread(target=look, name="projectors", daemon=True)
    looking.start()
    looking.join(LOOK_S)
    return tuple(found.copy())


def _near(path: Path) -> Iterator[Path]:
    """Files called as projectors."""
    for folder in _around(path):
        for name in _listed(folder):
            if is_projector_name(name) and folder / name != path:
                yield folder / name


def _around(path: Path) -> Iterator[Path]:
    """The same folder, other folders of the same download, and one folder up or down."""
    yield path.parent
    top = repository_of(path)
    if top is None:
        yield path.parent.parent
        yield from _folders(path.parent)
        return
    revisions = _folders(top / "snapshots")
    yield from revisions
    for each in revisions:
        yield from _folders(each)


def _listed(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = itertools.islice((entry.name for entry in entries), MAX_BESIDE)
            return sorted(name for name in names if name.casefold().endswith(".gguf"))
    except (OSError, ValueError):
        return []


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            some = itertools.islice(entries, MAX_BESIDE)
            return sorted(Path(entry.path) for entry in some if entry.is_dir())[:MAX_READ]
    except (OSError, ValueError):
        return []


# --- among all that was found ---------------------------------------------------------------------


class Pairing:
    """Of all that was found, by folders: each question looks at what lies near, however many there
    are. One thread."""

    def __init__(self, found: Iterable[FoundWeights]) -> None:
        self._names: defaultdict[Path, list[str]] = defaultdict(list)
        self._near: defaultdict[object, list[FoundWeights]] = defaultdict(list)
        self._said: dict[Path, set[frozenset[str]]] = {}
        self.has_any = False
        for each in found:
            is_projector = each.facts is not None and each.facts.projector is not None
            for path in each.all_paths:
                if is_projector:
                    for key in (path.parent, (path.parent.parent,), repository_of(path) or path):
                        self._near[key].append(each)
                elif path.name.casefold().endswith(".gguf") and not is_projector_name(path.name):
                    self._names[path.parent].append(path.name)
            if is_projector:
                self.has_any = True
                for name in each.kept_with:
                    self._near[name].append(each)

    def of(self, weights: FoundWeights) -> tuple[Projector, ...]:
        """Those that belong to it, the best one first."""
        facts = weights.facts
        if not self.has_any or facts is None or facts.kind not in ("chat", "base", "embedding"):
            return ()
        keys: dict[object, None] = dict.fromkeys(weights.kept_with)
        for path in weights.all_paths:
            folder = path.parent
            keys |= dict.fromkeys((folder, folder.parent, (folder,), repository_of(path) or path))
        near = {id(each): each for key in keys for each in self._near.get(key, ())}
        if not near:
            return ()
        own = _Side(
            weights.all_paths,
            (weights.name, facts.name),
            facts.n_embd,
            facts.takes_pictures,
            self._is_alone(weights),
        )
        return _ranked(own, (_as_other(each, weights) for each in near.values()))

    def _is_alone(self, weights: FoundWeights) -> bool:
        """Whether all models in its folders are this one, in whatever quantisation."""
        own = {_said(weights.path.stem)}
        return all(self._said_in(path.parent) <= own for path in weights.all_paths)

    def _said_in(self, folder: Path) -> set[frozenset[str]]:
        if folder not in self._said:
            self._said[folder] = {_said(Path(name).stem) for name in self._names[folder]}
        return self._said[folder]


def _as_other(each: FoundWeights, weights: FoundWeights) -> _Other:
    assert each.facts is not None
    assert each.facts.projector is not None
    return _Other(
        Projector(each.path, each.size_bytes, each.facts.projector, each.facts.quantisation),
        each.all_paths,
        (each.path.stem, each.facts.name),
        bool(set(each.kept_with) & set(weights.kept_with)),
        is_whole=not each.missing,
    )


def all_projectors(n_embd: int | None, found: Iterable[FoundWeights]) -> tuple[Projector, ...]:
    """Every projector on this machine that could be for such an embedding, by name: to choose."""
    able = [
        Projector(each.path, each.size_bytes, each.facts.projector, each.facts.quantisation)
        for each in found
        if each.facts is not None
        and each.facts.projector is not None
        and each.facts.projector.fits(n_embd)
        and not each.missing
    ]
    return tuple(sorted(able, key=lambda each: (each.path.name.casefold(), str(each.path))))


# --- what belongs to what -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Side:
    """The weights. `names`: besides those of their files. `is_alone`: no other model lies in the
    same folder."""

    paths: Sequence[Path]
    names: Sequence[str]
    n_embd: int | None
    takes_pictures: bool
    is_alone: bool


@dataclass(frozen=True, slots=True)
class _Other:
    """A projector. `is_kept`: a program keeps it together with the weights."""

    projector: Projector
    paths: Sequence[Path]
    names: Sequence[str]
    is_kept: bool
    is_whole: bool = True


def _ranked(own: _Side, others: Iterable[_Other]) -> tuple[Projector, ...]:
    placed = []
    for other in others:
        rank = _rank(own, other)
        if rank is not None and _can_be_said(other.projector.path):
            placed.append((rank, other.projector))
    placed.sort(key=lambda each: each[0])
    return tuple(projector for _, projector in placed)


def _rank(own: _Side, other: _Other) -> tuple[object, ...] | None:
    """The lower the better; None: it doesn't belong to them."""
    if not other.is_whole or not other.projector.facts.fits(own.n_embd):
        return None
    nearness = min(_nearness(one, two) for one in own.paths for two in other.paths)
    by_name = max(likeness(path.stem, other.names[0]) for path in own.paths)
    by_header = likeness(" ".join(own.names), other.names[-1])
    if not other.is_kept:
        is_plain = not _said(other.names[0])
        is_other = by_name < _ENOUGH and not (nearness == _SAME_DOWNLOAD or own.is_alone)
        if nearness == _AWAY or (not is_plain and is_other):
            return None
        if is_plain and not (own.takes_pictures or own.is_alone or by_header >= _ENOUGH):
            return None
        if nearness == _ONE_OFF and is_plain and by_header < _ENOUGH:
            return None  # it lies with another model
    if set_name(other.projector.path.name) is not None:
        return None
    kind = other.projector.quantisation
    bits = BITS.index(kind) if kind in BITS else len(BITS)
    path = other.projector.path
    return (not other.is_kept, nearness, -by_name, -by_header, bits, path.name, str(path))


def _can_be_said(path: Path) -> bool:
    """Names of files need not be UTF-8, and what is not, the engine can't be told."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return False
    return True


_SAME_FOLDER, _SAME_DOWNLOAD, _ONE_OFF, _AWAY = range(4)


def _nearness(one: Path, two: Path) -> int:
    top = repository_of(one)
    if one.parent.name == "blobs" or two.parent.name == "blobs":
        return _AWAY  # a store's files lie in one folder, whatever they are
    if one.parent == two.parent:
        return _SAME_FOLDER
    if top is not None and top == repository_of(two):
        return _SAME_DOWNLOAD
    if one.parent == two.parent.parent or one.parent.parent == two.parent:
        return _ONE_OFF
    return _AWAY


def repository_of(path: Path) -> Path | None:
    """The folder of a repository in Hugging Face's cache that the file lies in."""
    for folder in path.parents[:6]:
        if folder.name == "snapshots" and folder.parent.name.startswith("models--"):
            return folder.parent
    return None


@lru_cache(4096)
def _said(name: str) -> frozenset[str]:
    """The words of a name that say what it is.

    >>> sorted(_said("ggml-org_gemma-3-4b-it-GGUF_mmproj-model-f16"))
    ['3', '4b', 'gemma', 'org']
    >>> _said("mmproj-BF16"), sorted(_said("Qwen2.5-VL-7B-Instruct.Q4_0"))
    (frozenset(), ['7b', 'qwen2.5', 'vl'])
    """
    words = set(_WORDS.split(_POINTS.sub(".", name.casefold())))
    return frozenset(word for word in words if word and not _NOISE.fullmatch(word))


def likeness(own: str, other: str) -> float:
    """The part of another name's words that this one has, too; 0 where it says nothing, or another
    version or size.

    >>> likeness("Qwen2.5-VL-7B", "mmproj-Qwen_Qwen2.5-VL-7B"), likeness("tiny-4B", "org_tiny-7B")
    (0.75, 0.0)
    """
    said = _said(other)
    missing = said - _said(own)
    if not said or any(_is_exact(word) for word in missing):
        return 0.0
    return 1 - len(missing) / len(said)


def _is_exact(word: str) -> bool:
    """A version, a size, or a letter that sisters are told apart by."""
    return len(word) == 1 or any(letter.isdigit() for letter in word)


def _is_alone(name: str, beside: Iterable[str]) -> bool:
    """Whether all models in a folder are this one, in whatever quantisation."""
    said = _said(Path(name).stem)
    return all(
        _said(Path(other).stem) == said
        for other in beside
        if other.casefold().endswith(".gguf") and not is_projector_name(other)
    )
