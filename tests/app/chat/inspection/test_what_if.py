"""What other settings would have drawn: asked of the record, then of the engine."""

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
from app.chat.inspection.prompt_reading import STORED_ALONE, PromptOf
from app.chat.inspection.what_if import (
    OTHER_PROMPT,
    OTHER_WEIGHTS,
    WITH_CUTS,
    Question,
    WhatIfs,
    can_ask_engine,
)
from app.chat.replies.cut_versions import CutVersion, as_recorded
from app.chat.replies.reply import Beginning, Branch
from app.chat.settings.settings import Settings as ChatSettings, as_stored
from app.chat.surroundings import Still, Surroundings
from app.engine.protocol.adapter_messages import Adapters, ControlVector, Lora
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import StageEffect, TokenTrace
from app.engine.protocol.replay_messages import DrawsReplayed, ReplayDraws, ReplayedDraw
from app.engine.protocol.stages import Dist, Sampling, Temperature, TopK
from app.insight.sampling.what_if import Change, Unsure, WhatIf
from app.insight.trace.table import TraceTable
from models.records import Message, Role

TOP3 = (TopK(3), Dist())
OWN = Sampling([TopK(3)], Dist(), seed=4, ban_end_token=True)


def token(index: int, uniform: float, drawn: int) -> TokenTrace:
    shares = {7: 0.6, 3: 0.3, 9: 0.1}
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
        stages=[StageEffect("xtc", 3, 0.5, 0.25)],
        ms=1.0,
        uniform=uniform,
    )


TRACES = (token(0, 0.2, 7), token(1, 0.55, 7), token(2, 0.95, 9))


def reply(**settings: Any) -> Message:
    fields = {"sampling": as_stored(OWN)} | settings
    return message(2, Role.ASSISTANT, "x", settings=fields, weights_hash="w")


class Asked:
    """The questions and the prompt that a desk would have; answers are given by hand."""

    def __init__(self) -> None:
        self.posted: list[Callable[[], None]] = []
        self.commands: list[ReplayDraws] = []
        self.stopped: list[int] = []
        self.answers: list[tuple[Callable[[object], None], Callable[[str], None]]] = []
        self.prompt: PromptOf | None = None
        self.alarms = Alarms(lambda _act: None)
        around = Surroundings(
            post=self.posted.append,
            emit=lambda _event: None,
            alarms=self.alarms,
            settings=ChatSettings(),
        )
        self.what_ifs = WhatIfs(around, self, self)  # type: ignore[arg-type]
        self.found: list[WhatIf] = []
        self.failed: list[str] = []

    def ask(self, command: ReplayDraws, kind: type, then: Any, failed: Any, *, still: Still) -> int:
        assert kind is DrawsReplayed
        self.commands.append(command)
        self.answers.append(
            (
                lambda draws: then(draws) if still() else None,
                lambda sentence: failed(sentence) if still() else None,
            )
        )
        return len(self.commands)

    def stop(self, request_id: int) -> None:
        self.stopped.append(request_id)

    def read(self, _message_id: str, then: Callable[[PromptOf], None], *, still: Still) -> None:
        assert self.prompt is not None
        if still():
            then(self.prompt)

    def run(self, count: int = 1) -> None:
        """Let the thread post, and do what it posted."""
        for thread in threading.enumerate():
            if thread.name == "what-if":
                thread.join(10)
        assert len(self.posted) >= count
        while self.posted:
            self.posted.pop(0)()

    def engine(self, question: Question, found: WhatIf) -> None:
        self.what_ifs.ask_engine(question, found, self.found.append, self.failed.append)


class Ids:
    def __init__(self, ids: list[int]) -> None:
        self.ids = ids


def given(ids: list[int]) -> PromptOf:
    return PromptOf("m2", "", "", Ids(ids), None, is_given=True)  # type: ignore[arg-type]


@pytest.fixture
def asked() -> Iterator[Asked]:
    made = Asked()
    yield made
    made.alarms.close()


def test_the_record_answers_on_a_thread(asked: Asked) -> None:
    question = Question(reply(), TRACES, (TopK(3), Temperature(2.0), Dist()), 3)
    asked.what_ifs.ask(question, asked.found.append)
    assert asked.found == []
    asked.run()
    assert asked.found[0].first == Change(1, 3)


