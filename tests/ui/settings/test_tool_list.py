"""Tool servers in the settings: added by line and by JSON, changed, permitted, removed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtWidgets import QWidget
from recording_desk import FakeBridge, FakeDesk

from app.chat.events import ToolServersChanged
from app.engine.protocol.messages import GrammarChecked
from app.tools.records import ServerState, ServerTool
from app.tools.servers import ToolServer, from_line, new_id
from ui.look.theme import Theme
from ui.settings.tool_dialog import KEPT, ToolDialog
from ui.settings.tool_list import ToolRows

READ = ServerTool("", "read", "Read a file", "Reads it.", '{"type":"object"}', "f" * 32)
ODD = ServerTool("", "odd", trouble="Its name is too long or empty.")


@pytest.fixture
def bridge() -> FakeBridge:
    return FakeBridge()


@pytest.fixture
def desk(bridge: FakeBridge) -> FakeDesk:
    desk = FakeDesk(bridge)
    put: list[tuple[ToolServer, Any]] = []
    states: dict[str, ServerState] = {}
    desk.tools.server = lambda server_id: next(
        (each for each in desk.tools.all if each.id == server_id), None
    )
    desk.tools.state = lambda server_id: states.get(server_id, ServerState(server_id))
    desk.tools.values_of = lambda _server, then: then({"KEY": "open sesame"})

    def take(server: ToolServer, values: Any = None) -> str:
        put.append((server, values))
        return "There is one already." if server.name == "twice" else ""

    desk.tools.put = take
    desk.put, desk.states = put, states
    return desk


@pytest.fixture
def dialogs(qtbot: Any, desk: FakeDesk, theme: Theme) -> Iterator[Any]:
    parent = QWidget()
    qtbot.addWidget(parent)
    return lambda server=None: ToolDialog(desk, theme, server, parent)


def test_a_line_is_added_with_its_variables_and_secrets(desk, dialogs):
    dialog = dialogs()
    dialog.line.setPlainText("uvx mcp-server-git")
    dialog.name.setText("Git")
    dialog.variables.setPlainText("DEPTH=3\nGIT_TOKEN=ghp_1")
    dialog.secrets.setPlainText("PASS: word=with=signs")
    dialog.save_button.click()
    server, values = desk.put[0]
    assert (server.name, server.command, server.arguments) == ("Git", "uvx", ("mcp-server-git",))
    assert server.variables == {"DEPTH": "3"}, "what looks secret is"
    assert values == {"PASS": "word=with=signs", "GIT_TOKEN": "ghp_1"}
    assert set(server.secrets) == set(values)


def test_a_pasted_list_is_added_whole(desk, dialogs):
    dialog = dialogs()
    dialog.line.setPlainText(
        '{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "1"}}, '
        '"b": {"url": "https://b.example/mcp"}}}'
    )
    assert not dialog.name.isEnabled()
    dialog.save_button.click()
    assert [(server.name, values) for server, values in desk.put] == [
        ("a", {"API_KEY": "1"}),
        ("b", {}),
    ]


@pytest.mark.parametrize(
    ("line", "variables", "words"),
    [
        ("", "", "Enter the command"),
        ("{oops", "", "isn't JSON"),
        ("uvx x", "no sign", "as NAME=value"),
        ("uvx x", "A B=1", "isn't the name of an environment variable"),
    ],
)
def test_what_does_not_fit_is_said_and_stays_to_be_mended(desk, dialogs, line, variables, words):
    dialog = dialogs()
    dialog.line.setPlainText(line)
    dialog.variables.setPlainText(variables)
    desk.tools.put = lambda server, values=None: _refusal(server)
    dialog.save_button.click()
    assert words in dialog.sentence.text()
    assert dialog.line.toPlainText() == line


def _refusal(server: ToolServer) -> str:
    from app.refusal import Refusal
    from app.tools.servers import checked

    try:
        checked(server)
    except Refusal as refused:
        return refused.sentence
    return ""


def test_a_secret_that_is_kept_is_not_shown_and_not_lost(desk, dialogs):
    before = ToolServer(new_id(), "Git", command="git-server", secrets=("KEY",), never=("rm",))
    dialog = dialogs(before)
    assert dialog.secrets.toPlainText() == f"KEY={KEPT}"
    dialog.name.setText("Git 2")
    dialog.save_button.click()
    server, values = desk.put[0]
    assert (server.id, server.name, server.never) == (before.id, "Git 2", ("rm",))
    assert values == {"KEY": "open sesame"}


def test_rows_follow_the_servers_and_their_tools(qtbot, desk, bridge, theme):
    server = from_line("uvx mcp-files")
    rows = ToolRows(desk, bridge, theme)
    qtbot.addWidget(rows)
    desk.tools.all = (server,)
    desk.states[server.id] = ServerState(server.id, "failed", "Command not found.")
    bridge.emit_event(ToolServersChanged())
    row = rows.rows[server.id]
    assert row.sentence.text() == "Command not found."
    assert row.start_button.text() == "Try again"
    row.start_button.click()
    assert desk.called("tools.start") == [(server.id,)]

    desk.states[server.id] = ServerState(server.id, "ready", tools=(READ, ODD))
    bridge.emit_event(ToolServersChanged())
    assert row.state.text() == "ready, 2 tools"
    row.tools_button.click()
    read, odd = row._rows
    assert (read.name.text(), read.permission.currentText()) == ("Read a file", "Ask each time")
    assert not odd.switch.isEnabled()
    assert odd.words.text() == ODD.trouble
    read.permission.activated.emit(1)
    assert desk.called("tools.set_permission") == [(server.id, READ, "always")]
    read.switch.click()
    assert desk.called("tools.set_on") == [(server.id, "read", {"is_on": False})]
    row.stop_button.click()
    assert desk.called("tools.stop") == [(server.id,)]
    assert not desk.put[-1][0].is_on, "it stays off at the next start"
    row.remove_button.click()
    assert desk.called("tools.remove") == [(server.id,)]
    desk.tools.all = ()
    bridge.emit_event(ToolServersChanged())
    assert not rows.rows


def test_a_tool_that_no_grammar_can_hold_to_its_schema_says_so(qtbot, desk, bridge, theme):
    server = from_line("uvx files")
    long = dataclasses.replace(READ, name="long", schema='{"x": "' + "y" * 20_000 + '"}')
    odd = dataclasses.replace(READ, name="odd", schema='{"$ref": "https://example.org/x"}')
    desk.tools.all = (server,)
    desk.states[server.id] = ServerState(server.id, "ready", tools=(long, odd, READ))
    sentences = {odd.schema: "The JSON schema refers to another address.", READ.schema: ""}
    desk.questions.check_grammar = lambda _grammar, schema, then, _failed, still: then(
        GrammarChecked(sentences[schema])
    )
    rows = ToolRows(desk, bridge, theme)
    qtbot.addWidget(rows)
    row = rows.rows[server.id]
    row.tools_button.click()
    shown = [each.loose.text() if not each.loose.isHidden() else "" for each in row._rows]
    assert shown == [
        "The model may write any arguments: their schema is too long for a grammar.",
        "The model may write any arguments: their schema is more than a grammar can hold.",
        "",
    ]
