"""The programs that speak: which one this system has, and how it is asked.

Each reads what it shall say from its stdin, until that ends, and ends when it has said it. What is
chosen (a voice, a rate) is checked and given as arguments or in the environment, never in a line
for a shell.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

RATES: Final = (50, 300)
"""Percent of the voice's own."""

_VOICE: Final = re.compile(r"[\w .+()/-]{1,80}")
_LANGUAGES: Final = {
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "CJK": "cmn",
    "HANGUL": "ko",
    "CYRILLIC": "ru",
    "GREEK": "el",
    "ARABIC": "ar",
    "HEBREW": "he",
    "DEVANAGARI": "hi",
    "THAI": "th",
}
_WORDS_A_MINUTE: Final = 175
"""What espeak and `say` call usual."""
_SCRIPT: Final = (
    "Add-Type -AssemblyName System.Speech;"
    "$s = New-Object System.Speech.Synthesis.SpeechSynthesizer;"
    "if ($env:CUTAWAY_VOICE) { $s.SelectVoice($env:CUTAWAY_VOICE) };"
    "$s.Rate = [int]$env:CUTAWAY_RATE;"
    "[Console]::InputEncoding = [Text.Encoding]::UTF8;"
    "$s.Speak([Console]::In.ReadToEnd())"
)


@dataclass(frozen=True, slots=True)
class Speaker:
    """How a sentence is said. `on_stop`: what silences what a service still says; `else_command`:
    how, where it fails: without the language, which may not be installed."""

    program: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    on_stop: tuple[str, ...] = ()
    else_command: tuple[str, ...] = ()


def why_none(platform: str = sys.platform) -> str:
    """What to install where there is none."""
    if platform.startswith("linux"):
        return "Install espeak-ng or speech-dispatcher to have replies read aloud."
    return "This system has no speech program, so replies can't be read aloud."


def language_of(text: str, locale: str = "") -> str:
    """Which language a voice should speak, as far as the script tells; else that of the system
    (`locale`, as in LANG), or nothing.

    >>> language_of("北京"), language_of("ひらがなと漢字"), language_of("Привет"), language_of("Hi")
    ('cmn', 'ja', 'ru', '')
    >>> language_of("Guten Tag", "de_AT.UTF-8"), language_of("Hi", "C.UTF-8")
    ('de', '')
    """
    names = [unicodedata.name(c, "").partition(" ")[0] for c in text[:2000] if c.isalpha()]
    for script, language in _LANGUAGES.items():
        share = 0.1 if language == "ja" else 0.5
        if names and sum(name.startswith(script) for name in names) > share * len(names):
            return language
    code = locale.partition(".")[0].partition("_")[0].lower().replace("zh", "cmn")
    return code if re.fullmatch(r"[a-z]{2,3}", code) else ""


def find_speaker(
    voice: str = "",
    rate: int = 100,
    language: str = "",
    *,
    platform: str = sys.platform,
    which: Callable[[str], str | None] = shutil.which,
) -> Speaker | None:
    """The system's own, or None. A voice that cannot be a name is left out. `language`: where none
    is chosen, for the programs that have one for each."""
    voice = voice if _VOICE.fullmatch(voice) and not voice.startswith("-") else ""
    rate = min(max(rate, RATES[0]), RATES[1])
    if platform == "darwin":
        found = which("say")
        words = str(_WORDS_A_MINUTE * rate // 100)
        named = ("-v", voice) if voice else ()
        return Speaker("say", (found, "-r", words, *named, "-f", "-")) if found else None
    if platform == "win32":
        found = which("powershell")
        shell = (found or "", "-NoProfile", "-NonInteractive", "-Command", _SCRIPT)
        tenth = round(10 * (rate - 100) / 200) if rate > 100 else round((rate - 100) / 5)
        given = {"CUTAWAY_VOICE": voice, "CUTAWAY_RATE": str(max(-10, min(10, tenth)))}
        return Speaker("Windows speech", shell, given) if found else None
    for name in ("espeak-ng", "espeak"):
        if found := which(name):
            words = str(_WORDS_A_MINUTE * rate // 100)
            plain = (found, "--stdin", "-s", words)
            if voice or not language:
                return Speaker(name, (*plain, "-v", voice) if voice else plain)
            return Speaker(name, (*plain, "-v", language), else_command=plain)
    if found := which("spd-say"):
        scale = str((rate - 100) // 2 if rate > 100 else 2 * (rate - 100))
        spoken = "zh" if language == "cmn" else language
        named = ("-y", voice) if voice else ("-l", spoken) if spoken else ()
        return Speaker("spd-say", (found, "-e", "-w", "-r", scale, *named), on_stop=(found, "-S"))
    return None


def environment_of(speaker: Speaker) -> dict[str, str]:
    return {**os.environ, **speaker.environment}
