"""From what a message offers to what the desk does: editors, answers side by side, the map.

One object beside the window, like `ui.chat.composing`. It holds no state of the chat.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.chat.events import (
    AnswersBegan,
    ConversationOpened,
    MessageChanged,
    PathChanged,
    PresetsListed,
    ReplyQueued,
    TextArrived,
    VersionsRead,
)
from app.chat.replies.summary_nodes import covered_by, stands_of
from models.records import Message, Role
from ui.shell.actions import Action, Actions
from ui.shell.notices import Notice
from ui.transcript.edit import Choice, Decide, Editing, MessageEditor, Task

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from app.chat.replies.together import Together
    from ui.chat.branch_map import BranchMap
    from ui.chat.chat_column import ChatColumn
    from ui.chat.compare import Comparison
    from ui.chat.compare_ask import AskSeveral
    from ui.chat.seeds_window import SeedsWindow
    from ui.look.theme import Theme

Saved = Callable[[], None]
GROUP = "Message"
EDIT_QUESTION = (
    Choice("send", "Send", "A new version, with a new reply"),
    Choice("save", "Save only", "Save without generating a reply"),
)
EDIT_REPLY = (
    Choice("save", "Save", "A new version"),
    Choice("go_on", "Save and continue", "Save as a new version and continue from it"),
)
EDIT_SUMMARY = (Choice("save", "Save", "A new version"),)
SUMMARIZED_CHANGED = "The messages that this summary stands for have changed, so it isn't used."
INSERT = (Choice("insert", "Insert"),)
BEGIN = (Choice("begin", "Continue from here", "A new version that starts with this"),)


class MessageActs(QObject):
    settings_requested = Signal(str)
    picture_requested = Signal(str, str)

    def __init__(self, desk: Desk, bridge: Bridge, theme: Theme, chat: ChatColumn) -> None:
        super().__init__(chat)
        self._desk = desk
        self._bridge = bridge
        self._theme = theme
        self._chat = chat
        self._wanted_id = ""
        self._wants_end = False
        self._comparison: Comparison | None = None
        self._map: BranchMap | None = None
        self._asking: AskSeveral | None = None
        self._seeds: SeedsWindow | None = None
        self.editing = Editing(chat.transcript, desk.edits)
        chat.transcript.act_requested.connect(self.do)
        bridge.on(PathChanged, self._on_path_changed)
        bridge.on(AnswersBegan, self._on_answers_began)
        bridge.on(VersionsRead, self._on_versions_read)
        bridge.on(PresetsListed, self._on_presets)
        bridge.on(ReplyQueued, self._on_reply_queued)
        bridge.on(TextArrived, self._on_text_arrived)
        bridge.on(MessageChanged, self._on_message_changed)
        bridge.on(ConversationOpened, self._on_conversation_opened)

    def add_actions(self, actions: Actions) -> None:
        """For the message that the keyboard is on, else the last one that it fits."""
        may, has = self._may_change, self._has_messages
        for name, title, key, act, is_enabled in (
            ("retry_reply", "Regenerate the reply", "Ctrl+R", "retry", may),
            ("continue_reply", "Continue the reply", "Ctrl+G", "continue", may),
            ("edit_message", "Edit the message", "Ctrl+E", "edit", may),
            ("several_answers", "Generate several replies", "Ctrl+D", "answers", may),
            ("try_seeds", "Many seeds: how often each token comes", "Ctrl+Alt+S", "seeds", has),
            ("compare_versions", "Compare versions", "Ctrl+Alt+D", "compare", has),
            ("branch_off", "Branch to a new chat", "Ctrl+Shift+B", "branch_off", may),
            ("branch_map", "Branch map", "Ctrl+M", "map", has),
        ):
            run = partial(self.do_here, act)
            actions.add(Action(name, title, key, run, is_enabled, GROUP))
        summaries, replies = self._desk.summaries, self._desk.replies
        actions.add(
            Action(
                "summarize_now",
                "Summarize older messages now",
                "Ctrl+Alt+M",
                partial(summaries.now, replies.is_occupied),
                may,
                GROUP,
            )
        )
        actions.add(
            Action(
                "skip_summary",
                "Skip the summary and send",
                "Ctrl+Alt+X",
                summaries.skip,
                lambda: summaries.is_writing(self._desk.shelf.open.id),
                GROUP,
            )
        )
        for name, title, key, act in (
            ("begin_reply", "Start the reply yourself", "W", "begin"),
            ("insert_below", "Insert a message below", "I", "insert_below"),
            ("insert_above", "Insert a message above", "Shift+I", "insert_above"),
            ("swap_role", "Switch role", "S", "swap_role"),
            ("delete_message", "Delete the message and everything after it", "Del", "trash"),
            ("delete_message_alone", "Delete only this message", "Shift+Del", "trash_alone"),
        ):
            run, may_here = partial(self.do_on_current, act), self._may_change_current
            actions.add(
                Action(name, title, key, run, may_here, GROUP, place="On a message", binds=False)
            )

    # --- acts -----------------------------------------------------------------------------------

    def do_here(self, name: str) -> None:
        """On the message that the keyboard is on, else the last one that it fits."""
        transcript = self._chat.transcript
        messages = self._desk.shelf.path
        current = transcript.keyboard.current if transcript.hasFocus() else None
        if current is not None and current < len(transcript.rows):
            self.do(name, transcript.rows.message(current).id)
            return
        fitting = [m for m in messages if _fits(name, m)]
        if fitting:
            self.do(name, fitting[-1].id)

    def do_on_current(self, name: str) -> None:
        """On the message that the keyboard is, or was last, on; on no other."""
        transcript = self._chat.transcript
        if self._may_change_current() and transcript.keyboard.current is not None:
            self.do(name, transcript.rows.message(transcript.keyboard.current).id)

    def do(self, name: str, message_id: str) -> None:
        """What a message offers, by its name (`ui.transcript.offers`)."""
        message = next((m for m in self._desk.shelf.path if m.id == message_id), None)
        if message is None:
            return
        desk = self._desk
        match name:
            case "retry":
                desk.replies.answer(message_id)
            case "continue":
                desk.replies.go_on(message_id)
            case "run_again":
                desk.again.run(message_id)
            case "settings":
                self.settings_requested.emit(message_id)
            case "swap_role":
                desk.tree.swap_role(message_id)
            case "branch_off":
                desk.tree.branch_off(message_id)
            case "trash":
                desk.tree.trash(message_id)
            case "trash_alone":
                desk.tree.trash(message_id, only_this=True)
            case "enlarge":
                desk.room.enlarge(message_id)
            case "trim":
                desk.room.trim(message_id)
            case "shorten_result":
                self._shorten_result(message)
            case "show_summarized":
                self._show_summarized(message)
            case "summarize_again":
                desk.summaries.again(message_id, partial(desk.tree.edit, message_id))
            case "search_again":
                self._with_end(partial(desk.tree.search_again, message_id))
            case "edit":
                self.edit(message)
            case "begin":
                self.begin(message)
            case "insert_below":
                self.insert(message.id, is_above=False)
            case "insert_above":
                self.insert(message.id, is_above=True)
            case "answers":
                self.ask_for_answers(message)
            case "seeds":
                self.show_seeds(message)
            case "compare":
                desk.tree.read_versions(message_id)
            case "map":
                self.show_map()
            case "copy_picture" | "save_picture":
                self.picture_requested.emit(name, message_id)

    def _show_summarized(self, summary: Message) -> None:
        """The first message that it stands for, at the top."""
        covered = covered_by(summary, self._desk.shelf.path)
        if covered:
            self._chat.transcript.show_message(covered[0].id)
        else:
            self._chat.toasts.show_notice(Notice("summary", "info", SUMMARIZED_CHANGED))

    def _shorten_result(self, reply: Message) -> None:
        result = self._desk.shelf.message(reply.settings["room"]["result"])
        if result is not None:
            self.edit(result)

    def _is_above_result(self, message: Message) -> bool:
        below = (each for each in self._desk.shelf.path if each.parent_id == message.id)
        return any(each.role is Role.TOOL for each in below)

    def edit(self, message: Message) -> None:
        is_reply = message.role is Role.ASSISTANT
        title = "Edit your message: a new version"
        choices: tuple[Choice, ...] = EDIT_QUESTION
        if is_reply:
            title, choices = "Edit the reply: a new version", EDIT_REPLY
        elif message.role is Role.TOOL:
            title = "Edit the tool's result: a new version"
            if self._is_above_result(message):  # sent, the other results would be missing
                choices = EDIT_SUMMARY
        elif stands_of(message) is not None:
            title, choices = "Edit the summary: a new version", EDIT_SUMMARY
        task = Task(
            "edit",
            title,
            choices,
            message.content,
            n_following=self._n_below(message.id),
            reasoning=message.reasoning if is_reply else "",
            attachments=message.attachments,
        )
        self._open_editor(message.id, task, partial(self._edited, message))

    def _edited(self, message: Message, choice: str, editor: MessageEditor, saved: Saved) -> bool:
        if choice == "send":
            send = partial(
                self._desk.tree.edit_and_send,
                message.id,
                editor.text,
                attachments=editor.attachments,
            )
            return self._with_end(partial(send, saved=saved))
        if choice == "go_on":
            return self._begin_reply(message.id, editor.text, _thoughts(editor), saved)
        return not editor.is_changed or self._desk.tree.edit(
            message.id,
            editor.text,
            keep_following=editor.keeps_following,
            reasoning=_thoughts(editor),
            attachments=editor.attachments,
            saved=saved,
        )

    def _with_end(self, act: Callable[[], bool]) -> bool:
        """What is written now is what the user waits for, if it is taken."""
        self._wants_end = True
        is_taken = act()
        self._wants_end = self._wants_end and is_taken
        return is_taken

    def begin(self, message: Message) -> None:
        """Write how a reply begins; the weights go on from there."""
        is_reply = message.role is Role.ASSISTANT
        text = message.content if is_reply else ""
        task = Task(
            "begin",
            "The reply starts with",
            BEGIN,
            text,
            is_below=not is_reply,
            reasoning=message.reasoning if is_reply else "",
            has_reasoning=self._desk.thinking.offer.has_reasoning,
        )

        def begin(_choice: str, editor: MessageEditor, saved: Saved) -> bool:
            return self._begin_reply(message.id, editor.text, _thoughts(editor), saved)

        self._open_editor(message.id, task, begin)

    def _begin_reply(self, message_id: str, text: str, reasoning: str | None, saved: Saved) -> bool:
        return self._with_end(
            partial(self._desk.replies.begin_with, message_id, text, reasoning, saved=saved)
        )

    def insert(self, message_id: str, *, is_above: bool) -> None:
        messages = self._desk.shelf.path
        place = next(i for i, m in enumerate(messages) if m.id == message_id)
        after = messages[place - 1] if is_above and place else messages[place]
        after_id = None if is_above and not place else after.id
        role = Role.ASSISTANT if after.role is Role.USER and after_id else Role.USER
        task = Task("insert", "A new message", INSERT, role=role, is_below=after_id is not None)
        if after_id is None:
            task = Task("insert", "A new first message", INSERT, role=role)

        def insert(_choice: str, editor: MessageEditor, saved: Saved) -> bool:
            return self._desk.tree.insert(after_id, editor.role, editor.text, saved=saved)

        self._open_editor(after.id, task, insert)

    def _open_editor(self, message_id: str, task: Task, decide: Decide) -> None:
        self._chat.wanted.emit()
        self.editing.open(message_id, task, decide)

    def ask_for_answers(self, message: Message) -> None:
        from ui.chat.compare_ask import AskSeveral

        desk = self._desk
        dialog = AskSeveral(
            self._theme,
            desk.settings.now,
            self._chat.window(),
            presets=desk.presets.all,
            fits=self._fits,
        )
        dialog.asked.connect(lambda answers: desk.replies.ask_several(message.id, answers))
        dialog.finished.connect(self._on_asked)
        self._asking = dialog
        desk.presets.list()
        dialog.open()

    def show_seeds(self, message: Message) -> None:
        from ui.chat.seeds_window import SeedsWindow

        if self._seeds is None:
            self._seeds = SeedsWindow(self._desk, self._bridge, self._theme, self._chat.window())
            self._seeds.version_wanted.connect(self._on_version_wanted)
        path = self._desk.shelf.path
        asked_id = message.parent_id if message.role is Role.ASSISTANT else message.id
        question = next((m.content for m in path if m.id == asked_id), "")
        self._seeds.open_for(message.id, question)

    def _on_version_wanted(self, message_id: str, seed: int) -> None:
        self._desk.replies.answer(message_id, ({"seed": seed},))

    def _on_asked(self) -> None:
        self._asking = None

    def _on_presets(self, event: PresetsListed) -> None:
        if self._asking is not None:
            self._asking.show_presets(event.presets)

    def _fits(self, count: int) -> Together:
        """Of so many replies to what is in the context now."""
        from app.chat.replies.together import together

        desk, last = self._desk, self._desk.meter.last
        n_prompt = 0 if last is None else last.used
        max_tokens = desk.settings.now.max_tokens
        return together(count, desk.loader.state.loaded, n_prompt, max_tokens)

    def show_map(self) -> None:
        from ui.chat.branch_map import BranchMap

        if self._map is None:
            self._map = BranchMap(self._desk, self._bridge, self._theme, self._chat.window())
            self._map.chosen.connect(self.go_to)
        self._map.open_map()

    def go_to(self, message_id: str) -> None:
        """Show a message, on whatever path it is."""
        self._chat.wanted.emit()
        self.leave_comparison()
        if self._chat.transcript.rows.index_of(message_id) is not None:
            self._chat.transcript.show_message(message_id)
            return
        self._wanted_id = message_id
        self._desk.tree.go_to(message_id)

    # --- answers side by side -------------------------------------------------------------------

    def leave_comparison(self) -> None:
        if self._comparison is None:
            return
        comparison, self._comparison = self._comparison, None
        had_focus = comparison.isAncestorOf(self._chat.window().focusWidget() or self._chat)
        self._chat.show_transcript(self._has_messages())
        self._chat.body.removeWidget(comparison)
        comparison.hide()
        comparison.deleteLater()
        if had_focus:
            self._chat.composer.focus()

    def _compare(self, parent_id: str | None, messages: tuple[Message, ...]) -> None:
        from ui.chat.compare import Comparison

        self._chat.wanted.emit()
        self.leave_comparison()
        question = next((m.content for m in self._desk.shelf.path if m.id == parent_id), "")
        formulas = self._chat.transcript.formulas
        comparison = Comparison(self._theme, question, messages, formulas)
        comparison.picked.connect(self._on_picked)
        comparison.left.connect(self.leave_comparison)
        comparison.stop_requested.connect(self._desk.growing.stop_reply)
        self._comparison = comparison
        self._chat.body.addWidget(comparison)
        self._chat.body.setCurrentWidget(comparison)
        comparison.focus()

    def _on_picked(self, message_id: str) -> None:
        self.go_to(message_id)
        self._chat.transcript.scroll_to_end()
        self._chat.composer.focus()

    def _on_answers_began(self, event: AnswersBegan) -> None:
        if event.conversation_id == self._desk.shelf.open.id:
            self._compare(event.parent_id, event.messages)

    def _on_versions_read(self, event: VersionsRead) -> None:
        is_open = event.conversation_id == self._desk.shelf.open.id
        if is_open and len(event.messages) > 1:
            self._compare(event.messages[0].parent_id, event.messages)

    def _on_text_arrived(self, event: TextArrived) -> None:
        if self._comparison is not None:
            self._comparison.append_text(event.message_id, event.text, event.part)

    def _on_reply_queued(self, event: ReplyQueued) -> None:
        if self._comparison is not None:
            self._comparison.show_place(event.message_id, event.place)

    def _on_message_changed(self, event: MessageChanged) -> None:
        if self._comparison is not None:
            self._comparison.change_message(event.message)

    # --- following ------------------------------------------------------------------------------

    def _on_conversation_opened(self, _event: ConversationOpened) -> None:
        self.leave_comparison()

    def _on_path_changed(self, event: PathChanged) -> None:
        wants_end, self._wants_end = self._wants_end, False
        if wants_end:  # what is written now is what the user waits for
            self._chat.transcript.scroll_to_end()
        wanted, self._wanted_id = self._wanted_id, ""
        if wanted and any(message.id == wanted for message in event.messages):
            self._chat.transcript.show_message(wanted)
        if self._map is not None and self._map.isVisible():
            self._desk.tree.read_tree()

    def _n_below(self, message_id: str) -> int:
        messages = self._desk.shelf.path
        place = next(i for i, m in enumerate(messages) if m.id == message_id)
        return len(messages) - 1 - place

    def _has_messages(self) -> bool:
        return bool(self._desk.shelf.path)

    def _may_change_current(self) -> bool:
        current, rows = self._chat.transcript.keyboard.current, self._chat.transcript.rows
        return self._may_change() and current is not None and current < len(rows)

    def _may_change(self) -> bool:
        return self._has_messages() and not self._desk.replies.is_generating


def _thoughts(editor: MessageEditor) -> str | None:
    """The reasoning, where the editor has a field for it."""
    return editor.reasoning if editor.thoughts is not None else None


def _fits(name: str, message: Message) -> bool:
    """Whether an act asked for by its key, wherever the focus is, means this message."""
    match name:
        case "edit":
            return message.role is Role.USER
        case "compare":
            return message.sibling_count > 1
        case "continue":
            return message.role is Role.ASSISTANT
    return True
