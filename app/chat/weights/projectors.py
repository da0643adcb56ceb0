"""Projectors, as the desk tells of them: which belongs to which weights, which is loaded with them,
and whether what is chosen takes a picture; if not, why, and what would do.

The library's list is asked, so nothing here waits for a disk. Where it doesn't know a file yet, the
engine looks beside it when it loads it (`app.gguf.local.projecting`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from app.chat.weights.load_settings import NO_PROJECTOR
from app.chat.weights.loading import Loader
from app.engine.protocol.bounds import shown_text
from app.engine.protocol.media_messages import MediaKind
from app.engine.protocol.remote_messages import is_remote

if TYPE_CHECKING:
    from app.gguf.local.entries import FoundWeights
    from app.gguf.local.projecting import Pairing, Projector
    from app.hub.downloads.progress import DownloadProgress

Way = Literal["", "use", "reload", "get", "choose", "other"]
WAYS: Final[dict[Way, str]] = {
    "": "",
    "use": "Load with its projector",
    "reload": "Reload with its projector",
    "get": "Get the projector…",
    "choose": "Choose a projector…",
    "other": "Choose another model…",
}
"""What would do, as buttons say it."""
_DOES: Final[dict[MediaKind, str]] = {"image": "see pictures", "audio": "hear"}
OFF: Final = "“{name}” can't {does}: its projector is turned off in its settings."
NOT_YET: Final = "“{name}” can {does} with “{file}”, which isn't loaded with it yet."
NOT_HERE: Final = "“{name}” needs its projector to {does}, and there is none on this computer."
BLIND: Final = "“{name}” can't {does}: there is no projector for it on this computer."
_REPO: Final = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")


@dataclass(frozen=True, slots=True)
class Taking:
    """Whether the chosen model takes a picture or a sound. `why`: why not; empty: it does, or
    nobody knows yet. `way`: what would do."""

    why: str = ""
    way: Way = ""

    @property
    def button(self) -> str:
        return WAYS[self.way]


class Projectors:
    """`found`: what the library has; the same object as long as it is the same. It is asked for
    each row that is painted."""

    def __init__(self, loader: Loader, found: Callable[[], Sequence[FoundWeights]]) -> None:
        self._loader = loader
        self._found = found
        self._seen: object = ()
        self._came: dict[str, str] = {}
        self._known: dict[str, tuple[Projector, ...]] = {}
        self._entries: tuple[FoundWeights, ...] = ()
        self._pairing: Pairing | None = None
        self._by_path: dict[str, FoundWeights] = {}

    # --- what belongs to a file -----------------------------------------------------------------

    def of(self, path: str) -> tuple[Projector, ...]:
        """Those that belong to weights, the best first; as far as the library knows them."""
        self._look()
        entry, found = self._by_path.get(path), self._known.get(path)
        if entry is None:
            return ()
        if found is None:
            assert self._pairing is not None
            found = self._known[path] = self._pairing.of(entry)
        return found

    def choices(self, path: str) -> tuple[Projector, ...]:
        """Those that belong to it, and then all others whose vectors would do."""
        from app.gguf.local.projecting import all_projectors

        belonging = self.of(path)
        entry = self._by_path.get(path)
        n_embd = entry.facts.n_embd if entry is not None and entry.facts is not None else None
        known = {each.path for each in belonging}
        others = all_projectors(n_embd, self._entries)
        return (*belonging, *(each for each in others if each.path not in known))

    def beside(self, path: str) -> str | None:
        """What a load takes where nothing is set; nothing: there is none; None: the library doesn't
        know the file."""
        found = self.of(path)
        if path not in self._by_path:
            return None
        return os.fspath(found[0].path) if found else ""

    def used(self, path: str) -> Projector | None:
        """The one that a load of these weights takes, by what is set and known."""
        self._look()
        entry = self._by_path.get(path)
        if entry is None or self._pairing is None or not self._pairing.has_any:
            return None
        chosen = self._loader.projector_among([path, *map(os.fspath, entry.all_paths)])
        if chosen == NO_PROJECTOR:
            return None
        if not chosen:
            return next(iter(self.of(path)), None)
        return next((p for p in self.choices(path) if os.fspath(p.path) == chosen), None)

    def repository(self, path: str) -> str:
        """The repository on the hub that a file came from, where that is known: what we downloaded,
        and what lies in folders that are called so."""
        if path in self._came:
            return self._came[path]
        self._look()
        entry = self._by_path.get(path)
        paths = entry.all_paths if entry is not None else (Path(path),)
        return next(filter(None, (_named_repository(each, entry) for each in paths)), "")

    def may_need_one(self, path: str) -> bool:
        """Whether these weights were made for a projector, and none is here."""
        self._look()
        entry = self._by_path.get(path)
        facts = entry.facts if entry is not None else None
        return facts is not None and facts.takes_pictures and not self.of(path)

    def take_downloads(self, downloads: Sequence[DownloadProgress]) -> None:
        """All that there are now: what came from one repository belongs together."""
        came = {each.path: each.repo_id for each in downloads}
        if came != self._came:
            self._came, self._seen = came, None

    def _look(self) -> None:
        """Take in what the library says by now."""
        found, came = self._found(), self._came
        if self._seen is found:
            return
        from app.gguf.local.projecting import Pairing

        self._seen = found
        self._entries = tuple(_with_repository(each, came) for each in found)
        self._by_path = {os.fspath(p): each for each in self._entries for p in each.all_paths}
        self._pairing = Pairing(self._entries)
        self._known.clear()

    # --- whether a picture is taken -------------------------------------------------------------

    def taking(self, kind: MediaKind) -> Taking:
        """Whether the model that is loaded, or comes next, takes such a file."""
        from app.engine.prompts.media_taken import why_not_taken

        loader, path = self._loader, self._loader.path
        loaded = loader.loaded if not loader.is_loading else None
        if loaded is not None:
            why = why_not_taken(loaded, kind)
            if not why:
                return Taking()
            if loaded.remote is not None:
                return Taking(why, "other")
            if loaded.projector is not None:
                return Taking(why, self._way_out(path) if loaded.projector.why else "other")
        if not path or is_remote(path):
            return Taking()
        self._look()
        if path not in self._by_path:  # the library doesn't know it yet
            return Taking() if loaded is None else Taking(why_not_taken(loaded, kind), "choose")
        return self._of_file(path, kind, is_loaded=loaded is not None)

    def _way_out(self, path: str) -> Way:
        """Where the projector could not be loaded: another one is there by now, or one has to be
        chosen."""
        offer = self._loader.loaded.projector if self._loader.loaded is not None else None
        best = "" if self._loader.projector_of(path) else self.beside(path)
        return "reload" if offer is not None and best and best != offer.path else "choose"

    def _of_file(self, path: str, kind: MediaKind, *, is_loaded: bool) -> Taking:
        words = {"name": self._loader.name_of(path), "does": _DOES[kind]}
        able = [p for p in self.of(path) if (p.facts.sees if kind == "image" else p.facts.hears)]
        if self._loader.projector_of(path) == NO_PROJECTOR:
            return Taking(OFF.format(**words), "use") if able else self._without(path, words)
        if not able:
            return self._without(path, words)
        if not is_loaded:
            return Taking()
        return Taking(NOT_YET.format(file=shown_text(able[0].path.name), **words), "reload")

    def _without(self, path: str, words: dict[str, str]) -> Taking:
        if self.may_need_one(path):
            return Taking(NOT_HERE.format(**words), "get" if self.repository(path) else "choose")
        return Taking(BLIND.format(**words), "other")


def _with_repository(weights: FoundWeights, came: dict[str, str]) -> FoundWeights:
    """What came from one repository belongs together."""
    repos = {came[p] for each in weights.all_paths if (p := os.fspath(each)) in came}
    if not repos:
        return weights
    kept = tuple(f"hub {repo}" for repo in sorted(repos))
    return replace(weights, kept_with=(*weights.kept_with, *kept))


def _named_repository(path: Path, weights: FoundWeights | None) -> str:
    """By Hugging Face's cache, and by folders that are called as repositories are: LM Studio's and
    ours, and whoever else keeps to it."""
    from app.gguf.local.places import Origin
    from app.gguf.local.projecting import repository_of

    top = repository_of(path)
    if top is not None:
        name = top.name.removeprefix("models--").replace("--", "/", 1)
        return name if _REPO.fullmatch(name) else ""
    is_named_so = path.parent.name.casefold().endswith("gguf")
    if is_named_so or (weights is not None and weights.origin == Origin.LM_STUDIO):
        name = "/".join(path.parts[-3:-1])
        return name if _REPO.fullmatch(name) else ""
    return ""
