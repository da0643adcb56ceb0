"""One token under another chain: asked of the record along the reply, then of the engine."""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from recording_desk import message

from app.chat.alarms import Alarms
from app.chat.inspection.live_draw import BANNED_UNKNOWN, OF_ANOTHER, LiveDraws
from app.chat.inspection.prompt_reading import PromptOf
from app.chat.inspection.what_if import (
    OTHER_PROMPT,
    OTHER_WEIGHTS,
    WITH_CUTS,
    Question,
    WhatIfs,
    banned_at,
    can_ask_engine,
)
from app.chat.replies.cut_versions import CutVersion, as_recorded
from app.chat.settings.settings import Settings, as_stored
from app.chat.surroundings import Still, Surroundings
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import SURVIVED, StageEffect, TokenTrace
from app.engine.protocol.replay_messages import (
    DrawExplained,
    DrawsReplayed,
    ReplayDraws,
    ReplayedDraw,
)
from app.engine.protocol.stages import (
    Dist,
    Greedy,
    MirostatV2,
    Sampling,
    Stage,
    TopK,
    Typical,
    Xtc,
)
from app.insight.sampling.dice import Uniforms
from app.insight.sampling.live import Live
from app.insight.sampling.selecting import UNKNOWN_BEFORE
from app.insight.sampling.what_if import Change, Unsure, WhatIf
from models.records import Message, Role

SEED = 5
GRAMMAR = Sampling([TopK(3)], Dist(), grammar="root ::= [a-z]+")


def token(index: int, drawn: int = 7, uniform: float | None = None, **more: Any) -> TokenTrace:
    shares = {7: 0.6, 3: 0.3, 9: 0.09}
    logs = [math.log(share) for share in shares.values()]
    return TokenTrace(
        index=index,
        token_id=drawn,
        piece=b"",
        logprob=math.log(shares[drawn]),
        rank=1,
        entropy=1.0,
        alternative_ids=Array("i4", [3], struct.pack("<3i", *shares)),
        alternative_logprobs=Array("f4", [3], struct.pack("<3f", *logs)),
        stages=more.pop("stages", []),
        ms=1.0,
        uniform=Uniforms(SEED)[index] if uniform is None else uniform,
        **more,
    )


TRACES = tuple(token(index) for index in range(3))


def reply(sampling: Sampling | None = None, **settings: Any) -> Message:
    fields = {"sampling": as_stored(sampling or Sampling([TopK(3)], Dist()))} | settings
    return message(2, Role.ASSISTANT, "x", settings=fields, weights_hash="w", seed=SEED)


def question(*stages: Stage, of: Message | None = None, **more: Any) -> Question:
    traces = more.pop("traces", TRACES)
    return Question(of or reply(), traces, stages or (Typical(0.5), Dist()), 1000, **more)


class Ids:
    ids = (1, 2)


class Asked:
    """The questions and the prompt that a desk would have; answers are given by hand."""

    def __init__(self) -> None:
        self.posted: list[Callable[[], None]] = []
        self.commands: list[ReplayDraws] = []
        self.answers: list[Callable[[object], None]] = []
        self.prompt = PromptOf("m2", "", "", Ids(), None, is_given=True)  # type: ignore[arg-type]
        self.alarms = Alarms(lambda _act: None)
        around = Surroundings(
            post=self.posted.append,
            emit=lambda _event: None,
            alarms=self.alarms,
            settings=Settings(),
        )
        self.live = LiveDraws(around, self, self)  # type: ignore[arg-type]
        self.what_ifs = WhatIfs(around, self, self)  # type: ignore[arg-type]
        self.found: list[Any] = []
        self.failed: list[str] = []

    def ask(
        self,
        command: ReplayDraws,
        kind: type,
        then: Any,
        failed: Any,
        *,
        still: Still,
        progress: Any = None,
    ) -> int:
        assert kind is DrawsReplayed
        self.commands.append(command)
        self.answers.append(lambda draws: then(draws) if still() else None)
        return len(self.commands)

    def stop(self, request_id: int) -> None:
        pass

    def read(self, _message_id: str, then: Callable[[PromptOf], None], *, still: Still) -> None:
        then(self.prompt)

    def replay(self, about: Question, index: int) -> None:
        self.live.replay(about, index, self.found.append, self.failed.append)

    def walk(self, about: Question, index: int) -> None:
        self.live.walk(about, index, self.found.append, self.failed.append)
        for thread in threading.enumerate():
            if thread.name == "live-draw":
                thread.join(10)
        while self.posted:
            self.posted.pop(0)()


