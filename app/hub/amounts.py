"""Bytes and times in words, as sentences about downloads have them; 1 kB is 1,000 bytes."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def bytes_words(size_bytes: float) -> str:
    """
    >>> bytes_words(98_300_000), bytes_words(4_370_000_000), bytes_words(635), bytes_words(0)
    ('98.3 MB', '4.37 GB', '635 bytes', '0 bytes')
    """
    for unit, name in _UNITS:
        if size_bytes >= unit:
            digits = 2 if unit >= 1e9 else 1
            return f"{size_bytes / unit:,.{digits}f} {name}"
    return f"{size_bytes:,.0f} byte{'' if round(size_bytes) == 1 else 's'}"


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
