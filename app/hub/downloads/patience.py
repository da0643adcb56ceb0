"""How long a transfer waits for a server. Apart from the rest, since asking costs no import."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """`stall_s`: so long without a byte. Slow is fewer than `slow_bytes_per_s` through a whole
    `slow_window_s`."""

    stall_s: float = 30.0
    connect_s: float = 10.0
    slow_window_s: float = 60.0
    slow_bytes_per_s: float = 1_000.0
