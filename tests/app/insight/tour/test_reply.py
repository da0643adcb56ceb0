"""Facts of a reply, of its text, and of what was measured."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from made_prompts import shown
from made_traces import trace_of
from recording_desk import loaded, message

from app.engine.protocol.cache_messages import StepMeasured
from app.engine.protocol.machine_messages import FlashCompared, FlashSide
from app.engine.protocol.messages import StageEffect
from app.engine.protocol.prompt_messages import ShownPart
from app.engine.protocol.stages import Dist, Temperature, TopK, TopP
from app.insight.prompt.parts import tokens_of
from app.insight.tour.facts import Fact
from app.insight.tour.measured import flash_facts, step_facts
from app.insight.tour.reply import ENDINGS, reply_facts, settings_facts, speed_facts
from app.insight.tour.text import place_facts, prompt_facts
from app.insight.tour.token import BY_HAND, MOST_PROBABLE, drawn_facts, token_facts
from models.records import MessageCounts, Role

PIECES = (b" Paris", b",", b"\xff")


def reply(**fields: Any) -> Any:
    return message(2, Role.ASSISTANT, "Paris", **fields)


# --- the token ----------------------------------------------------------------------------------


def test_a_drawn_token_tells_what_was_recorded() -> None:
    (token,) = trace_of([b" Paris"], [0.78])
    token = msgspec.structs.replace(
        token,
        log_total=17.3 - math.log(0.78),
        uniform=0.23034,
        stages=[StageEffect("top-k", 40, 0.79), StageEffect("dist", 5, 0.814)],
        ms=16.21,
    )
    found = drawn_facts(token, 0)
    assert {name: fact.text for name, fact in found.items()} == {
        "token": "·Paris",
        "id": "100",
        "nth": "1",
        "probability": "78.0%",
        "rank": "1",
        "n_bytes": "6",
        "token_bytes": "20 50 61 72 69 73",
        "token_time": "16.2 ms",
        "choice": "0.23",
        "logit": "+17.3",
        "n_left": "5",
        "uniform": "0.2303",
        "draw_share": "81.4%",
    }
    assert found["probability"].value == pytest.approx(math.log(0.78))
    assert found["logit"].value == pytest.approx(17.3)
    assert found["draw_share"].value == 0.814


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"uniform": None}, MOST_PROBABLE), ({"uniform": None, "chosen": True}, BY_HAND)],
)
def test_without_a_draw_there_is_no_share_of_it(changed: dict[str, Any], said: str) -> None:
    (token,) = trace_of([b" Paris"])
    token = msgspec.structs.replace(token, stages=[], **changed)
    found = token_facts(reply(seed=7), token, 0, None)
    assert found["choice"].text == said
    assert not {"uniform", "draw_share", "n_left", "seed", "logit"} & set(found)


def test_a_token_is_told_with_its_reply_and_its_file() -> None:
    counts = MessageCounts(prompt_tokens=39, generated=2)
    (token,) = trace_of([b" Paris"])
    found = token_facts(reply(seed=2841769287, counts=counts), token, 3, loaded())
    assert found["seed"] == Fact(2841769287, "2841769287")
    assert (found["position"].value, found["n_reply"].value) == (39 + 3 - 1, 2)
    assert found["n_layer"].value == 30


# --- the reply ----------------------------------------------------------------------------------


def test_a_reply_tells_its_counts() -> None:
    counts = MessageCounts(
        prompt_tokens=1039, reused=19, generated=12, total_s=4.2, context_used=1051
    )
    found = reply_facts(reply(counts=counts, stop_reason="end_token"))
    assert {name: fact.text for name, fact in found.items()} == {
        "n_prompt": "1,039",
        "n_reply": "12",
        "n_cells": "1,051",
        "n_reused": "19 tokens",
        "reply_time": "4.20 s",
        "ending": "the model wrote its end token",
    }
    assert found["reply_time"].value == 4.2


def test_what_was_not_counted_is_not_there() -> None:
    assert reply_facts(reply()) == {}
    assert reply_facts(reply(counts=MessageCounts(reused=0), stop_reason="engine_gone")) == {}


@pytest.mark.parametrize("reason", ENDINGS)
def test_an_ending_is_a_clause(reason: str) -> None:
    assert reply_facts(reply(stop_reason=reason))["ending"].text == ENDINGS[reason]


def timeline(read: tuple[float, int], first: float, written: tuple[float, int]) -> dict[str, Any]:
    rows = [["queued", 3.0], ["prefill", *read], ["first", first, 1], ["decode", *written]]
    return {"timeline": rows}


def test_speeds_are_tokens_in_their_own_time() -> None:
    found = speed_facts(reply(settings=timeline((90.5, 39), 1.0, (177.4, 11))))
    assert found["prefill_speed"].value == pytest.approx(39 / 0.0905)
    assert found["decode_speed"].value == pytest.approx(11 / 0.1774)
    assert found["read_speedup"].value == pytest.approx(39 / 0.0905 / (11 / 0.1774))
    assert (found["prefill_speed"].text, found["decode_speed"].text) == (
        "431 tokens/s",
        "62.0 tokens/s",
    )
    assert found["read_speedup"].text == "6.9"


def test_of_a_few_tokens_there_is_no_speed() -> None:
    few = speed_facts(reply(settings=timeline((90.5, 7), 1.0, (177.4, 3))))
    assert few == {}
    only_written = speed_facts(reply(settings=timeline((90.5, 7), 1.0, (177.4, 4))))
    assert set(only_written) == {"decode_speed"}
    assert speed_facts(reply(settings={"timeline": "broken"})) == {}
    assert speed_facts(reply()) == {}


def test_settings_are_those_of_stages_that_act() -> None:
    found = settings_facts((TopK(40), TopP(0.95), Temperature(0.8), Dist()))
    assert {name: (fact.value, fact.text) for name, fact in found.items()} == {
        "top_k": (40, "40"),
        "top_p": (0.95, "95%"),
        "temperature": (0.8, "0.80"),
    }
    assert settings_facts((TopK(0), TopP(1.0), Temperature(0.8), Temperature(1.2), Dist())) == {}
    assert settings_facts(()) == {}


# --- the text -----------------------------------------------------------------------------------


class Text:
    """“The capital is Paris”, of which each token has its place as its ID."""

    pieces = (b"The", b" capital", b" is", b" Paris")

    def __len__(self) -> int:
        return len(self.pieces)

    def piece(self, place: int) -> bytes:
        return self.pieces[place]

    def target(self, place: int) -> int | None:
        return place + 1 if place + 1 < len(self) else None


def test_a_place_tells_what_was_read_and_what_came_next() -> None:
    found = place_facts(Text(), 1)
    assert {name: fact.text for name, fact in found.items()} == {
        "read": "·capital",
        "position": "1",
        "n_before": "1 token",
        "token": "·is",
        "id": "2",
        "n_bytes": "3",
        "token_bytes": "20 69 73",
    }
    assert set(place_facts(Text(), 3)) == {"read", "position", "n_before"}
    assert place_facts(Text(), 3)["n_before"].text == "3 tokens"


def prompt(*parts: tuple[str, bytes]) -> Any:
    """Each part's text, cut before each space into tokens."""
    pieces: list[bytes] = []
    made = []
    for origin, text in parts:
        cut = text.replace(b" ", b"\0 ").split(b"\0")
        made.append(ShownPart(len(pieces), len(pieces) + len(cut), origin))
        pieces += cut
    return tokens_of(shown(made, tuple(pieces)))


