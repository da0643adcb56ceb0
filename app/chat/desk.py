"""The desk: everything that a user of the chat can do, without a widget in sight.

Its parts are made, wired, started and ended here. Views call them (`desk.replies.send(…)`,
`desk.tree.edit(…)`) and listen to the events that they emit (`app.chat.events`). What must hold:

* One owner: every method of a part is called on one thread (the GUI's), and every answer of another
  thread comes back to it through `post`. So there are no locks here.
* Every method returns at once.
* `shutdown` ends everything that `start` began, in reverse, within bounded time; and
  nothing that matters waits for it (`kill -9` loses less than a second of a reply).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from app.chat.alarms import Alarms
from app.chat.aloud.aloud import Aloud
from app.chat.attachments.attachments import Attachments
from app.chat.conversations.edits import Edits
from app.chat.conversations.folders import Folders
from app.chat.conversations.last_chat import LEFT_CLOSED_SENTENCE, LastChat
from app.chat.conversations.paths import Paths
from app.chat.conversations.searching import Searching
from app.chat.conversations.shelf import Shelf
from app.chat.conversations.tagging import Tagging
from app.chat.conversations.temporary import TemporaryChat
from app.chat.conversations.title_writing import TitleWriting
from app.chat.conversations.tree import Tree
from app.chat.documents.text_mode import TextMode
from app.chat.engines.engines import AskServer, EngineList
from app.chat.events import (
    LastChatStays,
    Noticed,
    SettingsChanged,
    StoreStateChanged,
)
from app.chat.exchange.backups import Backups
from app.chat.exchange.exchange import Exchange
from app.chat.hub.fetching import Fetching
from app.chat.hub.hub_questions import HubQuestions
from app.chat.inbox import Inbox
from app.chat.inspection.cache import CacheLook
from app.chat.inspection.embedding import Embeddings
from app.chat.inspection.exchange import Exchanges
from app.chat.inspection.inside import Insides
from app.chat.inspection.lanes import LaneWatch
from app.chat.inspection.live_draw import LiveDraws
from app.chat.inspection.machine import Machines
from app.chat.inspection.memory import MemoryWatch
from app.chat.inspection.prompt_reading import PromptReading
from app.chat.inspection.prompt_scoring import PromptScoring
from app.chat.inspection.questions import Questions
from app.chat.inspection.seeds import SeedRuns
from app.chat.inspection.what_if import WhatIfs
from app.chat.inspection.words import Words
from app.chat.replies.again import Again, compared
from app.chat.replies.beams import Beams
from app.chat.replies.branch_at import BranchAt
from app.chat.replies.counting import ContextCounter
from app.chat.replies.cuts import Cuts
from app.chat.replies.growing import Growing
from app.chat.replies.next_reply import NextReply
from app.chat.replies.replies import Replies
from app.chat.replies.room import RoomMaker
from app.chat.replies.step_mode import StepMode
from app.chat.replies.summaries import Summaries
from app.chat.replies.with_without import WithWithout
from app.chat.retrieval.draft import DraftParts
from app.chat.retrieval.embedder import Embedder
from app.chat.retrieval.search import PartsSearch
from app.chat.retrieval.sending import PartsBeforeReply
from app.chat.server.log import RequestLog
from app.chat.server.opened import OpenedRequest
from app.chat.server.serving import OwnServer, StartServer
from app.chat.server.starting import start_server
from app.chat.settings import first_look
from app.chat.settings.app import AppSettings
from app.chat.settings.levels import Levels
from app.chat.settings.presets import Presets
from app.chat.settings.sampler_links import Chain
from app.chat.settings.template_preview import TemplatePreviews
from app.chat.settings.thinking import Thinking
from app.chat.surroundings import ALWAYS, Emit, Post, Surroundings
from app.chat.tools.servers import ToolServers
from app.chat.tools.turns import Turns
from app.chat.tour.page import TourPages
from app.chat.weights.control_vectors import ControlVectors
from app.chat.weights.draft_partners import DraftPartners
from app.chat.weights.file_check import Check
from app.chat.weights.fits import Fits
from app.chat.weights.header_files import HeaderFiles
from app.chat.weights.idle import IdleUnload
from app.chat.weights.loading import Loader
from app.chat.weights.local_weights import FindOthers, LocalWeights
from app.chat.weights.projectors import Projectors
from app.chat.weights.saved_chats import SavedChats
from app.chat.weights.vocabulary_file import VocabularyFiles
from app.chat.weights.weights_defaults import WeightsDefaults
from app.engine.client.engine import Engine
from app.engine.client.supervisor import EngineEvent, StateChanged
from app.engine.protocol.beam_messages import BeamsGrew
from app.engine.protocol.lane_messages import Lanes
from app.engine.protocol.loading_messages import DevicesRead, Loaded
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
from app.engine.protocol.remote_messages import EngineAddress, EngineOffer, is_remote
from app.engine.protocol.tool_messages import ToolCalled
from app.engine.remote.engine import Reach
from app.engine.remote.routing import Engines
from app.hub.engine_keys import EngineKeys
from models.records import Conversation, Imported, Message, StoreOpened, Weights

if TYPE_CHECKING:
    from models.store.store import Store

STORE_CLOSE_TIMEOUT_S: Final = 45.0
"""Only changes that wait for a locked or full disk take so long, behind the closed window."""


SHAPING_PROMPTS: Final = frozenset(
    {
        *("system_prompt", "context_policy", "chat_format", "chat_template", "reasoning_tags"),
        *("thinking", "reasoning_budget", "template_variables"),
    }
)
"""Settings of the app with which the prompt has another length, or offers other things."""


class OpenStore(Protocol):
    """Opens the store; `on_problem(state, sentence)` is called on a database thread."""

    def __call__(self, *, on_problem: Callable[[str, str], None]) -> Store: ...


_log = logging.getLogger(__name__)

EngineFactory = Callable[[Callable[[EngineEvent], None]], Engine]


class Desk:
    """The parts, each made with what it needs. Make it, show a window, then `start` it."""

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
        ask_server: AskServer | None = None,
        server: StartServer = start_server,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.data_dir: Final = data_dir
        self.offline: Final = offline
        self._open_store = open_store
        self._engine_factory = engine_factory
        self._is_opened = False
        self._read_draft_of = ""
        self.around: Final = Surroundings(
            post=post,
            emit=emit,
            alarms=Alarms(post),
            clock=clock,
            settings=first_look.read(data_dir),
        )
        around, count_soon = self.around, self._count_soon
        self.settings: Final = AppSettings(around, data_dir, self._on_settings_changed)
        self.engines: Final = EngineList(
            around, self.settings.set, EngineKeys(), ask_server or self._ask_server
        )
        self.shelf: Final = Shelf(
            around,
            lambda chat, messages: self.growing.live_path(chat, messages),
            lambda chat: self.queue.kept_text(chat),
            self._on_opened_path,
            count_soon,
        )
        self.loader: Final = Loader(
            around,
            self._on_weights_ready,
            self._name_of_weights,
            lambda path: self.local.other_paths(path),
            lambda: self.saved_chats.for_engine(),
            lambda path: self.projectors.beside(path),
            first=gguf,
            remember=remember_weights,
            check=check_weights,
        )
        shelf, loader = self.shelf, self.loader
        self.media: Final = shelf.files
        self.questions: Final = Questions(loader)
        self.saved_chats: Final = SavedChats(around, loader, self.questions, data_dir)
        self.attachments: Final = Attachments(around, shelf, loader, self.questions, count_soon)
        self.paths: Final = Paths(around, shelf, lambda chat: self.queue.go_on(chat))
        self.growing: Final = Growing(
            around,
            shelf,
            loader,
            partial(compared, around),
            self._on_replies_begun,
            self._on_reply_ended,
        )
        self.summaries: Final = Summaries(around, shelf, loader, self.questions)
        self.search: Final = PartsSearch(around, loader, self.questions)
        self.parts: Final = PartsBeforeReply(around, shelf, self.search, self.questions)
        self.draft_parts: Final = DraftParts(
            around,
            shelf,
            loader,
            self.questions,
            self.attachments,
            self.search,
            lambda: self.meter.count_soon(),
        )
        self.step: Final = StepMode(around, shelf, loader, self.growing)
        self.next_reply: Final = NextReply(around, shelf)
        self.replies: Final = Replies(
            around,
            shelf,
            self.paths,
            loader,
            self.attachments,
            self.growing,
            self.summaries,
            self.parts,
            self.step.is_held,
            self.next_reply,
            lambda chat: self.tool_calls.is_running(chat),
            lambda chat: self.tool_calls.stop(chat),
        )
        self.queue: Final = self.replies.queue
        self.text: Final = TextMode(around, shelf, self.paths, loader, self.replies, count_soon)
        self.meter: Final = ContextCounter(
            around,
            shelf,
            loader,
            self.questions,
            self.attachments,
            self.text,
            self.next_reply,
            self.draft_parts,
        )
        self.tree: Final = Tree(around, shelf, self.paths, self.replies, self.text)
        self.searching: Final = Searching(around, shelf, self.paths, self.text)
        self.edits: Final = Edits(around, shelf)
        self.folders: Final = Folders(
            around, shelf, self.replies.give_up, self._on_deleted_for_good
        )
        self.tagging: Final = Tagging(around, shelf)
        self.aloud: Final = Aloud(around, shelf)
        self.levels: Final = Levels(around, shelf, loader, self.settings.set, count_soon)
        self.thinking: Final = Thinking(
            around, shelf, loader, self.questions, self.levels, self.next_reply
        )
        self.chain: Final = Chain(self.levels)
        self.presets: Final = Presets(around, shelf, self.levels)
        self.vectors: Final = ControlVectors(
            around, shelf, loader, self.questions, self.levels, data_dir
        )
        self.with_without: Final = WithWithout(
            around, shelf, self.levels, self.replies, self.vectors.name_of
        )
        self.defaults: Final = WeightsDefaults(around, shelf, loader, count_soon)
        self.previews: Final = TemplatePreviews(around)
        self.room: Final = RoomMaker(
            around, shelf, loader, self.replies, self.levels.change_where_it_counts
        )
        self.again: Final = Again(around, shelf, loader, self.replies)
        self.words: Final = Words(around, loader, self.questions)
        self.vocabulary: Final = VocabularyFiles(around, loader, self.words)
        self.fits: Final = Fits(around, loader, self.questions)
        served = RequestLog(around, loader, lambda reply: reply in self.growing, self._take)
        self.cache: Final = CacheLook(around, self.questions, shelf, served.client_of)
        self.lanes: Final = LaneWatch(loader, self.questions)
        self.memory: Final = MemoryWatch(around, loader, self.questions)
        self.idle: Final = IdleUnload(around, loader, self._is_needed)
        self.titles: Final = TitleWriting(around, shelf, loader, self.questions, self._is_needed)
        self.branches: Final = BranchAt(
            around, shelf, loader, self.replies, self.questions, self.text
        )
        self.cuts: Final = Cuts(around, shelf, loader, self.branches)
        self.prompts: Final = PromptReading(
            around,
            shelf,
            loader,
            self.questions,
            self.attachments,
            self.text,
            self.next_reply,
            self.draft_parts,
        )
        self.beams: Final = Beams(
            around,
            shelf,
            loader,
            self.questions,
            self.prompts,
            self.replies,
            self.branches,
            self.text,
        )
        self.what_ifs: Final = WhatIfs(around, self.questions, self.prompts)
        self.live_draws: Final = LiveDraws(around, self.questions, self.prompts)
        self.inside: Final = Insides(loader, self.questions, self.prompts)
        self.embedding: Final = Embeddings(around, loader, self.questions)
        self.word_order: Final = Exchanges(around, self.questions)
        self.scoring: Final = PromptScoring(self.questions, self.growing)
        self.seeds: Final = SeedRuns(around, shelf, loader, self.questions, self.growing)
        self.temporary: Final = TemporaryChat(
            around, shelf, self.replies, self.attachments, self.edits, self.cache, self.beams
        )
        opened = OpenedRequest(
            around,
            shelf,
            self.replies,
            self.attachments,
            self.edits,
            self.beams,
            self.temporary,
        )
        self.server: Final = OwnServer(
            around,
            loader,
            served,
            opened,
            self.settings.set,
            self.idle.touch,
            self.growing.show_arrived,
            server,
            offline=offline,
        )
        self.headers: Final = HeaderFiles(around)
        self.machine: Final = Machines(loader, self.questions, self.headers)
        self.local: Final = LocalWeights(around, loader, data_dir, self.settings.set, find_others)
        self.partners: Final = DraftPartners(around, self.local.candidates)
        self.embedder: Final = Embedder(loader, self.questions, self.local.found)
        self.projectors: Final = Projectors(loader, self.local.found)
        self.hub: Final = HubQuestions(around, self.settings.set, offline=offline)
        self.tools: Final = ToolServers(
            around,
            shelf,
            self.attachments,
            self.hub.gate,
            self.settings.set,
            self._on_tools_changed,
        )
        around.tools_of = self.tools.tools_of
        self.tool_calls: Final = Turns(
            around, shelf, self.tools, self.replies, self.server.opened.is_served
        )
        self.downloads: Final = Fetching(around, self.hub, data_dir, self.settings.set)
        self.downloads.follow(self.projectors.take_downloads)
        self.exchange: Final = Exchange(around, shelf, self.attachments, self._on_imported)
        self.backups: Final = Backups(around, self.exchange)
        self.pages: Final = TourPages(
            around,
            loader,
            self.questions,
            self.inside,
            self.embedding,
            self.words,
            self.headers,
            self.machine,
            self.fits,
            self.exchange,
        )
        self._last_chat = LastChat(data_dir, around.alarms)
        self._engine: Engines | None = None
        self._loaded_from: EngineAddress | None = None
        self._inbox: Inbox[EngineEvent] = Inbox(post, self._take, self.growing.show_arrived)

    # --- start and end --------------------------------------------------------------------------

    def start(self) -> None:
        """Open the store, start the engine's process, then load what was used last."""
        around = self.around
        around.store = self.temporary.over(self._open_store(on_problem=self._on_store_problem))
        reach = Reach(self.hub.gate, self.engines.address_of, self.engines.key_of)
        self._engine = Engines(self._engine_factory, self._inbox.put, reach)
        self.loader.attach(self._engine)
        self.saved_chats.begin()
        # It is opened once, and what it says at first is merged with what was done since.
        around.when_done(
            around.store.opened, self._on_store_opened, self._on_store_failed, still=ALWAYS
        )
        self.replies.send_early()

    def shutdown(self) -> None:
        """Save what is unsaved, then end the engine and the store."""
        around = self.around
        if around.is_closing:
            return
        if around.store is not None and around.can_write:
            self.shelf.flush_draft()
            self.edits.flush()
            self.replies.close()
            if self._is_opened:
                self.folders.see_clock()
        self.aloud.close()
        self._last_chat.close()
        self.downloads.close()
        self.vectors.close()
        around.is_closing = True
        self.previews.close()
        self.partners.close()
        self.engines.close()
        self.tool_calls.close()
        self.tools.close()
        self.hub.close()
        self.exchange.close()
        self.attachments.close()
        self.media.close()
        self.fits.close()
        self.headers.close()
        self.local.close()
        around.alarms.close()
        self.server.close()
        if self._engine is not None:
            self._engine.close()
        if around.store is not None:
            lost = around.store.close(STORE_CLOSE_TIMEOUT_S)
            if lost:
                _log.warning("%d changes could not be saved: %s", lost, around.store_state.sentence)

    # --- the store ------------------------------------------------------------------------------

    def _on_store_opened(self, opened: StoreOpened) -> None:
        around, store = self.around, self.around.store
        assert store is not None
        self._is_opened = True
        self.settings.on_store_opened()
        around.can_write = opened.state != "read_only"
        self._set_store_state("ok" if around.can_write else "read_only", opened.sentence)
        self.saved_chats.on_store_opened()
        if opened.sentence and around.can_write:
            around.emit(Noticed("warning", opened.sentence))
        around.when_done(store.all_settings(), self._take_stored_settings, still=ALWAYS)
        self.folders.read()
        around.when_done(store.list_conversations(), self._shelf_list, still=ALWAYS)
        around.when_done(store.list_weights(), self.loader.show_known, still=ALWAYS)
        around.when_done(store.last_used_weights(), self._load_first, still=ALWAYS)

    def _on_store_failed(self, sentence: str) -> None:
        self.shelf.awaits_last = False
        self.hub.settings_failed()
        self._set_store_state("failed", sentence)
        self._stay()
        self._load_first(None)

    def _load_first(self, last_used: Weights | None) -> None:
        self.loader.load_first(last_used)
        self.server.take_state()

    def _shelf_list(self, conversations: tuple[Conversation, ...]) -> None:
        shelf = self.shelf
        shelf.show_list(conversations)
        last = self.settings.now.last_conversation_id
        is_awaited, shelf.awaits_last = shelf.awaits_last, False
        # With a path the user was faster than the database.
        if shelf.path or not is_awaited or not shelf.is_stored(last):
            self._stay()
        elif not self.around.can_write or self._last_chat.may_open(last):
            shelf.open_stored(last, with_typed_text=True)
            self._last_chat.on_settled()
        else:
            self.around.emit(Noticed("warning", LEFT_CLOSED_SENTENCE))
            self._stay()

    def _stay(self) -> None:
        self._last_chat.on_settled()
        self.around.emit(LastChatStays())

    def _take_stored_settings(self, stored: dict[str, Any]) -> None:
        names = self.settings.take_stored(stored)
        self.hub.take_stored_settings()
        self._let_here()
        self.edits.take_stored(stored, self.folders.purge_expired)
        self.around.emit(SettingsChanged(names))
        self.local.on_settings_read()
        self.server.take_settings(names)
        self.saved_chats.sweep()
        self.tools.take_stored_settings()
        if self.around.can_write:
            self.exchange.drop_unfinished()

    def _on_store_problem(self, state: str, sentence: str) -> None:
        """Called on a database thread."""
        self.around.post(lambda: self._set_store_state(state, sentence))

    def _set_store_state(self, state: str, sentence: str) -> None:
        if state == "failed":
            self.around.can_write = False
        self.around.store_state = StoreStateChanged(state, sentence)
        self.around.emit(self.around.store_state)

    # --- what parts tell each other -------------------------------------------------------------

    def _ask_server(self, address: EngineAddress, key: str | None) -> EngineOffer:
        """What answers at an address; on a thread that may wait."""
        from app.engine.remote.trying import ask_server

        return ask_server(self.hub.gate, address, key)

    def _follow_engines(self) -> None:
        """The server of the loaded model was removed, or is somewhere else now."""
        path, before = self.loader.path, self._loaded_from
        if not is_remote(path) or before is None or self.loader.is_loading:
            return
        address = self.engines.address_of(path)
        if address is None:
            self._loaded_from = None
            self.loader.unload()
        elif address.url != before.url:
            self.loader.load(path)

    def _let_here(self) -> None:
        """Whether servers on this computer may be asked while offline. Not with --offline: then
        nothing opens a connection, whatever is set."""
        self.hub.gate.let_here(lets=self.settings.now.local_engines_offline and not self.offline)

    def _name_of_weights(self, path: str) -> str:
        return self.engines.name_of_path(path) if is_remote(path) else self.local.name_of(path)

    def _count_soon(self) -> None:
        self.draft_parts.refresh_soon()
        self.meter.count_soon()
        self.thinking.refresh()

    def _on_settings_changed(self, names: frozenset[str]) -> None:
        if "n_threads" in names:
            self.loader.set_threads(self.settings.now.n_threads)
        if names & SHAPING_PROMPTS:
            self._count_soon()
        if "embedding_model" in names:
            self.draft_parts.refresh_soon()
        if "unload_after_min" in names:
            self.idle.look_soon()
        if "saved_chats_mb" in names:
            self.saved_chats.on_settings_changed()
        self.hub.take_settings(names)
        if names & {"engines", "offline", "local_engines_offline"}:
            self._let_here()
            self.engines.on_settings_changed()
            self._follow_engines()
        if names & {"offline", "local_engines_offline"}:
            self.tools.take_settings()
        self.server.take_settings(names)
        if names & {"weights_folders", "find_other_apps", "download_folder"}:
            self.local.on_settings_changed()

    def _on_opened_path(self) -> None:
        self._last_chat.on_shown()
        self.step.on_opened()
        self.aloud.on_opened()
        self.summaries.on_opened()
        open_id = self.shelf.open.id
        if open_id != self._read_draft_of:
            self._read_draft_of = open_id
            self.attachments.read_draft(open_id)
            self.queue.tell()
        self.tool_calls.on_opened()
        self._count_soon()

    def _on_tools_changed(self) -> None:
        self.tool_calls.on_servers_changed()
        self._count_soon()

    def _on_weights_ready(self) -> None:
        self.room.on_weights_ready()
        self.replies.begin_waiting()
        self.attachments.count_missing()
        self.titles.look_soon()
        self._count_soon()

    def _on_imported(self, imported: Imported, sentence: str) -> None:
        self.presets.read_again()
        self.folders.take_in(imported, sentence)
        if self.shelf.open.id in imported.grown and not self.replies.is_busy(self.shelf.open.id):
            self.paths.read_again()

    def _on_deleted_for_good(self, chats: tuple[str, ...]) -> None:
        self.edits.leave_out_deleted()
        self.saved_chats.forget(chats)
        self.saved_chats.sweep()  # where it isn't known which

    def _on_replies_begun(self) -> None:
        self.scoring.give_way()
        self.seeds.give_way()
        self.titles.give_way()
        self._settle_rest()

    def _settle_rest(self) -> None:
        """Disk and processor belong to a reply or a load while there is one."""
        self.local.rest(self.growing.is_any or self.loader.is_loading or self.server.is_busy)

    def _on_reply_ended(self, message: Message) -> None:
        if self.replies.is_busy(message.conversation_id):
            return  # one of several
        self._settle_rest()
        if self.tool_calls.on_reply_ended(message):
            return  # what is queued waits for the reply to the results
        self.queue.on_reply_ended(message)
        self.seeds.go_on()
        self.meter.count_soon()  # the next prompt has this reply in it
        self.titles.after_reply(message.conversation_id)
        if message.conversation_id == self.shelf.open.id:
            self.summaries.after_reply(self.replies.is_occupied)

    def _is_needed(self) -> bool:
        """Whether anything runs or waits for which the weights stay."""
        return (
            self.growing.is_any
            or self.replies.is_any_waiting
            or self.queue.is_any
            or self.downloads.is_checking
            or self.server.is_busy
        )

    # --- what the engine says -------------------------------------------------------------------

    def _take(self, event: EngineEvent) -> None:
        """One event of the engine, on the owner's thread."""
        if not _is_no_use(event):
            self.idle.touch()
        if self.around.is_closing or self.seeds.take(event):
            return
        match event:
            case TokenArrived():
                self.growing.take_token(event)
            case TextFlushed():
                self.growing.take_flushed(event)
            case ToolCalled():
                self.growing.take_call(event)
            case TextTakenBack():
                self.growing.take_back(event)
            case BeamsGrew():
                self.beams.take(event)
            case StateChanged():
                self.loader.take_state(event)
                self.fits.take_state(event)
                self.inside.take_state()
                self.pages.take_state()
                self.server.take_state()
                self._settle_rest()
            case Log():
                self.loader.take_log(event)
            case Progress(phase="load"):
                self.loader.take_progress(event)
            case Progress() if self.questions.is_asked(event.id):
                self.questions.take_progress(event)
            case Progress():
                self.growing.take_progress(event)
            case PromptScores():
                self.scoring.take(event)
            case Queued():
                self.growing.take_queued(event)
                self.step.take_queued(event)
            case Held():
                self.step.take_held(event)
            case ThreadsChanged():
                self.growing.take_threads(event)
            case Note():
                self.growing.take_note(event)
            case Hello():
                self.loader.take_hello(event)
                self.fits.take_hello(event)
            case Finished() | Stopped() | Failed():
                self._take_ending(event)

    def _take_ending(self, event: Finished | Stopped | Failed) -> None:
        if isinstance(event, Finished) and isinstance(event.result, Loaded):
            self.loader.take_loaded(event.id, event.result)
            self._loaded_from = self.engines.address_of(self.loader.path)
            self.idle.look_soon()
            self.saved_chats.tell()
            self._settle_rest()
        elif self.loader.is_load(event.id):
            self.loader.take_ended_load(event)
            self._settle_rest()
        elif self.questions.is_asked(event.id):
            self.questions.take_ending(event)
        else:
            self.growing.take_ending(event)
            self.step.take_ending(event.id)


def _is_no_use(event: EngineEvent) -> bool:
    """What comes by itself, or is measured while somebody looks at it, is no use of the weights."""
    is_polled = isinstance(event, Finished) and isinstance(event.result, DevicesRead | Lanes)
    return is_polled or isinstance(event, Log | StateChanged)
