"""The composer's control for tools: how many the next reply may call, and its menu; and what a
server has to attach, in the menu of the paper clip."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, QPoint
from PySide6.QtWidgets import QMenu

from app.chat.events import ConversationChanged, ConversationOpened, ToolServersChanged
from app.chat.tools.servers import ALL
from app.engine.protocol.tool_messages import REQUIRED
from app.tools.records import ServerPrompt, ServerState
from app.tools.servers import ToolServer
from models.records import ConversationKind
from ui.settings.tool_words import state_words
from ui.shell.actions import Action, Actions
from ui.widgets.elided import tip_text
from ui.widgets.icon_button import IconButton

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.chat.chat_column import ChatColumn
    from ui.chat.composing import Composing
    from ui.look.theme import Theme

KEY: Final = "Ctrl+Alt+T"
SERVERS_KEY: Final = "Ctrl+Alt+Shift+T"
SWITCH_KEY: Final = "Ctrl+Alt+Q"
MUST_KEY: Final = "Ctrl+Alt+Shift+Q"
ATTACH_KEY: Final = "Ctrl+Alt+I"
MOST_ROWS: Final = 40
"""Of one menu; more would be higher than the screen."""


class ToolsControl(QObject):
    def __init__(
        self,
        desk: Desk,
        bridge: Bridge,
        theme: Theme,
        chat: ChatColumn,
        composing: Composing,
        show_servers: Callable[[], object],
    ) -> None:
        super().__init__(chat)
        self._desk = desk
        self._theme = theme
        self._chat = chat
        self._composing = composing
        self._show_servers = show_servers
        self.button = IconButton(theme, "wrench", "Tools", text="0")
        self.button.setObjectName("tools_button")
        self.menu = QMenu(self.button)
        self.menu.setObjectName("tools_menu")
        self.menu.setToolTipsVisible(True)
        self.menu.aboutToShow.connect(self._fill)
        self.button.setMenu(self.menu)
        self.attach_menu = QMenu(chat.composer)
        self.attach_menu.setObjectName("attach_menu")
        chat.composer.add_control(self.button)
        chat.composer.attach_requested.disconnect(composing.choose_files)
        chat.composer.attach_requested.connect(self.attach)
        bridge.on((ToolServersChanged, ConversationOpened, ConversationChanged), self.show)
        self.show()

    def add_actions(self, actions: Actions) -> None:
        def has_servers() -> bool:
            return bool(self._desk.tools.all)

        def can_call() -> bool:
            return bool(self._desk.tools.offered(self._desk.shelf.open))

        def has_texts() -> bool:
            return bool(self._with_texts())

        for name, title, key, run, is_enabled in (
            ("tools", "Tools…", KEY, self.open, lambda: self.button.isVisible()),
            ("tools_switch", "Use tools in this chat", SWITCH_KEY, self._switch_all, has_servers),
            ("tools_must", "Next reply must call a tool", MUST_KEY, self._switch_must, can_call),
            ("tool_servers", "Tool servers…", SERVERS_KEY, self._show_servers, lambda: True),
            (
                "attach_from_server",
                "Attach from a tool server",
                ATTACH_KEY,
                self.attach,
                has_texts,
            ),
        ):
            actions.add(Action(name, title, key, run, is_enabled, group="Tools"))

    # --- what is offered ------------------------------------------------------------------------

    def open(self) -> None:
        """Show the menu above its button, with the keyboard in it."""
        if self.button.isVisible():
            self._fill()
            self._popup(self.menu)

    def _popup(self, menu: QMenu) -> None:
        corner = self.button.mapToGlobal(self.button.rect().topLeft())
        menu.popup(corner - QPoint(0, menu.sizeHint().height()))

    def show(self, _event: object = None) -> None:
        tools, chat = self._desk.tools, self._desk.shelf.open
        number = len(tools.offered(chat))
        known = len([each for each in tools.known() if each.permission != "never"])
        words = f"Tools: {number} of {known} on in this chat"
        if self._must_call():
            words += ", the next reply must call one"
        troubled = [s for s in tools.all if tools.state(s.id).state in ("failed", "ended")]
        if troubled:
            words += "\n" + "\n".join(f"{s.name}: {tools.state(s.id).sentence}" for s in troubled)
        self.button.setText(f" {number}{'!' if self._must_call() else ''}")
        self.button.setAccessibleName(words.split("\n", 1)[0])
        self.button.setToolTip(tip_text(words))
        self.button.set_lit(number > 0)
        is_there = bool(tools.all) and chat.kind is ConversationKind.CHAT
        if self.button.isHidden() == is_there:
            self.button.setVisible(is_there)

    def _switch_all(self) -> None:
        is_off = ALL in self._desk.tools.off_in(self._desk.shelf.open)
        self._desk.tools.switch(ALL, is_on=is_off)

    def _must_call(self) -> bool:
        chat = self._desk.shelf.open
        return self._desk.next_reply.changes(chat).get("tool_choice") == REQUIRED

    def _switch_must(self) -> None:
        self._desk.next_reply.put("tool_choice", None if self._must_call() else REQUIRED)

    def _fill(self) -> None:
        menu, tools = self.menu, self._desk.tools
        menu.clear()
        off = tools.off_in(self._desk.shelf.open)
        use = menu.addAction("Use tools in this chat")
        use.setCheckable(True)
        use.setChecked(ALL not in off)
        use.triggered.connect(lambda is_on: tools.switch(ALL, is_on=is_on))
        must = menu.addAction("Next reply must call a tool")
        must.setCheckable(True)
        must.setChecked(self._must_call())
        must.setEnabled(bool(tools.offered(self._desk.shelf.open)))
        must.triggered.connect(lambda _on: self._switch_must())
        menu.addSeparator()
        for server in tools.all:
            self._add_server(menu, server, tools.state(server.id), off)
        menu.addSeparator()
        menu.addAction("Tool servers…").triggered.connect(lambda: self._show_servers())

    def _add_server(
        self, menu: QMenu, server: ToolServer, state: ServerState, off: frozenset[str]
    ) -> None:
        tools = self._desk.tools
        words = _plain(f"{server.name} · {state_words(state)}")
        if state.state != "ready":
            act = menu.addAction(words)
            act.setEnabled(state.state != "starting")
            act.triggered.connect(lambda: tools.start(server.id))
            act.setToolTip(tip_text(state.sentence))
            return
        inside = menu.addMenu(words)
        inside.setToolTipsVisible(True)
        whole = inside.addAction("All of these")
        whole.setCheckable(True)
        whole.setChecked(server.id not in off)
        whole.setEnabled(ALL not in off)
        whole.triggered.connect(lambda is_on: tools.switch(server.id, is_on=is_on))
        inside.addSeparator()
        known = [each for each in tools.known() if each.server.id == server.id]
        for each in known[:MOST_ROWS]:
            act = inside.addAction(_plain(each.tool.title or each.tool.name))
            act.setCheckable(True)
            act.setEnabled(not off & {ALL, server.id} and each.permission != "never")
            act.setChecked(each.key not in off and each.permission != "never")
            act.setToolTip(tip_text(each.tool.description[:300]))
            act.triggered.connect(partial(self._switch, each.key))
        if len(known) > MOST_ROWS:
            more = f"{len(known) - MOST_ROWS} more in Tool servers…"
            inside.addAction(more).triggered.connect(lambda: self._show_servers())

    def _switch(self, key: str, is_on: bool) -> None:
        self._desk.tools.switch(key, is_on=is_on)

    # --- what servers have to attach ------------------------------------------------------------

    def _with_texts(self) -> list[tuple[ToolServer, ServerState]]:
        states = [(server, self._desk.tools.state(server.id)) for server in self._desk.tools.all]
        return [(server, state) for server, state in states if state.resources or state.prompts]

    def attach(self) -> None:
        """Choose files; where servers have something, first what to attach."""
        servers = self._with_texts()
        if not servers:
            self._composing.choose_files()
            return
        menu = self.attach_menu
        menu.clear()
        menu.addAction("Text files…").triggered.connect(lambda: self._composing.choose_files())
        menu.addSeparator()
        for server, state in servers:
            inside = menu.addMenu(_plain(f"From {server.name}"))
            inside.setToolTipsVisible(True)
            for resource in state.resources[:MOST_ROWS]:
                words = f"{resource.name or resource.uri}"
                act = inside.addAction(_plain(words))
                act.setToolTip(tip_text(resource.description[:300]))
                act.triggered.connect(partial(self._attach_resource, server.id, resource))
            if state.prompts:
                head = inside.addAction("Prompts")
                head.setEnabled(False)
            for prompt in state.prompts[:MOST_ROWS]:
                act = inside.addAction(_plain(prompt.title or prompt.name))
                act.setToolTip(tip_text(prompt.description[:300]))
                act.triggered.connect(partial(self._take_prompt, server.id, prompt))
        self._popup(menu)

    def _attach_resource(self, server_id: str, resource: object, _checked: bool = False) -> None:
        self._desk.tools.attach_resource(server_id, resource)  # type: ignore[arg-type]

    def _take_prompt(self, server_id: str, prompt: ServerPrompt, _checked: bool = False) -> None:
        def ask(arguments: dict[str, str]) -> None:
            self._desk.tools.get_prompt(server_id, prompt.name, arguments, self._put)

        if not prompt.arguments:
            ask({})
            return
        from ui.tools.prompt_dialog import PromptDialog

        dialog = PromptDialog(self._theme, prompt, self._chat.window())
        dialog.given.connect(ask)
        dialog.finished.connect(self._chat.composer.focus)
        dialog.open()

    def _put(self, text: str) -> None:
        self._chat.composer.insert_text(text)
        self._chat.composer.focus()


def _plain(words: str) -> str:
    """Qt takes what stands behind an & for a key; a name may be as long as it likes."""
    words = " ".join(words.split())
    return (words if len(words) <= 70 else f"{words[:69]}…").replace("&", "&&")
