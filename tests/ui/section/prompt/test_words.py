"""What is said of a prompt, a part, a token and a difference."""

from __future__ import annotations

import pytest
from made_prompts import prompt_of, scores

from app.chat.inspection.prompt_reading import PromptOf
from app.engine.protocol.prompt_messages import ShownPart
from app.insight.prompt.parts import Difference, Surprise, counts
from models.records import MessageCounts
from ui.section.prompt import words as say

OF = prompt_of(
    "r",
    ("scaffold", [b"<user>"], None),
    ("user", [b"Hi", b" \xc3", b"\xbc", b"x" * 30], "u"),
    ("attachment", [b"file"], "u"),
    ("assistant", [b"Yes"], "a"),
    returned=["a"],
    retokenized=["b", "c"],
)
NUMBERS = {"u": 3, "a": 4}


def test_sizes_and_shares() -> None:
    assert say.size_words(OF) == "7 tokens · 48 bytes"
    assert say.size_words(prompt_of(None, ("text", [b"a"], None))) == "1 token · 1 byte"
    assert say.size_words(PromptOf(None, "", "four")) == "4 characters"
    assert say.size_words(PromptOf(None, "")) == ""
    assert say.context_words(OF) == "< 1% of the context window of 4,096 tokens."
    assert say.context_words(PromptOf(None, "", "four")) == ""
    assert OF.tokens is not None
    assert [say.count_words(count) for count in counts(OF.tokens)] == [
        "template 1 (14%)",
        "you 4 (57%)",
        "attachment 1 (14%)",
        "reply 1 (14%)",
    ]


def test_what_the_cache_and_the_replies_did() -> None:
    assert say.cache_words(None) == say.cache_words(MessageCounts(reused=3)) == ""
    assert say.reply_words(OF) == (
        "1 reply is included with its original token IDs. 2 replies were tokenised again because "
        "the template changes the text."
    )
    assert say.reply_words(prompt_of(None, ("text", [b"a"], None))) == ""


def test_what_cannot_be_told_apart_is_said() -> None:
    assert say.unknown_words(OF) == say.unknown_words(PromptOf(None, "", "four")) == ""
    assert say.unknown_words(prompt_of(None, ("unknown", [b"a"], None))) == say.UNKNOWN


def test_parts_are_named_by_their_message() -> None:
    assert say.part_words(ShownPart(0, 1, "user", "u"), NUMBERS) == "you, message 3"
    assert say.part_words(ShownPart(0, 1, "scaffold"), NUMBERS) == "template"
    assert say.part_words(ShownPart(0, 1, "odd", "gone"), NUMBERS) == "odd"


def test_a_token_in_three_lines() -> None:
    tokens = OF.tokens
    assert tokens is not None
    assert say.token_words(tokens, 0, NUMBERS, None) == (
        "template · token 1 of 7",
        "<user> · ID 100 · control",
        "6 bytes 3C 75 73 65 72 3E",
    )
    assert say.token_words(tokens, 2, NUMBERS, None)[1:] == (
        "·⟨C3⟩ · ID 102 · normal",
        "2 bytes 20 C3",
    )
    assert say.token_words(tokens, 4, NUMBERS, None)[2] == "30 bytes " + "78 " * 24 + "…"
    surprise = Surprise(7)
    surprise.take(scores(1, [0.25], [12]))
    whence = [say.token_words(tokens, place, NUMBERS, surprise)[0] for place in range(3)]
    assert whence == [
        "template · token 1 of 7 · no earlier token to compare with",
        "you, message 3 · token 2 of 7 · surprise 2.00 bits · rank 12",
        "you, message 3 · token 3 of 7 · surprise not computed yet",
    ]


def test_the_mean_of_all_and_of_each_origin() -> None:
    tokens, surprise = OF.tokens, Surprise(7)
    assert tokens is not None
    assert say.mean_words(tokens, surprise) == ""
    surprise.take(scores(1, [0.5, 0.25, 0.5, 0.25, 0.125, 1.0], [1] * 6))
    assert say.mean_words(tokens, surprise) == (
        "Mean 1.50 bits per token · you 1.50 · attachment 3.00 · reply 0.00"
    )
    assert say.reading_words(surprise) == "Processing the prompt again: 7 of 7 tokens."


@pytest.mark.parametrize(
    ("found", "figures", "words"),
    [
        (
            Difference(120, 0, 33, 0),
            MessageCounts(reused=119),
            (
                "Same beginning: 120 tokens, reusable from the KV cache. Nothing removed since "
                "the previous turn. Added (tinted): 33 tokens. Recorded as cached: 119 (the last "
                "token of a reply is drawn but not processed)."
            ),
        ),
        (
            Difference(1, 2, 9, 4),
            None,
            (
                "Same beginning: 1 token, reusable from the KV cache. Removed (struck through): "
                "2 tokens of the previous turn. Added (tinted): 9 tokens. The last 4 tokens are "
                "unchanged but follow a change, so they are processed again."
            ),
        ),
    ],
)
def test_a_difference(found: Difference, figures: MessageCounts | None, words: str) -> None:
    assert say.difference_words(found, figures) == words


def test_parts_of_documents_say_where_they_stand() -> None:
    parts = [
        ShownPart(0, 4, "attachment", "u"),
        ShownPart(4, 9, "passage", "u"),
        ShownPart(9, 10, "attachment", "u"),
        ShownPart(10, 12, "passage", "u"),
        ShownPart(12, 13, "passage", "gone"),
    ]
    named = say.passage_words(parts, {"u": ["page 2 of a.pdf", "page 7 of a.pdf"], None: []})
    said = [say.part_words(part, {"u": 3}, named) for part in parts]
    assert said[1] == "page 2 of a.pdf, message 3"
    assert said[3] == "page 7 of a.pdf, message 3"
    assert said[0] == "attachment, message 3"
    assert said[4] == "part of a document"
