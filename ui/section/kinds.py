"""The panels of the section, in the order of their tabs."""

from __future__ import annotations

from typing import Final

from ui.section.panel import Panel, PanelKind


def _tokens() -> type[Panel]:
    from ui.section.tokens_panel import TokensPanel

    return TokensPanel


KINDS: Final = (PanelKind("Tokens", _tokens),)