def test_a_question_is_about_the_reply_as_it_was(asked: Asked) -> None:
    """One that grows takes tokens back while somebody looks at the answer."""
    growing = TraceTable(TRACES)
    question = Question(reply(), growing, (TopK(3), Temperature(2.0), Dist()), 3)
    asked.what_ifs.ask(question, asked.found.append)
    growing.truncate(0)
    asked.run()
    assert asked.found[0].first == Change(1, 3)
    assert [token.token_id for token in question.traces] == [token.token_id for token in TRACES]


def test_a_newer_question_ends_an_older_one(asked: Asked) -> None:
    asked.what_ifs.ask(Question(reply(), TRACES, TOP3, 3), asked.found.append)
    asked.what_ifs.ask(Question(reply(), TRACES, TOP3, 3), asked.found.append)
    asked.run(2)
    assert len(asked.found) == 1


def test_after_stop_nobody_is_called(asked: Asked) -> None:
    asked.what_ifs.ask(Question(reply(), TRACES, TOP3, 3), asked.found.append)
    asked.what_ifs.stop()
    asked.run()
    assert asked.found == []


def test_what_bound_the_reply_binds_what_is_drawn_again() -> None:
    sampling = Question(reply(), TRACES, (Temperature(2.0), Dist()), 3).sampling
    assert (sampling.ban_end_token, sampling.filters) == (True, [Temperature(2.0)])


def test_tokens_of_another_version_are_left_alone(asked: Asked) -> None:
    question = Question(reply(given={"tokens": 2, "traced": 2}), TRACES, (TopK(1), Dist()), 3)
    asked.what_ifs.ask(question, asked.found.append)
    asked.run()
    assert asked.found[0].first == Change(2, 7)


UNSURE = WhatIf(Change(2, 3), (Unsure(0, "a"), Unsure(1, "b")), 3)


def test_the_engine_is_asked_about_the_unsure_positions(asked: Asked) -> None:
    asked.prompt = given([1, 2, 3])
    asked.engine(Question(reply(), TRACES, TOP3, 3), UNSURE)
    (command,) = asked.commands
    assert (command.token_ids, command.n_prompt) == ([1, 2, 3, 7, 7], 3)
    assert [(each.position, each.uniform, each.deciding) for each in command.asked] == [
        (3, 0.2, [0.25]),
        (4, 0.55, [0.25]),
    ]
    asked.answers[0][0](DrawsReplayed([ReplayedDraw(3, 7, 0.6, 3), ReplayedDraw(4, 9, 0.1, 3)]))
    (found,) = asked.found
    assert found == WhatIf(Change(1, 9, is_replayed=True), (), 3, 2)


def test_what_the_engine_cannot_tell_stays_unsure(asked: Asked) -> None:
    asked.prompt = given([1])
    asked.engine(Question(reply(), TRACES, TOP3, 3), UNSURE)
    draws = [ReplayedDraw(1, -1, reason="no number"), ReplayedDraw(2, 7, 0.6, 3)]
    asked.answers[0][0](DrawsReplayed(draws))
    assert asked.found == [WhatIf(Change(2, 3), (Unsure(0, "no number", is_asked=True),), 3, 2)]
    assert not can_ask_engine(Question(reply(), TRACES, TOP3, 3), asked.found[0])


def test_more_than_one_question_holds_are_asked_in_turns(asked: Asked) -> None:
    asked.prompt = given([1])
    long = tuple(msgspec.structs.replace(TRACES[0], index=at) for at in range(70))
    question = Question(reply(), long, TOP3, 3)
    asked.engine(question, WhatIf(None, tuple(Unsure(at, "a") for at in range(70)), 70))
    assert len(asked.commands[0].asked) == 64
    same = [ReplayedDraw(each.position, 7, 0.6, 3) for each in asked.commands[0].asked]
    asked.answers[0][0](DrawsReplayed(same))
    assert [each.index for each in asked.found[0].unsure] == list(range(64, 70))
    assert can_ask_engine(question, asked.found[0])


