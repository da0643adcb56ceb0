"""What the use cases tell the window: frozen values, and `Event` lists their classes.

They are emitted on the owner's thread (the GUI thread in the app), in order; `app.bridge` hands
each to those who asked for its class. A view that missed one can always read the present state
from the parts of the `Desk`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.tool_messages import ToolCall
from models.records import (
    Attachment,
    Conversation,
    Folder,
    Message,
    Preset,
    SearchHit,
    TrashedBranch,
    TreeNode,
    Whereabouts,
)

if TYPE_CHECKING:
    from app.gguf.vector_file import KnownVector


@dataclass(frozen=True, slots=True)
class ConversationsChanged:
    """The whole list for the sidebar, newest activity first, without trashed ones."""

    conversations: tuple[Conversation, ...]


@dataclass(frozen=True, slots=True)
class ConversationOpened:
    """The conversation now on screen, with its active path, root first. Of a long one these are
    the last messages: while the first has a parent, EarlierArrived brings those above."""

    conversation: Conversation
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class LastChatStays:
    """At the start: the chat that was open last will not come on screen by itself."""


@dataclass(frozen=True, slots=True)
class EarlierArrived:
    """More of the open path, read in the background: `messages` stand right above the first one
    that was there."""

    conversation_id: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class ConversationChanged:
    """Title or other fields of one conversation."""

    conversation: Conversation


@dataclass(frozen=True, slots=True)
class PathChanged:
    """The active path of the open conversation is now another one (version flipped, retry)."""

    conversation_id: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """A message was appended to the active path of its conversation."""

    message: Message


@dataclass(frozen=True, slots=True)
class MessageChanged:
    """Any field of a message changed (state, error, counts). Text of a streaming message
    arrives by TextArrived instead."""

    message: Message


@dataclass(frozen=True, slots=True)
class TextArrived:
    """More text of a streaming reply. part: content, reasoning, or call (of a tool, as the weights
    write it: no text of the message)."""

    conversation_id: str
    message_id: str
    text: str
    part: str


@dataclass(frozen=True, slots=True)
class CallArrived:
    """A call of a streaming reply is whole."""

    conversation_id: str
    message_id: str
    index: int
    call: ToolCall


@dataclass(frozen=True, slots=True)
class CallsChanged:
    """What a conversation waits for because of tools (`desk.tool_calls`) is another by now."""

    conversation_id: str


@dataclass(frozen=True, slots=True)
class ToolServersChanged:
    """Tool servers, how they are, or what of theirs is offered (`desk.tools`): others by now."""


@dataclass(frozen=True, slots=True)
class BeamsChanged:
    """The beam search has more to show (`desk.beams`)."""


@dataclass(frozen=True, slots=True)
class TokenRecorded:
    """One generated token of a streaming reply."""

    conversation_id: str
    message_id: str
    token: TokenTrace
    context_used: int


@dataclass(frozen=True, slots=True)
class TokensTakenBack:
    """The last `n_tokens` recorded tokens of a streaming reply are no part of it (a banned text
    began there). They had shown no text."""

    conversation_id: str
    message_id: str
    n_tokens: int


@dataclass(frozen=True, slots=True)
class TraceRead:
    """The trace of a stored reply, as desk.growing.read_trace asked for it. Empty, with a
    sentence, where there is none or it cannot be read."""

    message_id: str
    tokens: tuple[TokenTrace, ...]
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class VocabularyRead:
    """The words of the loaded weights are here, as desk.words.read asked for them."""

    weights_hash: str


@dataclass(frozen=True, slots=True)
class PrefillProgressed:
    """`is_media`: parts of pictures and sounds are counted, which come before their cells."""

    conversation_id: str
    message_id: str
    done_tokens: int
    total_tokens: int
    is_media: bool = False


@dataclass(frozen=True, slots=True)
class EngineStateChanged:
    """state: stopped, starting, loading, ready, busy, stopping, crashed.

    `sentence` says in words what happened where something did (crashed, a failed load);
    `evidence` holds the last log lines then. `loaded` is set in ready, busy and stopping. `note`:
    what is worth saying of a state that is no fault. `is_remote`: the model is, or comes, from a
    server.
    """

    state: str
    weights_name: str = ""
    loaded: Loaded | None = None
    sentence: str = ""
    evidence: str = ""
    note: str = ""
    is_remote: bool = False


@dataclass(frozen=True, slots=True)
class LoadProgressed:
    """fraction: 0 ... 1."""

    fraction: float


@dataclass(frozen=True, slots=True)
class SendQueued:
    """A sent message waits for the weights (waiting=True) or no longer waits. `place`: where it
    stands in the engine's queue (1 is next); 0 where that is not what it waits for."""

    conversation_id: str
    waiting: bool
    place: int = 0


