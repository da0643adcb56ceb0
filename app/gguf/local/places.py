"""Where other programs keep GGUF files on this machine, so that they are used where they lie.

A place is a folder that may hold weights, with the way in which it is laid out. Nothing is
copied, changed or opened but a few small settings files, in which LM Studio, Jan and GPT4All
say that their weights are elsewhere. What such a file says is untrusted: at most 1 MiB is
read, only an absolute path is taken, and anything else counts as not said.

* LM Studio: `models` in its home (`~/.lmstudio`, older `~/.cache/lm-studio`, or what
  `~/.lmstudio-home-pointer` says), or `downloadsFolder` of its `settings.json`.
* Jan: `llamacpp/models` and `models` in its data folder, which `data_folder` of its
  `settings.json` can move.
* GPT4All: its data folder, or `modelPath` of `GPT4All.ini`; `~/.cache/gpt4all` of its package.
* Ollama: `manifests` and `blobs` in `OLLAMA_MODELS`, `~/.ollama/models` or the service's home.
* llama.cpp: `LLAMA_CACHE`, else `llama.cpp` in the user's caches.
* Hugging Face: `HF_HUB_CACHE`, else `hub` in `HF_HOME`, else `huggingface/hub` in `~/.cache`.

Looking is for a thread: a home folder can lie on a network.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

MAX_SETTINGS_BYTES: Final = 1 << 20


class Origin(StrEnum):
    """Who put the weights there, as it is shown."""

    INCLUDED = "Included"
    DOWNLOADS = "Downloads"
    LM_STUDIO = "LM Studio"
    JAN = "Jan"
    GPT4ALL = "GPT4All"
    OLLAMA = "Ollama"
    LLAMA_CPP = "llama.cpp"
    HUGGING_FACE = "Hugging Face"
    FOLDER = "Folder"
    OPENED = "Opened"


class PlaceLayout(StrEnum):
    """How a place is read: files that end in .gguf, or Ollama's manifests and blobs."""

    FILES = "files"
    OLLAMA = "ollama"


@dataclass(frozen=True, slots=True)
class Place:
    """A folder to look into, or a file. `is_chosen`: the user named it, so that it must be there.
    `name` is what the weights in a file are called otherwise."""

    origin: Origin
    path: Path
    layout: PlaceLayout = PlaceLayout.FILES
    is_chosen: bool = False
    name: str = ""


def places_of_others(
    system: str = sys.platform,
    environ: Mapping[str, str] = os.environ,
    home: Path | None = None,
) -> tuple[Place, ...]:
    """Every place where another program may keep weights, each once; most are not there."""
    try:
        machine = _Machine(system, environ, home or Path.home())
    except RuntimeError:  # nobody's home: a service, a container
        return ()
    found: dict[Path, Place] = {}
    for origin, path in _all(machine):
        layout = PlaceLayout.OLLAMA if origin is Origin.OLLAMA else PlaceLayout.FILES
        found.setdefault(Path(os.path.normpath(path)), Place(origin, path, layout))
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class _Machine:
    system: str
    environ: Mapping[str, str]
    home: Path

    def variable(self, name: str) -> Path | None:
        return absolute(self.environ.get(name, ""), self.home)

    def folder_of(self, variable: str, *below_home: str) -> Path:
        return self.variable(variable) or self.home.joinpath(*below_home)

    @property
    def is_windows(self) -> bool:
        return self.system == "win32"

    @property
    def is_mac(self) -> bool:
        return self.system == "darwin"

    @property
    def caches(self) -> Path:
        if self.is_windows:
            return self.folder_of("LOCALAPPDATA", "AppData", "Local")
        if self.is_mac:
            return self.home / "Library" / "Caches"
        return self.folder_of("XDG_CACHE_HOME", ".cache")

    @property
    def data(self) -> Path:
        if self.is_windows:
            return self.folder_of("APPDATA", "AppData", "Roaming")
        if self.is_mac:
            return self.home / "Library" / "Application Support"
        return self.folder_of("XDG_DATA_HOME", ".local", "share")

    @property
    def config(self) -> Path:
        """Where programs keep their settings; with their data, but on Linux."""
        if self.is_windows or self.is_mac:
            return self.data
        return self.folder_of("XDG_CONFIG_HOME", ".config")


def _all(machine: _Machine) -> Iterator[tuple[Origin, Path]]:
    for origin, paths in (
        (Origin.LM_STUDIO, _lm_studio(machine)),
        (Origin.JAN, _jan(machine)),
        (Origin.GPT4ALL, _gpt4all(machine)),
        (Origin.OLLAMA, _ollama(machine)),
        (Origin.LLAMA_CPP, _llama_cpp(machine)),
        (Origin.HUGGING_FACE, _hugging_face(machine)),
    ):
        for path in paths:
            yield origin, path


