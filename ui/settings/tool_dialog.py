"""Adding a tool server, or changing one: a command or an address, or a list pasted as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLineEdit, QPlainTextEdit, QVBoxLayout, QWidget

from app.refusal import Refusal, bad_setting
from app.tools.servers import (
    SECRET_NAME,
    ToolServer,
    from_line,
    from_pasted,
    split_line,
)
from ui.look.theme import Theme
from ui.settings.tool_words import where_words
from ui.widgets.combo import Combo
from ui.widgets.kit import plain_label, push_button
from ui.widgets.steady_area import SteadyArea
from ui.widgets.zoomed_size import ZoomedSize

if TYPE_CHECKING:
    from app.chat.desk import Desk

SIZE_PX: Final = (520, 520)
WORDS: Final = (
    "A command that starts a server on this computer, an address, or the JSON that other programs "
    'use: {"mcpServers": …}. A command runs with your rights: add only what you trust.'
)
VARIABLES: Final = "Variables (a command) or headers (an address), one NAME=value on each line"
SECRETS: Final = "Secret values, one NAME=value on each line; kept in the system keyring"
KEPT: Final = "•••"
"""In the place of a value that is in the keyring already."""


class ToolDialog(QDialog):
    """`server`: the one to change; None: another one is added. It closes once that is done."""

    def __init__(
        self, desk: Desk, theme: Theme, server: ToolServer | None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._desk = desk
        self._server = server
        self._kept: dict[str, str] = {}
        self.setObjectName("tool_dialog")
        self.setWindowTitle("Add a tool server" if server is None else "Change this tool server")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        body = QWidget()
        self.line = QPlainTextEdit(body)
        self.line.setObjectName("tool_line")
        self.line.setAccessibleName("Command, address or JSON")
        self.line.setPlaceholderText("uvx mcp-server-time\nhttps://example.org/mcp")
        self.line.setTabChangesFocus(True)
        self.name = QLineEdit(body)
        self.name.setObjectName("tool_name")
        self.name.setAccessibleName("Name")
        self.name.setPlaceholderText("From the command or address")
        self.folder = QLineEdit(body)
        self.folder.setObjectName("tool_folder")
        self.folder.setAccessibleName("Working folder")
        self.folder.setPlaceholderText("Your home folder")
        self.transport = Combo(theme, body)
        self.transport.addItems(["Streamable HTTP", "SSE (older servers)"])
        self.transport.setAccessibleName("Transport of an address")
        self.variables = self._lines(body, "tool_variables", VARIABLES)
        self.secrets = self._lines(body, "tool_secrets", SECRETS)
        self.sentence = plain_label("", self, "error", name="tool_sentence", wraps=True)
        self.save_button = push_button(
            "Add" if server is None else "Save", self, "save_tool_button", kind="primary",
            act=self._save,
        )  # fmt: skip
        self.cancel_button = push_button("Cancel", self, "cancel_tool_button", act=self.reject)
        rows = QVBoxLayout(body)
        rows.addWidget(plain_label(WORDS, body, "dim", wraps=True))
        rows.addWidget(self.line)
        for words, field in (
            ("Name", self.name),
            ("Working folder of a command", self.folder),
            ("Transport of an address", self.transport),
            (VARIABLES, self.variables),
            (SECRETS, self.secrets),
        ):
            rows.addWidget(plain_label(words, body, "small", wraps=True))
            rows.addWidget(field)
        rows.addStretch(1)
        self.area = SteadyArea(self)
        self.area.setWidgetResizable(True)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setWidget(body)
        body.setAutoFillBackground(False)
        self.area.viewport().setAutoFillBackground(False)
        foot = QHBoxLayout()
        foot.addStretch(1)
        foot.addWidget(self.cancel_button)
        foot.addWidget(self.save_button)
        column = QVBoxLayout(self)
        column.addWidget(self.area, 1)
        column.addWidget(self.sentence)
        column.addLayout(foot)
        for edit in (self.line, self.variables, self.secrets):
            theme.font(edit, Theme.font_mono, 13)
            theme.size(edit, height=64)
        self.sentence.hide()
        self.line.textChanged.connect(self._settle)
        theme.space(rows, 6, margins=0)
        theme.space(column, 8, margins=16)
        theme.space(foot, 8)
        ZoomedSize(self, theme, SIZE_PX)
        if server is not None:
            self._show(server)
        self._settle()
        self.line.setFocus()

    @staticmethod
    def _lines(body: QWidget, name: str, spoken: str) -> QPlainTextEdit:
        edit = QPlainTextEdit(body)
        edit.setObjectName(name)
        edit.setAccessibleName(spoken)
        edit.setTabChangesFocus(True)
        return edit

    def _show(self, server: ToolServer) -> None:
        self.line.setPlainText(where_words(server))
        self.name.setText(server.name)
        self.folder.setText(server.folder)
        self.transport.setCurrentIndex(1 if server.transport == "sse" else 0)
        self.variables.setPlainText("\n".join(f"{k}={v}" for k, v in server.variables.items()))
        self.secrets.setPlainText("\n".join(f"{name}={KEPT}" for name in server.secrets))
        self._desk.tools.values_of(server, self._take_values)

    def _take_values(self, values: dict[str, str]) -> None:
        self._kept = values

    def _settle(self) -> None:
        """A pasted list has names and values of its own."""
        text = self.line.toPlainText().strip()
        is_json, is_address = text.startswith("{"), _is_address(text)
        for field in (self.name, self.variables, self.secrets):
            field.setEnabled(not is_json)
        self.folder.setEnabled(not is_json and not is_address)
        self.transport.setEnabled(is_address)

    def _save(self) -> None:
        try:
            found = self._found()
        except Refusal as refused:
            self._say(refused.sentence)
            return
        for server, values in found:
            sentence = self._desk.tools.put(server, values)
            if sentence:
                self._say(sentence)
                return
        self.accept()

    def _found(self) -> list[tuple[ToolServer, dict[str, str]]]:
        text = self.line.toPlainText().strip()
        if text.startswith("{"):
            return from_pasted(text)
        server = from_line(text, self.name.text())
        if server.is_by_address:
            transport = "sse" if self.transport.currentIndex() == 1 else "http"
            server = msgspec.structs.replace(server, transport=transport)
        elif len(text.split("\n")) > 1:
            command, *arguments = split_line(text.replace("\n", " "))
            server = msgspec.structs.replace(server, command=command, arguments=tuple(arguments))
        variables, values = _pairs(self.variables.toPlainText()), _pairs(self.secrets.toPlainText())
        values |= {name: variables.pop(name) for name in [*variables] if SECRET_NAME.search(name)}
        for name in [name for name, value in values.items() if value == KEPT]:
            if name not in self._kept:
                raise bad_setting(f"Enter the value of “{name[:40]}” again.")
            values[name] = self._kept[name]
        server = msgspec.structs.replace(
            server,
            folder="" if server.is_by_address else self.folder.text().strip(),
            variables=variables,
            secrets=tuple(values),
        )
        if self._server is not None:
            before = self._server
            server = msgspec.structs.replace(
                server, id=before.id, off=before.off, always=before.always, never=before.never
            )
        return [(server, values)]

    def _say(self, sentence: str) -> None:
        self.sentence.setText(sentence)
        self.sentence.show()
        self.line.setFocus()


def _is_address(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


def _pairs(text: str) -> dict[str, str]:
    """`NAME=value` or `NAME: value`, one a line. Raises Refusal."""
    found = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        sign = min((at for at in (line.find("="), line.find(":")) if at > 0), default=0)
        if not sign:
            raise bad_setting(f"Write “{line.strip()[:40]}” as NAME=value.")
        found[line[:sign].strip()] = line[sign + 1 :].strip()
    return found
