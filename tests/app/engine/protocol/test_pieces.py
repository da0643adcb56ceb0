"""What IDs stand for on our side of the wire."""

from __future__ import annotations

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import VocabularyTable
from app.engine.protocol.pieces import Pieces


def pieces(texts: list[bytes], attributes: list[int]) -> Pieces:
    ends = [0]
    for text in texts:
        ends.append(ends[-1] + len(text))
    return Pieces(
        VocabularyTable(
            Array.of("i8", ends),
            b"".join(texts),
            Array.of("i4", attributes),
        )
    )


def test_each_id_has_its_bytes_text_and_kind() -> None:
    found = pieces([b"<s>", b"a", b"\xff", b"own", b"", b"?"], [8, 4, 32, 16 | 64, 2, 1])
    assert [found.piece(i) for i in range(-1, 7)] == [
        *(b"", b"<s>", b"a", b"\xff", b"own", b"", b"?", b""),
    ]
    assert found.text(2) == "\ufffd"
    assert [found.kind(i) for i in range(-1, 7)] == [
        *(None, "control", "normal", "byte", "user-defined", "unused", "unknown", None),
    ]


def test_what_llama_cpp_takes_for_control_is_control_whatever_else_it_is() -> None:
    found = pieces([b"</s>", b"a"], [16 | 8, 4])
    assert found.kind(0) == "control"
    assert found.control_ids == {0}
