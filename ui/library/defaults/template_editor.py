"""A chat template beside the chat that it makes: the file's own to be read, or one's own to write.

Each change is rendered; a fault is said with its line, which is marked in the source. In the
rendered chat control tokens are framed by colour and written as they are; what a message said
stands on a tone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QResizeEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QSplitter,
    QTextEdit,
    QVBoxLayout,
    QWidget,
)

from app.chat.settings.formats import FORMATS, OWN, PLAIN, template_of
from app.chat.settings.settings import Settings
from app.chat.settings.template_preview import NO_TEMPLATE, Preview
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.settings.fields import ListField, TextField
from ui.widgets.kit import push_button, rest_timer
from ui.widgets.utf16 import utf16_length

if TYPE_CHECKING:
    from app.chat.desk import Desk

SIDE_BY_SIDE_FROM_PX = 640
RENDER_AFTER_MS = 300
MAX_NAMES = 12
PLAIN_WORDS = (
    "The plain format has no template: each message follows a name and ends with a blank line."
)
FAULT = "The template in this file has an error. Replies fail until you choose another format."
Apply = Callable[[str, object], str]


class SourceField(TextField):
    """The template's source; a line can be marked as faulty."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__("Jinja source: messages, bos_token, eos_token, add_generation_prompt")
        self.setParent(parent)
        self._theme = theme
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        policy = self.sizePolicy()
        policy.setVerticalPolicy(policy.Policy.Expanding)
        self.setSizePolicy(policy)

    def mark_line(self, line: int) -> None:
        """Lines count from 1; 0: none."""
        marks = []
        block = self.document().findBlockByNumber(line - 1)
        if line and block.isValid():
            mark = QTextEdit.ExtraSelection()
            mark.format.setBackground(QColor(self._theme.colors.found))
            mark.format.setProperty(QTextCharFormat.Property.FullWidthSelection, True)
            mark.cursor = QTextCursor(block)
            marks.append(mark)
        self.setExtraSelections(marks)


