"""The style sheet of Qt's stock widgets, written from a theme's colours and zoom.

Widgets choose a look by dynamic properties: `plane` (chat, side, card, above, none) for a
background, `kind` for buttons (primary, quiet, chip, danger, choice, compact, tiny), labels (title,
headline, lead, strong, dim, small, error, refusal, caution), fields (tight, tightest), tabs
(pages, panels, segments) and splitters (unseen).
"""

from __future__ import annotations

from typing import Protocol

from ui.look.colors import Colors

CHOICE_PX = 16
"""The box that is ticked, the ring that is chosen."""
RING_INSET = 4
"""How far it stands within its widget, whose border shows the focus."""
ITEM_MARGIN = 3
"""What Qt leaves beside the text of an item, within its padding; headings shall stand above it."""

CELL_PX = 3
HEADING_PX = 5
"""At both sides of a cell and of a heading in a tight table."""


class Themed(Protocol):
    """What the sheet asks of a theme."""

    @property
    def colors(self) -> Colors: ...
    @property
    def scale(self) -> float: ...
    @property
    def small_px(self) -> int: ...
    @property
    def text_px(self) -> int: ...
    @property
    def reading_px(self) -> int: ...
    def px(self, length: float) -> int: ...


def stylesheet(theme: Themed) -> str:
    """The whole application's style sheet."""
    parts = (_planes, _labels, _buttons, _fields, _views, _menus, _choices, _progress)
    return "\n".join(part(theme) for part in parts)


def _size(theme: Themed, size_px: int) -> str:
    return f"{max(1, round(size_px * theme.scale))}px"


def _planes(theme: Themed) -> str:
    c = theme.colors
    return f"""
    QMainWindow, *[plane="chat"] {{ background: {c.chat}; }}
    QDialog, *[plane="side"] {{ background: {c.side}; }}
    *[plane="card"] {{ background: {c.card}; border: none; border-radius: {theme.px(10)}px; }}
    *[plane="above"] {{
        background: {c.card}; border: 1px solid {c.line}; border-radius: {theme.px(10)}px;
    }}
    QSplitter::handle {{ background: {c.line}; }}
    QSplitter[plane="none"]::handle {{ background: transparent; }}
    QSplitter[kind="unseen"]::handle {{ background: {c.side}; }}
    QToolTip {{
        background: {c.card}; color: {c.ink}; border: 1px solid {c.line};
        padding: {theme.px(4)}px {theme.px(8)}px; font-size: {_size(theme, theme.small_px)};
    }}"""


def _labels(theme: Themed) -> str:
    c = theme.colors
    small, text = _size(theme, theme.small_px), theme.px(theme.text_px)
    return f"""
    QLabel {{ color: {c.ink}; background: transparent; }}
    QLabel[kind="title"] {{ font-size: {_size(theme, theme.reading_px)}; font-weight: 600; }}
    QLabel[kind="dim"] {{ color: {c.dim}; }}
    QLabel[kind="small"] {{ color: {c.dim}; font-size: {small}; }}
    QLabel[kind="error"] {{ color: {c.error}; }}
    QLabel[kind="refusal"] {{ color: {c.error}; font-size: {small}; }}
    QLabel[kind="caution"] {{ color: {c.warning}; font-size: {small}; }}
    QLabel[kind="strong"] {{ font-weight: 600; }}
    QLabel[kind="lead"] {{ font-size: {round(text * 1.15)}px; font-weight: 600; }}
    QLabel[kind="headline"] {{ font-size: {round(text * 1.25)}px; font-weight: 600; }}
    QLabel:disabled {{ color: {c.dim}; }}"""


def _buttons(theme: Themed) -> str:
    c = theme.colors
    pad = f"{theme.px(6)}px {theme.px(12)}px"
    small = _size(theme, theme.small_px)
    radius = theme.px(8)
    return f"""
    QPushButton, QToolButton {{
        background: {c.card}; color: {c.ink}; border: 1px solid {c.line};
        border-radius: {radius}px; padding: {pad};
    }}
    QPushButton:hover, QToolButton:hover {{ background: {c.hover}; }}
    QPushButton:pressed, QToolButton:pressed,
    QPushButton:checked, QToolButton:checked {{ background: {c.accent_tone}; }}
    QPushButton:focus, QToolButton:focus {{ border: 1px solid {c.accent}; outline: none; }}
    QPushButton:disabled, QToolButton:disabled {{ color: {c.dim}; background: {c.side}; }}
    QPushButton:checked:disabled {{ background: {c.hover}; }}
    QDialogButtonBox {{ dialogbuttonbox-buttons-have-icons: 0; button-layout: 3; }}
    QFileDialog QToolButton {{ padding: {theme.px(4)}px; }}
    QToolButton::menu-indicator, QPushButton::menu-indicator {{ image: none; width: 0px; }}
    *[kind="primary"] {{
        background: {c.accent}; color: {c.on_accent}; border: 1px solid {c.accent};
        font-weight: 600;
    }}
    *[kind="primary"]:hover {{ background: {c.accent_hover}; }}
    *[kind="primary"]:pressed {{ background: {c.accent_hover}; }}
    *[kind="primary"]:focus {{ border: 1px solid {c.ink}; }}
    *[kind="primary"]:disabled {{
        background: {c.hover}; color: {c.dim}; border: 1px solid {c.hover};
    }}
    *[kind="quiet"] {{ background: transparent; border: 1px solid transparent; }}
    *[kind="quiet"]:hover {{ background: {c.hover}; }}
    *[kind="quiet"]:pressed, *[kind="quiet"]:checked {{ background: {c.accent_tone}; }}
    *[kind="quiet"]:focus {{ border: 1px solid {c.accent}; }}
    *[kind="quiet"]:disabled {{ background: transparent; }}
    *[kind="chip"] {{ border-radius: {theme.px(14)}px; padding: {theme.px(4)}px {theme.px(12)}px; }}
    *[kind="danger"] {{ color: {c.error}; }}
    *[kind="choice"] {{ padding: {theme.px(6)}px {theme.px(4)}px; }}
    *[kind="compact"] {{ padding: {theme.px(4)}px {theme.px(10)}px; font-size: {small}; }}
    *[kind="tiny"] {{ padding: {theme.px(3)}px {theme.px(10)}px; font-size: {small}; }}"""


