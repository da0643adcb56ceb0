"""What a cell holds, in words."""

from __future__ import annotations

import msgspec
from made_cache import slot, told

from app.engine.protocol.cache_messages import CellPart
from app.engine.protocol.frames import Array
from app.engine.protocol.media_messages import MediaSpan
from app.insight.cache.cells import CellMap
from ui.section.cache.words import cell_lines


def test_a_cell_of_a_picture_has_a_place_and_no_id() -> None:
    held = slot(0, [(1, 0, 9)], [CellPart(0, 9, "user", "m1")])
    held = msgspec.structs.replace(
        held,
        token_ids=Array.of("i4", [5, 6, -900, -901, -902, -903, -904, -905, 7]),
        media=[MediaSpan(2, 6, "p", 3, 2)],
    )
    cells = CellMap(told(held, n_used=9))
    where, _ = cell_lines(cells, 7, 1, b"")
    assert where.endswith("picture, row 2, column 3")
    where, _ = cell_lines(cells, 8, 1, b"x")
    assert where.endswith("x · ID 7")