@dataclass(frozen=True, slots=True)
class ContextCounted:
    """Cells used by the open conversation (or its next prompt) and the window's size. `n_cut`
    messages would be left out of the next prompt, from `first_cut` down to `last_cut` (empty:
    none). None: nobody has looked, and what was said last stands. `covered`: the last message that
    a summary stands for there; `is_summarized`: of what is left out, one is written first."""

    used: int
    size: int
    n_cut: int = 0
    last_cut: str | None = None
    first_cut: str = ""
    covered: str = ""
    is_summarized: bool = False


@dataclass(frozen=True, slots=True)
class SummaryChanged:
    """A summary of `n_messages` is being written before what waits at `message_id`; without any:
    none is, any more."""

    conversation_id: str
    message_id: str = ""
    n_messages: int = 0


@dataclass(frozen=True, slots=True)
class StatusFigures:
    """A reply, live: for the status line. tokens_per_s and first_token_s are None until they can be
    measured. `is_shown`: it is the reply in front of us; else only the threads are news."""

    generated: int
    tokens_per_s: float | None
    first_token_s: float | None
    context_used: int
    context_size: int
    n_threads: int
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class Noticed:
    """A sentence for the user. level: info, warning, error. `undo`: key of an undoable act
    (pass it to desk.shelf.undo), or empty."""

    level: str
    sentence: str
    undo: str = ""


@dataclass(frozen=True, slots=True)
class TrashListed:
    """What is in the trash, the last thrown away first. Answers desk.shelf.list_trash and follows
    every change of the trash."""

    conversations: tuple[Conversation, ...]


