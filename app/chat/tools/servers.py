"""The tool servers of the settings: started beside the window, how they are, what they offer.

`ToolServers` keeps the list (in the settings), the secrets (in the keyring), and the host that runs
them. What must hold:

* Nothing of the host is imported before a server is to be started.
* A tool that was allowed for good is asked for again once it is not the one that was allowed: its
  description or its arguments are others, or its server is started otherwise.
* While offline no server by address is connected; those on this machine, where that is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from app.chat.attachments.attachments import Attachments
from app.chat.conversations.shelf import Shelf
from app.chat.events import Noticed, ToolServersChanged
from app.chat.surroundings import ALWAYS, Surroundings
from app.engine.protocol.tool_messages import Tool
from app.hub.address import is_this_machine
from app.hub.gate import Gate
from app.refusal import Refusal
from app.tools.bounds import OFFLINE
from app.tools.names import unique_names
from app.tools.records import Outcome, ServerResource, ServerState, ServerTool
from app.tools.secrets import THIS_RUN_ONLY, ToolSecrets, name_of
from app.tools.servers import TOOLS_OFF, Permission, ToolServer, checked
from models.records import Conversation, ConversationKind

if TYPE_CHECKING:
    from app.tools.host import CallHandle, ToolHost

START_AFTER_S: Final = 2.0
"""After the stored settings are here: first the last chat, the weights, and what people do."""
ALL: Final = "*"

SetSetting = Callable[[str, object], None]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of a server that runs. `name` is what the model calls it."""

    name: str
    server: ToolServer
    tool: ServerTool

    @property
    def key(self) -> str:
        return f"{self.server.id}/{self.tool.name}"

    @property
    def permission(self) -> Permission:
        return permission_of(self.server, self.tool)

    def as_tool(self) -> Tool:
        """As a prompt offers it."""
        return Tool(self.name, self.tool.description, self.tool.schema)


def permission_of(server: ToolServer, tool: ServerTool) -> Permission:
    if tool.name in server.never:
        return "never"
    return "always" if server.always.get(tool.name) == tool.fingerprint else "ask"


