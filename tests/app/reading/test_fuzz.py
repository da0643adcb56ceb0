"""Real documents with bytes changed, cut and doubled, read by the real process.

Each gives a text or a sentence, in bounded time; nothing is written, and no process is left.
"""

from __future__ import annotations

import io
import os
import random
import zipfile
from pathlib import Path

import psutil
import pytest

from app.reading.client import Reading
from app.reading.document import DocumentRefused

MADE = Path(__file__).parents[2] / "files" / "documents"
NAMES = sorted(path.name for path in MADE.iterdir() if path.suffix not in (".py", ".csv"))
N_ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "40"))
TOKENS = (
    b"<w:p>", b"</w:p>", b"<![CDATA[", b"<!--", b"&#0;", b"\xff\xfe", b"obj", b"endobj", b"stream",
    b"/Length 2147483647", b"99999999999", b"-1", b"[", b"<<", b">>", b"%", b"\0" * 64, b"A" * 4096,
)  # fmt: skip


def mutated(raw: bytes, chance: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(chance.choice((1, 3, 20, 200))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                data[at:at] = chance.choice(TOKENS)
            case 2:
                del data[at : at + chance.choice((1, 8, 200))]
            case 3:
                part = data[at : at + chance.choice((10, 500))]
                data[at:at] = part * chance.choice((1, 3, 50))
            case _:
                data[at : at + 4] = chance.randbytes(4)
    return bytes(data)


def mutated_file(name: str, chance: random.Random) -> bytes:
    """Of an archive its parts, more often than the archive: those are what parsers see."""
    raw = (MADE / name).read_bytes()
    if not zipfile.is_zipfile(io.BytesIO(raw)) or chance.random() < 0.2:
        return mutated(raw, chance)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(out, "w") as new:
        for part in old.namelist():
            content = old.read(part)
            is_hit = part.endswith((".xml", ".xhtml", ".rels", ".opf")) and chance.random() < 0.3
            new.writestr(part, mutated(content, chance) if is_hit else content)
    return out.getvalue()


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_whatever_it_is_it_costs_a_sentence(name: str, tmp_path: Path) -> None:
    reading = Reading(deadline_s=60)
    refused: list[DocumentRefused] = []
    for number in range(N_ROUNDS):
        raw = mutated_file(name, random.Random(f"{name} {number}"))
        (tmp_path / name).write_bytes(raw)
        try:
            document = reading.read(str(tmp_path / name))
        except DocumentRefused as why:
            refused.append(why)
        else:
            starts = [place.start for place in document.places]
            assert starts == sorted(starts)
            document.text.encode()
    assert all(name in why.sentence and why.kind != "Takes too long" for why in refused)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    left = [child.cmdline() for child in psutil.Process().children()]
    assert not [command for command in left if "--child=documents" in command]
