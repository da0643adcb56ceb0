"""What binds every draw of the open chat: lengths, bans, a grammar. It follows what counts."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.chat.events import ConversationOpened, EngineStateChanged, LevelsChanged, SettingsChanged
from app.chat.settings.not_taken import why_not_setting
from ui.section.card_column import CardColumn
from ui.section.panel import Panel, Tools
from ui.section.sampling.draw_rules_card import NAMES, DrawRulesCard
from ui.section.sampling.grammar_editor import GrammarEditor


class RulesRoom(Panel):
    title = "Rules for every token"

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, parent)
        self._desk = tools.desk
        self.setObjectName("rules_room")
        self.grammar = GrammarEditor(tools.theme, tools.desk.questions.check_grammar, self)
        self.rules = DrawRulesCard(tools.theme, self)
        self.area = CardColumn(self)
        self.area.fill(self.grammar, self.rules)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.area)
        bridge = tools.bridge
        bridge.on(
            (SettingsChanged, LevelsChanged, ConversationOpened, EngineStateChanged), self._follow
        )
        bridge.on(EngineStateChanged, self.grammar.recheck)
        self.rules.changed.connect(self._on_rule)
        self.grammar.changed.connect(self._on_grammar)
        self._theme.space(self.area.rows, 8)

    def _refresh_message(self) -> None:
        self._follow()

    def _follow(self) -> None:
        if self._is_active:
            resolved = self._desk.levels.resolved()
            remote = self._desk.loader.remote
            self.rules.show_settings(resolved)
            self.rules.show_away({name: why_not_setting(name, remote) for name in NAMES})
            self.grammar.show_away(
                {name: why_not_setting(name, remote) for name in ("grammar", "json_schema")}
            )
            self.grammar.show_chat(self._desk.shelf.open.id)
            self.grammar.show_settings(resolved)

    def _on_rule(self, name: str, value: object) -> None:
        self._desk.levels.change("chat", name, value)

    def _on_grammar(self, grammar: str, json_schema: str) -> None:
        """One of the two at most may say something: what says nothing first."""
        given = (("grammar", grammar), ("json_schema", json_schema))
        for name, text in sorted(given, key=lambda each: bool(each[1])):
            if getattr(self._desk.levels.resolved().settings, name) != text:
                self._desk.levels.change("chat", name, text)
