"""What the server's state and its requests are called. Pure; no Qt."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Final

from app.amounts import bytes_words
from app.chat.events import ServerChanged
from app.chat.server.log import (
    DONE,
    FAILED,
    MAX_BYTES,
    MAX_REQUESTS,
    RUNNING,
    STOPPED,
    WAITING,
    Logged,
)
from ui.widgets.figures import rate_text

KEPT: Final = (
    f"The last {MAX_REQUESTS:,} requests, up to {bytes_words(MAX_BYTES)}, in memory only. They're "
    "gone when Cutaway closes."
)
NOTHING: Final = "No requests yet."
STATES: Final = {
    WAITING: "Waiting",
    RUNNING: "Running",
    DONE: "Done",
    STOPPED: "Stopped",
    FAILED: "Failed",
}


def base_url(url: str) -> str:
    """What clients are given as their base address."""
    return f"{url}/v1" if url else ""


def state_words(state: ServerChanged) -> str:
    """The server's state in a line.

    >>> state_words(ServerChanged("on", "http://127.0.0.1:80", is_open=True))
    'Serving at http://127.0.0.1:80/v1, and at port 80 of this computer on your network'

    >>> state_words(ServerChanged("on", "http://127.0.0.1:8642"))
    'Serving at http://127.0.0.1:8642/v1'
    >>> state_words(ServerChanged("failed", sentence="Port 80 is in use."))
    'Port 80 is in use.'
    """
    port = state.url.rpartition(":")[2]
    network = f", and at port {port} of this computer on your network" if state.is_open else ""
    return {
        "off": "The server is off.",
        "starting": "Starting the server…",
        "stopping": "Stopping the server…",
        "on": f"Serving at {base_url(state.url)}{network}",
    }.get(state.state, state.sentence)


def mark_text(state: ServerChanged, n_running: int) -> str:
    """What stands in the status line.

    >>> mark_text(ServerChanged("on", "http://127.0.0.1:8642"), 0)
    'server :8642'
    >>> mark_text(ServerChanged("on", "http://[::1]:8642"), 2), mark_text(ServerChanged("off"), 0)
    ('server :8642, 2 requests', '')
    """
    if state.state == "failed":
        return "server failed"
    if state.state != "on":
        return ""
    running = f", {n_running} request{'s' * (n_running != 1)}" if n_running else ""
    return f"server :{state.url.rpartition(':')[2]}{running}"


def time_words(at: datetime, now: datetime, zone: tzinfo | None = None) -> str:
    """When a request came; its day, too, where that was another one.

    >>> from datetime import UTC
    >>> came, later = datetime(2026, 1, 2, 9, 5, 7, tzinfo=UTC), datetime(2026, 1, 3, 9, tzinfo=UTC)
    >>> time_words(came, came, UTC), time_words(came, later, UTC)
    ('09:05:07', '2026-01-02 09:05:07')
    """
    own = at.astimezone(zone)
    is_today = own.date() == now.astimezone(zone).date()
    return f"{own:%H:%M:%S}" if is_today else f"{own:%Y-%m-%d %H:%M:%S}"


def count_words(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"


def rate_words(row: Logged) -> str:
    rate = row.tokens_per_s
    return rate_text(rate).removesuffix(" tokens/s") if rate else "–"


def row_words(row: Logged) -> str:
    """All of a request in a few lines: for its tooltip, and for a screen reader."""
    model = f", model “{row.model}”" if row.model else ""
    lines = [f"{STATES[row.state]}: {row.endpoint}", f"From {row.client}{model}"]
    if row.tokens_in is not None and not row.replies:
        lines.append(f"{row.tokens_in:,} tokens read")
    elif row.tokens_in is not None:
        lines.append(
            f"{row.tokens_in:,} prompt tokens, {row.cached or 0:,} cached; "
            f"{row.tokens_out or 0:,} generated"
        )
    elif row.tokens_out:
        lines.append(f"{row.tokens_out:,} generated so far")
    if row.seconds is not None:
        lines.append(f"HTTP {row.status} after {row.seconds:,.1f} s")
    if row.why:
        lines.append(row.why)
    lines += row.notes
    return "\n".join(lines)
