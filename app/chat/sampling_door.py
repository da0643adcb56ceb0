"""The part of the desk for the sampling chain of the open chat.

It only delegates; `app.chat.desk` tells what holds for every method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from app.chat.inspection.questions import Questions
from app.chat.settings.levels import Levels
from app.chat.settings.resolved import IN_CHAIN
from app.chat.settings.sampler_links import OFF, Link, Links, links_of, values_of_links
from app.chat.settings.settings import SettingRefused
from app.engine.protocol.frames import clean_text
from app.engine.protocol.messages import CheckGrammar, GrammarChecked

RESET: Final = "The chat's own sampling chain is gone: what stands above it counts."
_OF_THE_CHAIN: Final = frozenset((*IN_CHAIN, "chain", OFF))


class SamplingDoor:
    """Mixed into `Desk`, which makes `_levels` and `_questions`."""

    _levels: Levels
    _questions: Questions

    def sampling_links(self) -> Links:
        """The chain that the next reply of the open chat is drawn with, and what is switched off
        in it."""
        return links_of(self._levels.resolved(), self._levels.own("chat"))

    def set_sampling_links(self, links: Sequence[Link], undo: str = "") -> str:
        """Make this the chain of the open chat; returns why it cannot be, or nothing. `undo`: what
        is said of it, with a way back."""
        own = self._levels.own("chat")
        try:
            values = values_of_links(links, own, self._levels.if_chat_set)
        except SettingRefused as refused:
            return str(refused)
        if values != own and undo:
            self._levels.put_with_undo(values, _OF_THE_CHAIN, undo)
        elif values != own:
            self._levels.put("chat", values)
        return ""

    def reset_sampling_links(self) -> None:
        """Let the levels below the chat say the chain, with a way back."""
        own = self._levels.own("chat")
        values = {name: value for name, value in own.items() if name not in _OF_THE_CHAIN}
        if values != own:
            self._levels.put_with_undo(values, _OF_THE_CHAIN, RESET)

    def sets_own_chain(self) -> bool:
        """Whether the open chat says anything of its chain itself."""
        return bool(_OF_THE_CHAIN & self._levels.own("chat").keys())

    def check_grammar(
        self,
        grammar: str,
        json_schema: str,
        then: Callable[[GrammarChecked], None],
        failed: Callable[[str], None],
    ) -> None:
        """Ask whether a reply could be bound by a grammar or a schema."""
        command = CheckGrammar(0, clean_text(grammar), clean_text(json_schema))
        self._questions.ask(command, GrammarChecked, then, failed)
