"""Numbers and dates of a spreadsheet as they are shown: 0.25 with the format `0%` is 25%.

The file has a value and a format code; programs put them together, in English here. A code that
says more than is understood (fractions, colours by condition) gives the plain value.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Final

GENERAL: Final = "General"
_SECTIONS: Final = re.compile(r'((?:"[^"]*"|\\.|[^;"\\])*)(?:;|$)')
_TOKENS: Final = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$(?P<currency>[^\]-]*)[^\]]*\]|(?P<bracket>\[[^\]]*\])'
    r"|(?P<space>_.)|(?P<fill>\*.)|(?P<number>[0#?][0#?,.]*(?:[eE][+-][0#?]+)?|\.[0#?]+)"
    r"|(?P<date>[yY]+|[mM]+|[dD]+|[hH]+|[sS]+(?:\.0+)?|AM/PM|am/pm|A/P)|(?P<other>.)",
    re.S,
)


def shown(value: object, code: str) -> str:
    """A cell's value in words.

    >>> shown(0.256, "0.0%"), shown(-1234.5, "#,##0.00"), shown(1234.5, '[$€-407] #,##0')
    ('25.6%', '-1,234.50', '€ 1,235')
    >>> shown(datetime(2026, 3, 9, 14, 5), "yyyy-mm-dd hh:mm"), shown(date(2026, 3, 9), "d mmm yy")
    ('2026-03-09 14:05', '9 Mar 26')
    >>> shown(True, GENERAL), shown(3.0, GENERAL), shown(1 / 3, GENERAL), shown(None, GENERAL)
    ('TRUE', '3', '0.3333333333', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return _number(value, code)
    if isinstance(value, datetime | date | time | timedelta):
        return _moment(value, code)
    return str(value)


# --- numbers ------------------------------------------------------------------------------------


def _number(value: float, code: str) -> str:
    if not math.isfinite(value):
        return str(value)
    sections = _sections(code)
    is_own_negative = value < 0 and len(sections) > 1 and bool(sections[1])
    section = sections[1] if is_own_negative else sections[0]
    if value == 0 and len(sections) > 2:
        section = sections[2]
    if not section or section.lower() in ("general", "@"):
        return _plain(value)
    text = _by_section(abs(value), section)
    if text is None:
        return _plain(value)
    has_digit = any(char in "123456789" for char in text)
    return f"-{text}" if value < 0 and not is_own_negative and has_digit else text


@lru_cache(maxsize=512)
def _sections(code: str) -> list[str]:
    code = code[:500]
    found = [each[1] for each in _SECTIONS.finditer(code)]
    if len(found) > 1 and not code.endswith(";"):
        found.pop()  # what is matched at the very end, behind the last section
    return found[:4] or [""]


def _by_section(value: float, section: str) -> str | None:
    """None where the code is not understood."""
    tokens = list(_TOKENS.finditer(section))
    patterns = [token["number"] for token in tokens if token["number"]]
    if len(patterns) > 1 or any(t["bracket"] and _is_condition(t["bracket"]) for t in tokens):
        return None
    if not patterns and not any(token["quoted"] or token["escaped"] for token in tokens):
        return None
    percent = sum(token["other"] == "%" for token in tokens)
    digits = _digits(Decimal(repr(value)) * 100**percent, patterns[0]) if patterns else ""
    out: list[str] = []
    for token in tokens:
        if token["number"]:
            out.append(digits)
        elif token["date"]:
            return None
        elif token["space"]:
            out.append(" ")
        else:
            out.append(
                token["quoted"] or token["escaped"] or token["currency"] or token["other"] or ""
            )
    return "".join(out).strip()


def _is_condition(bracket: str) -> bool:
    return bracket[1:2] in "<>="


def _digits(value: Decimal, pattern: str) -> str:
    """
    >>> [_digits(Decimal("1234567.891"), p) for p in ("0", "#,##0.0", "0.00E+00", "#,##0,")]
    ['1234568', '1,234,567.9', '1.23E+06', '1,235']
    """
    mantissa, _, exponent = re.sub("[eE]", "E", pattern).partition("E")
    whole, _, fraction = mantissa.partition(".")
    least = fraction.count("0")
    if exponent:
        power = value.adjusted() if value else 0
        first = _rounded(value.scaleb(-power), len(fraction))
        if first >= 10:
            first, power = first / 10, power + 1
        sign = "-" if power < 0 else "+" if "+" in exponent else ""
        return f"{first:.{len(fraction)}f}E{sign}{abs(power):0{exponent.count('0')}d}"
    thousands = len(whole) - len(whole.rstrip(","))
    whole = whole.rstrip(",")
    number = _rounded(value.scaleb(-3 * thousands), len(fraction))
    text = f"{number:,f}" if "," in whole else f"{number:f}"
    head, _, tail = text.partition(".")
    while len(tail) > least and tail.endswith("0"):
        tail = tail[:-1]
    n_least = whole.count("0")
    head = "" if head == "0" and not n_least and tail else head.rjust(n_least, "0")
    return f"{head}.{tail}" if tail else head


def _rounded(value: Decimal, places: int) -> Decimal:
    if value.adjusted() > 400:
        return value
    return value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)


