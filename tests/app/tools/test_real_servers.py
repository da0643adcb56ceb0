"""Real tool servers from the registry, each started by its command as a user would."""

from __future__ import annotations

import json
import sys
import threading
from datetime import datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from app.tools.servers import ToolServer, new_id

pytestmark = pytest.mark.soak


def installed(name: str, *arguments: str) -> ToolServer:
    """A server that stands beside this Python."""
    command = str(Path(sys.executable).with_name(name))
    return ToolServer(new_id(), name, command=command, arguments=arguments)


def test_the_time_in_tokyo(talk):
    server = installed("mcp-server-time", "--local-timezone", "UTC")
    ready = talk.start(server)
    assert {tool.name for tool in ready.tools} >= {"get_current_time", "convert_time"}
    told = talk.call(server, "get_current_time", timezone="Asia/Tokyo")
    when = datetime.fromisoformat(json.loads(told.text)["datetime"])
    assert when.utcoffset() == timedelta(hours=9)
    assert abs(when - datetime.now(ZoneInfo("Asia/Tokyo"))) < timedelta(minutes=5)
    wrong = talk.call(server, "get_current_time", timezone="Nowhere/At-All")
    assert wrong.is_error or wrong.kind == "failed"


def test_a_server_that_needs_an_older_sdk_says_so_in_its_own_words(talk, tmp_path):
    """It is written for the SDK's first version and ends at once beside the second."""
    failed = talk.start(installed("mcp-filesystem", str(tmp_path)))
    assert failed.state == "failed"
    assert failed.sentence.startswith("It ended before it was ready. Its last words: ")
    assert "MCP SDK" in failed.sentence


def test_a_page_of_this_machine_is_fetched(talk, tmp_path):
    (tmp_path / "page.html").write_text("<h1>Title</h1><p>Forty-two words.</p>")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    web = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=web.serve_forever, args=(0.01,))
    thread.start()
    try:
        server = installed("mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips")
        ready = talk.start(server)
        assert [tool.name for tool in ready.tools] == ["fetch"], ready.sentence
        assert ready.prompts
        url = f"http://127.0.0.1:{web.server_port}/page.html"
        assert "Forty-two words." in talk.call(server, "fetch", url=url).text
    finally:
        web.shutdown()
        thread.join()
        web.server_close()
