"""What the template editor asks for, and what it does with answers that come late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from app.chat.settings.formats import OWN, PLAIN
from app.chat.settings.resolved import Resolved, resolve
from app.chat.settings.settings import Settings, changed
from app.chat.settings.template_preview import NO_TEMPLATE, Preview
from app.refusal import Refusal
from ui.library.defaults.template_editor import PLAIN_WORDS, TemplateEditor
from ui.look.theme import Theme


class PreviewDesk:
    """Answers when it is told to; a newer question takes the place of an older one."""

    def __init__(self) -> None:
        self.app_settings = Settings(chat_format=OWN, chat_template="{{ slow }}")
        self.defaults = self.previews = self
        self.asked: list[str | None] = []
        self._then: Callable[[Preview], None] = lambda _: None

    def resolved(self, path: str) -> Resolved:
        return resolve(self.app_settings)

    def ask(
        self,
        path: str,
        template: str | None,
        system: str,
        then: Callable[[Preview], None],
        settings: Settings,
    ) -> None:
        self.asked.append(template)
        self._then = then

    def apply(self, name: str, value: object) -> str:
        try:
            self.app_settings = changed(self.app_settings, name, value)
        except Refusal as refused:
            return refused.sentence
        return ""

    def answer(self, preview: Preview) -> None:
        self._then(preview)


@pytest.fixture
def desk() -> PreviewDesk:
    return PreviewDesk()


@pytest.fixture
def editor(qtbot: QtBot, desk: PreviewDesk, theme: Theme) -> TemplateEditor:
    made = TemplateEditor(desk, theme, desk.apply)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.show()
    made.show_path("/a.gguf")
    return made


def test_a_slow_answer_is_waited_for(editor: TemplateEditor, desk: PreviewDesk) -> None:
    """Whatever happens meanwhile does not ask for the same anew, which would drop it."""
    editor.show_path("/a.gguf")
    assert desk.asked == ["{{ slow }}"]
    desk.answer(Preview("{{ slow }}", "rendered"))
    assert editor.preview.toPlainText() == "rendered"
    editor.show_path("/a.gguf")
    assert desk.asked == ["{{ slow }}"] * 2  # the file may be another by now


def test_an_answer_to_what_is_no_more_asked_is_not_shown(
    editor: TemplateEditor, desk: PreviewDesk
) -> None:
    desk.app_settings = replace(desk.app_settings, chat_format=PLAIN)
    editor.show_path("/a.gguf")
    desk.answer(Preview("{{ slow }}", "rendered"))
    assert editor.preview.toPlainText() == ""
    assert editor.words.text() == PLAIN_WORDS


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [("The template did not finish within 3 seconds.", "error"), (NO_TEMPLATE, "small")],
)
def test_a_fault_without_a_line_looks_like_one(
    editor: TemplateEditor, desk: PreviewDesk, sentence: str, kind: str
) -> None:
    desk.answer(Preview("{{ slow }}", sentence=sentence))
    assert editor.words.text() == sentence
    assert editor.words.property("kind") == kind


def test_variables_are_told_rendered_and_refused(editor: TemplateEditor, desk: PreviewDesk) -> None:
    words = editor.variable_words
    assert not words.isVisible()
    desk.answer(Preview("{{ slow }}", "rendered", variables=("date_string", "slow")))
    assert words.text() == "The template also reads: date_string, slow."
    editor.variables.setPlainText('{"slow": true}')
    editor.variables.tell_now()
    assert desk.app_settings.template_variables == '{"slow": true}'
    assert len(desk.asked) == 2  # it is rendered with them
    editor.variables.setPlainText('{"slow": ')
    editor.variables.tell_now()
    assert words.text().startswith("Template variables aren't valid JSON")
    assert words.property("kind") == "error"
    assert desk.app_settings.template_variables == '{"slow": true}'
    editor.show_path("/a.gguf")  # something else changed: what is being written stays
    assert editor.variables.text() == '{"slow": '
    editor.variables.setPlainText("")
    editor.variables.tell_now()
    assert desk.app_settings.template_variables == ""
    assert words.property("kind") == "small"
