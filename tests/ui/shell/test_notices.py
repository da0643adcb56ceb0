"""Banners and toasts."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.shell.notices import TOAST_LIMIT, TOAST_MS, Act, BannerArea, Notice, NoticeCard, ToastArea

CRASH = Notice("engine", "error", "The engine crashed.", "line 1\nline 2")


@pytest.fixture
def banners(qtbot: QtBot, theme: Theme) -> BannerArea:
    made = BannerArea(theme)
    qtbot.addWidget(made)
    return made


@pytest.fixture
def host(qtbot: QtBot) -> QWidget:
    made = QWidget()
    qtbot.addWidget(made)
    made.resize(700, 400)
    made.show()
    made.activateWindow()
    qtbot.waitUntil(made.isActiveWindow)
    return made


@pytest.fixture
def toasts(host: QWidget, theme: Theme) -> ToastArea:
    return ToastArea(theme, host)


def button(card: NoticeCard, text: str) -> QPushButton:
    return next(each for each in card.findChildren(QPushButton) if each.text() == text)


def test_a_banner_takes_no_room_until_it_is_needed(banners: BannerArea) -> None:
    assert banners.isHidden()
    banners.show_notice(CRASH)
    assert banners.isVisible()
    banners.dismiss("engine")
    assert banners.isHidden()


def test_evidence_is_folded_until_it_is_asked_for(banners: BannerArea) -> None:
    banners.show_notice(CRASH)
    card = banners.card("engine")
    assert card is not None
    assert card.evidence is not None
    assert not card.evidence.isVisible()
    button(card, "Details").click()
    assert card.evidence.isVisible()
    assert card.evidence.toPlainText() == "line 1\nline 2"


def test_the_same_words_again_leave_the_card_as_it_is(banners: BannerArea) -> None:
    banners.show_notice(CRASH)
    first = banners.card("engine")
    banners.show_notice(CRASH)
    assert banners.card("engine") is first
    banners.show_notice(Notice("engine", "error", "Not a GGUF."))
    card = banners.card("engine")
    assert card is not None
    assert card.sentence.text() == "Not a GGUF."


def test_two_states_have_two_banners(banners: BannerArea) -> None:
    banners.show_notice(CRASH)
    banners.show_notice(Notice("store", "warning", "Read-only."))
    banners.dismiss("engine")
    assert banners.isVisible()
    assert banners.card("store") is not None


def test_a_banner_can_be_put_away(banners: BannerArea) -> None:
    banners.show_notice(CRASH)
    card = banners.card("engine")
    assert card is not None
    close = card.findChild(QPushButton, "close_notice_button")
    assert close is not None
    assert close.accessibleName()
    close.click()
    assert banners.card("engine") is None


def test_words_are_shown_as_they_are(banners: BannerArea) -> None:
    banners.show_notice(Notice("x", "error", "<b>No</b> file & <img src=x>"))
    card = banners.card("x")
    assert card is not None
    assert card.sentence.text() == "<b>No</b> file & <img src=x>"
    assert card.sentence.textFormat().name == "PlainText"


def test_a_toast_lies_inside_its_host_and_offers_its_act(toasts: ToastArea) -> None:
    done: list[int] = []
    toasts.show_notice(
        Notice("k", "info", "In the trash.", acts=(Act("Undo", lambda: done.append(1)),))
    )
    assert toasts.isVisible()
    parent = toasts.parentWidget()
    assert parent is not None
    assert parent.rect().contains(toasts.geometry())
    button(toasts.cards()[0], "Undo").click()
    assert done == [1]


def test_toasts_follow_their_host(toasts: ToastArea, host: QWidget) -> None:
    toasts.show_notice(Notice("k", "info", "A sentence that needs several lines. " * 5))
    for size in ((300, 300), (1200, 700)):
        host.resize(*size)
        assert host.rect().contains(toasts.geometry())


def test_nothing_is_hidden_by_toasts(toasts: ToastArea, host: QWidget, qtbot: QtBot) -> None:
    host.resize(800, 600)
    column = QVBoxLayout(host)
    text = QWidget()
    column.addWidget(text)
    text.show()
    for number in (1, 2):
        toasts.show_notice(Notice(str(number), "info", f"Number {number}"))
        top = toasts.y()
        qtbot.waitUntil(lambda top=top: text.geometry().bottom() < top)
        sentences = [card.sentence for card in toasts.cards()]
        assert all(each.height() >= each.fontMetrics().height() for each in sentences)
    for card in toasts.cards():
        toasts.dismiss(card.notice.key)
    qtbot.waitUntil(lambda: text.geometry().bottom() > 550)


def test_where_height_is_short_one_toast_stands(toasts: ToastArea, host: QWidget) -> None:
    host.resize(800, 300)
    for number in range(3):
        toasts.show_notice(Notice(str(number), "info", f"Number {number}"))
    assert [card.notice.key for card in toasts.cards()] == ["2"]


def test_a_toast_that_is_higher_than_its_host_begins_in_view_and_scrolls(
    toasts: ToastArea, host: QWidget, qtbot: QtBot
) -> None:
    host.resize(400, 90)
    toasts.show_notice(Notice("k", "warning", "\n".join(f"Line {n}" for n in range(12))))
    (card,) = toasts.cards()
    assert host.rect().contains(toasts.geometry())
    qtbot.waitUntil(lambda: toasts.verticalScrollBar().maximum() > 0)
    assert card.height() >= 12 * card.sentence.fontMetrics().height()
    assert card.mapTo(host, QPoint()).y() == toasts.y()
    close = card.findChild(QWidget, "close_notice_button")
    assert close is not None
    assert toasts.geometry().contains(close.geometry().translated(card.mapTo(host, QPoint())))
    bar = toasts.verticalScrollBar()
    bar.setValue(bar.maximum())
    assert card.mapTo(host, card.rect().bottomLeft()).y() == toasts.geometry().bottom()


@pytest.mark.parametrize(("length", "ms"), [(10, TOAST_MS), (400, 24_000)])
def test_a_long_toast_stays_until_it_is_read(toasts: ToastArea, length: int, ms: int) -> None:
    toasts.show_notice(Notice("k", "info", "x" * length))
    timer = toasts.cards()[0].findChild(QTimer)
    assert timer is not None
    assert timer.interval() == ms


def test_only_a_few_toasts_stand_at_once(toasts: ToastArea) -> None:
    for number in range(6):
        toasts.show_notice(Notice(str(number), "info", f"Number {number}"))
    assert [card.notice.key for card in toasts.cards()] == ["3", "4", "5"][-TOAST_LIMIT:]


def test_the_same_key_replaces_its_toast(toasts: ToastArea) -> None:
    toasts.show_notice(Notice("k", "info", "One."))
    toasts.show_notice(Notice("k", "info", "Two."))
    assert [card.notice.sentence for card in toasts.cards()] == ["Two."]


def expire(card: NoticeCard) -> None:
    timer = card.findChild(QTimer)
    assert timer is not None
    assert timer.isActive()
    timer.timeout.emit()


def test_a_toast_leaves_by_itself_but_not_from_under_the_keyboard(toasts: ToastArea) -> None:
    toasts.show_notice(Notice("k", "info", "Done.", acts=(Act("Undo", lambda: None),)))
    card = toasts.cards()[0]
    undo = button(card, "Undo")
    card.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, False)
    undo.setFocus()
    expire(card)
    assert toasts.cards() == [card]
    undo.clearFocus()
    expire(card)
    assert toasts.cards() == []
    assert not toasts.isVisible()


def test_the_focus_is_handed_on_when_its_card_goes(toasts: ToastArea, qtbot: QtBot) -> None:
    toasts.show_notice(Notice("k", "info", "Done.", acts=(Act("Undo", lambda: None),)))
    button(toasts.cards()[0], "Undo").setFocus()
    with qtbot.waitSignal(toasts.focus_released):
        toasts.dismiss("k")
