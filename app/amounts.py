"""Bytes, times, counts and shares in words. 1 MB is 1,000,000 bytes, everywhere: files, downloads
and memory.

What must hold: nothing else in the program writes bytes, so one file has one size wherever it
stands. (The Hub and most file managers count so; llama.cpp's own log lines count by 1,024 and say
MiB.)
"""

from __future__ import annotations

import math
from typing import Final

_UNITS: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def bytes_words(size_bytes: float) -> str:
    """Three figures; of whole bytes all.

    >>> bytes_words(98_300_000), bytes_words(4_370_000_000), bytes_words(635), bytes_words(0)
    ('98.3 MB', '4.37 GB', '635 bytes', '0 bytes')
    >>> bytes_words(999_950), bytes_words(16e9), bytes_words(1)
    ('1 MB', '16 GB', '1 byte')
    """
    for unit, name in _UNITS:
        if size_bytes >= 0.9995 * unit:
            return f"{figures(size_bytes / unit)} {name}"
    return f"{size_bytes:,.0f} byte{'' if round(size_bytes) == 1 else 's'}"


def part_words(part: float, whole: float) -> str:
    """A part of something in the unit of the whole, as far as that says anything.

    >>> part_words(1_500_000, 90e6), part_words(10e6, 90e6), part_words(1_500_000, 2e9)
    ('1.5 of 90 MB', '10 of 90 MB', '1.5 MB of 2 GB')
    """
    words = bytes_words(whole)
    for unit, name in _UNITS:
        if words.endswith(f" {name}") and part >= 0.1 * unit:
            return f"{figures(part / unit)} of {words}"
    return f"{bytes_words(part)} of {words}"


def figures(number: float) -> str:
    """About three figures, without zeros that say nothing.

    >>> figures(98.3), figures(4.371), figures(432.4), figures(16.0), figures(1234.5)
    ('98.3', '4.37', '432', '16', '1,234')
    """
    digits = 0 if number >= 99.95 else 1 if number >= 9.995 else 2
    text = f"{number:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def seconds_words(seconds: float) -> str:
    """
    >>> seconds_words(0.2), seconds_words(61), seconds_words(3_720), seconds_words(400_000)
    ('1 s', '1 min 1 s', '1 h 2 min', '4 days')
    """
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    if whole < 172_800:
        minutes = whole % 3_600 // 60
        return f"{whole // 3_600} h" + (f" {minutes} min" if minutes else "")
    return f"{whole // 86_400} days"


def time_text(ms: float) -> str:
    """A short time with about three figures.

    >>> time_text(0.04), time_text(3.14159), time_text(42.0), time_text(1234.0)
    ('0.04 ms', '3.14 ms', '42.0 ms', '1.23 s')
    """
    if ms < 10:
        return f"{ms:.2f} ms"
    if ms < 1000:
        return f"{ms:.1f} ms" if ms < 100 else f"{ms:.0f} ms"
    return f"{ms / 1000:.2f} s" if ms < 100_000 else f"{ms / 1000:,.0f} s"


def ms_words(ms: float) -> str:
    """
    >>> ms_words(12.34), ms_words(0.034), ms_words(0.0001)
    ('12.3 ms', '0.03 ms', '<0.01 ms')
    """
    return f"{figures(ms)} ms" if ms >= 0.005 else "<0.01 ms"


def count_words(count: int) -> str:
    """A number of parameters.

    >>> count_words(134_515_008), count_words(884_736), count_words(576), count_words(8_030_261_312)
    ('135M', '885K', '576', '8.03B')
    """
    for unit, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if count >= 0.9995 * unit:
            return f"{figures(count / unit)}{letter}"
    return f"{count:,}"


def percent(share: float) -> str:
    """With as many digits as tell it from nothing, and from all.

    >>> percent(0.2534), percent(0.034), percent(1.54), percent(0.00004), percent(0.0)
    ('25%', '3.4%', '154%', '<0.1%', '0%')
    >>> percent(0.9949), percent(0.9962), percent(0.99996), percent(1.0)
    ('99%', '99.6%', '>99.9%', '100%')
    """
    if math.isnan(share):
        return "–"
    if 0.995 <= share < 1:
        return f"{100 * share:.1f}%" if share < 0.9995 else ">99.9%"
    if share >= 0.0995 or share == 0:
        return f"{100 * share:.0f}%"
    return f"{100 * share:.1f}%" if share >= 0.001 else "<0.1%"
