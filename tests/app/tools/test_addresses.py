"""Servers by address: through the gate, with their headers, cut while offline; all on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer

from app.hub.gate import OFFLINE
from app.tools.servers import ToolServer, new_id

WAIT_S = 60


class Handler(BaseHTTPRequestHandler):
    """Streamable HTTP by hand, one JSON answer to each message."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[dict[str, str]]] = []
    hanging = threading.Event()
    goes_on = threading.Event()
    status = 200
    body = ""

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send(405, "")

    def do_DELETE(self) -> None:
        self._send(405, "")

    def do_POST(self) -> None:
        self.seen.append(dict(self.headers))
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.status != 200 or self.body:
            self._send(self.status, self.body)
            return
        if "id" not in message:
            self._send(202, "")
            return
        result = self._result(message["method"], message.get("params") or {})
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        unknown = {"error": {"code": -32601, "message": "Method not found"}}
        self._send(200, json.dumps(answer | (unknown if result is None else {"result": result})))

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method == "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "web", "version": "2"},
            }
        if method == "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        if method == "tools/call" and params["arguments"].get("hang"):
            self.hanging.set()
            self.goes_on.wait(WAIT_S)
        if method == "tools/call":
            return {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}
        return None

    def _send(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True


@pytest.fixture
def web() -> Iterator[tuple[type[Handler], str]]:
    kind = type("Fresh", (Handler,), {"seen": [], "hanging": threading.Event(),
                                      "goes_on": threading.Event()})  # fmt: skip
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield kind, f"http://127.0.0.1:{server.server_port}/mcp"
    kind.goes_on.set()
    server.shutdown()
    thread.join()
    server.server_close()


def by_address(address: str, **fields: Any) -> ToolServer:
    return ToolServer(new_id(), "web", "http", address=address, **fields)


def test_a_server_by_address_gets_its_headers_and_is_called(talk, web):
    handler, address = web
    server = by_address(address, variables={"X-Team": "blue"}, secrets=("Authorization",))
    ready = talk.start(server, Authorization="Bearer open-sesame")
    assert (ready.state, ready.program) == ("ready", "web 2")
    assert talk.call(server, "echo", a=1).text == '{"a": 1}'
    assert all(seen["Authorization"] == "Bearer open-sesame" for seen in handler.seen)
    assert all(seen["X-Team"] == "blue" for seen in handler.seen)
    assert all(seen["Accept-Encoding"] == "identity" for seen in handler.seen)


def test_offline_cuts_a_call_in_the_middle_unless_this_machine_is_let_through(talk, web):
    handler, address = web
    server = by_address(address)
    talk.start(server)
    begun = talk.begin(server, "echo", hang=True)
    assert handler.hanging.wait(WAIT_S)
    talk.gate.let_here(lets=True)
    talk.gate.close_it(OFFLINE)
    assert talk.call(server, "echo", a=2).text == '{"a": 2}', "this machine is let through"
    talk.gate.let_here(lets=False)
    cut = talk.ended(begun)
    assert cut.kind == "failed"
    assert talk.call(server, "echo").kind == "failed"
    assert talk.gate.n_connections == 0 or not talk.gate.is_open


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, "", "rejected the sign-in (401)"),
        (404, "", "no tool server at this address"),
        (429, "", "too many requests"),
        (500, "", "error 500"),
        (200, "<html>hello</html>", ""),
    ],
)
def test_an_address_that_is_no_tool_server_is_told(talk, web, status, body, words):
    handler, address = web
    handler.status, handler.body = status, body
    failed = talk.start(by_address(address))
    assert failed.state == "failed"
    assert words in failed.sentence
    assert failed.sentence.endswith(".")
    assert "<html>" not in failed.sentence


@pytest.mark.soak
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_the_sdk_s_own_server_is_called_over_both_transports(talk, transport):
    tools = MCPServer("adder")

    @tools.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    app = tools.streamable_http_app() if transport == "http" else tools.sse_app()
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        while not running.started:
            thread.join(0.01)
        port = running.servers[0].sockets[0].getsockname()[1]
        path = "mcp" if transport == "http" else "sse"
        server = ToolServer(new_id(), "adder", transport, address=f"http://127.0.0.1:{port}/{path}")
        ready = talk.start(server)
        assert [tool.name for tool in ready.tools] == ["add"], ready.sentence
        assert talk.call(server, "add", a=2, b=40).text == "42"
        talk.host.stop(server.id)
        talk.until(lambda state: state.state == "off")
    finally:
        running.should_exit = True
        thread.join(WAIT_S)