def test_a_prompt_tells_how_much_of_it_is_the_templates() -> None:
    found = prompt_facts(
        prompt(
            ("scaffold", b"<s> user"),
            ("user", b"Hello there"),
            ("scaffold", b"<e>"),
            ("assistant", b"Hi"),
            ("scaffold", b"<e> user"),
            ("user", b"What is\nit now?"),
            ("scaffold", b"<e> assistant :"),
        )
    )
    assert {name: fact.text for name, fact in found.items()} == {
        "n_template": "8",
        "n_message_tokens": "3 tokens",
        "n_message_words": "4 words",
    }


def test_a_plain_text_has_no_template() -> None:
    found = prompt_facts(prompt(("scaffold", b"<s>"), ("text", b"The capital")))
    assert {name: fact.value for name, fact in found.items()} == {
        "n_message_tokens": 2,
        "n_message_words": 2,
    }


@pytest.mark.parametrize("text", ["日本の首都は", "กรุงเทพ คือ", "The 首都"])
def test_where_no_spaces_part_words_none_are_counted(text: str) -> None:
    assert set(prompt_facts(prompt(("text", text.encode())))) == {"n_message_tokens"}


def test_a_message_that_goes_on_in_a_file_is_not_counted() -> None:
    behind = prompt(("scaffold", b"<s>"), ("user", b"Read this"), ("attachment", b"It was"))
    assert set(prompt_facts(behind)) == {"n_template"}
    before = prompt(("attachment", b"It was"), ("user", b"Read this"))
    assert prompt_facts(before)["n_message_tokens"].value == 2


# --- measured -----------------------------------------------------------------------------------


def test_a_step_is_told_with_the_cache_and_without() -> None:
    found = step_facts(StepMeasured(40, [19.0, 18.0, 17.0], [690.0], 2))
    assert {name: fact.text for name, fact in found.items()} == {
        "step_with": "18.0 ms",
        "step_without": "690 ms",
        "cache_gain": "38",
    }
    assert found["cache_gain"].value == pytest.approx(690 / 18)
    assert step_facts(StepMeasured(40, [], [], 2)) == {}


def test_flash_attention_is_told_with_both_medians() -> None:
    on, off = FlashSide([1.0], [16.4, 16.1, 15.0], 0, 5), FlashSide([1.0], [17.9, 18.1], 0, 5)
    found = flash_facts(FlashCompared(40, 8, 2, on, off, 0.01234))
    assert {name: fact.text for name, fact in found.items()} == {
        "flash_on_time": "16.1 ms",
        "flash_off_time": "18 ms",
        "flash_difference": "0.012",
    }
    assert found["flash_off_time"].value == 18.0
