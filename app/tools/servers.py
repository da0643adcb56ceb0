"""What a tool server is, as it is stored, and how one is read from what a person typed or pasted.

`ToolServer` stands in the settings; the values of its secrets do not: they are in the keyring
(`secrets`). Light: nothing of `mcp` is imported.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from app.refusal import Refusal, bad_setting

MAX_SERVERS: Final = 50
MAX_NAME: Final = 60
MAX_ARGUMENTS: Final = 200
MAX_TEXT: Final = 8_000
MAX_PASTED: Final = 200_000
MAX_REMEMBERED: Final = 1_000
TOOLS_OFF: Final = "tools_off"
"""In a chat's settings: what is not offered there, "*" for all, a server's ID, or ID/tool."""
Transport = Literal["command", "http", "sse"]
Permission = Literal["ask", "always", "never"]

SECRET_NAME: Final = re.compile(r"(?i)key|token|secret|passw|credential|auth|cookie")
"""Variables and headers that are taken for secrets where nothing else is said."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
RESERVED_HEADERS: Final = frozenset(
    {
        *("host", "content-length", "content-type", "transfer-encoding", "connection", "accept"),
        *("accept-encoding", "cookie", "upgrade", "mcp-session-id", "mcp-protocol-version"),
    }
)
"""Those that the protocol itself sets."""


class ToolServer(msgspec.Struct, frozen=True):
    """`variables` are environment variables of a command or headers of an address; `secrets` are
    the names of those whose values lie in the keyring. `is_on`: started when tools are wanted.
    `off`: tools that are not offered. `always`: tools that run without asking, each with the
    fingerprint of what it was when that was said; `never`: those that are refused."""

    id: str
    name: str
    transport: Transport = "command"
    command: str = ""
    arguments: tuple[str, ...] = ()
    folder: str = ""
    address: str = ""
    variables: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    is_on: bool = True
    off: tuple[str, ...] = ()
    always: dict[str, str] = {}
    never: tuple[str, ...] = ()

    @property
    def is_by_address(self) -> bool:
        return self.transport != "command"

    @property
    def runs(self) -> tuple[Any, ...]:
        """What decides how it is started: changed, it is another server, and nothing that was
        allowed to the former one is allowed to it."""
        return (
            self.transport,
            self.command,
            self.arguments,
            self.folder,
            self.address,
            tuple(sorted(self.variables.items())),
            self.secrets,
        )


def new_id() -> str:
    return uuid.uuid4().hex[:12]


def checked(server: ToolServer) -> ToolServer:
    """The server with what was typed trimmed. Raises Refusal with a sentence."""
    name = " ".join(server.name.split())
    if not name:
        raise bad_setting("Give the server a name.")
    if len(name) > MAX_NAME or not name.isprintable():
        raise bad_setting(f"The server's name is limited to {MAX_NAME} printable characters.")
    if not re.fullmatch(r"[0-9a-f]{12}", server.id):
        raise bad_setting("The tool server has no valid ID.")
    if server.is_by_address:
        address = checked_address(server.address)
        server = msgspec.structs.replace(server, address=address, command="", arguments=())
    else:
        server = msgspec.structs.replace(server, command=server.command.strip(), address="")
        _check_command(server)
    _check_variables(server)
    for text in (*server.off, *server.always, *server.never):
        if len(text) > MAX_TEXT:
            raise bad_setting("The name of a tool is too long.")
    if max(map(len, (server.off, server.always, server.never))) > MAX_REMEMBERED:
        raise bad_setting("Too many tools of one server are remembered.")
    return msgspec.structs.replace(server, name=name)