class TemplateEditor(QWidget):
    """`show_path` says whose template. `apply` sets a value and returns why it is refused."""

    def __init__(
        self, desk: Desk, theme: Theme, apply: Apply, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._desk = desk
        self._theme = theme
        self._apply = apply
        self._path = ""
        self._format = ""
        self._own_source = ""
        self._asked: tuple[str, str | None, Settings] | None = None
        self.setObjectName("template_editor")
        self.format_label = QLabel("Chat format", self)
        formats = [("", "From the file"), *((each.name, each.title) for each in FORMATS)]
        self.format_field = ListField(theme, formats, self)
        self.format_field.setObjectName("template_format")
        self.format_field.setAccessibleName("Chat format for this model")
        self.format_label.setBuddy(self.format_field)
        self.edit_button = push_button(
            "Edit a copy",
            self,
            "edit_template_button",
            spoken="Write your own template, starting from this one",
        )
        self.words = small_label("", self, name="template_words")
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.source = SourceField(theme, self)
        self.source.setObjectName("template_source")
        self.preview = QPlainTextEdit(self)
        self.preview.setObjectName("template_preview")
        self.preview.setAccessibleName("Preview: a short chat rendered with this template")
        self.preview.setReadOnly(True)
        self.preview.setTabChangesFocus(True)
        self.variables_label = QLabel("Variables", self)
        self.variables = TextField('{"name": true}', self)
        self.variables.setObjectName("template_variables")
        self.variables.setAccessibleName("Template variables as JSON")
        self.variables_label.setBuddy(self.variables)
        self.variable_words = small_label("", self, name="template_variable_words")
        self.variable_words.setTextFormat(Qt.TextFormat.PlainText)
        self._refused = ""
        self._names: tuple[str, ...] = ()
        self.panes = QSplitter(self)
        self.panes.setProperty("plane", "none")
        self.panes.setChildrenCollapsible(False)
        self.panes.addWidget(self.source)
        self.panes.addWidget(self.preview)
        self._later = rest_timer(self, self._render, RENDER_AFTER_MS)
        self._build()
        theme.changed.connect(self._arrange)
        theme.space(self._head, 8)
        theme.space(self._column, 8)
        theme.size(self.format_field, 180)
        theme.space(self._foot, 8)
        for pane in (self.source, self.preview, self.variables):
            theme.font(pane, Theme.font_mono)
        for pane in (self.source, self.preview):
            theme.at_least(pane, 120, 72)
        theme.size(self.variables, height=56)
        theme.keep(self.panes, QSplitter.setHandleWidth, 8)
        self._arrange()

    def _build(self) -> None:
        self._head = QHBoxLayout()
        self._head.addWidget(self.format_label)
        self._head.addWidget(self.format_field)
        self._head.addWidget(self.edit_button)
        self._head.addStretch(1)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(self._head)
        self._column.addWidget(self.words)
        self._column.addWidget(self.panes, 1)
        self._foot = QHBoxLayout()
        self._foot.addWidget(self.variables_label, 0, Qt.AlignmentFlag.AlignTop)
        self._foot.addWidget(self.variables, 1)
        self._column.addLayout(self._foot)
        self._column.addWidget(self.variable_words)
        self.format_field.changed_by_user.connect(self._on_format_chosen)
        self.edit_button.clicked.connect(self._on_edit)
        self.source.changed_by_user.connect(self._on_written)
        self.source.textChanged.connect(self._on_typed)
        self.variables.changed_by_user.connect(self._on_variables)

    # --- showing ------------------------------------------------------------------------

    def show_path(self, path: str) -> None:
        """Show what counts for this file; what is being written stays."""
        is_other = path != self._path
        if is_other:
            self._path, self._own_source = path, ""
            self._refused, self._names = "", ()
            self.preview.setPlainText("")
            self._tell("")
        settings = self._desk.defaults.resolved(path).settings
        if not self._refused:
            self.variables.show_value(settings.template_variables)
        self._show_names()
        was, self._format = self._format, settings.chat_format
        self.format_field.show_value(self._format)
        is_own = self._format == OWN
        self.source.setReadOnly(not is_own)
        spoken = "My own chat template" if is_own else "Chat template (read-only)"
        self.source.setAccessibleName(spoken)
        self.edit_button.setVisible(not is_own and self._format != PLAIN)
        if is_own:
            self.source.show_value(settings.chat_template)
        elif is_other or was != self._format:
            self.source.show_value(template_of(self._format) or self._own_source)
        self._render()

    def _render(self) -> None:
        self._later.stop()
        if not self._path or not self.isVisible():
            return
        if self._format == PLAIN:
            self._asked = None
            self.source.show_value("")
            self.source.mark_line(0)
            self.preview.setPlainText("")
            self._tell(PLAIN_WORDS)
            return
        typed = self.source.text()
        # An empty one of one's own is as if it were not there.
        is_file = self._format == "" or (self._format == OWN and not typed.strip())
        template = None if is_file else template_of(self._format) or typed
        settings = self._desk.defaults.resolved(self._path).settings
        path, asked = self._path, (self._path, template, settings)
        if asked == self._asked:
            return  # asked again, an answer that takes long would never be shown

        def take(found: Preview) -> None:
            if asked == self._asked:
                self._asked = None
                self._take(path, template, found)

        self._asked = asked
        self._desk.previews.ask(path, template, settings.system_prompt, take, settings)

    def _take(self, path: str, template: str | None, found: Preview) -> None:
        if path != self._path:
            return
        if template is None:
            self._own_source = found.source
            if self._format == "":
                self.source.show_value(found.source)
        self.edit_button.setEnabled(True)
        self._names = found.variables
        self._show_names()
        is_marked = found.line if self._format != OWN or template is not None else 0
        self.source.mark_line(is_marked)
        line = f"Line {found.line}: " if found.line and "line " not in found.sentence else ""
        said = [f"{line}{found.sentence}" if found.sentence else "", *found.notes]
        if found.sentence and found.line and self._format == "":
            said.append(FAULT)
        is_fault = found.sentence not in ("", NO_TEMPLATE)
        self._tell(" ".join(each for each in said if each), is_fault)
        self._show_text(found)

    def _tell(self, words: str, is_fault: bool = False) -> None:
        self.words.setText(words)
        self.words.setVisible(bool(words))
        self.words.setProperty("kind", "error" if is_fault else "small")
        self.words.style().polish(self.words)

    def _show_text(self, found: Preview) -> None:
        """What somebody wrote on a tone, control tokens in the accent's colour."""
        bar = self.preview.verticalScrollBar()
        place = bar.value()
        self.preview.setPlainText(found.text)
        colors, marks = self._theme.colors, []
        for stretch in found.stretches:
            mark = QTextEdit.ExtraSelection()
            if stretch.kind == "control":
                mark.format.setForeground(QColor(colors.accent))
                mark.format.setFontWeight(600)
            else:
                mark.format.setBackground(QColor(colors.accent_tone))
            cursor = QTextCursor(self.preview.document())
            cursor.setPosition(utf16_length(found.text[: stretch.start]))
            end = utf16_length(found.text[: stretch.end])
            cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
            mark.cursor = cursor
            marks.append(mark)
        self.preview.setExtraSelections(marks)
        bar.setValue(place)

    # --- acts ---------------------------------------------------------------------------

    def _on_format_chosen(self, name: object) -> None:
        if name == OWN and not self._desk.defaults.resolved(self._path).settings.chat_template:
            self._on_edit()
        else:
            self._say(self._apply("chat_format", name))

    def _on_edit(self) -> None:
        """A copy of what is used now becomes one's own, unless there is one already."""
        settings = self._desk.defaults.resolved(self._path).settings
        used = template_of(self._format) or self._own_source
        refusal = "" if settings.chat_template else self._apply("chat_template", used)
        self._say(refusal or self._apply("chat_format", OWN))
        self.source.setFocus(Qt.FocusReason.OtherFocusReason)

    def _on_written(self, text: object) -> None:
        if self._format == OWN:
            self._say(self._apply("chat_template", text))

    def _on_variables(self, text: object) -> None:
        self._refused = self._apply("template_variables", text)
        self._show_names()
        self._render()

    def _show_names(self) -> None:
        """Why the variables are refused, else which ones the template reads."""
        words = self._refused
        if not words and self._names:
            words = f"The template also reads: {', '.join(self._names[:MAX_NAMES])}."
        self.variable_words.setText(words)
        self.variable_words.setVisible(bool(words))
        self.variable_words.setProperty("kind", "error" if self._refused else "small")
        self.variable_words.style().polish(self.variable_words)

    def _on_typed(self) -> None:
        if self._format == OWN:
            self._later.start()

    def _say(self, refusal: str) -> None:
        if refusal:
            self._tell(refusal, True)

    # --- size ---------------------------------------------------------------------------

    def showEvent(self, event: object) -> None:
        super().showEvent(event)  # type: ignore[arg-type]
        self._render()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        is_wide = self.width() >= self._theme.px(SIDE_BY_SIDE_FROM_PX)
        side = Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical
        if self.panes.orientation() is not side:
            self.panes.setOrientation(side)
            self.panes.setSizes([1, 1])
