"""The desk: everything that a user of the chat can do, without a widget in sight.

Views call its methods and listen to the events that it emits (`app.chat.events`); it owns
what they show. What must hold:

* One owner: every method is called on one thread (the GUI's), and every answer of another
  thread comes back to it through `post`. So there are no locks here.
* Every method returns at once.
* `shutdown` ends everything that `start` began, in reverse, within bounded time; and
  nothing that matters waits for it (`kill -9` loses less than a second of a reply).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from app.chat.alarms import Alarms
from app.chat.attachments.attached_text import with_attachments
from app.chat.attachments.attachments import Attachments
from app.chat.branch_door import BranchDoor
from app.chat.cache_door import CacheDoor
from app.chat.conversations.edits import Edits
from app.chat.conversations.folders import Folders
from app.chat.conversations.last_chat import LEFT_CLOSED_SENTENCE, LastChat
from app.chat.conversations.paths import Paths
from app.chat.conversations.searching import Searching
from app.chat.conversations.shelf import Shelf
from app.chat.conversations.temporary import Stores
from app.chat.conversations.tree import Tree
from app.chat.documents.text_mode import TextMode
from app.chat.download_door import DownloadDoor
from app.chat.events import (
    EngineStateChanged,
    LastChatStays,
    Noticed,
    SettingsChanged,
    StoreStateChanged,
)
from app.chat.exchange.exchange import Exchange
from app.chat.exchange_door import ExchangeDoor
from app.chat.fit_door import FitDoor
from app.chat.hub.fetching import Fetching
from app.chat.hub.hub_questions import HubQuestions
from app.chat.inbox import Inbox
from app.chat.inspection.cache import CacheLook
from app.chat.inspection.prompt_reading import PromptReading
from app.chat.inspection.prompt_scoring import PromptScoring
from app.chat.inspection.questions import Questions
from app.chat.inspection.what_if import WhatIfs
from app.chat.inspection.words import Words
from app.chat.library_door import LibraryDoor
from app.chat.looking_door import LookingDoor
from app.chat.message_door import MessageDoor
from app.chat.prompt_door import PromptDoor
from app.chat.replies.again import Again
from app.chat.replies.branch_at import BranchAt
from app.chat.replies.counting import ContextCounter
from app.chat.replies.queue import MessageQueue
from app.chat.replies.replies import Replies
from app.chat.replies.room import RoomMaker
from app.chat.replies.step_mode import StepMode
from app.chat.settings import first_look
from app.chat.settings.levels import Levels
from app.chat.settings.presets import Presets
from app.chat.settings.resolved import merged
from app.chat.settings.settings import SettingRefused, Settings, as_stored, changed, from_stored
from app.chat.settings.template_preview import TemplatePreviews
from app.chat.settings_door import SettingsDoor
from app.chat.sidebar_door import SidebarDoor
from app.chat.surroundings import Emit, Post, Surroundings
from app.chat.vocabulary_door import VocabularyDoor
from app.chat.weights.draft_partners import DraftPartners
from app.chat.weights.file_check import Check
from app.chat.weights.fits import Fits
from app.chat.weights.loading import Loader
from app.chat.weights.local_weights import FindOthers, LocalWeights
from app.chat.weights.vocabulary_file import VocabularyFiles
from app.chat.weights.weights_defaults import WeightsDefaults
from app.chat.weights_door import WeightsDoor
from app.chat.what_if_door import WhatIfDoor
from app.chat.writing_door import WritingDoor
from app.engine.client.engine import Engine
from app.engine.client.supervisor import EngineEvent, StateChanged
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import (
    Failed,
    Finished,
    Held,
    Hello,
    Log,
    Note,
    Progress,
    PromptScores,
    Queued,
    Stopped,
    TextFlushed,
    TextTakenBack,
    ThreadsChanged,
    TokenArrived,
)
from models.records import Conversation, Message, StoreOpened

if TYPE_CHECKING:
    from models.store.store import Store

STORE_CLOSE_TIMEOUT_S: Final = 45.0
"""Only changes that wait for a locked or full disk take so long, behind the closed window."""


class OpenStore(Protocol):
    """Opens the store; `on_problem(state, sentence)` is called on a database thread."""

    def __call__(self, *, on_problem: Callable[[str, str], None]) -> Store: ...


_log = logging.getLogger(__name__)

EngineFactory = Callable[[Callable[[EngineEvent], None]], Engine]


class Desk(
    MessageDoor,
    LookingDoor,
    BranchDoor,
    CacheDoor,
    PromptDoor,
    WhatIfDoor,
    FitDoor,
    VocabularyDoor,
    SidebarDoor,
    SettingsDoor,
    WeightsDoor,
    WritingDoor,
    ExchangeDoor,
    LibraryDoor,
    DownloadDoor,
):
    """The use cases of the chat. Make it, show a window, then `start` it."""

    def __init__(
        self,
        *,
        open_store: OpenStore,
        engine_factory: EngineFactory,
        post: Post,
        emit: Emit,
        data_dir: Path,
        offline: bool = False,
        gguf: Path | None = None,
        remember_weights: bool = True,
        check_weights: Check | None = None,
        find_others: FindOthers | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.data_dir = data_dir
        self.offline = offline
        self._open_store = open_store
        self._engine_factory = engine_factory
        self._gguf = gguf
        self._changed_early: dict[str, Any] = {}
        self._sent_early: list[str] = []
        self._is_opened = False
        self._stores: Stores | None = None
        self._read_draft_of = ""
        self._around = Surroundings(
            post=post,
            emit=emit,
            alarms=Alarms(post),
            clock=clock,
            settings=first_look.read(data_dir),
        )
        self._shelf = Shelf(self._around, self._live_path, self._on_opened_path)
        self._loader = Loader(
            self._around, self._on_weights_ready, remember=remember_weights, check=check_weights
        )
        self._replies = Replies(self._around, self._shelf, self._loader)
        self._paths = Paths(self._around, self._shelf)
        self._replies.is_changing = self._paths.is_changing
        self._tree = Tree(self._around, self._shelf, self._paths, self._replies)
        self._attachments = Attachments(
            self._around, self._shelf, self._loader, self._on_prompt_changed
        )
        self._edits = Edits(self._around, self._shelf)
        self._queue = MessageQueue(
            self._around,
            self._shelf,
            self._attachments,
            self._replies.send_queued,
            self._replies.is_occupied,
        )
        self._paths.on_settled = self._queue.go_on
        self._shelf.queued_text = self._queue.kept_text
        self._replies.growing.on_ended = self._on_reply_ended
        self._levels = Levels(
            self._around, self._shelf, self._loader, self.set_setting, self._on_prompt_changed
        )
        self._defaults = WeightsDefaults(
            self._around, self._shelf, self._loader, self._on_prompt_changed
        )
        self._previews = TemplatePreviews(self._around)
        self._partners = DraftPartners(self._around, self._draft_candidates)
        self._room = RoomMaker(
            self._around,
            self._shelf,
            self._loader,
            self._replies,
            self._levels.change_where_it_counts,
        )
        self._presets = Presets(self._around, self._shelf, self._levels)
        self._again = Again(self._around, self._shelf, self._loader, self._replies)
        self._meter = ContextCounter(self._around, self._shelf, self._loader, self._draft_text)
        self._words = Words(self._around, self._loader)
        self._questions = Questions(self._loader)
        self._fits = Fits(self._around, self._loader, self._questions)
        self._vocabulary_files = VocabularyFiles(self._around, self._loader, self._words)
        self._cache = CacheLook(self._around, self._questions, self._shelf)
        self._text = TextMode(self._around, self._shelf, self._paths, self._loader, self._replies)
        self._meter.text_prompt = self._text.prompt
        self._branch_at = BranchAt(
            self._around, self._shelf, self._loader, self._replies, self._questions, self._text
        )
        self._step = StepMode(self._around, self._shelf, self._loader, self._replies.growing)
        self._replies.is_held = self._step.is_held
        self._reading = PromptReading(
            self._around,
            self._shelf,
            self._loader,
            self._questions,
            lambda: self.attachments,
            self._text.prompt,
        )
        self._what_ifs = WhatIfs(self._around, self._questions, self._reading)
        self._scoring = PromptScoring(self._questions, lambda: self._replies.growing.is_any)
        self._replies.growing.on_begun = self._on_replies_begun
        self._local = LocalWeights(
            self._around, self._loader, data_dir, self.set_setting, find_others
        )
        self._loader.name_of_file = self._local.name_of
        self._loader.other_paths = self._local.other_paths
        self._hub = HubQuestions(self._around, self.set_setting, offline=offline)
        self._fetching = Fetching(self._around, self._hub, data_dir, self.set_setting)
        self._folders = Folders(self._around, self._shelf, self._end_replies)
        self._folders.on_deleted = self._edits.leave_out_deleted
        self._searching = Searching(self._around, self._shelf, self._paths)
        self._shelf.before_branch = self._text.settle
        self._exchange = Exchange(self._around, self._on_imported)
        self._last_chat = LastChat(data_dir, self._around.alarms)
        self._engine: Engine | None = None
        show_arrived = self._replies.growing.show_arrived
        self._inbox: Inbox[EngineEvent] = Inbox(post, self._take, show_arrived)

    # --- start and end --------------------------------------------------------------------------

    def start(self) -> None:
        """Open the store, start the engine's process, then load what was used last."""
        around = self._around
        self._stores = Stores(self._open_store(on_problem=self._on_store_problem))
        around.store = self._stores.as_store()
        self._engine = self._engine_factory(self._inbox.put)
        self._loader.attach(self._engine)
        if self._gguf is not None or self._loader.included is not None:
            self._engine.start()
        around.when_done(around.store.opened, self._on_store_opened, self._on_store_failed)
        self._send_early()

    def shutdown(self) -> None:
        """Save what is unsaved, then end the engine and the store."""
        around = self._around
        if around.is_closing:
            return
        if around.store is not None and around.can_write:
            self._shelf.flush_draft()
            self._edits.flush()
            self._replies.close()
            if self._is_opened:
                self._folders.see_clock()
        self._last_chat.close()
        self._fetching.close()
        around.is_closing = True
        self._previews.close()
        self._partners.close()
        self._hub.close()
        self._exchange.close()
        self._fits.close()
        self._local.close()
        around.alarms.close()
        if self._engine is not None:
            self._engine.close()
        if around.store is not None:
            lost = around.store.close(STORE_CLOSE_TIMEOUT_S)
            if lost:
                _log.warning("%d changes could not be saved: %s", lost, around.store_state.sentence)

    def _on_store_opened(self, opened: StoreOpened) -> None:
        around, store = self._around, self._around.store
        assert store is not None
        self._is_opened = True
        around.can_write = opened.state != "read_only"
        self._set_store_state("ok" if around.can_write else "read_only", opened.sentence)
        if opened.sentence and around.can_write:
            around.emit(Noticed("warning", opened.sentence))
        around.when_done(store.all_settings(), self._take_stored_settings)
        self._folders.read()
        around.when_done(store.list_conversations(), self._shelf_list)
        around.when_done(store.list_weights(), self._loader.show_known)
        last_used = store.last_used_weights()
        around.when_done(last_used, lambda last: self._loader.load_first(self._gguf, last))

    def _on_store_failed(self, sentence: str) -> None:
        self._shelf.awaits_last = False
        self._hub.settings_failed()
        self._set_store_state("failed", sentence)
        self._stay()
        self._loader.load_first(self._gguf, None)

    def _shelf_list(self, conversations: tuple[Conversation, ...]) -> None:
        self._shelf.show_list(conversations)
        last = self._around.settings.last_conversation_id
        is_awaited, self._shelf.awaits_last = self._shelf.awaits_last, False
        # With a path the user was faster than the database.
        if self._shelf.path or not is_awaited or not self._shelf.is_stored(last):
            self._stay()
        elif not self._around.can_write or self._last_chat.may_open(last):
            self._shelf.open_stored(last, with_typed_text=True)
            self._last_chat.on_settled()
        else:
            self._around.emit(Noticed("warning", LEFT_CLOSED_SENTENCE))
            self._stay()

    def _stay(self) -> None:
        self._last_chat.on_settled()
        self._around.emit(LastChatStays())

    def _take_stored_settings(self, stored: dict[str, Any]) -> None:
        before = self._around.settings
        self._around.settings, refused = from_stored({**stored, **self._changed_early})
        after = self._around.settings
        names = frozenset(n for n in after.__slots__ if getattr(before, n) != getattr(after, n))
        for name, value in self._changed_early.items():
            self._store_setting(name, value)
        self._changed_early.clear()
        if refused:
            names_read = ", ".join(refused).replace("_", " ")
            sentence = f"Some settings could not be read and are at their defaults: {names_read}."
            self._around.emit(Noticed("warning", sentence))
        self._hub.take_stored_settings()
        self._edits.take_stored(stored, self._purge_expired)
        self._around.emit(SettingsChanged(names))
        self._local.on_settings_read()
        if self._around.can_write:
            first_look.write(self.data_dir, after)
            self._exchange.drop_unfinished()

    def _purge_expired(self) -> None:
        if self._around.can_write and not self._around.is_closing:
            self._folders.purge_expired()

    def _on_store_problem(self, state: str, sentence: str) -> None:
        """Called on a database thread."""
        self._around.post(lambda: self._set_store_state(state, sentence))

    def _set_store_state(self, state: str, sentence: str) -> None:
        if state == "failed":
            self._around.can_write = False
        self._around.store_state = StoreStateChanged(state, sentence)
        self._around.emit(self._around.store_state)

    # --- what a view may read at any time -------------------------------------------------------

    @property
    def conversation(self) -> Conversation:
        return self._shelf.open

    @property
    def messages(self) -> tuple[Message, ...]:
        """The active path of the open conversation, a growing reply as it is now."""
        return self._shelf.path

    @property
    def conversations(self) -> tuple[Conversation, ...]:
        return self._shelf.conversations

    @property
    def engine_state(self) -> EngineStateChanged:
        return self._loader.state

    @property
    def store_state(self) -> StoreStateChanged:
        return self._around.store_state

    @property
    def settings(self) -> Settings:
        return self._around.settings

    @property
    def is_generating(self) -> bool:
        """Whether a reply grows, or waits, in the open conversation: Send is Stop then."""
        return self._replies.is_busy(self._shelf.open.id)

    @property
    def is_waiting(self) -> bool:
        """Whether a message of the open conversation was said to wait (`SendQueued`)."""
        return self._replies.is_waiting(self._shelf.open.id)

    # --- conversations --------------------------------------------------------------------------

    def new_conversation(self) -> None:
        self._shelf.open_new()

    def open_conversation(self, conversation_id: str) -> None:
        self._shelf.open_stored(conversation_id)

    def rename_conversation(self, conversation_id: str, title: str) -> None:
        self._shelf.rename(conversation_id, title)

    def trash_conversation(self, conversation_id: str) -> None:
        """To the trash, with an undo; a reply in the making there is stopped."""
        if self._may_write():
            self._end_replies(conversation_id)
            self._shelf.trash(conversation_id)

    def _end_replies(self, conversation_id: str) -> None:
        self._queue.leave_in_draft(conversation_id)
        self._replies.stop(conversation_id)

    def _on_imported(self, ids: tuple[str, ...], sentence: str) -> None:
        self._presets.read_again()
        self._folders.take_in(ids, sentence)

    def undo(self, key: str) -> None:
        self._shelf.undo(key)

    def list_trash(self) -> None:
        """Ask what is in the trash; TrashListed answers."""
        if self._has_store():
            self._shelf.list_trash()

    def restore_conversation(self, conversation_id: str) -> None:
        """Out of the trash, as it was; it is opened."""
        if self._may_write():
            self._shelf.restore(conversation_id)

    def set_system_prompt(self, text: str) -> None:
        if self._may_write():
            self._shelf.set_system_prompt(text)
            self._meter.count_soon()

    def save_draft(self, text: str) -> None:
        self._shelf.save_draft(text)
        self._meter.count_soon()

    # --- weights --------------------------------------------------------------------------------

    def load_weights(self, path: str) -> None:
        if self._engine is None:
            self._gguf = Path(path)  # not started yet: `start` loads it
        else:
            self._loader.load(path)

    def unload_weights(self) -> None:
        if self._engine is not None:
            self._loader.unload()

    # --- settings -------------------------------------------------------------------------------

    def set_setting(self, name: str, value: Any) -> None:
        """Change a setting. A value that does not fit is refused in words and changes nothing."""
        before = self._around.settings
        try:
            # A number goes into the app's own chain too, if there is one.
            settings = merged(changed(before, name, value), {name: value})
        except SettingRefused as refused:
            self._around.emit(Noticed("error", str(refused)))
            return
        names = {
            each for each in (name, "chain") if getattr(settings, each) != getattr(before, each)
        }
        if not names:
            return
        self._around.settings = settings
        for each in names:
            self._store_setting(each, getattr(settings, each))
        if name in first_look.NAMES and self._around.can_write:
            first_look.write(self.data_dir, settings)
        if name == "n_threads":
            self._loader.set_threads(settings.n_threads)
        if name in ("system_prompt", "context_policy"):
            self._meter.count_soon()
        self._hub.take_settings(frozenset(names))
        if name in ("weights_folders", "find_other_apps", "download_folder"):
            self._local.on_settings_changed()
        self._around.emit(SettingsChanged(frozenset(names)))

    def _on_prompt_changed(self) -> None:
        self._meter.count_soon()

    def _store_setting(self, name: str, value: Any) -> None:
        if not self._is_opened:
            self._changed_early[name] = as_stored(value)
        elif self._around.can_write and self._around.store is not None:
            self._around.saved(self._around.store.set_setting(name, as_stored(value)))

    def _may_write(self) -> bool:
        if self._around.can_write and self._around.store is not None:
            return True
        self._around.emit(Noticed("warning", self._around.store_state.sentence))
        return False

    def _has_store(self) -> bool:
        return self._around.store is not None

    # --- what other threads say -----------------------------------------------------------------

    def _live_path(self, conversation_id: str, messages: Any) -> tuple[Message, ...]:
        return self._replies.growing.live_path(conversation_id, messages)

    def _on_opened_path(self) -> None:
        self._last_chat.on_shown()
        self._step.on_opened()
        open_id = self._shelf.open.id
        if open_id != self._read_draft_of:
            self._read_draft_of = open_id
            self._attachments.read_draft(open_id)
            self._queue.tell()
        self._meter.count_soon()

    def _on_weights_ready(self) -> None:
        self._room.on_weights_ready()
        self._replies.begin_waiting()
        self._attachments.count_missing()
        self._meter.count_soon()

    def _on_replies_begun(self) -> None:
        self._scoring.give_way()
        self._settle_rest()

    def _settle_rest(self) -> None:
        """Disk and processor belong to a reply or a load while there is one."""
        self._local.rest(self._replies.growing.is_any or self._loader.is_loading)

    def _on_reply_ended(self, message: Message) -> None:
        self._settle_rest()
        self._queue.on_reply_ended(message)
        self._meter.count_soon()  # the next prompt has this reply in it

    def _draft_text(self) -> str:
        return with_attachments(self._shelf.draft, self.attachments)

    def _take(self, event: EngineEvent) -> None:
        """One event of the engine, on the owner's thread."""
        if self._around.is_closing:
            return
        match event:
            case TokenArrived():
                self._replies.growing.take_token(event)
            case TextFlushed():
                self._replies.growing.take_flushed(event)
            case TextTakenBack():
                self._replies.growing.take_back(event)
            case StateChanged():
                self._loader.take_state(event)
                self._fits.take_state(event)
                self._settle_rest()
            case Log():
                self._loader.take_log(event)
            case Progress(phase="load"):
                self._loader.take_progress(event)
            case Progress():
                self._replies.growing.take_progress(event)
            case PromptScores():
                self._scoring.take(event)
            case Queued():
                self._replies.growing.take_queued(event)
                self._step.take_queued(event)
            case Held():
                self._step.take_held(event)
            case ThreadsChanged():
                self._replies.growing.take_threads(event)
            case Note():
                self._replies.growing.take_note(event)
            case Hello():
                self._loader.take_hello(event)
                self._fits.take_hello(event)
            case Finished() | Stopped() | Failed():
                self._take_ending(event)

    def _take_ending(self, event: Finished | Stopped | Failed) -> None:
        if isinstance(event, Finished) and isinstance(event.result, Loaded):
            self._loader.take_loaded(event.id, event.result)
            self._settle_rest()
        elif self._loader.is_load(event.id):
            self._loader.take_ended_load(event)
            self._settle_rest()
        elif self._attachments.is_count(event.id):
            self._attachments.take_ending(event)
        elif self._meter.is_count(event.id):
            self._meter.take_ending(event)
        elif self._words.is_read(event.id):
            self._words.take_ending(event)
        elif self._questions.is_asked(event.id):
            self._questions.take_ending(event)
        else:
            self._replies.growing.take_ending(event)
            self._step.take_ending(event.id)
