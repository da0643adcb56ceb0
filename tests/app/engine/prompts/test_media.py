"""Pictures where a template has no place for them, or text stands in their place."""

from __future__ import annotations

from typing import Any

import pytest
from test_prompt import CHATML, MadeUpVocabulary, _render

from app.engine.prompts.media import Seen, media_ids
from app.engine.prompts.prompt import BuiltPrompt, build_prompt
from app.engine.protocol.media_messages import SHOWN, Media
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt

ANT = Media("ant", "image", b"ant", 4)


def _built(template: str, *messages: ChatMessage, **fields: Any) -> BuiltPrompt:
    prompt = ChatPrompt(list(messages), template=template, **fields)
    seen = [Seen(media_ids(b"ant", 3), is_cells=True)]
    return build_prompt(prompt, MadeUpVocabulary(), None, _render, lambda _: seen)


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages[-1].content }}",
        "{% for m in messages %}{{ m.content.split('k')[0] }}{% endfor %}",
        "{% for m in messages %}{{ m.content | upper }}{% endfor %}",
        "always the same",
    ],
)
def test_a_picture_that_a_template_loses_is_said(template: str) -> None:
    """The model would reply to what it never saw."""
    built = _built(template, ChatMessage("user", "Look", media=[ANT]), ChatMessage("user", "Well?"))
    assert built.media == []
    assert [note.kind for note in built.notes] == ["media_left_out"]
    assert "no place for a picture or sound" in built.notes[0].sentence


def test_a_picture_that_has_its_place_is_not_said() -> None:
    for template in (CHATML, "{{ messages[0].content }} and {{ messages[0].content }}"):
        built = _built(template, ChatMessage("user", "Look", media=[ANT]))
        assert built.notes == []
        assert {span.media_id for span in built.media} == {"ant"}


def test_a_reply_that_is_continued_has_no_character_in_a_pictures_place() -> None:
    begun = ChatMessage("assistant", "Here it is", media=[ANT])
    built = _built(CHATML, ChatMessage("user", "Draw"), begun, continue_last=True)
    assert SHOWN not in built.rendered
    assert built.rendered.endswith("Here it is")
    assert [note.kind for note in built.notes] == ["media_left_out"]
