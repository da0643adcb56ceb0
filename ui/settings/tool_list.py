"""Tool servers in the settings: each with its state, its tools, and what may be done with it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.chat.events import SettingsChanged, ToolServersChanged
from app.chat.surroundings import Still
from app.chat.tools.servers import permission_of
from app.engine.protocol.messages import GrammarChecked
from app.engine.protocol.tool_messages import MAX_BOUND_SCHEMA
from app.tools.records import ServerTool
from app.tools.servers import Permission, ToolServer
from ui.look.theme import Theme
from ui.section.switch import Switch
from ui.settings.tool_dialog import ToolDialog
from ui.settings.tool_words import state_words, where_words
from ui.shell.tab_order import stops_in
from ui.widgets.combo import Combo
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import plain_label, push_button

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk

PERMISSIONS: Final[tuple[tuple[Permission, str], ...]] = (
    ("ask", "Ask each time"),
    ("always", "Always run"),
    ("never", "Never run"),
)
DESCRIBED: Final = 300
"""Characters of a description that are shown; some are pages, for the model."""


class ToolRow(QFrame):
    """One tool: whether it is offered, and whether it runs."""

    def __init__(
        self, desk: Desk, theme: Theme, server: ToolServer, tool: ServerTool, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._desk = desk
        self._tool = tool
        self._server_id = server.id
        self.setObjectName("tool_row")
        self.name = plain_label(tool.title or tool.name, self, wraps=True)
        words = tool.trouble or tool.description[:DESCRIBED]
        self.words = plain_label(words, self, "caution" if tool.trouble else "small", wraps=True)
        self.words.setVisible(bool(words))
        self.loose = plain_label("", self, "caution", name="tool_loose", wraps=True)
        self.loose.hide()
        self.switch = Switch(theme, f"Offer {tool.name}", self)
        self.permission = Combo(theme, self)
        self.permission.addItems([text for _value, text in PERMISSIONS])
        self.permission.setMinimumContentsLength(10)
        self.permission.setAccessibleName(f"Permission of {tool.name}")
        self.switch.clicked.connect(
            lambda is_on: desk.tools.set_on(server.id, tool.name, is_on=is_on)
        )
        self.permission.activated.connect(self._permit)
        texts = QVBoxLayout()
        texts.addWidget(self.name)
        texts.addWidget(self.words)
        texts.addWidget(self.loose)
        row = QHBoxLayout(self)
        row.addWidget(self.switch, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(texts, 1)
        row.addWidget(self.permission, 0, Qt.AlignmentFlag.AlignTop)
        theme.space(texts, 2)
        theme.space(row, 10, margins=0)
        self.show_server(server)

    def show_server(self, server: ToolServer) -> None:
        is_usable = not self._tool.trouble
        self.switch.setChecked(is_usable and self._tool.name not in server.off)
        self.switch.setEnabled(is_usable)
        now = permission_of(server, self._tool)
        self.permission.setCurrentIndex([value for value, _ in PERMISSIONS].index(now))
        self.permission.setEnabled(is_usable and self.switch.isChecked())

    def check(self, then: Callable[[], None], still: Still) -> None:
        """Whether the loaded model's calls can be held to its schema; without a model nobody
        knows."""
        schema = self._tool.schema
        if self._tool.trouble or len(schema) > MAX_BOUND_SCHEMA:
            self._say_loose("" if self._tool.trouble else "too long for a grammar")
            then()
            return

        def take(found: GrammarChecked) -> None:
            self._say_loose(found.sentence and "more than a grammar can hold")
            then()

        questions = self._desk.questions
        questions.check_grammar("", schema, take, lambda _sentence: None, still=still)

    def _say_loose(self, why: str) -> None:
        self.loose.setText(f"The model may write any arguments: their schema is {why}.")
        self.loose.setVisible(bool(why))

    def _permit(self, index: int) -> None:
        self._desk.tools.set_permission(self._server_id, self._tool, PERMISSIONS[index][0])


class ServerRow(QFrame):
    """One server. Its tools are laid out when somebody wants to see them."""

    def __init__(self, desk: Desk, theme: Theme, server_id: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._desk = desk
        self._theme = theme
        self.server_id = server_id
        self._tools: tuple[ServerTool, ...] = ()
        self.setObjectName("server_row")
        self.name = plain_label("", self, "strong", wraps=True)
        self.state = plain_label("", self, "small", name="server_state", wraps=True)
        self.where = plain_label("", self, "small", name="server_where", wraps=True)
        self.sentence = plain_label("", self, "refusal", name="server_trouble", wraps=True)
        self.note = plain_label("", self, "caution", name="server_note", wraps=True)
        self.tools_button = self._button("Tools", "server_tools_button", self._settle)
        self.tools_button.setCheckable(True)
        self.start_button = self._button("Start", "start_server_button", self._start)
        self.stop_button = self._button("Stop", "stop_server_button", self._stop)
        self.log_button = self._button("Log", "server_log_button", self._log)
        self.change_button = self._button("Change…", "change_server_button", self._change)
        self.remove_button = self._button("Remove", "remove_server_button", self._remove)
        acts = QWidget(self)
        self._buttons = FlowLayout(acts)
        for button in (
            self.tools_button,
            self.start_button,
            self.stop_button,
            self.log_button,
            self.change_button,
            self.remove_button,
        ):
            self._buttons.addWidget(button)
        self._list = QWidget(self)
        self._rows: list[ToolRow] = []
        self._tools_column = QVBoxLayout(self._list)
        column = QVBoxLayout(self)
        for label in (self.name, self.state, self.where, self.sentence, self.note):
            column.addWidget(label)
        column.addWidget(acts)
        column.addWidget(self._list)
        theme.space(column, 4, margins=0)
        theme.space(self._tools_column, 12, margins=(0, 8, 0, 0))
        theme.space(self._buttons, 6)

    def _button(self, text: str, name: str, act: Callable[[], None]) -> QPushButton:
        return push_button(text, self, name, kind="compact", act=lambda _=False: act())

    def show_server(self, server: ToolServer) -> None:
        state = self._desk.tools.state(server.id)
        self.name.setText(server.name)
        self.setAccessibleName(f"{server.name}: {state_words(state)}")
        self.state.setText(" · ".join(each for each in (state_words(state), state.program) if each))
        where = where_words(server)
        self.where.setText(where if len(where) <= 200 else f"{where[:199]}…")
        for label, words in ((self.sentence, state.sentence), (self.note, state.note)):
            label.setText(words)
            label.setVisible(bool(words))
        runs = state.state in ("starting", "ready")
        self.start_button.setText("Start" if state.state == "off" else "Try again")
        self.start_button.setVisible(not runs)
        self.stop_button.setVisible(runs)
        self.log_button.setVisible(not server.is_by_address)
        self.tools_button.setVisible(bool(state.tools))
        for button in self.findChildren(QPushButton):
            button.setAccessibleName(f"{button.text()} {server.name}")
        if state.tools != self._tools:
            self._tools = state.tools
            self._drop_rows()
        for row in self._rows:
            row.show_server(server)
        self._settle()

    def _drop_rows(self) -> None:
        for row in self._rows:
            self._tools_column.removeWidget(row)
            row.deleteLater()
        self._rows = []

    def _settle(self) -> None:
        server = self._desk.tools.server(self.server_id)
        is_open = self.tools_button.isChecked() and bool(self._tools) and server is not None
        if is_open and not self._rows and server is not None:
            for tool in self._tools:
                row = ToolRow(self._desk, self._theme, server, tool, self._list)
                self._tools_column.addWidget(row)
                self._rows.append(row)
            self._check(list(self._rows))
        self._list.setVisible(is_open)

    def _check(self, rows: list[ToolRow]) -> None:
        """One after the other: a reply need not wait for all of them."""
        if rows:
            rows[0].check(lambda: self._check(rows[1:]), lambda: rows[0] in self._rows)

    def _start(self) -> None:
        self._switch(is_on=True)
        self._desk.tools.start(self.server_id)

    def _stop(self) -> None:
        self._switch(is_on=False)
        self._desk.tools.stop(self.server_id)

    def _switch(self, *, is_on: bool) -> None:
        """Whether it starts with the app, too: as it was left."""
        server = self._desk.tools.server(self.server_id)
        if server is not None and server.is_on != is_on:
            self._desk.tools.put(msgspec.structs.replace(server, is_on=is_on))

    def _log(self) -> None:
        from ui.settings.tool_log import ToolLog

        ToolLog(self._desk, self._theme, self.server_id, self.window()).show()

    def _change(self) -> None:
        server = self._desk.tools.server(self.server_id)
        ToolDialog(self._desk, self._theme, server, self.window()).open()

    def _remove(self) -> None:
        self._desk.tools.remove(self.server_id)


class ToolRows(QWidget):
    """Follows the list while it exists."""

    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._desk = desk
        self._theme = theme
        self.setObjectName("tool_rows")
        self.setAccessibleName("Tool servers")
        self.rows: dict[str, ServerRow] = {}
        self.add_button = push_button(
            "Add a tool server…", self, "add_server_button", spoken="Add a tool server",
            act=self.add,
        )  # fmt: skip
        self._column = QVBoxLayout(self)
        self._column.addWidget(self.add_button, 0, Qt.AlignmentFlag.AlignLeft)
        theme.space(self._column, 14, margins=0)
        bridge.on(ToolServersChanged, self._show)
        bridge.on(SettingsChanged, self._on_settings)
        self._show()

    def add(self) -> None:
        ToolDialog(self._desk, self._theme, None, self.window()).open()

    def _on_settings(self, event: SettingsChanged) -> None:
        if "tool_servers" in event.names:
            self._show()

    def _show(self, _event: object = None) -> None:
        servers = {each.id: each for each in self._desk.tools.all}
        has_changed = list(servers) != list(self.rows)
        for server_id in [each for each in self.rows if each not in servers]:
            row = self.rows.pop(server_id)
            if row.isAncestorOf(self.focusWidget() or self):
                self.add_button.setFocus()
            self._column.removeWidget(row)
            row.deleteLater()
        for place, (server_id, server) in enumerate(servers.items()):
            here = self.rows.get(server_id)
            if here is None:
                here = ServerRow(self._desk, self._theme, server_id, self)
                self._column.insertWidget(place + 1, here)
                here.show()
            self.rows[server_id] = here
            here.show_server(server)
        self.rows = {each: self.rows[each] for each in servers}
        if has_changed:
            # The button stands first, so that nobody need walk to what stands before it.
            stops = [stop for row in self.rows.values() for stop in stops_in(row)]
            for first, second in pairwise((self.add_button, *stops)):
                QWidget.setTabOrder(first, second)
