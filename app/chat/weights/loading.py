"""Weights: loading, unloading, what is known of them, and the engine's state in words.

After an unload, or a crash in mid-reply, the next message loads the same weights again. After a
load that failed or was cancelled it waits and says so.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from app.chat.events import (
    EngineStateChanged,
    LoadProgressed,
    LogLineArrived,
    Noticed,
)
from app.chat.replies.prompts import clean_message, is_encodable
from app.chat.settings.resolved import resolve, taken
from app.chat.surroundings import Surroundings, now
from app.chat.weights.file_check import Check, refusal_of
from app.chat.weights.load_settings import (
    DRAFT,
    LOAD,
    NO_PROJECTOR,
    PROJECTOR,
    load_options,
    with_loras_in_place,
)
from app.engine.client.engine import Engine
from app.engine.client.supervisor import EngineState, StateChanged
from app.engine.protocol.loading_messages import BESIDE, Device, Loaded, LoadOptions
from app.engine.protocol.messages import Failed, Finished, Hello, Log, Progress, SetThreads, Stopped
from app.engine.protocol.remote_messages import EngineOffer, is_remote
from app.engine.protocol.saved_messages import SavedFolder
from app.engine.remote.routing import Engines
from app.gguf import starter
from models.records import Weights

AnyEngine = Engine | Engines

MAX_LOG_LINES: Final = 400
MAX_NAME_LENGTH: Final = 80
PROGRESS_INTERVAL_S: Final = 0.05
UNLOADED: Final = "Unloaded after {minutes:,} min idle. The next message loads it again."
NO_TEXT_WORDS: Final = "has unreadable characters in its name. Rename the file and open it again."


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a load was asked for. `projector`: what is set for the weights (`load_settings`). `name`
    is what people know the weights by."""

    path: str
    options: LoadOptions
    projector: str = ""
    name: str = field(default="", compare=False)


