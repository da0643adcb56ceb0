"""Defaults per weights: what is set otherwise for one file, loaded or not, and kept with it.

They are the level "weights" of `app.chat.settings.resolved` (what shapes a reply, and what the app
has load settings for), and beside it what only a file has:

* `load`: further load options (`load_settings.py`), here under names like `load.n_ubatch`;
* `draft`: the path of the weights that shall draft for these;
* `projector`: the path of the projector that they are loaded with, "none", or nothing for the best
  that is found;
* `notes`: whatever somebody wants to remember of them.

What is set for a file that is not there stays: it may come back. A file that was only found gets a
row when something is set for it; until then what is set for the same content at another path
counts. Load options count with the next load, but for the number of threads, which counts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from app.chat.conversations.shelf import Shelf
from app.chat.events import LevelsChanged, Noticed
from app.chat.settings.resolved import LOADING, SHAPING, Resolved, resolve
from app.chat.settings.settings import as_stored, checked
from app.chat.surroundings import Surroundings
from app.chat.weights.load_settings import (
    DRAFT,
    LOAD,
    PROJECTOR,
    changed_load,
    load_options,
    load_value,
)
from app.chat.weights.loading import Loader
from app.engine.planning.load_checks import check_options
from app.engine.protocol.frames import clean_text
from app.engine.protocol.loading_messages import LoadOptions
from app.refusal import Refusal, bad_setting

NOTES: Final = "notes"
IN_LOAD: Final = f"{LOAD}."
"""What a name of a further load option begins with."""
MAX_NOTES_LENGTH: Final = 20_000
MAX_PATH_LENGTH: Final = 4_096
NOT_KEPT: Final = "This can't be saved: the data folder is read-only."
RESET: Final = "The settings of “{name}” were reset to defaults."


class WeightsDefaults:
    """Every method is about the file at `path`. `on_changed` is told when another value counts for
    what is loaded."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        loader: Loader,
        on_changed: Callable[[], None],
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._on_changed = on_changed

    # --- reading --------------------------------------------------------------------------------

    def own(self, path: str) -> dict[str, Any]:
        """What is set otherwise, by the names that `change` takes."""
        stored = self._loader.settings_of_weights(path)
        beyond = stored.pop(LOAD, None)
        own: dict[str, Any] = {
            name: stored[name] for name in (*SHAPING, *LOADING) if name in stored
        }
        for name, value in beyond.items() if isinstance(beyond, Mapping) else ():
            if name == "rope" and isinstance(value, Mapping):
                own |= {f"{IN_LOAD}rope.{part}": each for part, each in value.items()}
            else:
                own[f"{IN_LOAD}{name}"] = value
        own |= {
            name: text for name in (NOTES, DRAFT, PROJECTOR) if (text := _text(stored.get(name)))
        }
        return own

    def resolved(self, path: str) -> Resolved:
        """What counts for replies of these weights before a chat says otherwise."""
        return resolve(self._around.settings, self._loader.settings_of_weights(path))

    def value(self, path: str, name: str) -> Any:
        """What counts for `load.…`, `notes`, `draft` or `projector`."""
        stored = self._loader.settings_of_weights(path)
        if name.startswith(IN_LOAD):
            return load_value(stored.get(LOAD), name.removeprefix(IN_LOAD))
        return _text(stored.get(name))

    def awaiting_load(self, path: str) -> tuple[str, ...]:
        """The load options that are other ones by now than these weights are loaded with; nothing
        where they are not loaded."""
        used = self._loader.options_in_use if self._loader.path == path else None
        if used is None:
            return ()
        wanted = self._loader.options_of(path)
        is_other = self._loader.projector_in_use != self._loader.projector_of(path)
        return (PROJECTOR,) * is_other + tuple(
            name
            for name in LoadOptions.__struct_fields__
            if getattr(used, name) != getattr(wanted, name)
            # Another number of threads counts at once, and adapters are a reply's.
            and not (name == "n_threads" and wanted.n_threads)
            and name != "loras"
        )

    # --- changing -------------------------------------------------------------------------------

    def change(self, path: str, name: str, value: object) -> str:
        """Set a value for these weights; returns why it is refused, or nothing."""
        stored = self._loader.settings_of_weights(path)
        try:
            stored |= self._taken(stored, name, value)
            if name.startswith(IN_LOAD) or name in LOADING:
                settings = resolve(self._around.settings, stored).settings
                check_options(load_options(settings, stored.get(LOAD)))
        except Refusal as refused:
            return refused.sentence
        return self._keep(path, stored, name)

    def _taken(self, stored: Mapping[str, Any], name: str, value: object) -> dict[str, Any]:
        if name.startswith(IN_LOAD):
            return {LOAD: changed_load(stored.get(LOAD), name.removeprefix(IN_LOAD), value)}
        if name in (NOTES, DRAFT, PROJECTOR):
            limit = MAX_NOTES_LENGTH if name == NOTES else MAX_PATH_LENGTH
            if not isinstance(value, str) or len(value) > limit:
                raise bad_setting(f"This is limited to {limit:,} characters.")
            return {name: clean_text(value).replace("\0", "")}
        if name not in (*SHAPING, *LOADING):
            raise bad_setting(f"“{name}” isn't a model setting.")
        return {name: as_stored(checked(name, value))}

    def reset(self, path: str, names: Collection[str]) -> None:
        """Let the app speak for these names."""
        stored = self._loader.settings_of_weights(path)
        for name in names:
            if name.startswith(IN_LOAD):
                part = name.removeprefix(IN_LOAD)
                stored[LOAD] = changed_load(stored.get(LOAD), part, load_value({}, part))
            else:
                stored.pop(name, None)
        if refusal := self._keep(path, stored, *names):
            self._around.emit(Noticed("warning", refusal))

    def reset_all(self, path: str) -> None:
        """Take away all that is set otherwise, with a way back. Notes are no setting: they stay."""
        before = self._loader.settings_of_weights(path)
        kept = {NOTES: before[NOTES]} if before.get(NOTES) else {}
        if kept == before:
            return
        if refusal := self._keep(path, kept, *before):
            self._around.emit(Noticed("warning", refusal))
            return

        def bring_back() -> None:
            self._keep(path, before, *before)

        sentence = RESET.format(name=self._loader.name_of(path))
        self._shelf.offer_undo(f"weights {path}", sentence, bring_back)

    def _keep(self, path: str, stored: Mapping[str, Any], *names: str) -> str:
        values = {name: value for name, value in stored.items() if value not in ("", {}, None)}
        # An empty text may be what is meant: no system prompt, no grammar, no fixed seed.
        values |= {name: stored[name] for name in (*SHAPING, *LOADING) if name in stored}
        if not self._loader.change_settings(values, path):
            return self._around.store_state.sentence or NOT_KEPT
        is_loaded = path == self._loader.path
        if is_loaded and "n_threads" in names:
            self._loader.set_threads(self.resolved(path).settings.n_threads)
        self._around.emit(LevelsChanged("weights"))
        if is_loaded:
            self._on_changed()
        return ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
