"""Where the use cases meet Qt: their events become signals, their answers come to the GUI thread.

The only file under `app/` that imports PySide6, and only QtCore.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QObject, Qt, Signal

from app.chat import events


class Bridge(QObject):
    """One signal per class of event; each carries the event itself.

    `post` may be called on any thread: the function runs on the thread that the bridge
    lives on (the GUI's), in the order of the calls. After `close` nothing runs any more.
    """

    conversations_changed = Signal(object)
    conversation_opened = Signal(object)
    last_chat_stays = Signal(object)
    earlier_arrived = Signal(object)
    conversation_changed = Signal(object)
    path_changed = Signal(object)
    message_added = Signal(object)
    message_changed = Signal(object)
    text_arrived = Signal(object)
    token_recorded = Signal(object)
    tokens_taken_back = Signal(object)
    trace_read = Signal(object)
    vocabulary_read = Signal(object)
    prefill_progressed = Signal(object)
    engine_state_changed = Signal(object)
    load_progressed = Signal(object)
    send_queued = Signal(object)
    context_counted = Signal(object)
    status_figures = Signal(object)
    noticed = Signal(object)
    trash_listed = Signal(object)
    log_line_arrived = Signal(object)
    settings_changed = Signal(object)
    store_state_changed = Signal(object)
    answers_began = Signal(object)
    versions_read = Signal(object)
    tree_read = Signal(object)
    trashed_branches_listed = Signal(object)
    levels_changed = Signal(object)
    presets_listed = Signal(object)
    attachments_changed = Signal(object)
    queue_changed = Signal(object)
    folders_changed = Signal(object)
    search_answered = Signal(object)
    message_sought = Signal(object)
    import_previewed = Signal(object)
    import_progressed = Signal(object)
    memory_changed = Signal(object)
    step_mode_changed = Signal(object)
    replying_changed = Signal(object)
    token_held = Signal(object)
    held_ended = Signal(object)

    _posted = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._is_closed = False
        self._posted.connect(self._run, Qt.ConnectionType.QueuedConnection)
        self._signals = {kind: getattr(self, name).emit for kind, name in SIGNAL_OF_EVENT.items()}

    def post(self, action: Callable[[], None]) -> None:
        """Run `action` on the bridge's thread, soon. Callable from any thread."""
        if not self._is_closed:
            self._posted.emit(action)

    def emit_event(self, event: events.Event) -> None:
        """Emit the signal of this event, at once (call it on the bridge's thread)."""
        if not self._is_closed:
            self._signals[type(event)](event)

    def close(self) -> None:
        """What is still posted is dropped: its receivers are going away."""
        self._is_closed = True

    def _run(self, action: Callable[[], None]) -> None:
        if not self._is_closed:
            action()


SIGNAL_OF_EVENT: Final[dict[type, str]] = {
    events.ConversationsChanged: "conversations_changed",
    events.ConversationOpened: "conversation_opened",
    events.LastChatStays: "last_chat_stays",
    events.EarlierArrived: "earlier_arrived",
    events.ConversationChanged: "conversation_changed",
    events.PathChanged: "path_changed",
    events.MessageAdded: "message_added",
    events.MessageChanged: "message_changed",
    events.TextArrived: "text_arrived",
    events.TokenRecorded: "token_recorded",
    events.TokensTakenBack: "tokens_taken_back",
    events.TraceRead: "trace_read",
    events.VocabularyRead: "vocabulary_read",
    events.PrefillProgressed: "prefill_progressed",
    events.EngineStateChanged: "engine_state_changed",
    events.LoadProgressed: "load_progressed",
    events.SendQueued: "send_queued",
    events.ContextCounted: "context_counted",
    events.StatusFigures: "status_figures",
    events.Noticed: "noticed",
    events.TrashListed: "trash_listed",
    events.LogLineArrived: "log_line_arrived",
    events.SettingsChanged: "settings_changed",
    events.StoreStateChanged: "store_state_changed",
    events.AnswersBegan: "answers_began",
    events.VersionsRead: "versions_read",
    events.TreeRead: "tree_read",
    events.TrashedBranchesListed: "trashed_branches_listed",
    events.LevelsChanged: "levels_changed",
    events.PresetsListed: "presets_listed",
    events.AttachmentsChanged: "attachments_changed",
    events.QueueChanged: "queue_changed",
    events.FoldersChanged: "folders_changed",
    events.SearchAnswered: "search_answered",
    events.MessageSought: "message_sought",
    events.ImportPreviewed: "import_previewed",
    events.ImportProgressed: "import_progressed",
    events.MemoryChanged: "memory_changed",
    events.StepModeChanged: "step_mode_changed",
    events.ReplyingChanged: "replying_changed",
    events.TokenHeld: "token_held",
    events.HeldEnded: "held_ended",
}
