"""The panels of the section, in the order of their tabs. Six of them fit its least width
(`test_every_tab_is_in_view`)."""

from __future__ import annotations

from typing import Final

from ui.section.panel import Panel, PanelKind


def _tokens() -> type[Panel]:
    from ui.section.tokens.panel import TokensPanel

    return TokensPanel


def _inside() -> type[Panel]:
    from ui.section.inside.panel import InsidePanel

    return InsidePanel


def _cache() -> type[Panel]:
    from ui.section.cache.panel import CachePanel

    return CachePanel


def _prompt() -> type[Panel]:
    from ui.section.prompt.panel import PromptPanel

    return PromptPanel


def _sampling() -> type[Panel]:
    from ui.section.sampling.panel import SamplingPanel

    return SamplingPanel


def _time() -> type[Panel]:
    from ui.section.time.panel import TimePanel

    return TimePanel


KINDS: Final = (
    PanelKind("Tokens", _tokens),
    PanelKind("Inside", _inside),
    PanelKind("Sampling", _sampling),
    PanelKind("Cache", _cache),
    PanelKind("Prompt", _prompt),
    PanelKind("Time", _time),
)
