"""Which program speaks on which system, and that what is chosen is never an instruction."""

from __future__ import annotations

import shutil
import subprocess
import wave
from pathlib import Path

import pytest
from each import each

from app.chat.aloud.speakers import Speaker, environment_of, find_speaker, why_none


def having(*names: str):  # type: ignore[no-untyped-def]
    return lambda name: f"/bin/{name}" if name in names else None


@each(
    ("platform", "there", "command"),
    [
        ("linux", ("espeak-ng", "spd-say"), ("/bin/espeak-ng", "--stdin", "-s", "175")),
        ("linux", ("espeak",), ("/bin/espeak", "--stdin", "-s", "175")),
        ("linux", ("spd-say",), ("/bin/spd-say", "-e", "-w", "-r", "0")),
        ("darwin", ("say",), ("/bin/say", "-r", "175", "-f", "-")),
    ],
)
def test_the_systems_own_is_asked_on_its_stdin(
    platform: str, there: tuple[str, ...], command: tuple[str, ...]
) -> None:
    speaker = find_speaker(platform=platform, which=having(*there))
    assert speaker is not None
    assert speaker.command == command
    assert find_speaker(platform=platform, which=having()) is None


def test_windows_is_told_voice_and_rate_in_its_environment() -> None:
    voice = "Zira (US)"
    speaker = find_speaker(voice, 300, platform="win32", which=having("powershell"))
    assert speaker is not None
    assert speaker.environment == {"CUTAWAY_VOICE": voice, "CUTAWAY_RATE": "10"}
    assert voice not in " ".join(speaker.command)
    slow = find_speaker("", 50, platform="win32", which=having("powershell"))
    assert slow is not None
    assert environment_of(slow)["CUTAWAY_RATE"] == "-10"


@each("voice", ["-w /tmp/x.wav", "--path=/tmp", "a;b", "a\nb", "$(x)", "`x`", "x" * 99, "--stdin"])
def test_a_voice_that_cannot_be_a_name_is_left_out(voice: str) -> None:
    for platform, name in (("linux", "espeak-ng"), ("linux", "spd-say"), ("darwin", "say")):
        speaker = find_speaker(voice, platform=platform, which=having(name))
        assert speaker == find_speaker(platform=platform, which=having(name))


def test_it_says_what_to_install() -> None:
    assert "espeak-ng" in why_none("linux")
    assert why_none("darwin")


@pytest.mark.soak
def test_the_real_one_takes_what_it_is_given(tmp_path: Path) -> None:
    """Where espeak-ng is there: it writes what it would say into a file."""
    program = shutil.which("espeak-ng")
    speaker = find_speaker("en", 150, platform="linux", which=lambda name: program)
    if program is None:
        assert speaker is None
        return
    assert isinstance(speaker, Speaker)
    lengths = []
    for text in ("Yes.", "It rains in Paris; -w /nowhere --help $(id) is only text. " * 3):
        target = tmp_path / f"{len(text)}.wav"
        command = [*speaker.command, "-w", str(target)]
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"")
        with wave.open(str(target)) as file:
            lengths.append(file.getnframes() / file.getframerate())
    assert 0.2 < lengths[0] < 3 < lengths[1]
