"""What was attached to a message, as it stands above the bubble."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from models.records import Attachment, Message, Role
from ui.look.theme import Theme
from ui.markdown.styles import Styles
from ui.transcript.chips import OPEN, chip_row, row_height
from ui.transcript.item import CONTENT, MessageItem

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def attached(number: int, name: str = "") -> Attachment:
    return Attachment(f"a{number}", "c", name or f"{number}.txt", "t", 10, WHEN, tokens=3)


@pytest.fixture
def styles(qapp: object) -> Styles:
    return Styles(Theme("light"))


def item(styles: Styles, text: str, n_attached: int) -> MessageItem:
    attachments = tuple(attached(n) for n in range(n_attached))
    message = Message("m", "c", None, Role.USER, text, WHEN, attachments=attachments)
    made = MessageItem(message, styles, 600)
    made.ensure(0, 1000)
    return made


def test_chips_end_at_the_right_and_go_on_in_lines(styles: Styles) -> None:
    chips = chip_row([attached(n) for n in range(9)], 400, styles)
    assert [chip.payload for chip in chips] == [f"a{n}" for n in range(9)]
    lines = sorted({chip.rect.top() for chip in chips})
    assert len(lines) > 1
    for top in lines:
        right = max(chip.rect.right() for chip in chips if chip.rect.top() == top)
        assert right == pytest.approx(400)
    assert all(chip.rect.left() >= 0 for chip in chips)
    assert row_height([], styles) == 0


def test_a_name_of_any_length_fits(styles: Styles) -> None:
    (chip,) = chip_row([attached(1, "x" * 200)], 250, styles)
    assert chip.rect.width() <= 250


def test_the_bubble_stands_below_them(styles: Styles) -> None:
    plain, with_chip = item(styles, "words", 0), item(styles, "words", 1)
    chip = next(a for a in with_chip.actions(0, 1000) if a.name == OPEN)
    assert chip.label == "Open 0.txt · 10 bytes · 3 tokens"
    assert with_chip.section_rect(CONTENT).top() > chip.rect.bottom()
    grown = with_chip.height - plain.height
    assert grown == pytest.approx(chip.rect.bottom() + styles.px(6))


def test_attachments_alone_have_no_bubble(styles: Styles) -> None:
    alone = item(styles, "", 2)
    assert alone.section_rect(CONTENT).isEmpty()
    assert alone.height > 28