def _fields(theme: Themed) -> str:
    c = theme.colors
    # Fields stand on cards: in the dark only a deeper plane tells them apart.
    field = c.chat if c.is_dark else c.card
    return f"""
    QLineEdit, QPlainTextEdit, QTextEdit, QSpinBox, QDoubleSpinBox, QComboBox {{
        background: {field}; color: {c.ink}; border: 1px solid {c.line};
        border-radius: {theme.px(8)}px; padding: {theme.px(5)}px {theme.px(8)}px;
        selection-background-color: {c.selection}; selection-color: {c.ink};
        placeholder-text-color: {c.dim};
    }}
    QLineEdit:focus, QPlainTextEdit:focus, QTextEdit:focus, QSpinBox:focus,
    QDoubleSpinBox:focus, QComboBox:focus {{ border: 1px solid {c.accent}; }}
    QLineEdit:disabled, QPlainTextEdit:disabled, QTextEdit:disabled, QSpinBox:disabled,
    QDoubleSpinBox:disabled, QComboBox:disabled {{ color: {c.dim}; background: {c.side}; }}
    QLineEdit[kind="tight"] {{ padding: {theme.px(2)}px {theme.px(6)}px; }}
    QLineEdit[kind="tightest"] {{ padding: {theme.px(1)}px {theme.px(6)}px; }}
    QLineEdit[kind="tight"][refused="true"], QLineEdit[kind="tightest"][refused="true"] {{
        border-color: {c.error}; color: {c.error};
    }}
    QComboBox::drop-down {{ border: none; width: {theme.px(20)}px; }}
    QComboBox QAbstractItemView {{
        background: {c.card}; color: {c.ink}; border: 1px solid {c.line};
        selection-background-color: {c.accent_tone}; selection-color: {c.ink};
    }}"""


def _views(theme: Themed) -> str:
    c = theme.colors
    radius = theme.px(8)
    return f"""
    QAbstractItemView {{
        background: transparent; color: {c.ink}; border: none; outline: none;
        selection-background-color: {c.accent_tone}; selection-color: {c.ink};
    }}
    /* A list that is a window of its own, as a completer's, has nothing behind it. */
    QAbstractItemView:window {{ background: {c.card}; border: 1px solid {c.line}; }}
    QAbstractItemView::item {{
        padding: {theme.px(6)}px {theme.px(8)}px; border-radius: {radius}px;
    }}
    QAbstractItemView::item:hover {{ background: {c.hover}; }}
    QAbstractItemView::item:disabled {{ color: {c.dim}; }}
    QAbstractItemView::item:selected {{ background: {c.accent_tone}; color: {c.ink}; }}
    QHeaderView::section {{
        background: {c.side}; color: {c.dim}; border: none;
        padding: {theme.px(2)}px {theme.px(8) + ITEM_MARGIN}px;
    }}
    QTableView[kind="tight"]::item {{ padding: {theme.px(2)}px {theme.px(CELL_PX)}px; }}
    QTableView[kind="tight"] QHeaderView {{ font-size: {_size(theme, theme.small_px)}; }}
    QTableView[kind="tight"] QHeaderView::section {{
        background: transparent; padding: {theme.px(2)}px {theme.px(HEADING_PX)}px;
    }}
    /* Their headings say by an arrow of text what is sorted by. */
    QTableView[kind="tight"] QHeaderView::up-arrow,
    QTableView[kind="tight"] QHeaderView::down-arrow {{ image: none; width: 0; height: 0; }}
    QAbstractScrollArea::corner {{ background: transparent; border: none; }}
    QScrollArea {{ background: transparent; border: none; }}
    QScrollBar:vertical {{ background: transparent; width: {theme.px(10)}px; margin: 0; }}
    QScrollBar:horizontal {{ background: transparent; height: {theme.px(10)}px; margin: 0; }}
    QScrollBar::handle {{
        background: {c.line}; border-radius: {theme.px(3)}px; margin: {theme.px(2)}px;
        min-height: {theme.px(28)}px; min-width: {theme.px(28)}px;
    }}
    QScrollBar::handle:hover, QScrollBar::handle:pressed {{ background: {c.dim}; }}
    QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
    QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}"""


