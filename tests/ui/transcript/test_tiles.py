"""The pictures of a message: their places follow from what is stored, in any number."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

from each import each

from models.records import Attachment, Message, Role
from ui.look.theme import Theme
from ui.markdown.styles import Styles
from ui.transcript.chips import chip_row, row_height
from ui.transcript.summary import spoken_text
from ui.transcript.tiles import MORE_PICTURES, MOST, OPEN_COUNTED, TALLEST, WIDEST, tile_rows

NOON = datetime(2026, 5, 3, 12, tzinfo=UTC)


def picture(number: int, **details: object) -> Attachment:
    return Attachment(
        f"p{number}", "c", f"{number}.png", "", 9, NOON, tokens=16, kind="picture", details=details
    )


@each(
    ("details", "size"),
    [
        ({"width": 640, "height": 480}, (320, 240)),
        ({"width": 100, "height": 60}, (100, 60)),
        ({"width": 60_000, "height": 10}, (WIDEST, 48)),
        ({"width": 10, "height": 60_000}, (48, TALLEST)),
        ({"width": "wide", "height": None}, (116, 116)),
        ({}, (116, 116)),
        ({"width": -4, "height": 0}, (116, 116)),
    ],
)
def test_one_is_as_large_as_it_is_within_bounds(
    qapp: object, details: dict[str, object], size: tuple[float, float]
) -> None:
    styles = Styles(Theme("light"))
    (tile,) = tile_rows([picture(1, **details)], 700, styles)
    assert (tile.rect.width(), tile.rect.height()) == size
    assert tile.rect.right() == 700
    assert tile.label == "Open the picture 1.png"
    (narrow,) = tile_rows([picture(1, **details)], 90, styles)
    assert narrow.rect.left() >= 0


def test_many_stand_in_a_grid_and_chips_below_it(qapp: object) -> None:
    styles = Styles(Theme("light"))
    pictures = [picture(n) for n in range(40)]
    text = Attachment("t", "c", "notes.txt", "text", 4, NOON)
    for count in (2, 5, MOST, MOST + 1, 40):
        for width in (90.0, 300.0, 700.0):
            *tiles, chip = chip_row([*pictures[:count], text], width, styles)
            assert len(tiles) == min(count, MOST)
            assert all(t.rect.left() >= 0 and t.rect.right() <= width + 0.01 for t in tiles)
            assert not any(
                one.rect.intersects(other.rect) for one, other in pairwise([*tiles, chip])
            )
            assert chip.rect.top() > tiles[-1].rect.bottom()
            assert row_height([*tiles, chip], styles) > chip.rect.bottom()
            if count > MOST:
                assert tiles[-1].name == MORE_PICTURES
                assert tiles[-1].label == f"{count - MOST + 1} more pictures"
    counted = tile_rows(pictures[:2], 700, styles, has_costs=True)
    assert {tile.name for tile in counted} == {OPEN_COUNTED}
    assert counted[0].label.endswith(", 16 tokens")


def test_a_screen_reader_says_what_is_attached() -> None:
    text = Attachment("t", "c", "notes.txt", "text", 4, NOON)
    message = Message(
        "m", "c", None, Role.USER, "Look", NOON, attachments=(picture(1), picture(2), text)
    )
    assert spoken_text(message) == (
        "You: Look\nAttached: picture 1.png, picture 2.png, file notes.txt."
    )