@dataclass(frozen=True, slots=True)
class LogLineArrived:
    """A line of the engine's log."""

    level: str
    text: str


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """Names of the settings that changed."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class AnswersBegan:
    """Several answers to one message begin at once. The first is on the active path; text and
    changes of all of them are told by TextArrived and MessageChanged."""

    conversation_id: str
    parent_id: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class ReplyQueued:
    """A reply waits for a slot in the engine: its place there (1 is next), or 0 where it waits no
    longer."""

    conversation_id: str
    message_id: str
    place: int


@dataclass(frozen=True, slots=True)
class SeedsCounted:
    """More is known of one prompt with many seeds: `desk.seeds` has it. `n_over` of `n_wanted`
    have ended."""

    n_over: int
    n_wanted: int
    is_over: bool


@dataclass(frozen=True, slots=True)
class VersionsRead:
    """All versions of a message, oldest first. Answers desk.tree.read_versions."""

    conversation_id: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class TreeRead:
    """Every message of a conversation, deleted ones too, parents before children. Answers
    desk.tree.read_tree; `path_ids` is the active path."""

    conversation_id: str
    nodes: tuple[TreeNode, ...]
    path_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrashedBranchesListed:
    """What was deleted inside of conversations, the last first. Answers
    desk.tree.list_trashed and follows every change of it."""

    branches: tuple[TrashedBranch, ...]


@dataclass(frozen=True, slots=True)
class AttachmentsChanged:
    """What goes along with the next message of the open conversation. `is_coming`: more is being
    read or stored. `is_refused`: something that was on its way does not come. `unseen`: why the
    loaded model gets nothing of a picture or a sound among them, or of those of the chat."""

    conversation_id: str
    attachments: tuple[Attachment, ...]
    is_coming: bool = False
    is_refused: bool = False
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class DocumentReached:
    """How far a document is read that is coming to the open conversation's draft: pages done, and
    of how many (0: it is not known)."""

    conversation_id: str
    name: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class PartsFound:
    """Parts of documents of earlier messages that would go along with what is typed now."""

    conversation_id: str
    parts: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class PartsSought:
    """Documents are being searched for a message that waits for its reply: what is done, in a
    sentence; empty: no more. `is_slow`: searching by words would be done at once."""

    conversation_id: str
    message_id: str
    sentence: str = ""
    is_slow: bool = False


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """A message that is sent when the reply before it has ended."""

    id: str
    conversation_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """The messages that wait for the reply of the open conversation, in order. `is_held`: that
    reply failed or was stopped, or what is attached can't be taken, and they wait until the user
    says so."""

    conversation_id: str
    messages: tuple[QueuedMessage, ...]
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class StoreStateChanged:
    """The database: ok, read_only, unsaved (a write is being retried), failed. With words."""

    state: str
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class LevelsChanged:
    """What a level (weights, chat) sets otherwise has changed."""

    level: str


@dataclass(frozen=True, slots=True)
class ThinkingChanged:
    """What the open chat's template offers about reasoning, or what is chosen of it
    (`desk.thinking`), is another by now."""


@dataclass(frozen=True, slots=True)
class PresetsListed:
    """All presets, in the user's order. Answers desk.presets.list and follows every change."""

    presets: tuple[Preset, ...]


@dataclass(frozen=True, slots=True)
class VectorsListed:
    """All control vectors that were made here, the newest first. Answers `desk.vectors.list` and
    follows every change."""

    vectors: tuple[KnownVector, ...]


@dataclass(frozen=True, slots=True)
class VectorsWanted:
    """Somebody wants to see the control vectors, or to make one."""


@dataclass(frozen=True, slots=True)
class FoldersChanged:
    """All folders of the sidebar, by name; `parent_id` says which lie in which."""

    folders: tuple[Folder, ...]


@dataclass(frozen=True, slots=True)
class SearchAnswered:
    """A page of what was found for the text that is being searched for. Answers
    desk.searching.search (`is_first`) and desk.searching.more. Without hits and `has_more` False:
    nothing was found; with `has_more` there may be some further on. `problems`: sentences about
    filters."""

    typed: str
    hits: tuple[SearchHit, ...]
    is_first: bool
    has_more: bool = False
    has_more_titles: bool = False
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageSought:
    """Show this message of the open conversation and mark it. Follows desk.searching.open_at."""

    conversation_id: str
    message_id: str


