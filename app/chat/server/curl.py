"""A request as the command that asks the same again. Pure."""

from __future__ import annotations

import json
import shlex
from typing import Final

KEY: Final = "$CUTAWAY_KEY"
"""The key itself stays out of what is copied."""
MAX_ARGUMENT: Final = 30_000
"""Characters; Linux takes 128 KiB in one argument, and a picture is longer."""
END: Final = "END_OF_REQUEST"


def curl_command(url: str, endpoint: str, body: bytes, *, has_key: bool) -> str:
    """For a POSIX shell.

    >>> print(curl_command("http://127.0.0.1:80", "/v1/models", b"", has_key=False))
    curl http://127.0.0.1:80/v1/models
    >>> print(curl_command("http://[::1]:80", "/v1/completions", b'{"a":"It\\'s"}', has_key=True))
    curl 'http://[::1]:80/v1/completions' \\
      -H "Authorization: Bearer $CUTAWAY_KEY" \\
      -H 'Content-Type: application/json' \\
      --data-raw '{"a":"It'"'"'s"}'
    """
    parts = [f"curl {shlex.quote(url + endpoint)}"]
    if has_key:
        parts.append(f'-H "Authorization: Bearer {KEY}"')
    after = ""
    if body:
        parts.append("-H 'Content-Type: application/json'")
        text = _harmless(body)
        if len(text) > MAX_ARGUMENT and END not in text.splitlines():
            parts.append(f"--data-binary @- <<'{END}'")
            after = f"\n{text}\n{END}"
        else:
            parts.append(f"--data-raw {shlex.quote(text)}")
    return " \\\n  ".join(parts) + after


def _harmless(body: bytes) -> str:
    """The body as text that does nothing to a terminal. In JSON that was read, what could do so
    stands between quotes, where it can be written otherwise; of anything else it is left out.

    >>> _harmless('{"a": "\\x9b"}'.encode()), _harmless(b"\\x1b[2J{")
    ('{"a": "\\\\u009b"}', '[2J{')
    """
    text = body.decode("utf-8", "replace")
    if text.isprintable():
        return text
    try:
        return json.dumps(json.loads(text))
    except (ValueError, RecursionError):
        return "".join(c for c in text if c.isprintable() or c == "\n")
