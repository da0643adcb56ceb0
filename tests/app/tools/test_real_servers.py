"""Real tool servers from the registry, each started by its command as a user would."""

from __future__ import annotations

import json
import shutil
import subprocess
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


def test_files_of_a_folder(talk, tmp_path):
    """The protocol's own file server is a Node.js program; npm gets it, as its users do."""
    npm = shutil.which("npm")
    assert npm, "This long test needs Node.js with npm (CONTRIBUTING.md)."
    package = "@modelcontextprotocol/server-filesystem"
    quiet = ["--silent", "--no-package-lock", "--no-audit", "--no-fund", "--prefix", str(tmp_path)]
    subprocess.run([npm, "install", *quiet, f"{package}@2026.8.31"], check=True)
    (folder := tmp_path / "folder").mkdir()
    (folder / "note.txt").write_text("Forty-two words.")
    (tmp_path / "outside.txt").write_text("Not for it.")
    program = tmp_path / "node_modules" / package / "dist" / "index.js"
    arguments = (str(program), str(folder))
    server = ToolServer(new_id(), "files", command="node", arguments=arguments)
    ready = talk.start(server)
    assert ready.state == "ready", ready.sentence
    assert {tool.name for tool in ready.tools} >= {"read_text_file", "write_file", "list_directory"}
    assert "note.txt" in talk.call(server, "list_directory", path=str(folder)).text
    note = talk.call(server, "read_text_file", path=str(folder / "note.txt"))
    assert "Forty-two words." in note.text
    talk.call(server, "write_file", path=str(folder / "new.txt"), content="Written.")
    assert (folder / "new.txt").read_text() == "Written."
    refused = talk.call(server, "read_text_file", path=str(tmp_path / "outside.txt"))
    assert refused.is_error
    assert "Not for it." not in refused.text


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
