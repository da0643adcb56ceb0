"""A file's chat templates, to be read: as they are, or laid out by their blocks."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextDocument,
)
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from app.library.template_lines import laid_out
from ui.library.header.long_text import fit_for_field
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.widgets.check_box import CheckBox
from ui.widgets.combo import Combo
from ui.widgets.icon_button import IconButton

NONE: Final = "This file has no chat template. Choose a format in the chat settings."
LAID_OUT: Final = "Formatted for reading; ↵ and · are line breaks and spaces in the template."
AS_IT_IS: Final = "The template exactly as in the file."


class _Tags(QSyntaxHighlighter):
    """Statements, expressions and remarks have a colour each; a tag is in one line or more."""

    def __init__(self, document: QTextDocument, theme: Theme) -> None:
        super().__init__(document)
        self._theme = theme

    def highlightBlock(self, text: str) -> None:  # noqa: N802
        colors = self._theme.colors
        kinds = (
            ("{%", "%}", colors.code_keyword),
            ("{{", "}}", colors.code_string),
            ("{#", "#}", colors.code_comment),
        )
        inside, at = max(0, self.previousBlockState()), 0
        while True:
            if inside:
                _, closing, color = kinds[inside - 1]
                end = text.find(closing, at)
                stop = len(text) if end < 0 else end + 2
                look = QTextCharFormat()
                look.setForeground(QColor(color))
                self.setFormat(at, stop - at, look)
                if end < 0:
                    break
                inside, at = 0, stop
            starts = [(text.find(kind[0], at), n) for n, kind in enumerate(kinds, 1)]
            found = min((pair for pair in starts if pair[0] >= 0), default=None)
            if found is None:
                break
            at, inside = found
        self.setCurrentBlockState(inside)


class TemplatePage(QWidget):
    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._templates: dict[str, str] = {}
        self.setObjectName("template_page")
        self.names = Combo(theme, self)
        self.names.setObjectName("template_names")
        self.names.setAccessibleName("Chat template")
        self.lay_out = CheckBox(theme, "Format", self)
        self.lay_out.setObjectName("lay_out_template")
        self.lay_out.setToolTip("One tag per line, blocks indented")
        self.lay_out.setChecked(True)
        self.copy_button = IconButton(theme, "copy", "Copy the template", parent=self)
        self.copy_button.setObjectName("copy_template_button")
        self.text = QPlainTextEdit(self)
        self.text.setObjectName("template_text")
        self.text.setAccessibleName("Chat template")
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self._tags = _Tags(self.text.document(), theme)
        self.words = small_label("", self, name="template_page_words")
        self._row = QHBoxLayout()
        self._row.addWidget(self.names)
        self._row.addWidget(self.lay_out)
        self._row.addStretch(1)
        self._row.addWidget(self.copy_button)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(self._row)
        self._column.addWidget(self.text, 1)
        self._column.addWidget(self.words)
        self.setFocusProxy(self.text)
        self.names.currentTextChanged.connect(self._show)
        self.lay_out.toggled.connect(self._show)
        self.copy_button.clicked.connect(self._copy)
        theme.changed.connect(self._tags.rehighlight)
        theme.space(self._column, 8)
        theme.space(self._row, 8)
        theme.font(self.text, Theme.font_mono, 12)

    def show_templates(self, templates: dict[str, str]) -> None:
        """Name → template, the main one first."""
        self._templates = templates
        self.names.blockSignals(True)
        self.names.clear()
        self.names.addItems(list(templates))
        self.names.blockSignals(False)
        self.names.setVisible(len(templates) > 1)
        self.lay_out.setVisible(bool(templates))
        self.copy_button.setVisible(bool(templates))
        self._show()

    def template(self) -> str:
        return self._templates.get(self.names.currentText(), "")

    def _show(self) -> None:
        is_laid_out = self.lay_out.isChecked()
        template = self.template()
        text = laid_out(template) if is_laid_out else template
        self.text.setPlainText(fit_for_field(text))
        has_any = bool(self._templates)
        self.text.setVisible(has_any)
        self.words.setText((LAID_OUT if is_laid_out else AS_IT_IS) if has_any else NONE)
        self._column.setStretchFactor(self.words, 0 if has_any else 1)
        top, middle = Qt.AlignmentFlag.AlignTop, Qt.AlignmentFlag.AlignCenter
        self.words.setAlignment(top if has_any else middle)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.template())