def _plain(value: float) -> str:
    """As the format General has it: ten figures after the point, and no zeros that say nothing."""
    if not 1e-9 <= abs(value) < 1e21:
        return "0" if value == 0 else f"{value:.5E}"
    return f"{Decimal(repr(round(value, 10))).normalize():f}"


# --- dates and times ----------------------------------------------------------------------------


def _moment(value: datetime | date | time | timedelta, code: str) -> str:
    if isinstance(value, timedelta):
        return _elapsed(value, code)
    section = _sections(code)[0]
    moment = _as_datetime(value)
    tokens = list(_TOKENS.finditer(section))
    if not any(token["date"] for token in tokens):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    has_half = any(token["date"] and "/" in token["date"] for token in tokens)
    out: list[str] = []
    last = ""
    for place, token in enumerate(tokens):
        part = token["date"]
        if part is None:
            plain = token["quoted"] or token["escaped"] or token["number"] or token["other"]
            out.append(plain or (" " if token["space"] else ""))
            continue
        is_minute = (
            part[0] in "mM"
            and len(part) <= 2
            and (last in ("h", "H") or _next_part(tokens, place).lower().startswith("s"))
        )
        out.append(_part(moment, part, is_minute=is_minute, has_half=has_half))
        last = part[0]
    return "".join(out).strip()


def _next_part(tokens: list[re.Match[str]], place: int) -> str:
    return next((token["date"] for token in tokens[place + 1 :] if token["date"]), "")


def _part(moment: datetime, part: str, *, is_minute: bool, has_half: bool) -> str:
    kind, length = part[0].lower(), len(part)
    if kind == "a":
        half = "AM" if moment.hour < 12 else "PM"
        return half[0] if length == 3 else half
    if kind == "y":
        return f"{moment.year:04d}" if length > 2 else f"{moment.year % 100:02d}"
    if kind == "m" and not is_minute and length > 2:
        name = _MONTHS[moment.month - 1]
        return name[0] if length == 5 else name if length == 4 else name[:3]
    if kind == "d" and length > 2:
        name = _DAYS[moment.weekday()]
        return name if length > 3 else name[:3]
    hour = (moment.hour % 12 or 12) if has_half else moment.hour
    if kind == "s" and "." in part:
        n_places = len(part) - part.index(".") - 1
        seconds = f"{moment.second + moment.microsecond / 1e6:.{n_places}f}"
        return seconds.rjust(n_places + 3, "0") if part[1:2].lower() == "s" else seconds
    number = {
        "m": moment.minute if is_minute else moment.month,
        "d": moment.day,
        "h": hour,
        "s": moment.second,
    }[kind]
    return f"{number:02d}" if length > 1 else str(number)


_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _as_datetime(value: datetime | date | time) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime.combine(value, time())
    return datetime.combine(date(1899, 12, 30), value)


def _elapsed(value: timedelta, code: str) -> str:
    """Hours that go on beyond a day."""
    seconds = round(abs(value).total_seconds())
    sign = "-" if value < timedelta() else ""
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{sign}{hours}:{minutes:02d}" + (f":{seconds:02d}" if "s" in code.lower() else "")
