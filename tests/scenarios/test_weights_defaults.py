"""The defaults of single weights, at the keyboard: kept at once, loaded again, taken back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import CHATML, bpe_vocabulary, tiny_llama
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from squeezed import squeezed

from ui.library.defaults.weights_settings import NAMES, WeightsSettings
from ui.library.view import LibraryView

SCRIPT = {"load": {"ms": 5}, "replies": [{"text": "Paris."}]}
Key, Held = Qt.Key, Qt.KeyboardModifier


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    tiny_llama(folder / "large.gguf", vocabulary=bpe_vocabulary(["hi"]), kind="f32")
    tiny_llama(folder / "draft.gguf", vocabulary=bpe_vocabulary(["hi"]))
    tiny_llama(folder / "other.gguf", vocabulary=bpe_vocabulary(["ho", "hum"]))
    return folder


@pytest.fixture
def file(files: Path, tmp_path: Path) -> Path:
    return shutil.copytree(files, tmp_path / "files") / "large.gguf"


@pytest.fixture
def person(open_window: Any) -> Any:
    made = open_window(SCRIPT)
    made.wait_ready()
    return made


def opened(person: Any) -> tuple[LibraryView, WeightsSettings]:
    person.window.action_registry.run("weights_defaults")
    view = person.find(LibraryView, "library_view")
    person.wait(view.isActiveWindow)
    return view, view.defaults()


def shown_for(person: Any, path: Path) -> WeightsSettings:
    person.window.lazy.show_defaults(str(path))
    view = person.find(LibraryView, "library_view")
    person.wait(view.isVisible)
    return view.defaults()


def test_what_is_typed_is_kept_and_loading_again_is_offered(person: Any) -> None:
    view, defaults = opened(person)
    desk, path = person.app.desk, person.app.desk.loader.path
    assert defaults.path == path
    assert defaults.load_button.isHidden()
    field = defaults._rows["n_ctx"].field
    field.setFocus()
    person.qtbot.keyClicks(field, "2048")
    person.qtbot.keyClick(field, Key.Key_Return)
    assert desk.defaults.own(path) == {"n_ctx": 2048}
    assert "context window" in defaults.load_words.text()
    assert defaults.load_button.text() == "Reload"
    batch = defaults._rows["load.n_ubatch"].field
    batch.setFocus()
    person.qtbot.keyClicks(batch, "0")
    person.qtbot.keyClick(batch, Key.Key_Return)
    assert "Prefill batch" in defaults._rows["load.n_ubatch"].refusal.text()
    assert desk.defaults.own(path) == {"n_ctx": 2048}
    person.qtbot.mouseClick(defaults.load_button, Qt.MouseButton.LeftButton)
    assert QApplication.focusWidget() is defaults.segments  # not what would reset them
    person.wait(lambda: desk.defaults.awaiting_load(path) == ())
    person.wait(lambda: not defaults.load_button.isVisible())
    defaults._resets["n_ctx"].click()
    assert desk.defaults.own(path) == {}
    assert defaults._rows["n_ctx"].field.text() == ""
    person.qtbot.keyClick(view, Key.Key_Escape)
    assert view.isVisible()  # back on the pages
    person.qtbot.keyClick(view, Key.Key_Escape)
    assert view.isHidden()


def test_every_control_shows_what_it_was_told(person: Any, file: Path) -> None:
    """Each option of a load, through the control that is for it."""
    defaults = shown_for(person, file)
    desk, path = person.app.desk, str(file)
    told = {
        "n_threads": 2, "n_gpu_layers": 0, "type_k": "q8_0", "flash_attention": "on",
        "load.n_ubatch": 64, "load.n_slots": 2, "load.parked_bytes": 64_000_000,
        "load.governor": False, "load.use_mmap": False, "load.use_mlock": True,
        "load.devices": ["A", "B"], "load.split_mode": "row", "load.tensor_split": [3.0, 1.5],
        "load.main_device": 1, "load.cpu_moe_layers": -1, "load.rope.kind": "yarn",
        "load.rope.freq_base": 10_000.0, "load.rope.freq_scale": 0.5,
        "load.rope.yarn_orig_ctx": 4096, "load.rope.yarn_ext_factor": 1.0,
        "load.rope.yarn_attn_factor": 1.5, "load.rope.yarn_beta_fast": 32.0,
        "load.rope.yarn_beta_slow": 1.0,
    }  # fmt: skip
    for name, value in told.items():
        assert desk.defaults.change(path, name, value) == "", name
    for name, value in told.items():
        field = defaults._rows[name].field
        shown = field.value()
        assert (shown * 1_000_000 if name == "load.parked_bytes" else shown) == value, name
        assert defaults._resets[name].isVisibleTo(defaults._rows[name]), name
    assert set(told) | {"n_ctx", "type_v"} == {
        n for n in defaults._rows if n.startswith("load.") or n in ("n_threads", "n_gpu_layers")
    } | {"n_ctx", "type_k", "type_v", "flash_attention"}
    for name, text, value in (
        ("load.devices", "none", []),
        ("load.devices", "", None),
        ("load.tensor_split", "1; 2", [1.0, 2.0]),
        ("load.parked_bytes", "3", 3_000_000),
    ):
        field = defaults._rows[name].field
        field.setFocus()
        field.setText(text)
        field._tell()
        assert desk.defaults.value(path, name) == value
    defaults.reset_button.click()
    assert desk.defaults.own(path) == {}
    assert not defaults.reset_button.isEnabled()


def test_a_template_of_ones_own_is_rendered_as_it_is_written(person: Any, file: Path) -> None:
    defaults = shown_for(person, file)
    desk, path = person.app.desk, str(file)
    defaults.segments.setCurrentIndex(NAMES.index("template"))
    editor = defaults.template
    person.wait(lambda: editor.preview.toPlainText().startswith("<|im_start|>system"))
    assert editor.source.toPlainText() == CHATML
    assert editor.source.isReadOnly()
    marked = editor.preview.extraSelections()
    assert "<|im_start|>" in {mark.cursor.selectedText() for mark in marked}
    editor.edit_button.click()
    assert desk.defaults.own(path) == {"chat_format": "own", "chat_template": CHATML}
    assert not editor.source.isReadOnly()
    editor.source.selectAll()
    person.qtbot.keyClicks(editor.source, "{{ bos_token }}")
    person.qtbot.keyClick(editor.source, Key.Key_Return)
    person.qtbot.keyClicks(editor.source, "{% for m in x %}")
    person.wait(lambda: "line" in editor.words.text())
    assert editor.words.property("kind") == "error"
    (mark,) = editor.source.extraSelections()
    assert mark.cursor.blockNumber() == 1
    assert editor.preview.toPlainText() == ""
    editor.source.selectAll()
    person.qtbot.keyClicks(editor.source, "{{ messages[-1].content }}")
    person.wait(lambda: editor.preview.toPlainText() == "And of Italy?")
    assert editor.words.property("kind") == "small"
    assert "has no system prompt" in editor.words.text()
    assert editor.source.extraSelections() == []
    editor.format_field.setFocus()  # leaving keeps it
    assert desk.defaults.own(path)["chat_template"] == "{{ messages[-1].content }}"
    editor.format_field.changed_by_user.emit("gemma")
    person.wait(lambda: "<start_of_turn>user" in editor.preview.toPlainText())
    editor.format_field.changed_by_user.emit("")
    person.wait(lambda: editor.source.toPlainText() == CHATML)
    editor.format_field.changed_by_user.emit("own")  # what was written is still there
    person.wait(lambda: editor.preview.toPlainText() == "And of Italy?")
    assert desk.defaults.resolved(path).settings.template == "{{ messages[-1].content }}"


def test_draft_partners_are_found_and_chosen(person: Any, file: Path) -> None:
    desk, path = person.app.desk, str(file)
    desk.defaults.change(str(file.with_name("other.gguf")), "notes", "known")
    defaults = shown_for(person, file)
    defaults.segments.setCurrentIndex(NAMES.index("draft"))
    partners = defaults.drafts.list
    person.wait(lambda: "other: " in defaults.drafts.others.text())
    assert partners.count() == 1
    defaults.segments.setCurrentIndex(NAMES.index("notes"))
    desk.defaults.change(str(file.with_name("draft.gguf")), "notes", "known by now")
    defaults.segments.setCurrentIndex(NAMES.index("draft"))
    person.wait(lambda: partners.count() == 2)
    assert "Applies after reloading" in defaults.drafts.words.text()
    assert "other: " in defaults.drafts.others.text()
    partners.setFocus()
    person.qtbot.keyClick(partners, Key.Key_Down)
    draft = str(file.with_name("draft.gguf"))
    assert desk.defaults.value(path, "draft") == draft
    assert desk.defaults.resolved(path).settings.drafts == "model"
    assert partners.currentItem().text().startswith("draft · ")
    Path(draft).unlink()
    desk.defaults.change(str(file.with_name("other.gguf")), "notes", "changed")
    shown_for(person, file.with_name("other.gguf"))
    shown_for(person, file)
    person.wait(lambda: "no longer fits" in partners.currentItem().text())
    person.qtbot.keyClick(partners, Key.Key_Home)
    assert desk.defaults.own(path) == {}


def test_notes_stay_with_the_file_that_they_were_written_for(person: Any, file: Path) -> None:
    copy = file.with_name("copy.gguf")
    shutil.copy(file, copy)
    defaults = shown_for(person, file)
    defaults.segments.setCurrentIndex(NAMES.index("notes"))
    defaults.notes.setFocus()
    person.qtbot.keyClicks(defaults.notes, "Good at verse.")
    shown_for(person, copy)
    assert defaults.notes.toPlainText() == ""
    assert person.app.desk.defaults.own(str(file)) == {"notes": "Good at verse."}
    shown_for(person, file)
    assert defaults.notes.toPlainText() == "Good at verse."
    defaults.reset_button.click()  # notes are no setting
    assert defaults.notes.toPlainText() == "Good at verse."


@pytest.mark.parametrize("zoom", [pytest.param(100, marks=pytest.mark.soak), 300])
def test_nothing_is_squeezed_in_a_low_window(person: Any, file: Path, zoom: int) -> None:
    defaults = shown_for(person, file)
    view = person.find(LibraryView, "library_view")
    person.app.desk.settings.set("zoom_percent", zoom)
    view.resize(900, 600)
    for place in range(len(NAMES)):
        defaults.segments.setCurrentIndex(place)

        def is_whole() -> bool:
            assert squeezed(view) == []
            return True

        person.qtbot.waitUntil(is_whole, timeout=5000)
        assert view.width() <= 900
        assert view.height() <= 600