def _menus(theme: Themed) -> str:
    c = theme.colors
    return f"""
    QMenu {{
        background: {c.card}; color: {c.ink}; border: 1px solid {c.line};
        padding: {theme.px(4)}px;
    }}
    QMenu::item {{
        padding: {theme.px(6)}px {theme.px(16)}px; border-radius: {theme.px(6)}px;
    }}
    QMenu::item:selected {{ background: {c.accent_tone}; color: {c.ink}; }}
    QMenu::item:disabled {{ color: {c.dim}; }}
    QMenu::separator {{ height: 1px; background: {c.line}; margin: {theme.px(4)}px; }}
    QTabWidget::pane {{ border: none; }}
    QTabBar {{ outline: none; }}  /* Qt's own frame would go through the label */
    QTabBar::tab {{
        background: transparent; color: {c.dim}; border: 1px solid transparent;
        border-radius: {theme.px(8)}px; padding: {theme.px(6)}px {theme.px(12)}px;
    }}
    QTabBar::tab:selected {{ background: {c.hover if c.is_dark else c.card}; color: {c.ink}; }}
    QTabBar::tab:focus:selected {{ border: 1px solid {c.accent}; }}
    QTabBar::tab:hover {{ color: {c.ink}; }}
    QTabBar[kind="panels"]::tab {{ padding: {theme.px(6)}px {theme.px(6)}px; }}
    QTabBar[kind="segments"]::tab {{
        padding: {theme.px(3)}px {theme.px(10)}px; border-radius: {theme.px(6)}px;
        border: 1px solid transparent; color: {c.dim};
    }}
    QTabBar[kind="segments"]::tab:selected {{ background: {c.accent_tone}; color: {c.ink}; }}
    QTabBar[kind="segments"]::tab:focus:selected {{ border: 1px solid {c.accent}; }}
    QTabBar[kind="pages"]::scroller {{ width: {theme.px(48)}px; }}
    QTabBar[kind="pages"] QToolButton {{ padding: 0; background: {c.side}; }}"""


def _choices(theme: Themed) -> str:
    c = theme.colors
    line = theme.px(1.5)
    inside = theme.px(CHOICE_PX) - 2 * line
    return f"""
    QCheckBox, QRadioButton {{
        color: {c.ink}; spacing: {theme.px(8)}px; padding: {theme.px(3)}px {RING_INSET - 1}px;
        border: 1px solid transparent; border-radius: {theme.px(6)}px; outline: none;
    }}
    QCheckBox:disabled, QRadioButton:disabled {{ color: {c.dim}; }}
    QCheckBox:focus, QRadioButton:focus {{ border: 1px solid {c.accent}; }}
    QCheckBox::indicator, QRadioButton::indicator {{
        width: {inside}px; height: {inside}px; border: {line}px solid {c.dim};
        background: transparent;
    }}
    QCheckBox::indicator {{ border-radius: {theme.px(4)}px; }}
    QRadioButton::indicator {{ border-radius: {theme.px(8)}px; }}
    QCheckBox::indicator:checked {{ background: {c.accent}; border-color: {c.accent}; }}
    QRadioButton::indicator:checked {{
        border-color: {c.accent};
        background: qradialgradient(cx: 0.5, cy: 0.5, radius: 0.5, fx: 0.5, fy: 0.5,
            stop: 0 {c.accent}, stop: 0.5 {c.accent}, stop: 0.6 transparent);
    }}
    QCheckBox::indicator:checked:disabled {{ background: {c.dim}; border-color: {c.dim}; }}
    QSlider::groove:horizontal {{
        background: {c.line}; height: {theme.px(4)}px; border-radius: {theme.px(2)}px;
    }}
    QSlider::sub-page:horizontal {{ background: {c.accent}; border-radius: {theme.px(2)}px; }}
    QSlider::handle:horizontal {{
        background: {c.accent}; width: {theme.px(14)}px; border-radius: {theme.px(7)}px;
        margin: -{theme.px(5)}px 0;
    }}
    QSlider::handle:horizontal:focus {{
        background: {c.card}; border: {theme.px(3)}px solid {c.accent};
        width: {theme.px(10)}px; margin: -{theme.px(6)}px 0; border-radius: {theme.px(8)}px;
    }}"""


def _progress(theme: Themed) -> str:
    c = theme.colors
    return f"""
    QProgressBar {{
        background: {c.line}; border: none; border-radius: {theme.px(3)}px;
        max-height: {theme.px(6)}px; color: transparent;
    }}
    QProgressBar::chunk {{ background: {c.accent}; border-radius: {theme.px(3)}px; }}
    QGroupBox {{
        border: none; margin-top: {theme.px(20)}px; font-weight: 600; color: {c.ink};
    }}
    QGroupBox::title {{ subcontrol-origin: margin; left: 0; }}"""
