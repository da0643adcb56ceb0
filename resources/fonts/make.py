"""Makes the carried fonts of the released ones: under family names of their own, so that another
release of the same family on somebody's machine is never taken for them, and without what is not
used (stylistic alternates). Every character of the release is kept.

    python resources/fonts/make.py Inter-Regular.otf … JetBrainsMono-SemiBold.ttf

with fonttools and cffsubr installed, which the program does not need. Made of Inter 4.1 and
JetBrains Mono 2.304. Neither reserves its name; both stay under the SIL Open Font License.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cffsubr
from fontTools import subset

FAMILIES = {"Inter": "Cutaway Inter", "JetBrains Mono": "Cutaway Mono"}
FEATURES = ["kern", "mark", "mkmk", "ccmp", "locl", "tnum", "case", "frac"]
WINDOWS = (3, 1, 0x409)
TYPOGRAPHIC = (16, 17, 18, 21, 22, 25)


def make(source: Path, folder: Path) -> None:
    options = subset.Options(
        layout_features=FEATURES, name_IDs=["*"], hinting=True, notdef_outline=True
    )
    font = subset.load_font(str(source), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=font.getBestCmap())
    subsetter.subset(font)
    names = font["name"]
    family = FAMILIES[names.getBestFamilyName()]
    style, version = names.getBestSubFamilyName(), names.getDebugName(5)
    names.names = [
        each for each in names.names if each.platformID == 3 and each.nameID not in TYPOGRAPHIC
    ]
    # Windows knows four styles of a family: others are families, and say below what they are.
    weight, slope = style.replace("Italic", "").strip(), "Italic" if "Italic" in style else ""
    is_plain = weight in ("", "Regular")
    own = {
        1: family if is_plain else f"{family} {weight}",
        2: slope or "Regular",
        3: f"{family} {style}; of {version}",
        4: f"{family} {style}",
        6: f"{family}-{style}".replace(" ", ""),
    }
    if not is_plain:
        own |= {16: family, 17: style}
    for name_id, text in own.items():
        names.setName(text, name_id, *WINDOWS)
    if "CFF " in font:
        cff = font["CFF "].cff
        cff.fontNames[0], cff.topDictIndex[0].FamilyName = own[6], family
        cff.topDictIndex[0].FullName = own[4]
        cffsubr.subroutinize(font, keep_glyph_names=False)
    font.save(folder / f"{own[6]}{source.suffix}")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        make(Path(name), Path(__file__).parent)
