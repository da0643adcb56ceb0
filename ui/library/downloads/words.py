"""What is said of downloads. Pure; no Qt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.amounts import bytes_words
from models.records import DownloadState as State
from ui.library.local.words import one_line, place_text

if TYPE_CHECKING:
    from app.hub.downloads.progress import DownloadProgress

ACTIVE: Final = (State.QUEUED, State.RUNNING, State.WAITING)
RESUMABLE: Final = (State.PAUSED, State.WAITING, State.FAILED, State.CANCELLED)
_ORDER: Final = {
    State.RUNNING: 0,
    State.WAITING: 0,
    State.QUEUED: 0,
    State.PAUSED: 1,
    State.FAILED: 1,
    State.DONE: 2,
    State.CANCELLED: 2,
}


def in_order(downloads: Sequence[DownloadProgress]) -> list[DownloadProgress]:
    """What goes on first, in the queue's order; then what waits for the user; then what is over,
    the last one first."""
    newest_first = sorted(downloads, key=lambda each: each.added_at, reverse=True)
    over = [each for each in newest_first if _ORDER[each.state] == 2]
    rest = [each for each in downloads if _ORDER[each.state] < 2]
    return sorted(rest, key=lambda each: _ORDER[each.state]) + over


def duration_text(seconds: float) -> str:
    """
    >>> duration_text(0.2), duration_text(61), duration_text(3720), duration_text(400_000)
    ('1 s', '1 min', '1 h 2 min', '4 days')
    """
    whole = max(1, math.ceil(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 172_800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} day{'' if whole < 2 * 86_400 else 's'}"


def speed_text(bytes_s: float) -> str:
    """
    >>> speed_text(3_210_000), speed_text(850_000), speed_text(0)
    ('3.2 MB/s', '850 kB/s', '0 kB/s')
    """
    if bytes_s >= 1e6:
        return f"{bytes_s / 1e6:,.1f} MB/s"
    return f"{bytes_s / 1e3:.0f} kB/s"


def percent_text(progress: DownloadProgress) -> str:
    """Rounded down: 100 % is said of what is whole."""
    return f"{math.floor(progress.fraction * 100)}%"


def state_text(progress: DownloadProgress) -> str:
    """Beside the name: how far it is."""
    match progress.state:
        case State.QUEUED:
            return "Queued"
        case State.WAITING:
            return f"Retrying in {countdown_text(progress.retry_in_s or 0)}"
        case State.PAUSED:
            return f"Paused at {percent_text(progress)}"
        case State.FAILED:
            return "Failed"
        case State.CANCELLED:
            return "Cancelled"
        case State.DONE:
            return "Done"
    if progress.phase == "checking":
        return "Checking existing files…"
    parts = [percent_text(progress)]
    if progress.speed_bytes_s is not None:
        parts.append(speed_text(progress.speed_bytes_s))
    if progress.left_s is not None:
        parts.append(f"{duration_text(progress.left_s)} left")
    return " · ".join(parts)


def countdown_text(seconds: float) -> str:
    """To the second, so that it is seen to count.

    >>> countdown_text(2.0), countdown_text(61.2), countdown_text(0)
    ('2 s', '1:02 min', '0 s')
    """
    whole = math.ceil(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60}:{whole % 60:02} min"


def second_line(progress: DownloadProgress) -> str:
    """Below the name: what is wrong, else what it is."""
    if progress.sentence:
        return one_line(progress.sentence)
    if progress.state in (State.DONE, State.CANCELLED) or not progress.done_bytes:
        size = bytes_words(progress.size_bytes)
    else:
        size = f"{bytes_words(progress.done_bytes)} of {bytes_words(progress.size_bytes)}"
    files = f"{progress.n_files} files" if progress.n_files > 1 else ""
    return one_line(" · ".join(part for part in (size, files, progress.repo_id) if part))


def whole_words(progress: DownloadProgress) -> str:
    """All that is to be said, for who chose it."""
    size = f"{bytes_words(progress.size_bytes)} from {progress.repo_id}"
    lines = [progress.sentence] if progress.sentence else []
    lines += [size, place_text(Path(progress.folder), Path.home())]
    return "\n".join(one_line(line) for line in lines)


def spoken(progress: DownloadProgress) -> str:
    """A row as a screen reader says it."""
    return f"{one_line(progress.name)}, {state_text(progress)}. {second_line(progress)}"


def status_text(downloads: Sequence[DownloadProgress]) -> str:
    """The sign in the window's status line; empty while nothing is fetched.

    One number for all that runs, as far as it is known.
    """
    running = [each for each in downloads if each.state is State.RUNNING]
    waiting = [each for each in downloads if each.state is State.WAITING]
    if not running:
        return "↓ queued" if waiting else ""
    size = sum(each.size_bytes for each in running)
    share = math.floor(100 * sum(each.done_bytes for each in running) / size) if size else 0
    speeds = [each.speed_bytes_s for each in running if each.speed_bytes_s is not None]
    speed = f" · {speed_text(sum(speeds))}" if speeds else ""
    return f"↓ {share}%{speed}"


def status_hint(downloads: Sequence[DownloadProgress]) -> str:
    """Line by line what is fetched."""
    lines = [
        f"{one_line(each.name)}: {state_text(each)}" for each in downloads if each.state in ACTIVE
    ]
    return "\n".join(["Downloads", *lines[:8], *(["…"] if len(lines) > 8 else [])])
