"""Requests as commands: what a shell makes of them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from each import each

from app.chat.server.curl import END, MAX_ARGUMENT, curl_command


@pytest.mark.skipif(sys.platform == "win32", reason="it is for a POSIX shell")
@each("size", [10, MAX_ARGUMENT, 2**20])
def test_a_shell_hands_on_the_body_however_long_it_is(size: int) -> None:
    """A picture is longer than an argument may be."""
    body = json.dumps({"a": "It's $HOME `x` \\" + "A" * size + f"\n{END}"}).encode()
    command = curl_command("http://localhost:1", "/v1/x", body, has_key=False)
    script = (
        'curl() { for each; do last=$each; done; [ "$last" = @- ] && cat || printf %s "$last"; }'
    )
    made = subprocess.run(["sh"], input=f"{script}\n{command}\n".encode(), capture_output=True)
    assert (made.stdout.rstrip(b"\n"), made.stderr) == (body, b"")