@pytest.fixture
def asked() -> Iterator[Asked]:
    made = Asked()
    yield made
    made.alarms.close()


TOLD = DrawExplained(
    *(Array.of("i4", [7, 3]), Array.of("f4", [9.0, 8.0]), Array.of("f4", [-0.5, -1.5])),
    *(Array.of("f4", [0.25, 0.75]), Array("u1", [2], bytes([SURVIVED] * 2)), [2, 2], 1.0, 0.8),
)


def test_the_record_is_walked_on_a_thread(asked: Asked) -> None:
    asked.walk(question(TopK(2), MirostatV2(2.0, 0.5)), 2)
    (found,) = asked.found
    assert found.memory != 4.0
    asked.walk(question(MirostatV2(9.0, 0.5)), 2)
    assert asked.failed == [UNKNOWN_BEFORE]


def test_the_engine_is_asked_about_the_token_alone(asked: Asked) -> None:
    asked.replay(question(), 1)
    (command,) = asked.commands
    numbers = Uniforms(SEED)
    assert (command.token_ids, command.n_prompt) == ([1, 2, 7, 7], 2)
    assert (command.explain, command.until_change) == (True, False)
    assert [(a.position, a.uniform, a.again) for a in command.asked] == [
        (3, numbers[1], numbers[2])
    ]
    asked.answers[0](DrawsReplayed([ReplayedDraw(3, 3, 0.75, 2)], TOLD))
    (found,) = asked.found
    assert isinstance(found, Live)
    assert (found.hit, found.is_replayed, found.uniform) == (3, True, numbers[1])


def test_of_what_remembers_all_draws_before_are_asked_too(asked: Asked) -> None:
    asked.replay(question(MirostatV2()), 2)
    assert [each.position for each in asked.commands[0].asked] == [2, 3, 4]


def test_numbers_that_the_reply_did_not_draw_are_those_of_its_seed(asked: Asked) -> None:
    greedy = tuple(msgspec.structs.replace(each, uniform=None) for each in TRACES)
    asked.replay(question(Xtc(), Dist(), traces=greedy), 2)
    (draw,) = asked.commands[0].asked
    assert draw.uniform == Uniforms(SEED)[2]
    assert draw.deciding == [Uniforms(SEED, is_float=True)[2]]
    asked.answers[0](DrawsReplayed([ReplayedDraw(4, 3, 0.75, 2)], TOLD))
    assert asked.found[0].is_of_seed
    asked.replay(question(Greedy(), traces=greedy), 2)
    asked.answers[1](DrawsReplayed([ReplayedDraw(4, 3, 1.0, 1)], TOLD))
    assert asked.found[1].uniform is None


def test_where_a_grammar_decided_the_first_number_is_the_one_before(asked: Asked) -> None:
    numbers = Uniforms(SEED)
    second = token(1, uniform=numbers[2], stages=[StageEffect("grammar", 3, 0.6)])
    asked.replay(question(of=reply(GRAMMAR), traces=(TRACES[0], second)), 1)
    (draw,) = asked.commands[0].asked
    assert (draw.uniform, draw.again) == (numbers[1], numbers[2])
    assert asked.commands[0].sampling.grammar == GRAMMAR.grammar
    asked.replay(question(of=reply(GRAMMAR), traces=TRACES, is_bound=False), 1)
    assert asked.commands[1].sampling.grammar == ""