class ToolServers:
    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        attachments: Attachments,
        gate: Gate,
        set_setting: SetSetting,
        on_changed: Callable[[], None],
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._attachments = attachments
        self._gate = gate
        self._set_setting = set_setting
        self._on_changed = on_changed
        self._secrets = ToolSecrets()
        self._host: ToolHost | None = None
        self._beside: ThreadPoolExecutor | None = None
        self._states: dict[str, ServerState] = {}
        self._starts: dict[str, int] = {}
        self._tools: dict[str, tuple[ServerTool, ...]] = {}
        """What each had when it ran last: names stay as they are where one of them ends."""
        self._waiting: dict[str, list[Callable[[ServerState], None]]] = {}

    # --- the list -------------------------------------------------------------------------------

    @property
    def all(self) -> tuple[ToolServer, ...]:
        return self._around.settings.tool_servers

    def server(self, server_id: str) -> ToolServer | None:
        return next((each for each in self.all if each.id == server_id), None)

    def state(self, server_id: str) -> ServerState:
        return self._states.get(server_id, ServerState(server_id))

    def log_of(self, server_id: str) -> tuple[str, ...]:
        """The last lines that it wrote beside the protocol."""
        return self._host.log_of(server_id) if self._host is not None else ()

    def values_of(self, server: ToolServer, then: Callable[[dict[str, str]], None]) -> None:
        """The values of its secrets, read from the keyring beside the window."""
        if not server.secrets:
            then({})
            return
        self._around.when_done(self._pool.submit(self._secrets.read, server), then, still=ALWAYS)

    def put(self, server: ToolServer, values: Mapping[str, str] | None = None) -> str:
        """Add a server, or change it; `values` are those of its secrets, None: as they are. What
        was allowed to one that is started otherwise is not allowed any more. Returns a sentence
        where it is refused, else ""."""
        if not self._around.may_write():
            return self._around.store_state.sentence
        try:
            server = checked(server)
        except Refusal as refused:
            return refused.sentence
        before = self.server(server.id)
        if before is not None and before.runs != server.runs:
            server = msgspec.structs.replace(server, always={})
        if any(each.id != server.id and each.name == server.name for each in self.all):
            return f"There is a tool server “{server.name}” already. Choose another name."
        if before is not None and before.secrets and name_of(before) != name_of(server):
            self._pool.submit(self._secrets.forget, before)
        servers = [server if each.id == server.id else each for each in self.all]
        self._keep(servers if before is not None else [*servers, server])
        if values is not None:
            kept = self._pool.submit(self._secrets.keep, server, dict(values))
            self._around.when_done(kept, self._say_where, still=ALWAYS)
        is_other = before is None or before.runs != server.runs or values is not None
        if not server.is_on:
            self.stop(server.id)
        elif is_other or self.state(server.id).state == "off":
            self.start(server.id)
        return ""

    def remove(self, server_id: str) -> None:
        server = self.server(server_id)
        if server is None or not self._around.may_write():
            return
        self.stop(server_id)
        self._states.pop(server_id, None)
        self._keep([each for each in self.all if each.id != server_id])
        if server.secrets:
            self._pool.submit(self._secrets.forget, server)

    def set_permission(self, server_id: str, tool: ServerTool, permission: Permission) -> None:
        """Whether a tool runs: when asked, always as it is now, never."""
        server = self.server(server_id)
        if server is None or not self._around.may_write():
            return
        always = {name: each for name, each in server.always.items() if name != tool.name}
        never = tuple(name for name in server.never if name != tool.name)
        if permission == "always":
            always[tool.name] = tool.fingerprint
        if permission == "never":
            never = (*never, tool.name)
        self._replace(msgspec.structs.replace(server, always=always, never=never))

    def set_on(self, server_id: str, tool_name: str, *, is_on: bool) -> None:
        """Whether a tool is offered at all."""
        server = self.server(server_id)
        if server is None or not self._around.may_write():
            return
        off = tuple(name for name in server.off if name != tool_name)
        self._replace(msgspec.structs.replace(server, off=off if is_on else (*off, tool_name)))

    def _replace(self, server: ToolServer) -> None:
        self._keep([server if each.id == server.id else each for each in self.all])

    def _keep(self, servers: Sequence[ToolServer]) -> None:
        self._set_setting("tool_servers", tuple(servers))
        self._tell()

    def _say_where(self, is_kept: bool) -> None:
        if not is_kept:
            self._around.emit(Noticed("info", THIS_RUN_ONLY))

    def _tell(self) -> None:
        self._around.emit(ToolServersChanged())
        self._on_changed()

    # --- running --------------------------------------------------------------------------------

    def take_stored_settings(self) -> None:
        """They are read: soon those that are on are started."""
        if any(server.is_on for server in self.all):
            self._around.alarms.set("tool servers", START_AFTER_S, self._start_all)

    def _start_all(self) -> None:
        for server in self.all:
            if server.is_on and self.state(server.id).state == "off":
                self.start(server.id)

    def take_settings(self) -> None:
        """Whether connections are let through has changed."""
        for server in self.all:
            if not server.is_by_address or not server.is_on:
                continue
            state = self.state(server.id)
            if not self._lets(server) and state.state in ("starting", "ready"):
                self._end(server.id)
                self._take(replace(ServerState(server.id), state="failed",
                                   sentence=OFFLINE))  # fmt: skip
            elif self._lets(server) and state.state == "failed":
                self.start(server.id)

    def _lets(self, server: ToolServer) -> bool:
        return self._gate.lets(is_this_machine(server.address))

    def start(self, server_id: str) -> None:
        """Start a server, or start it anew; `state` follows."""
        server = self.server(server_id)
        if server is None or self._around.is_closing:
            return
        self._starts[server_id] = number = self._starts.get(server_id, 0) + 1
        if server.is_by_address and not self._lets(server):
            self._take(ServerState(server_id, "failed", OFFLINE))
            return
        self._take(ServerState(server_id, "starting"))

        def go(values: dict[str, str]) -> None:
            lacking = [name for name in server.secrets if name not in values]
            if self._starts.get(server_id) != number:
                return
            if lacking:
                sentence = f"The value of “{lacking[0]}” is missing. Enter it again."
                self._take(ServerState(server_id, "failed", sentence))
            else:
                self._hosted().start(server, values)

        self.values_of(server, go)

    def stop(self, server_id: str) -> None:
        self._starts[server_id] = self._starts.get(server_id, 0) + 1
        self._end(server_id)
        if self.state(server_id).state != "off":
            self._take(ServerState(server_id))

    def _end(self, server_id: str) -> None:
        if self._host is not None:
            self._host.stop(server_id)

    def when_ready(self, server_id: str, then: Callable[[ServerState], None]) -> None:
        """Call `then` once it is ready or cannot be; one that does not run is started."""
        state = self.state(server_id)
        if state.state == "ready" or self.server(server_id) is None:
            then(state)
            return
        self._waiting.setdefault(server_id, []).append(then)
        if state.state != "starting":
            self.start(server_id)

    def _hosted(self) -> ToolHost:
        if self._host is None:
            from app.tools.host import ToolHost

            self._host = ToolHost(self._gate, self._on_host_state)
        return self._host

    @property
    def _pool(self) -> ThreadPoolExecutor:
        """One thread for the keyring, which may ask and wait."""
        if self._beside is None:
            self._beside = ThreadPoolExecutor(1, "tool secrets")
        return self._beside

    def _on_host_state(self, state: ServerState) -> None:
        """Called on the host's thread."""
        number = self._starts.get(state.server_id, 0)

        def is_due() -> bool:
            return self._starts.get(state.server_id, 0) == number

        self._around.hand_over(lambda: self._take(state), is_due)

    def _take(self, state: ServerState) -> None:
        server_id = state.server_id
        if self.server(server_id) is None:
            return
        was = self._states.get(server_id)
        if was == state or (was is not None and was.state == "failed" and state.state == "off"):
            return  # it was ended for a reason that has been said
        self._states[server_id] = state
        if state.state == "ready":
            self._tools[server_id] = state.tools
        self._tell()
        if state.state != "starting":
            for then in self._waiting.pop(server_id, []):
                then(state)

    def close(self) -> None:
        if self._host is not None:
            self._host.close()
        if self._beside is not None:
            self._beside.shutdown(wait=True, cancel_futures=True)

    # --- what is offered ------------------------------------------------------------------------

    def known(self) -> tuple[OfferedTool, ...]:
        """All tools that are switched on, in order, under the names by which the model calls them.
        Those of a server that ended are among them: it is started again for a call."""
        found = [
            (server, tool)
            for server in self.all
            if server.is_on
            for tool in self._tools.get(server.id, ())
            if not tool.trouble and tool.name not in server.off
        ]
        names = unique_names([(server.name, tool.name) for server, tool in found])
        return tuple(
            OfferedTool(name, server, tool)
            for name, (server, tool) in zip(names, found, strict=True)
        )

    def offered(self, chat: Conversation) -> tuple[OfferedTool, ...]:
        """What the next reply of a chat may call."""
        if chat.kind is not ConversationKind.CHAT:
            return ()
        return tuple(
            each
            for each in self.known()
            if self.state(each.server.id).state == "ready"
            and each.permission != "never"
            and not self.is_off_in(chat, each)
        )

    def tools_of(self, chat: Conversation) -> tuple[Tool, ...]:
        """The same, as a prompt has it."""
        if not self._states:
            return ()
        return tuple(each.as_tool() for each in self.offered(chat))

    def is_off_in(self, chat: Conversation, tool: OfferedTool) -> bool:
        """Whether a tool is switched off there, alone or with others."""
        return bool(self.off_in(chat) & {ALL, tool.server.id, tool.key})

    @staticmethod
    def off_in(chat: Conversation) -> frozenset[str]:
        """What is switched off there. Stored, so untrusted."""
        found = chat.settings.get(TOOLS_OFF)
        if not isinstance(found, list):
            return frozenset()
        return frozenset(each for each in found if isinstance(each, str))

    def switch(self, key: str, *, is_on: bool) -> None:
        """Offer something in the open chat, or not: `ALL`, a server's ID, or ID/tool."""
        if not self._around.may_write():
            return
        self._shelf.ensure_stored()
        chat = self._shelf.open
        off = set(self.off_in(chat))
        (off.discard if is_on else off.add)(key)
        settings = {name: value for name, value in chat.settings.items() if name != TOOLS_OFF}
        if off:
            settings[TOOLS_OFF] = sorted(off)
        self._shelf.change(chat.id, settings=settings)
        self._tell()

    # --- questions ------------------------------------------------------------------------------

    def call(
        self,
        offered: OfferedTool,
        arguments: dict[str, Any],
        on_done: Callable[[Outcome], None],
        on_progress: Callable[[str], None],
    ) -> CallHandle:
        """Call a tool that somebody allowed; both are told on the owner's thread."""
        return self._hosted().call(
            offered.server.id,
            offered.tool.name,
            arguments,
            lambda outcome: self._around.hand_over(lambda: on_done(outcome), ALWAYS),
            lambda words: self._around.hand_over(lambda: on_progress(words), ALWAYS),
        )

    def attach_resource(self, server_id: str, resource: ServerResource) -> None:
        """Attach what a resource holds to the draft that is on screen now."""
        self._shelf.ensure_stored()
        chat = self._shelf.open.id
        name = (resource.name or resource.uri)[:200]
        self._attachments.expect(chat)

        def take(found: Outcome) -> None:
            is_taken = False
            if found.kind != "done":
                self._around.emit(Noticed("error", f"“{name}” wasn't attached. {found.text}"))
            else:
                is_taken = self._attachments.add_text(name, found.whole or found.text, chat)
            self._attachments.has_come(chat, is_refused=not is_taken)

        self._hosted().read_resource(
            server_id,
            resource.uri,
            lambda found: self._around.hand_over(lambda: take(found), ALWAYS),
        )

    def get_prompt(
        self, server_id: str, name: str, arguments: dict[str, str], then: Callable[[str], None]
    ) -> None:
        """The text of a server's prompt, for the message that is on screen now; a failure is said.
        Nothing, where another chat is on screen by then."""

        def take(found: Outcome) -> None:
            if found.kind != "done":
                self._around.emit(Noticed("error", f"No text of “{name}” came. {found.text}"))
            else:
                then(found.whole or found.text)

        is_open = self._shelf.while_open()
        self._hosted().get_prompt(
            server_id,
            name,
            arguments,
            lambda found: self._around.hand_over(lambda: take(found), is_open),
        )