def checked_address(text: str) -> str:
    """An address of a server. Raises Refusal."""
    address = text.strip()
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise bad_setting(f"“{address[:80]}” isn't a valid address.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise bad_setting("Enter an address that begins with https:// or http://.")
    if len(address) > MAX_TEXT or not address.isprintable() or " " in address:
        raise bad_setting("The address has characters that addresses can't have.")
    if parts.username or parts.password:
        raise bad_setting("Put the password into a header (Authorization), not into the address.")
    return address


def _check_command(server: ToolServer) -> None:
    if not server.command:
        raise bad_setting("Enter the command that starts the server, or its address.")
    if len(server.arguments) > MAX_ARGUMENTS:
        raise bad_setting(f"A command is limited to {MAX_ARGUMENTS} arguments.")
    for text in (server.command, *server.arguments, server.folder):
        if "\0" in text or len(text) > MAX_TEXT:
            raise bad_setting("The command has an argument that no program can take.")
    if server.folder and not Path(server.folder).expanduser().is_absolute():
        raise bad_setting("Give the working folder as a full path.")


def _check_variables(server: ToolServer) -> None:
    names = [*server.variables, *server.secrets]
    if len(names) > MAX_ARGUMENTS:
        raise bad_setting(f"A server is limited to {MAX_ARGUMENTS} variables.")
    for name in names:
        if server.is_by_address:
            if not _HEADER.match(name) or name.lower() in RESERVED_HEADERS:
                raise bad_setting(f"“{name[:60]}” isn't a header that can be set.")
        elif not _VARIABLE.match(name):
            raise bad_setting(f"“{name[:60]}” isn't the name of an environment variable.")
    for name, value in server.variables.items():
        check_value(name, value, is_header=server.is_by_address)


def check_value(name: str, value: str, *, is_header: bool) -> None:
    """Raise Refusal where a variable or header cannot have this value; it is not repeated."""
    is_bad = "\0" in value or (is_header and not (value.isascii() and value.isprintable()))
    if is_bad or len(value) > MAX_TEXT:
        raise bad_setting(f"The value of “{name[:60]}” has characters that it can't have.")


def read_servers(value: object) -> tuple[ToolServer, ...]:
    """The setting `tool_servers` from what is stored. Raises Refusal."""
    if not isinstance(value, list | tuple) or len(value) > MAX_SERVERS:
        raise bad_setting(f"Tool servers must be a list of at most {MAX_SERVERS}.")
    found = []
    for each in value:
        if isinstance(each, ToolServer):
            found.append(checked(each))
            continue
        try:
            found.append(checked(msgspec.convert(each, ToolServer)))
        except msgspec.ValidationError as error:
            raise bad_setting(f"A tool server can't be read: {error}.") from None
    if len({server.id for server in found}) < len(found):
        raise bad_setting("Two tool servers have the same ID.")
    return tuple(found)


def from_line(line: str, name: str = "") -> ToolServer:
    """A server by the one line that a person typed: a command or an address.

    >>> server = from_line("uvx mcp-server-time --local-timezone Asia/Tokyo")
    >>> server.name, server.command, server.arguments[0]
    ('mcp-server-time', 'uvx', 'mcp-server-time')
    """
    line = line.strip()
    if line.lower().startswith(("http://", "https://")):
        transport: Transport = "sse" if urlsplit(line).path.rstrip("/").endswith("/sse") else "http"
        host = urlsplit(line).hostname or "server"
        return checked(ToolServer(new_id(), name or host, transport, address=line))
    command, *arguments = split_line(line) or [""]
    return checked(
        ToolServer(
            new_id(), name or _short(command, arguments), command=command, arguments=(*arguments,)
        )
    )


def split_line(line: str) -> list[str]:
    """A command line in its words. Raises Refusal where a quote stays open."""
    try:
        words = shlex.split(line, posix=os.name != "nt")
    except ValueError:
        raise bad_setting("A quotation mark in the command isn't closed.") from None
    return [word.strip('"') for word in words] if os.name == "nt" else words


def joined_line(command: str, arguments: tuple[str, ...]) -> str:
    """The line that `split_line` takes apart again."""
    if os.name == "nt":
        return " ".join(f'"{word}"' if " " in word else word for word in (command, *arguments))
    return shlex.join((command, *arguments)) if command else ""


_RUNNERS: Final = ("npx", "uvx", "uv", "python", "python3", "node", "docker", "deno", "bun", "pipx")


def _short(command: str, arguments: list[str]) -> str:
    """A name for a server from its command: the first word that says which program it is."""
    words = [command, *arguments]
    base = re.split(r"[/\\]", command)[-1].removesuffix(".exe")
    if base in _RUNNERS:
        skip = ("-", "run", "exec")
        words = [word for word in arguments if not word.startswith(skip)] or [base]
    named = re.split(r"[/\\]", words[0].rstrip("/\\"))[-1]
    return named.removesuffix(".exe").removesuffix(".py")[:MAX_NAME] or "server"


def from_pasted(text: str) -> list[tuple[ToolServer, dict[str, str]]]:
    """The servers of a JSON object as other programs keep them, `{"mcpServers": {name: …}}`, each
    with the values of its secrets. Raises Refusal."""
    if len(text) > MAX_PASTED:
        raise bad_setting("That is too long for a list of servers.")
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        raise bad_setting(
            'This isn\'t JSON. Paste the whole object, beginning with {"mcpServers": …}.'
        ) from None
    found = whole
    if isinstance(found, dict):
        found = found.get("mcpServers", found.get("servers", found))
    if isinstance(found, dict) and ("command" in found or "url" in found):
        found = {"": found}
    if not isinstance(found, dict) or not found:
        raise bad_setting("No tool servers were found in it.")
    if len(found) > MAX_SERVERS:
        raise bad_setting(f"It lists more than {MAX_SERVERS} servers.")
    return [_from_entry(name, entry) for name, entry in found.items()]


def _from_entry(name: str, entry: object) -> tuple[ToolServer, dict[str, str]]:
    if not isinstance(entry, Mapping):
        raise bad_setting(f"“{name[:MAX_NAME]}” isn't described by an object.")
    url = entry.get("url") or entry.get("serverUrl") or entry.get("httpUrl")
    pairs = entry.get("headers" if url else "env") or {}
    arguments = entry.get("args") or []
    command, folder = entry.get("command") or "", entry.get("cwd") or ""
    texts = [command, folder, url or "", *arguments] if isinstance(arguments, list) else [None]
    if not isinstance(pairs, Mapping) or not all(isinstance(text, str) for text in texts):
        raise bad_setting(f"“{name[:MAX_NAME]}” has a value of the wrong kind.")
    values = {str(key): _as_text(value) for key, value in pairs.items()}
    secret = tuple(key for key in values if SECRET_NAME.search(key))
    plain = {key: value for key, value in values.items() if key not in secret}
    transport: Transport = "command"
    if url:
        kind = str(entry.get("type") or entry.get("transport") or "")
        is_sse = kind == "sse" or (not kind and urlsplit(url).path.rstrip("/").endswith("/sse"))
        transport = "sse" if is_sse else "http"
    host = urlsplit(url).hostname if url else None
    server = ToolServer(
        new_id(),
        name[:MAX_NAME] or host or _short(command, list(arguments)),
        transport,
        command,
        tuple(arguments),
        folder,
        url or "",
        plain,
        secret,
        is_on=not entry.get("disabled", False),
    )
    try:
        server = checked(server)
        for key in secret:
            check_value(key, values[key], is_header=server.is_by_address)
    except Refusal as refused:
        raise bad_setting(f"“{name[:MAX_NAME]}”: {refused.sentence}") from None
    return server, {key: values[key] for key in secret}


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value)