def test_what_was_banned_there_is_banned_again(asked: Asked) -> None:
    ends = Array("u1", [3], bytes([0, SURVIVED, SURVIVED]))
    effect = StageEffect("banned-strings", 999, 0.5)
    banned = token(0, 3, stages=[effect], removed_by=ends)
    assert banned_at(banned, 1000) == ([7], True)
    asked.replay(question(traces=(banned,)), 0)
    assert asked.commands[0].asked[0].banned == [7]
    more = msgspec.structs.replace(banned, stages=[msgspec.structs.replace(effect, left=998)])
    asked.replay(question(traces=(more,)), 0)
    assert asked.failed == [BANNED_UNKNOWN]


@pytest.mark.parametrize(
    ("about", "prompt", "sentence"),
    [
        ({"cuts": as_recorded(CutVersion([Cut("head", 0, 0)]))}, None, WITH_CUTS),
        ({"given": {"tokens": 2, "traced": 2}}, None, OF_ANOTHER),
        (
            {},
            PromptOf("m2", "It was changed since.", "text"),
            OTHER_PROMPT + "It was changed since.",
        ),
        ({}, PromptOf("m2", "Load it.", lacks_weights=True), OTHER_WEIGHTS),
    ],
)
def test_why_it_cannot_be_replayed_is_said(
    about: dict[str, Any], prompt: PromptOf | None, sentence: str, asked: Asked
) -> None:
    asked.prompt = prompt or asked.prompt
    asked.replay(question(of=reply(**about)), 1)
    assert (asked.failed, asked.commands) == ([sentence], [])


def test_a_draw_that_the_engine_cannot_tell_has_its_reason(asked: Asked) -> None:
    asked.replay(question(), 1)
    asked.answers[0](DrawsReplayed([ReplayedDraw(3, -1, reason="No.")]))
    assert asked.failed == ["No."]


def test_a_newer_question_ends_an_older_one(asked: Asked) -> None:
    asked.replay(question(), 1)
    asked.replay(question(), 2)
    asked.answers[0](DrawsReplayed([ReplayedDraw(3, 3, 0.75, 2)], TOLD))
    assert asked.found == []
    asked.live.walk(question(TopK(2), MirostatV2()), 2, asked.found.append, asked.failed.append)
    asked.answers[1](DrawsReplayed([ReplayedDraw(4, 3, 0.75, 2)], TOLD))
    asked.live.stop()
    for thread in threading.enumerate():
        if thread.name == "live-draw":
            thread.join(10)
    for post in asked.posted:
        post()
    assert (asked.found, asked.failed) == ([], [])


# --- the whole reply ------------------------------------------------------------------------------


def test_a_whole_reply_under_mirostat_is_asked_up_to_its_first_change(asked: Asked) -> None:
    about = question(MirostatV2())
    unsure = WhatIf(None, tuple(Unsure(at, "a") for at in range(3)), 3)
    asked.what_ifs.ask_engine(about, unsure, asked.found.append, asked.failed.append)
    (command,) = asked.commands
    assert command.until_change
    assert [each.position for each in command.asked] == [2, 3, 4]
    asked.answers[0](DrawsReplayed([ReplayedDraw(2, 7, 0.6, 3), ReplayedDraw(3, 9, 0.1, 3)]))
    assert asked.found == [WhatIf(Change(1, 9, is_replayed=True), (), 3, 2)]


def test_where_the_grammar_decided_the_engine_can_be_asked_with_the_seed() -> None:
    second = token(1, uniform=Uniforms(SEED)[2], stages=[StageEffect("grammar", 3, 0.6)])
    about = question(TopK(2), Dist(), of=reply(GRAMMAR), traces=(TRACES[0], second))
    assert can_ask_engine(about, WhatIf(None, (Unsure(1, "a"),), 2))
