"""Bytes and times in words. 1 MB is 1,000,000 bytes, everywhere: files, downloads and memory.

What must hold: nothing else in the program writes bytes, so one file has one size wherever it
stands. (The Hub and most file managers count so; llama.cpp's own log lines count by 1,024 and say
MiB.)
"""

from __future__ import annotations

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
