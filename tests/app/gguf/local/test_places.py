"""Where other programs keep weights: made-up homes of three systems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.gguf.local.places import (
    MAX_SETTINGS_BYTES,
    Origin,
    PlaceLayout,
    absolute,
    places_of_others,
)


def paths(
    origin: Origin, home: Path, system: str = "linux", environ: dict[str, str] | None = None
) -> list[Path]:
    found = places_of_others(system, environ or {}, home)
    return [place.path for place in found if place.origin is origin]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("system", "origin", "below"),
    [
        ("linux", Origin.LM_STUDIO, ".lmstudio/models"),
        ("win32", Origin.LM_STUDIO, ".lmstudio/models"),
        ("linux", Origin.LM_STUDIO, ".cache/lm-studio/models"),
        ("linux", Origin.JAN, ".local/share/Jan/data/llamacpp/models"),
        ("linux", Origin.JAN, ".config/Jan/data/llamacpp/models"),
        ("darwin", Origin.JAN, "Library/Application Support/Jan/data/llamacpp/models"),
        ("win32", Origin.JAN, "AppData/Roaming/Jan/data/llamacpp/models"),
        ("linux", Origin.JAN, "jan/models"),
        ("linux", Origin.GPT4ALL, ".local/share/nomic.ai/GPT4All"),
        ("darwin", Origin.GPT4ALL, "Library/Application Support/nomic.ai/GPT4All"),
        ("win32", Origin.GPT4ALL, "AppData/Local/nomic.ai/GPT4All"),
        ("linux", Origin.OLLAMA, ".ollama/models"),
        ("win32", Origin.OLLAMA, ".ollama/models"),
        ("linux", Origin.LLAMA_CPP, ".cache/llama.cpp"),
        ("darwin", Origin.LLAMA_CPP, "Library/Caches/llama.cpp"),
        ("win32", Origin.LLAMA_CPP, "AppData/Local/llama.cpp"),
        ("linux", Origin.HUGGING_FACE, ".cache/huggingface/hub"),
        ("darwin", Origin.HUGGING_FACE, ".cache/huggingface/hub"),
        ("win32", Origin.HUGGING_FACE, ".cache/huggingface/hub"),
    ],
)
def test_each_programs_own_folder(system: str, origin: Origin, below: str, tmp_path: Path) -> None:
    assert tmp_path / below in paths(origin, tmp_path, system)


@pytest.mark.parametrize(
    ("name", "origin", "below"),
    [
        ("OLLAMA_MODELS", Origin.OLLAMA, ""),
        ("LLAMA_CACHE", Origin.LLAMA_CPP, ""),
        ("HF_HUB_CACHE", Origin.HUGGING_FACE, ""),
        ("HUGGINGFACE_HUB_CACHE", Origin.HUGGING_FACE, ""),
        ("HF_HOME", Origin.HUGGING_FACE, "hub"),
        ("XDG_CACHE_HOME", Origin.HUGGING_FACE, "huggingface/hub"),
        ("XDG_CACHE_HOME", Origin.LLAMA_CPP, "llama.cpp"),
        ("XDG_DATA_HOME", Origin.JAN, "Jan/data/llamacpp/models"),
    ],
)
def test_environment_variables_say_another_folder(
    name: str, origin: Origin, below: str, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "big disk"
    assert elsewhere / below in paths(origin, tmp_path, environ={name: str(elsewhere)})


def test_an_empty_or_relative_variable_says_nothing(tmp_path: Path) -> None:
    usual = paths(Origin.LLAMA_CPP, tmp_path)
    for value in ("", "  ", "models", "a\0b"):
        assert paths(Origin.LLAMA_CPP, tmp_path, environ={"LLAMA_CACHE": value}) == usual


def test_settings_of_the_programs_say_another_folder(tmp_path: Path) -> None:
    disk = tmp_path / "Ž disk"
    write(tmp_path / ".lmstudio/settings.json", json.dumps({"downloadsFolder": f"{disk}/lm"}))
    write(tmp_path / ".config/Jan/settings.json", json.dumps({"data_folder": f"{disk}/jan"}))
    said = f'[General]\nuser=1\nmodelPath="{disk}/g4a/"\n'.replace("Ž", "\\x17d")
    write(tmp_path / ".config/nomic.ai/GPT4All.ini", said)
    assert disk / "lm" in paths(Origin.LM_STUDIO, tmp_path)
    assert disk / "jan/llamacpp/models" in paths(Origin.JAN, tmp_path)
    assert disk / "g4a" in paths(Origin.GPT4ALL, tmp_path)


def test_the_home_of_lm_studio_can_be_pointed_to(tmp_path: Path) -> None:
    home = tmp_path / "lm home"
    write(tmp_path / ".lmstudio-home-pointer", f"{home}\n")
    write(home / "settings.json", json.dumps({"downloadsFolder": "~/weights"}))
    found = paths(Origin.LM_STUDIO, tmp_path)
    assert found[0] == tmp_path / "weights"
    assert home / "models" in found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"downloadsFolder": 3}',
        '{"downloadsFolder": "models"}',
        '{"downloadsFolder": "/a\\u0000b"}',
        "[" * 200_000,
        '{"downloadsFolder": "/x"' + " " * MAX_SETTINGS_BYTES + "}",
        "\udcff",
    ],
)
def test_settings_that_make_no_sense_count_as_not_said(text: str, tmp_path: Path) -> None:
    usual = paths(Origin.LM_STUDIO, tmp_path)
    file = tmp_path / ".lmstudio" / "settings.json"
    file.parent.mkdir()
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert paths(Origin.LM_STUDIO, tmp_path) == usual


def test_each_folder_is_named_once_and_ollama_is_read_in_its_own_way(tmp_path: Path) -> None:
    variables = {"HF_HUB_CACHE": f"{tmp_path}/.cache/huggingface/hub", "HF_HOME": "/x/../x"}
    found = places_of_others("linux", variables, tmp_path)
    assert len({place.path for place in found}) == len(found)
    layouts = {place.origin: place.layout for place in found}
    assert layouts.pop(Origin.OLLAMA) is PlaceLayout.OLLAMA
    assert set(layouts.values()) == {PlaceLayout.FILES}
    assert not any(place.is_chosen for place in found)


def test_a_text_is_a_path_only_if_it_is_absolute() -> None:
    home = Path("/home/x")
    assert absolute("~/a b", home) == Path("/home/x/a b")
    assert absolute(" /a b ", home) == Path("/a b")
    assert absolute("a", home) is None


def test_who_has_no_home_has_no_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert places_of_others("linux", {}) == ()