def _lm_studio(machine: _Machine) -> Iterator[Path]:
    homes = [machine.home / ".lmstudio", machine.home / ".cache" / "lm-studio"]
    pointer = small_text(machine.home / ".lmstudio-home-pointer").strip().partition("\n")[0]
    pointed = absolute(pointer, machine.home)
    if pointed is not None:
        homes.insert(0, pointed)
    for folder in (*homes, machine.config / "LM Studio"):
        said = _said_in_json(folder / "settings.json", "downloadsFolder", machine.home)
        if said is not None:
            yield said
    for folder in homes:
        yield folder / "models"


def _jan(machine: _Machine) -> Iterator[Path]:
    folders = [machine.home / "jan"]
    for base in dict.fromkeys((machine.data, machine.config)):
        folders.append(base / "Jan" / "data")
        said = _said_in_json(base / "Jan" / "settings.json", "data_folder", machine.home)
        if said is not None:
            folders.insert(0, said)
    for folder in folders:
        yield folder / "llamacpp" / "models"
        yield folder / "models"


def _gpt4all(machine: _Machine) -> Iterator[Path]:
    config = machine.home / ".config" if machine.is_mac else machine.config
    for company in ("nomic.ai", "gpt4all.io"):
        said = _said_in_ini(config / company / "GPT4All.ini", "modelPath", machine.home)
        if said is not None:
            yield said
    base = machine.caches if machine.is_windows else machine.data  # %LOCALAPPDATA% is both
    yield base / "nomic.ai" / "GPT4All"
    yield machine.home / ".cache" / "gpt4all"


def _ollama(machine: _Machine) -> Iterator[Path]:
    said = machine.variable("OLLAMA_MODELS")
    if said is not None:
        yield said
    yield machine.home / ".ollama" / "models"
    if not machine.is_windows and not machine.is_mac:
        yield Path("/usr/share/ollama/.ollama/models")
        yield Path("/var/lib/ollama/models")
        yield Path("/var/snap/ollama/common/models")


def _llama_cpp(machine: _Machine) -> Iterator[Path]:
    said = machine.variable("LLAMA_CACHE")
    if said is not None:
        yield said
    yield machine.caches / "llama.cpp"


def _hugging_face(machine: _Machine) -> Iterator[Path]:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        said = machine.variable(name)
        if said is not None:
            yield said
    home = machine.variable("HF_HOME")
    if home is not None:
        yield home / "hub"
    caches = machine.variable("XDG_CACHE_HOME") or machine.home / ".cache"
    yield caches / "huggingface" / "hub"


# --- what settings files say ----------------------------------------------------------------------


def absolute(text: str, home: Path) -> Path | None:
    """The absolute path that a text is, `~` and `~/` being `home`; None for any other text."""
    text = text.strip()
    if not text or "\0" in text:
        return None
    if text == "~" or text.startswith(("~/", "~\\")):
        return home / text[2:]
    path = Path(text)
    return path if path.is_absolute() else None


def _said_in_json(file: Path, key: str, home: Path) -> Path | None:
    try:
        value = json.loads(small_text(file))
    except (ValueError, RecursionError):
        return None
    said = value.get(key) if isinstance(value, dict) else None
    return absolute(said, home) if isinstance(said, str) else None


def _said_in_ini(file: Path, key: str, home: Path) -> Path | None:
    """A value of a file that Qt's QSettings wrote: quoted where it has to be, `\\` and `\\x17d`
    escaped."""
    line = re.search(rf"^{re.escape(key)}=(.*)$", small_text(file), re.MULTILINE)
    if line is None:
        return None
    text = line[1].strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    return absolute(re.sub(r"\\(\\|x[0-9a-fA-F]{1,4})", _unescaped, text), home)


def _unescaped(found: re.Match[str]) -> str:
    escaped = found[1]
    return escaped if escaped == "\\" else chr(int(escaped[1:], 16))


def small_text(file: Path) -> str:
    """What a small settings file says; nothing where it is none, or cannot be read."""
    try:
        if not file.is_file():  # a pipe would never end
            return ""
        with file.open("rb") as opened:
            data = opened.read(MAX_SETTINGS_BYTES + 1)
    except (OSError, ValueError):
        return ""
    return data.decode("utf-8-sig", "replace") if len(data) <= MAX_SETTINGS_BYTES else ""