@dataclass(frozen=True, slots=True)
class ChatLooked:
    """A chat of a file that could be imported, or a preset that no chat there has."""

    title: str
    n_messages: int
    updated_at: datetime
    file: str
    whereabouts: Whereabouts
    id: str = ""
    app: str = ""
    created_at: datetime | None = None
    is_preset: bool = False


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something in a file that does not come: how often, and the first chats where it was met."""

    app: str
    what: str
    count: int
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportLooked:
    """How many chats were found so far in files that are looked through. The last one `is_over`."""

    n_chats: int
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class ImportPreviewed:
    """What an import would bring. Answers desk.exchange.preview; `refusals` are sentences about
    files that bring nothing; by its `number` it is imported or forgotten."""

    chats: tuple[ChatLooked, ...]
    refusals: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class ImportProgressed:
    """How many messages of an import are done. The last one of an import `is_over`."""

    done: int
    total: int
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class ExportProgressed:
    """How many messages of a chat that is exported, or chats (`unit`), are done. The last one of an
    export `is_over`."""

    done: int
    total: int
    unit: str
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class PageProgressed:
    """How many steps of a page to be saved are done. The last one of a page `is_over`."""

    done: int
    total: int
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class PageSaved:
    """The page is there, whole."""

    path: str


@dataclass(frozen=True, slots=True)
class ReadingChanged:
    """What is read aloud: a message, and the sentence that is being said. Without any: nothing."""

    conversation_id: str = ""
    message_id: str = ""
    sentence: str = ""
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class StepModeChanged:
    """Whether replies wait at each token."""

    is_on: bool


@dataclass(frozen=True, slots=True)
class ReplyingChanged:
    """In which conversations a reply waits or grows."""

    conversation_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class TokenHeld:
    """A reply waits: this token was drawn and is not part of it yet. `desk.step.take` and its
    neighbours go on."""

    conversation_id: str
    message_id: str
    token: TokenTrace


@dataclass(frozen=True, slots=True)
class MemoryChanged:
    """So much more or less is free on some device that weights may fit otherwise than before:
    `desk.fits.machine` has it."""


@dataclass(frozen=True, slots=True)
class HeldEnded:
    """A reply that waited at its tokens runs on, or has ended."""

    conversation_id: str
    message_id: str


@dataclass(frozen=True, slots=True)
class ServerChanged:
    """The server of one's own. state: off, starting, on, stopping, failed; `sentence` says why it
    failed. `url` is what programs are given, without a path; empty unless it is on. `is_open`:
    other computers reach it, too."""

    state: str
    url: str = ""
    sentence: str = ""
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class ServedChanged:
    """More is known of what the server was asked: `desk.server.log` has it."""


@dataclass(frozen=True, slots=True)
class HubState:
    """Where the hub is and whether it may be asked. `why_offline` is a sentence, empty while it
    may. `token_where`: none, keyring or this run. `account` is empty until the hub has said it."""

    endpoint: str
    host: str
    why_offline: str = ""
    token_where: str = "none"
    is_token_refused: bool = False
    account: str = ""


@dataclass(frozen=True, slots=True)
class HubTrouble:
    """Why a question to the hub has no answer. Kinds are those of `app.hub.faults.HubFault`, and
    not_usable (what is there is no weights) and fault (ours). The sentence says what to do.
    `retry_after_s`: how long the hub asks to wait, where it does."""

    kind: str
    sentence: str
    retry_after_s: float | None = None


Event = (
    ConversationsChanged
    | ConversationOpened
    | LastChatStays
    | EarlierArrived
    | ConversationChanged
    | PathChanged
    | MessageAdded
    | MessageChanged
    | TextArrived
    | CallArrived
    | CallsChanged
    | ToolServersChanged
    | BeamsChanged
    | TokenRecorded
    | TokensTakenBack
    | TraceRead
    | VocabularyRead
    | PrefillProgressed
    | EngineStateChanged
    | LoadProgressed
    | SendQueued
    | ContextCounted
    | SummaryChanged
    | StatusFigures
    | Noticed
    | TrashListed
    | LogLineArrived
    | SettingsChanged
    | StoreStateChanged
    | AnswersBegan
    | ReplyQueued
    | SeedsCounted
    | VersionsRead
    | TreeRead
    | TrashedBranchesListed
    | AttachmentsChanged
    | QueueChanged
    | DocumentReached
    | PartsFound
    | PartsSought
    | LevelsChanged
    | ThinkingChanged
    | PresetsListed
    | VectorsListed
    | VectorsWanted
    | FoldersChanged
    | SearchAnswered
    | MessageSought
    | ImportLooked
    | ImportPreviewed
    | ImportProgressed
    | ExportProgressed
    | PageProgressed
    | PageSaved
    | MemoryChanged
    | ReadingChanged
    | StepModeChanged
    | ReplyingChanged
    | TokenHeld
    | HeldEnded
    | ServerChanged
    | ServedChanged
)