def test_of_a_reply_with_cuts_the_engine_is_not_asked(asked: Asked) -> None:
    """It would draw from the scores of the whole model."""
    asked.prompt = given([1])
    cut = as_recorded(CutVersion([Cut("head", 0, 0)]))
    asked.engine(Question(reply(cuts=cut), TRACES, TOP3, 3), UNSURE)
    assert asked.failed == [WITH_CUTS]
    assert not asked.commands


def test_a_branch_has_its_old_tokens_in_the_prompt(asked: Asked) -> None:
    """The prompt of a branch ends with the tokens that were given to it."""
    asked.prompt = given([1, 2, 7])
    recorded = Branch("", "", (7,), "m1", TraceTable(TRACES[:1]), (7,), "w").as_recorded()
    question = Question(reply(given=recorded), TRACES, TOP3, 3)
    asked.engine(question, WhatIf(None, (Unsure(2, "a"),), 3))
    (command,) = asked.commands
    assert (command.token_ids, command.n_prompt) == ([1, 2, 7, 7, 9], 2)
    assert command.asked[0].position == 4


def test_what_a_continuation_begins_with_is_all_prompt(asked: Asked) -> None:
    """The grammar and the smallest length of a continued reply count from where it went on."""
    asked.prompt = given([1, 2, 7])
    recorded = Beginning("x", "", (2, 7), "m1").as_recorded()
    question = Question(reply(given=recorded), TRACES, TOP3, 3)
    asked.engine(question, WhatIf(None, (Unsure(0, "a"),), 3))
    (command,) = asked.commands
    assert (command.token_ids, command.n_prompt) == ([1, 2, 7, 7], 3)
    assert command.asked[0].position == 3


def test_where_a_grammar_decided_the_engine_is_not_asked(asked: Asked) -> None:
    asked.prompt = given([1])
    bound = msgspec.structs.replace(TRACES[0], stages=[StageEffect("grammar", 1, 1.0)])
    found = WhatIf(None, (Unsure(0, "a"),), 3)
    asked.engine(Question(reply(), (bound, *TRACES[1:]), TOP3, 3), found)
    assert (asked.commands, asked.found) == ([], [found])


def test_without_the_prompt_that_was_given_it_is_not_asked(asked: Asked) -> None:
    asked.prompt = PromptOf("m2", "It was changed since.", "text")
    asked.engine(Question(reply(), TRACES, TOP3, 3), UNSURE)
    asked.prompt = PromptOf("m2", f"{STORED_ALONE} It was changed since.", "text")
    asked.engine(Question(reply(), TRACES, TOP3, 3), UNSURE)
    assert asked.failed == [f"{OTHER_PROMPT}It was changed since."] * 2
    asked.prompt = PromptOf("m2", f"{STORED_ALONE} Load it.", "text", lacks_weights=True)
    asked.engine(Question(reply(), TRACES, TOP3, 3), UNSURE)
    assert asked.failed[2:] == [OTHER_WEIGHTS]


def test_it_is_replayed_with_the_adapters_that_it_was_written_with(asked: Asked) -> None:
    """Whatever has been moved since."""
    asked.prompt = given([1, 2])
    file = {"path": "/a/calm.gguf", "scale": 1.5, "last": 2, "hash": "0" * 32}
    asked.engine(Question(reply(control_vectors=[file]), TRACES, TOP3, 3), UNSURE)
    asked.engine(Question(reply(load={"loras": [{"path": "/old"}]}), TRACES, TOP3, 3), UNSURE)
    assert [command.adapters for command in asked.commands] == [
        Adapters(vectors=[ControlVector("/a/calm.gguf", 1.5, 0, 2, "0" * 32)]),
        Adapters([Lora("/old")]),
    ]


def test_the_engines_refusal_is_handed_on(asked: Asked) -> None:
    asked.prompt = given([1])
    asked.engine(Question(reply(), TRACES, TOP3, 3), UNSURE)
    asked.answers[0][1]("A reply is being written.")
    assert asked.failed == ["A reply is being written."]


def test_stop_stops_the_engine_too(asked: Asked) -> None:
    asked.prompt = given([1])
    asked.engine(Question(reply(), TRACES, TOP3, 3), UNSURE)
    asked.what_ifs.stop()
    assert asked.stopped == [1]
