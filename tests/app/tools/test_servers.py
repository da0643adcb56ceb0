"""What people type and paste becomes servers, or a sentence."""

from __future__ import annotations

import json

import msgspec
import pytest

from app.refusal import Refusal
from app.tools.names import unique_names
from app.tools.servers import (
    ToolServer,
    checked,
    from_line,
    from_pasted,
    joined_line,
    new_id,
    read_servers,
    split_line,
)


def test_a_line_is_a_command_or_an_address():
    server = from_line('npx -y "@modelcontextprotocol/server-filesystem" "/home/me/My files"')
    assert (server.name, server.transport) == ("server-filesystem", "command")
    assert server.arguments[-1] == "/home/me/My files"
    line = joined_line(server.command, server.arguments)
    assert split_line(line) == [server.command, *server.arguments]
    web = from_line("https://tools.example.org/mcp")
    assert (web.name, web.transport) == ("tools.example.org", "http")
    assert from_line("http://localhost:8000/sse").transport == "sse"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "Enter the command"),
        ('npx "open', "isn't closed"),
        ("https://", "address"),
        ("https://me:secret@example.org/mcp", "header"),
        ("http://exa mple.org/", "characters"),
        ("http://example.org:99999/", "isn't a valid address"),
    ],
)
def test_a_line_that_is_neither_is_refused_in_words(line, words):
    with pytest.raises(Refusal) as refused:
        from_line(line)
    assert words in refused.value.sentence
    assert "secret" not in refused.value.sentence


def test_a_pasted_list_of_servers():
    pasted = {
        "mcpServers": {
            "github": {
                "command": "docker",
                "args": ["run", "-i", "ghcr.io/github/github-mcp-server"],
                "env": {"GITHUB_TOKEN": "ghp_1", "LEVEL": 3},
            },
            "search": {"url": "https://s.example/sse", "headers": {"Authorization": "Bearer x"}},
            "off": {"command": "x", "disabled": True, "cwd": "/tmp"},
        }
    }
    (github, secret), (search, header), (off, _) = from_pasted(json.dumps(pasted))
    assert github.variables == {"LEVEL": "3"}
    assert (github.secrets, secret) == (("GITHUB_TOKEN",), {"GITHUB_TOKEN": "ghp_1"})
    assert (search.transport, search.secrets, header["Authorization"]) == (
        "sse", ("Authorization",), "Bearer x")  # fmt: skip
    assert (off.is_on, off.folder) == (False, "/tmp")
    one = json.dumps({"command": "uvx", "args": ["mcp-server-time"]})
    assert from_pasted(one)[0][0].name == "mcp-server-time"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "nonsense",
        '{"mcpServers": {}}',
        '{"mcpServers": {"a": 3}}',
        '{"mcpServers": {"a": {"command": ["x"]}}}',
        '{"mcpServers": {"a": {"command": "x", "args": "y"}}}',
        '{"mcpServers": {"a": {"command": "x", "env": ["y"]}}}',
        '{"mcpServers": {"a": {"command": "x", "env": {"A B": "y"}}}}',
        '{"mcpServers": {"a": {"url": "https://a.b/", "headers": {"Host": "y"}}}}',
        '{"mcpServers": {"a": {"url": "https://a.b/", "headers": {"X": "y\\nZ: 1"}}}}',
        '{"a": ' * 100_000,
    ],
)
def test_what_is_no_list_of_servers_is_refused_in_words(text):
    with pytest.raises(Refusal) as refused:
        from_pasted(text)
    assert refused.value.sentence.endswith(".")


def test_stored_servers_are_read_back_and_broken_ones_refused():
    server = ToolServer(new_id(), "  My   files ", command="x", always={"read": "f" * 32})
    stored = msgspec.to_builtins((checked(server),))
    assert read_servers(stored) == (msgspec.structs.replace(server, name="My files"),)
    for bad in ("x", [{"id": "1"}], [stored[0], stored[0]], [{**stored[0], "transport": "ftp"}]):
        with pytest.raises(Refusal):
            read_servers(bad)


def test_names_are_the_models_own_alphabet_and_unique():
    tools = [("a", "read file"), ("b", "read_file"), ("a b", "read"), ("x", "日本"), ("y", "日本")]
    names = unique_names(tools)
    assert names[:3] == ["a_read_file", "b_read_file", "read"]
    assert len(set(names)) == len(names)
    assert all(name.isascii() and name.replace("_", "").isalnum() for name in names)
    long = unique_names([("s", "n" * 100), ("t", "n" * 100)])
    assert len(set(long)) == 2
    assert max(map(len, long)) <= 64
