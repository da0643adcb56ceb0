"""B06: the marker with which a template closes a turn, where it is no token of its own."""

from __future__ import annotations

from typing import Any

import pytest
from each import each

from app.engine.prompts.turn_end import marker_in, turn_end
from app.engine.protocol.template_messages import TemplateFailed
from app.engine.text.text import Match, StopMatcher


class Vocabulary:
    """Knows one control token; everything else is a token per character."""

    control_texts = ("<|im_end|>",)
    bos_text = "<s>"
    eos_text = "</s>"
    bos_id = None
    add_bos = False

    def tokenize(self, text: str, special: bool = False, add_bos: bool = False) -> list[int]:
        return [0] if special and text == "<|im_end|>" else [ord(c) for c in text]

    def piece(self, token_id: int, /) -> bytes:
        return chr(token_id).encode()


@pytest.mark.parametrize(
    ("after", "marker"),
    [
        ("<|odd|>\n", "<|odd|>\n"),
        ("<|odd|>", "<|odd|>"),
        ("\n[/END]\n\n", "[/END]\n"),
        ("<|im_end|>\n", ""),  # one token
        ("<|im_end|><|odd|>", ""),  # begins with one
        ("\n\nUser: ", ""),  # words are no marker
        ("", ""),
        ("\n", ""),
        ("<", ""),
    ],
)
def test_what_is_a_marker(after: str, marker: str) -> None:
    assert marker_in(after, Vocabulary()) == marker


def test_it_is_found_by_rendering() -> None:
    def render(_source: str, messages: list[dict[str, Any]], **_: object) -> str:
        return "".join(f"<{m['role']}>{m['content']}<|odd|>\n" for m in messages)

    def refuse(*_: object, **__: object) -> str:
        raise TemplateFailed("raised", "No.")

    assert turn_end("x", Vocabulary(), render) == "<|odd|>\n"
    assert turn_end(None, Vocabulary(), render) == ""
    assert turn_end(" ", Vocabulary(), render) == ""
    assert turn_end("x", Vocabulary(), refuse) == ""
    assert turn_end("x", Vocabulary(), lambda *_, **__: "nothing of it") == ""


@each("size", [1, 2, 3, 100])
@each(
    ("text", "shown", "matched"),
    [
        ("yes<|odd|>", "yes", Match("turn_end", "<|odd|>")),
        ("yes<|odd|>\nmore", "yes", Match("turn_end", "<|odd|>")),
        ("a <|odd|> b", "a <|odd|> b", None),
        ("yes<|odd", "yes<|odd", None),
        ("yesEND<|odd|>", "yes", Match("stop_string", "END")),
    ],
)
def test_a_reply_ends_at_it(size: int, text: str, shown: str, matched: Match | None) -> None:
    matcher = StopMatcher(["END"], "<|odd|>\n")
    out = "".join(matcher.feed(text[i : i + size]) for i in range(0, len(text), size))
    if matcher.matched is None:
        out += matcher.flush()
    assert (out, matcher.matched) == (shown, matched)


def test_a_stop_string_of_the_user_still_needs_its_line_break() -> None:
    matcher = StopMatcher(["END\n"])
    assert matcher.feed("yes END") + matcher.flush() == "yes END"