class Loader:
    """The engine seen as weights that are there or not. `on_ready` is called when they are.

    `name_of_file`: what weights are called that are known by another name than that of their file,
    else nothing. `other_paths`: where else the content of a file was found. `saved`: where chats'
    KV state lies on disk. `projector_beside`: the path of the one that was found for a file,
    nothing where there is none; None: nobody has looked yet. `first`: what is loaded at the start,
    instead of what was used last.
    `remember`: whether loaded weights become the last used ones (not with a script). `check`
    reads a file's header before other weights give way to it; without it (a script) the engine
    alone judges.

    Weights that work are not lost to a file that does not: a bad header is refused while they
    stay, and after a load that fails later they are loaded again, once. Not after a crash of the
    same file: it may crash again.

    An ending may come when others have been chosen already. It is about what its own load was
    asked for (`_asked`), and changes nothing of the load that is current (`_load_id`).
    """

    def __init__(
        self,
        around: Surroundings,
        on_ready: Callable[[], None],
        name_of_file: Callable[[str], str],
        other_paths: Callable[[str], Sequence[str]],
        saved: Callable[[], SavedFolder | None] = lambda: None,
        projector_beside: Callable[[str], str | None] = lambda _: None,
        *,
        first: Path | None,
        remember: bool,
        check: Check | None = None,
    ) -> None:
        self._around = around
        self._on_ready = on_ready
        self._name_of_file = name_of_file
        self._other_paths = other_paths
        self._saved = saved
        self._projector_beside = projector_beside
        self._first = str(first) if first is not None else ""
        self._remember = remember
        self._check = check
        self._choices = 0
        self._attempt: Attempt | None = None
        self._good: Attempt | None = None
        self._spare: Attempt | None = None
        self._failed: Failed | None = None
        self._engine: AnyEngine | None = None
        self._known: dict[str, Weights] = {}
        self._log: deque[tuple[str, str]] = deque(maxlen=MAX_LOG_LINES)
        self._path = ""
        self._load_id: int | None = None
        self._asked: dict[int, Attempt] = {}
        self._progress_at = 0.0
        self._is_wanted = False
        self._note = ""
        self._last_loaded: Loaded | None = None
        self._said: set[str] = set()
        self.state = EngineStateChanged("stopped")
        self.devices: tuple[Device, ...] = ()
        """What the engine can compute on; nothing before it has started."""

    # --- what is there --------------------------------------------------------------------------

    @property
    def engine(self) -> AnyEngine:
        assert self._engine is not None
        return self._engine

    @cached_property
    def included(self) -> starter.StarterWeights | None:
        """The weights that came with the installation, looked for once."""
        return starter.find()

    @property
    def loaded(self) -> Loaded | None:
        return self.state.loaded

    @property
    def remote(self) -> EngineOffer | None:
        """What the server can whose model is loaded; None where it is this machine, or none is."""
        return None if self.state.loaded is None else self.state.loaded.remote

    @property
    def last_loaded(self) -> Loaded | None:
        """The weights as they stood in memory last, also after a crash."""
        return self._last_loaded

    @property
    def is_ready(self) -> bool:
        """Whether a reply can be asked for now. After a crash in mid-reply it can: the
        supervisor then loads the same weights again. Once they were told to go it can't."""
        if self._engine is None or self.is_loading or not self._is_wanted:
            return False
        return self.state.state in ("ready", "busy", "crashed")

    @property
    def path(self) -> str:
        """The file that is loaded, or is being loaded; empty where there is none."""
        return self._path

    @property
    def choice(self) -> int:
        """Which choice of weights, unload or cancellation the last one was."""
        return self._choices

    @property
    def is_loading(self) -> bool:
        return self._load_id is not None

    @property
    def weights_name(self) -> str:
        return self.state.weights_name

    @property
    def weights_hash(self) -> str:
        """What the weights are known again by; empty where that is not known."""
        return self._last_loaded.fast_hash if self._last_loaded else ""

    def known_weights(self) -> list[Weights]:
        """The included ones and those used before, the last used first."""
        found = self.included
        known = dict(self._known)
        if found is not None and str(found.path) not in known:
            with contextlib.suppress(OSError):  # it may be gone since the start
                size = found.path.stat().st_size
                known[str(found.path)] = Weights(str(found.path), found.name, size)
        return sorted(
            known.values(),
            key=lambda w: w.last_used_at.timestamp() if w.last_used_at else 0.0,
            reverse=True,
        )

    def settings_of_weights(self, path: str = "") -> dict[str, Any]:
        """What is set otherwise for these weights (those that are loaded, or come next). For a file
        that is not known yet, what is set for the same content elsewhere."""
        known = self._known.get(path or self._path)
        if known is None and path:
            twins = (self._known.get(other) for other in self._other_paths(path))
            known = next((twin for twin in twins if twin is not None), None)
        return with_loras_in_place(known.settings) if known is not None else {}

    def change_settings(self, values: Mapping[str, Any], path: str = "") -> bool:
        """Keep other settings for the weights that are loaded, or for those in a file that need not
        have been used yet. False: there are none, or they are not remembered."""
        store, known = self._around.store, self._known.get(path or self._path)
        if store is None or not self._around.can_write:
            return False
        if known is None:
            if not path:
                return False
            known = self._as_known(path)
            self._around.saved(store.upsert_weights(known))
        changed = dataclasses.replace(known, settings=dict(values))
        self._known[known.path] = changed
        self._around.saved(store.set_weights_settings(known.path, dict(values)))
        return True

    def _as_known(self, path: str) -> Weights:
        size_bytes = 0
        with contextlib.suppress(OSError, ValueError):  # it may come back; its settings stay
            size_bytes = Path(path).stat().st_size
        return Weights(path, self._name_of_path(path), size_bytes)

    def options_of(self, path: str) -> LoadOptions:
        """How to load: as the app's settings say, or these weights' own."""
        own = self.settings_of_weights(path)
        options = load_options(resolve(self._around.settings, own).settings, own.get(LOAD))
        draft = own.get(DRAFT)
        # What the app or a chat has may be for other weights: it comes with its replies.
        loras = taken(own, ("loras",)).get("loras", ())
        return msgspec.structs.replace(
            options, draft=draft if isinstance(draft, str) else "", loras=list(loras)
        )

    def projector_of(self, path: str) -> str:
        """What is set for these weights: nothing for the best that is found, "none", or a path."""
        own = self.settings_of_weights(path).get(PROJECTOR)
        return own if isinstance(own, str) else ""

    def projector_among(self, paths: Iterable[str]) -> str:
        """The same for a file whose paths are all known, without a search for them."""
        known = next((self._known[each] for each in paths if each in self._known), None)
        own = known.settings.get(PROJECTOR) if known is not None else ""
        return own if isinstance(own, str) else ""

    def projector_wish(self, path: str) -> str:
        """The same as a load is asked: a path, nothing for none, or BESIDE."""
        own = self.projector_of(path)
        if own:
            return "" if own == NO_PROJECTOR else own
        return self._projector_beside(path) or BESIDE  # it may have come a moment ago

    def projector_known(self, path: str) -> str:
        """The same for an estimate, which is made of many files and looks on no disk for what the
        library has looked for."""
        found = None if self.projector_of(path) else self._projector_beside(path)
        return self.projector_wish(path) if found is None else found

    @property
    def projector_in_use(self) -> str:
        """What was set of it when these weights were loaded."""
        return self._good.projector if self.loaded is not None and self._good is not None else ""

    @property
    def options_in_use(self) -> LoadOptions | None:
        """What the weights that are loaded now were loaded with."""
        return self._good.options if self.loaded is not None and self._good is not None else None

    def name_of(self, path: str) -> str:
        """What people know a file by."""
        known = self._known.get(path)
        return known.name if known is not None else self._name_of_path(path)

    def learn_sha256(self, path: str, sha256: str) -> None:
        """The hash of the whole file, for weights that were used."""
        known, store = self._known.get(path), self._around.store
        if known is not None and known.sha256 != sha256:
            self._known[path] = dataclasses.replace(known, sha256=sha256)
            if self._remember and store is not None and self._around.can_write:
                self._around.saved(store.upsert_weights(self._known[path]))

    def log_lines(self) -> list[tuple[str, str]]:
        """(level, text) of the engine's log, oldest first."""
        return list(self._log)

    # --- acts -----------------------------------------------------------------------------------

    def attach(self, engine: AnyEngine) -> None:
        """The start: the engine's process is begun at once where it is known what to load."""
        self._engine = engine
        if self._first or self.included is not None:
            engine.start()

    def show_known(self, known: tuple[Weights, ...]) -> None:
        self._known = {weights.path: weights for weights in known} | self._known

    def load_first(self, last_used: Weights | None) -> None:
        """At the start: the weights asked for, else the last used, else the included ones."""
        if self._choices:
            return  # the user was faster
        found = self.included
        if self._first:
            self.load(self._first)
        elif last_used is not None:
            self.load(last_used.path)
        elif found is not None:
            self.load(str(found.path))
        else:
            self._set_state("stopped", sentence=starter.HOW_TO_GET_WEIGHTS)
            self._around.emit(Noticed("info", starter.HOW_TO_GET_WEIGHTS))

    def load(self, path: str) -> None:
        """Load weights in place of those loaded now. Replies in the making are stopped. `path`: of
        a file, or of a server's model (`remote_path`)."""
        if self._engine is None:
            self._first = path  # not started yet
            return
        if is_remote(path):
            self._choices += 1
            self._load_chosen(path)
            return
        path = str(Path(path).absolute())
        if not is_encodable(path):
            name = clean_message(Path(path).name)
            self._around.emit(Noticed("error", f"“{name}” {NO_TEXT_WORDS}"))
            return
        self._choices += 1
        choice = self._choices
        if self._check is None or not (self.is_loading or self.loaded):
            self._load_chosen(path)
            return

        def settle(sentence: str) -> None:
            if sentence:
                self._around.emit(Noticed("error", self._with_those_that_stay(sentence)))
            else:
                self._load_chosen(path)

        refusal = refusal_of(Path(path), self._check)
        self._around.when_done(
            refusal,
            settle,
            lambda _: settle(""),
            still=lambda: choice == self._choices,  # no other choice, unload or cancellation came
        )

    def _with_those_that_stay(self, sentence: str) -> str:
        name = self.state.weights_name
        return f"{sentence} “{name}” stays loaded." if name else sentence

    def _load_chosen(self, path: str) -> None:
        attempt = Attempt(path, self.options_of(path), self.projector_of(path))
        # After a failure those before it are still on their way back.
        is_there = self.is_ready or self.is_loading or self._failed is not None
        self._spare = self._good if is_there and self._good != attempt else None
        self._begin(attempt)

    def _begin(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._failed = None
        self._note = ""
        self._path = attempt.path
        self._is_wanted = False
        self._load_id = self.engine.load(
            attempt.path,
            attempt.options,
            self._saved(),
            "" if is_remote(attempt.path) else self.projector_wish(attempt.path),
        )
        self._asked[self._load_id] = attempt

    def load_again(self) -> bool:
        """After an unload, also one that has just begun: load what was loaded last. False if there
        is nothing to load, or if it failed the last time (it is not tried again unasked)."""
        state = self.state
        is_going = self.loaded is not None and not self._is_wanted
        is_gone = state.state in ("stopped", "stopping") or is_going
        if not is_gone or state.sentence or not self._path or self._load_id is not None:
            return False
        if self.loaded is None:
            self.load(self._path)
        else:  # what is on its way out is no more to be kept
            self._choices += 1
            self._load_chosen(self._path)
        return True

    def cancel(self) -> None:
        self._choices += 1
        if self._load_id is not None:
            self.engine.stop(self._load_id)

    def unload(self, *, idle_min: int = 0) -> None:
        """`idle_min`: since nobody has used them for so long."""
        if self._engine is None:
            return
        self._choices += 1
        self._note = UNLOADED.format(minutes=idle_min) if idle_min else ""
        self._good = self._spare = self._failed = None
        self._is_wanted = False
        self.engine.unload()

    def set_threads(self, n_threads: int) -> None:
        """Apply a number of threads to the loaded weights at once; 0 waits for the next load."""
        if self.loaded is not None and self.loaded.remote is None and n_threads > 0:
            self.engine.request(SetThreads(id=0, n_threads=n_threads))

    # --- events ---------------------------------------------------------------------------------

    def take_state(self, event: StateChanged) -> None:
        """The supervisor's state; it says again why a load failed once the child is gone."""
        if self._failed is not None and event.sentence and self._load_spare(event):
            return
        self._set_state(event.state.value, event.sentence, event.evidence)
        if event.state is EngineState.READY and not self.is_loading:
            self._on_ready()

    def _load_spare(self, event: StateChanged) -> bool:
        """After a failed load: load what was there before, and say so. False: there is nothing,
        or it is the file that has just crashed."""
        failed, spare, self._failed, self._spare = self._failed, self._spare, None, None
        assert failed is not None
        assert self._attempt is not None
        assert spare is not None
        has_crashed = event.state is EngineState.CRASHED
        if has_crashed and spare.path == self._attempt.path:
            self._good = None
            self._around.emit(Noticed("error", failed.sentence))
            return False
        sentence = f"{failed.sentence} “{spare.name}” was reloaded."
        self._around.emit(Noticed("error", sentence))
        self._begin(spare)
        return True

    def take_loaded(self, request_id: int, loaded: Loaded) -> None:
        """Weights are loaded: those of a load, or after a crash the last ones again, which only
        the supervisor asked for."""
        attempt = self._asked.pop(request_id, None)
        if self._load_id is not None and request_id != self._load_id:
            if attempt is not None:
                self._take_replaced(attempt, loaded)
            return
        self._path = self._path or loaded.path
        self._is_wanted = True
        self._load_id = None
        self._last_loaded = loaded
        name = self._name_of(self._path, loaded)
        if self._attempt is not None:
            self._good = dataclasses.replace(self._attempt, name=name)
        self._spare = None
        self.state = EngineStateChanged(
            self.state.state, name, loaded, is_remote=is_remote(self._path)
        )
        self._around.emit(LoadProgressed(1.0))
        self._record(self._path, name, loaded)
        self.say(loaded.notes)

    def _take_replaced(self, attempt: Attempt, loaded: Loaded) -> None:
        """Others were chosen while this came: these work, and come back if those fail."""
        name = self._name_of(attempt.path, loaded)
        self._good = dataclasses.replace(attempt, name=name)
        self._spare = self._good if self._good != self._attempt else None
        self._record(attempt.path, name, loaded)

    def take_ended_load(self, event: Finished | Stopped | Failed) -> None:
        """The load ended without weights; it is not tried again unasked. If other weights come
        back for it, `take_state` says so once the child is gone."""
        attempt = self._asked.pop(event.id, None)
        if event.id != self._load_id:
            if isinstance(event, Failed) and attempt == self._good:
                self._good = self._spare = None
            return
        self._load_id = None
        self._path = ""
        if self._good == self._attempt:
            self._good = None
        if isinstance(event, Failed) and self._spare is not None:
            self._failed = event
        elif isinstance(event, Failed):
            self._around.emit(Noticed("error", event.sentence))

    def take_hello(self, hello: Hello) -> None:
        """An engine has started: what it can compute on, and what it notes about itself."""
        self.devices = tuple(hello.devices)
        self.say(hello.notes)

    def say(self, notes: list[str]) -> None:
        """Tell the user what the engine notes about itself or the weights, each once."""
        for note in notes:
            if note not in self._said:
                self._said.add(note)
                self._around.emit(Noticed("info", note))

    def is_load(self, request_id: int) -> bool:
        return request_id in self._asked

    def take_progress(self, event: Progress) -> None:
        if self._load_id is not None and event.id != self._load_id:
            return
        moment = self._around.clock()
        if moment - self._progress_at < PROGRESS_INTERVAL_S and event.done < event.total:
            return
        self._progress_at = moment
        self._around.emit(LoadProgressed(min(1.0, event.done / max(1, event.total))))

    def take_log(self, event: Log) -> None:
        self._log.append((event.level, event.text))
        self._around.emit(LogLineArrived(event.level, event.text))

    def _set_state(self, state: str, sentence: str = "", evidence: str = "") -> None:
        has_weights = state in ("ready", "busy", "stopping") and self.loaded is not None
        self.state = EngineStateChanged(
            state=state,
            weights_name=self._shown_name(state),
            loaded=self.loaded if has_weights else None,
            sentence=sentence,
            evidence=evidence,
            note=self._note if state == "stopped" and not sentence else "",
            is_remote=is_remote(self._path),
        )
        self._around.emit(self.state)

    def _shown_name(self, state: str) -> str:
        if state in ("starting", "loading") and self._path:
            return self._name_of_path(self._path)
        return self.state.weights_name if state != "stopped" or self._note else ""

    def _name_of(self, path: str, loaded: Loaded) -> str:
        """Files are known by their file names: what they call themselves is often odd."""
        if Path(path).suffix.lower() == ".gguf" or self._name_of_file(path):
            return self._name_of_path(path)
        return _one_line(loaded.name) or self._name_of_path(path)

    def _name_of_path(self, path: str) -> str:
        found = self.included
        if found is not None and str(found.path) == path:
            return found.name
        return _one_line(self._name_of_file(path) or Path(path).stem)

    def _record(self, path: str, name: str, loaded: Loaded) -> None:
        if not self._remember or self._around.store is None:
            return
        weights = Weights(
            path,
            name,
            loaded.size_bytes,
            last_used_at=now(),
            fast_hash=loaded.fast_hash or None,
            settings=self.settings_of_weights(path),
        )
        self._known[weights.path] = weights
        if self._around.can_write:
            self._around.saved(self._around.store.upsert_weights(weights))


def _one_line(name: str) -> str:
    """A name from a file, fit to be shown."""
    return " ".join("".join(c if c.isprintable() else " " for c in name).split())[:MAX_NAME_LENGTH]
