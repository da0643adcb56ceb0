"""The program carries its type: the same letters on every machine, with what is drawn of signs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QFont, QFontDatabase, QFontInfo, QFontMetricsF, QRawFont
from PySide6.QtWidgets import QApplication

from app.insight.trace.tokens_shown import SIGNS
from ui.look import fonts
from ui.look.theme import Theme

FOLDER = Path(fonts.__file__).parents[2] / "resources" / "fonts"
WEIGHTS = (QFont.Weight.Normal, QFont.Weight.DemiBold)
BARS = "▁▂▃▄▅▆▇█"
MARKS = "‹›·−→↑↓←…“”×÷≤≥±✓●▸⌘⇧⌥"


@pytest.mark.parametrize("is_italic", [False, True])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_text_is_inter_and_each_weight_has_its_own_file(
    qapp: QApplication, weight: QFont.Weight, is_italic: bool
) -> None:
    font = fonts.text_font(14, weight=weight)
    font.setItalic(is_italic)
    found = QRawFont.fromFont(font)
    style = ("SemiBold" if weight == QFont.Weight.DemiBold else "") + " Italic" * is_italic
    assert found.familyName() == fonts.TEXT_FAMILY
    assert found.styleName() == (style.strip() or "Regular")


def test_code_is_jetbrains_mono_and_every_letter_as_wide(qapp: QApplication) -> None:
    for weight in WEIGHTS:
        font = fonts.mono_font(14)
        font.setWeight(weight)
        assert QRawFont.fromFont(font).familyName() == fonts.MONO_FAMILY
        metrics = QFontMetricsF(font)
        assert {metrics.horizontalAdvance(sign * 10) for sign in "iW.→"} == {
            metrics.horizontalAdvance("m" * 10)
        }


def test_no_font_becomes_known_but_the_carried_ones_at_the_start() -> None:
    """One that comes later changes which font a character of another script comes from, and what
    is laid out by then is drawn with wrong glyphs."""
    adding = [
        path.name
        for path in Path(fonts.__file__).parent.rglob("*.py")
        if "addApplicationFont" in path.read_text("utf-8")
    ]
    assert adding == ["fonts.py"]


def test_figures_are_tabular(qapp: QApplication) -> None:
    metrics = QFontMetricsF(fonts.text_font(14))
    assert len({metrics.horizontalAdvance(figure) for figure in "0123456789"}) == 1


def test_every_sign_of_ours_is_carried(qapp: QApplication) -> None:
    carried = [
        QRawFont(str(FOLDER / name), 14)
        for name in ("CutawayInter-Regular.otf", "CutawayMono-Regular.ttf")
    ]
    lacking = {
        sign
        for sign in (*SIGNS, *BARS, *MARKS)
        if not any(font.supportsCharacter(ord(sign)) for font in carried)
    }
    assert lacking == set()


def test_a_chosen_family_that_is_not_there_gives_way_to_the_carried_one(
    qapp: QApplication,
) -> None:
    text, code = fonts.text_font(14, family="No Such Font"), fonts.mono_font(14, "No Such Font")
    assert QFontInfo(text).family() == fonts.TEXT_FAMILY
    assert QFontInfo(code).family() == fonts.MONO_FAMILY


def test_the_whole_window_is_dressed_in_it(qapp: QApplication) -> None:
    Theme("light").apply_to(qapp)
    assert QFontInfo(qapp.font()).family() == fonts.TEXT_FAMILY


def test_what_lies_there_is_what_is_loaded_and_each_has_its_licence(qapp: QApplication) -> None:
    fonts.load()
    files = {path.name for path in FOLDER.iterdir() if path.suffix in (".otf", ".ttf")}
    assert files == set(fonts._FILES)
    for family, known_as in fonts.KNOWN_AS.items():
        assert QFontDatabase.hasFamily(family)
        licence = (FOLDER / f"OFL-{known_as.replace(' ', '')}.txt").read_text()
        assert f"The {known_as} Project Authors" in licence
        assert "SIL OPEN FONT LICENSE Version 1.1" in licence


NOTHING = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}</dir><cachedir>{folder}</cachedir></fontconfig>
"""
PROGRAM = """
from PySide6.QtGui import QFontInfo, QFontMetricsF
from PySide6.QtWidgets import QApplication, QLabel
app = QApplication(["cutaway"])
from ui.look.theme import Theme
theme = Theme("light")
theme.apply_to(app)
label = QLabel("Hello 日本 🙂")
label.show()
app.processEvents()
for font in (label.font(), theme.font_reply(), theme.font_mono()):
    print(QFontInfo(font).family(), QFontMetricsF(font).horizontalAdvance("Hello"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere fonts cannot be taken away")
def test_without_any_font_of_the_systems_letters_are_as_wide(
    qapp: QApplication, tmp_path: Path
) -> None:
    bare = tmp_path / "fonts.conf"
    bare.write_text(NOTHING.format(folder=tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "FONTCONFIG_FILE": str(bare)},
        cwd=FOLDER.parents[1],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    theme = Theme("light")
    here = [
        f"{QFontInfo(font).family()} {QFontMetricsF(font).horizontalAdvance('Hello')}"
        for font in (theme.font_text(), theme.font_reply(), theme.font_mono())
    ]
    assert done.stdout.split("\n")[:-1] == here
    assert done.stderr == ""
