"""Questions and changes at any time: beside a reply, in step mode, twice, about nothing, with
absurd numbers, after an unload. Each ends once, with a sentence or a right answer, and no reply is
another one for it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conversation import OPTIONS, Conversation
from examples import examples
from gguf_writer import bpe_vocabulary, tiny_llama
from native_session import GREEDY, NativeSession

from app.engine.process.cache import cache as cache_view, draw_replay
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.sampling import grammar
from app.engine.process.scheduling.admission import INTERNAL
from app.engine.protocol.cache_messages import (
    CacheAct,
    CacheMap,
    ChangeCache,
    MeasureStep,
    ReadCache,
    StepMeasured,
)
from app.engine.protocol.embedding_messages import (
    DescribeEmbedding,
    EmbeddingFacts,
    EmbeddingRows,
    FindNearest,
    NearestTokens,
    ReadEmbedding,
    ReadRotations,
    Rotations,
    Term,
)
from app.engine.protocol.loading_messages import (
    DevicesRead,
    LoadOptions,
    LoadWeights,
    ReadDevices,
)
from app.engine.protocol.messages import (
    CheckGrammar,
    Choose,
    CountPrompt,
    Done,
    Failed,
    Finished,
    Generate,
    GrammarChecked,
    Held,
    Hold,
    Note,
    Progress,
    PromptCount,
    ReadVocabulary,
    Resume,
    Stop,
    Stopped,
    TokenArrived,
    Tokenize,
    Tokens,
    VocabularyTable,
)
from app.engine.protocol.prompt_messages import (
    ChatMessage,
    ChatPrompt,
    IdsPrompt,
    PromptShown,
    ReadPrompt,
    TextPrompt,
)
from app.engine.protocol.replay_messages import AskedDraw, DrawsReplayed, ReplayDraws
from app.engine.protocol.stages import Dist, Greedy, Sampling, TopK

pytestmark = pytest.mark.weights

LARGE = 2**63 - 1
ROOM = 16_384
"""Tokens: more than a reply of small weights writes while all is asked."""

PROMPT = [100 + i % 400 for i in range(40)]
FIVE = Sampling([TopK(5)], Dist())
WITHOUT_END = Sampling(filters=[], select=Greedy(), ban_end_token=True)

OUTSIDE = "token IDs outside"

_ids = count(1000)


def questions() -> list[tuple[Any, object]]:
    """A question about a chat that has nothing, or with numbers that fit nothing; and either the
    kind of its answer or a part of the sentence that says why there is none."""
    number = _ids.__next__
    return [
        (ChangeCache(number(), "park", "nobody"), cache_view.NO_CELLS),
        (ChangeCache(number(), "park", ""), cache_view.NO_CELLS),
        (ChangeCache(number(), "drop", "nobody"), cache_view.NOTHING_HERE),
        (ChangeCache(number(), "drop", copy=-5), cache_view.GONE),
        (ChangeCache(number(), "drop", copy=LARGE), cache_view.GONE),
        (ChangeCache(number(), "keep_prefix", "nobody", keep=0), cache_view.KEEP_ONE),
        (ChangeCache(number(), "keep_prefix", "nobody", keep=-LARGE), cache_view.KEEP_ONE),
        (ChangeCache(number(), "keep_prefix", "nobody", keep=LARGE), cache_view.NO_CELLS),
        (ReadCache(number()), CacheMap),
        (ReadVocabulary(number()), VocabularyTable),
        (ReadDevices(number()), DevicesRead),
        (Tokenize(number(), ""), Tokens),
        (Tokenize(number(), "", inside=True), Tokens),
        (Tokenize(number(), "a\0b", special=True, add_special=True), Tokens),
        (CountPrompt(number(), IdsPrompt([LARGE])), PromptCount),
        (ReadPrompt(number(), IdsPrompt([LARGE])), OUTSIDE),
        (ReadPrompt(number(), IdsPrompt([-1])), OUTSIDE),
        (ReadPrompt(number(), TextPrompt("a", begin_ids=[-1, LARGE])), OUTSIDE),
        (ReadPrompt(number(), IdsPrompt([])), PromptShown),
        (ReadPrompt(number(), TextPrompt("ab", generated=[(-LARGE, LARGE), (5, 2)])), PromptShown),
        (ReadPrompt(number(), ChatPrompt([_attached((-LARGE, LARGE), (5, 2))])), PromptShown),
        (ReadPrompt(number(), ChatPrompt([])), PromptShown),
        (ReadEmbedding(number(), [5, 0]), EmbeddingRows),
        (ReadEmbedding(number(), [LARGE]), "IDs from 0 to"),
        (ReadEmbedding(number(), [-LARGE, 3]), "IDs from 0 to"),
        (ReadEmbedding(number(), []), "IDs from 0 to"),
        (ReadEmbedding(number(), [1] * 100_000), "At most"),
        (DescribeEmbedding(number()), EmbeddingFacts),
        (FindNearest(number(), [Term(5), Term(6, -1.0)], 9), NearestTokens),
        (FindNearest(number(), [Term(LARGE)]), "IDs from 0 to"),
        (FindNearest(number(), [Term(5, math.nan)]), "Factors must be"),
        (FindNearest(number(), [Term(5, -math.inf)]), "Factors must be"),
        (FindNearest(number(), [Term(5), Term(5, -1.0)]), "cancel each other"),
        (FindNearest(number(), [Term(5)], LARGE), "nearest tokens"),
        (FindNearest(number(), [Term(5)], -LARGE), "nearest tokens"),
        (FindNearest(number(), []), "IDs from 0 to"),
        (ReadRotations(number()), Rotations),
        (CheckGrammar(number(), 'root ::= "a"', "{}"), GrammarChecked),
        (CheckGrammar(number()), GrammarChecked),
        (CheckGrammar(number(), "root ::= " + "(" * 5000), GrammarChecked),
    ]


def _attached(*spans: tuple[int, int]) -> ChatMessage:
    return ChatMessage("user", "two words", attachments=list(spans))


def replays() -> list[ReplayDraws]:
    number = _ids.__next__
    ids = [1, 2, 3, 4]
    return [
        ReplayDraws(number(), [], 0, FIVE, []),
        ReplayDraws(number(), ids, 2, FIVE, [AskedDraw(LARGE, 0.5)]),
        ReplayDraws(number(), ids, 2, FIVE, [AskedDraw(-1, 0.5)]),
        ReplayDraws(number(), ids, 2, FIVE, [AskedDraw(3, 0.5), AskedDraw(3, 0.5)]),
        ReplayDraws(number(), ids, LARGE, FIVE, [AskedDraw(3, 0.5)]),
        ReplayDraws(number(), ids, -LARGE, FIVE, [AskedDraw(3, 0.5)]),
        ReplayDraws(number(), [LARGE, -LARGE, 3, 4], 2, FIVE, [AskedDraw(3, 0.5)]),
        ReplayDraws(number(), ids * ROOM, 2, FIVE, [AskedDraw(3000, 0.5)]),
        ReplayDraws(number(), ids, 2, FIVE, [AskedDraw(3, math.nan)]),
        ReplayDraws(number(), ids, 2, FIVE, [AskedDraw(3, 7.0)]),
        ReplayDraws(number(), ids, 2, FIVE, [AskedDraw(3, -0.5)]),
        ReplayDraws(number(), ids, 2, FIVE, [AskedDraw(3, 0.5, [math.inf])]),
    ]


def generate(length: int, **fields: Any) -> Generate:
    named = {"max_tokens": length, "conversation": "a", **fields}
    return Generate(next(_ids), IdsPrompt(PROMPT), WITHOUT_END, **named)


def is_answered(ending: Any, expected: object) -> bool:
    if isinstance(expected, str):
        return isinstance(ending, Failed) and expected in ending.sentence
    assert isinstance(expected, type)
    return isinstance(ending, Finished) and isinstance(ending.result, expected)


@pytest.fixture
def session(made: Weights, native_log: NativeLog) -> NativeSession:
    return NativeSession(made, native_log)


@pytest.fixture(scope="module")
def on_made(
    forked_conversation: Callable[[], Conversation], made_gguf: Path
) -> Iterator[Conversation]:
    options = LoadOptions(n_ctx=ROOM, n_threads=1)
    yield from conversation_about(made_gguf, forked_conversation(), options)


@pytest.fixture(scope="module")
def on_starter(
    forked_conversation: Callable[[], Conversation], starter_gguf: Path
) -> Iterator[Conversation]:
    yield from conversation_about(starter_gguf, forked_conversation())


def conversation_about(
    path: Path, conversation: Conversation, options: LoadOptions = OPTIONS
) -> Iterator[Conversation]:
    conversation.load(path, options)
    yield conversation
    assert conversation.leave() == 0


@pytest.fixture
def talk(on_made: Conversation) -> Conversation:
    return emptied(on_made)


@pytest.fixture
def slow_talk(on_starter: Conversation) -> Conversation:
    """For questions that must arrive while something lasts."""
    return emptied(on_starter)


def emptied(shared: Conversation) -> Conversation:
    shared.events.clear()
    assert isinstance(shared.ask(ChangeCache(next(_ids), "clear")), Finished)
    return shared


# --- one after the other ------------------------------------------------------------------------


def test_each_question_is_answered_or_refused_in_words(talk: Conversation) -> None:
    for _ in range(2):
        for command, expected in questions():
            assert is_answered(talk.ask(command), expected), command
        for command in replays():
            ending = talk.ask(command)
            assert ending == Failed(command.id, "bad_setting", draw_replay.NONSENSE), command


def test_what_is_done_twice_is_said_the_second_time(talk: Conversation) -> None:
    assert isinstance(talk.ask(generate(2)), Finished)

    def change(act: Any, **fields: Any) -> Any:
        return talk.ask(ChangeCache(next(_ids), act, "a", **fields))

    assert isinstance(change("keep_prefix", keep=30), Finished)
    assert isinstance(change("keep_prefix", keep=30), Finished)
    assert isinstance(change("park"), Finished)
    assert change("park").sentence == cache_view.NO_CELLS
    assert change("keep_prefix", keep=3).sentence == cache_view.NO_CELLS
    assert isinstance(change("drop"), Finished)
    assert change("drop").sentence == cache_view.NOTHING_HERE
    assert isinstance(change("clear"), Finished)
    assert isinstance(change("clear"), Finished)
    told = talk.ask(ReadCache(next(_ids))).result
    assert (told.n_used, told.slots, told.parked) == (0, [], [])


# --- beside a reply -----------------------------------------------------------------------------


def test_beside_a_reply_all_are_answered_and_the_reply_is_the_same(
    talk: Conversation,
) -> None:
    reply = generate(ROOM - 100)
    talk.say(reply)
    talk.hear(TokenArrived, reply.id)
    busy: list[tuple[Any, object]] = [
        (ChangeCache(next(_ids), "clear"), cache_view.BUSY_ANYWHERE),
        (ChangeCache(next(_ids), "park", "a"), cache_view.BUSY),
        (ChangeCache(next(_ids), "drop", "a"), cache_view.BUSY),
        (ChangeCache(next(_ids), "keep_prefix", "a", keep=3), cache_view.BUSY),
        (MeasureStep(next(_ids), "a"), cache_view.BUSY_ANYWHERE),
        *((command, cache_view.BUSY_ANYWHERE) for command in replays()),
    ]
    # Those that the text thread answers beside the decode come behind the others: they are slower.
    asked = [*busy, *sorted(questions(), key=lambda pair: _is_text(pair[0]))]
    answer_all(talk, asked)
    talk.say(Stop(reply.id))
    stopped = talk.ending(reply.id)
    assert isinstance(stopped, Stopped)
    told = stopped.result.token_ids
    assert [e.token.token_id for e in talk.events if isinstance(e, TokenArrived)] == told
    talk.ask(ChangeCache(next(_ids), "clear"))
    assert talk.ask(generate(len(told[:80]))).result.token_ids == told[:80]


ENDINGS = (Finished, Stopped, Failed)


def answer_all(talk: Conversation, asked: list[tuple[Any, object]]) -> None:
    """Say all of them at once, and hear each answered."""
    for command, _ in asked:
        talk.say(command)
    expected = {command.id: outcome for command, outcome in asked}
    while expected:
        ending = talk.hear(ENDINGS)
        assert is_answered(ending, expected.pop(ending.id)), ending


def _is_text(command: Any) -> bool:
    return not isinstance(command, ChangeCache | ReadCache)


def test_a_held_reply_stands_whatever_is_asked(talk: Conversation) -> None:
    alone = talk.ask(generate(6)).result.token_ids
    talk.ask(ChangeCache(next(_ids), "clear"))
    reply = generate(6, hold=True)
    talk.say(reply)
    talk.hear(Held, reply.id)
    for command, expected in questions():
        assert is_answered(talk.ask(command), expected), command
    for command in (MeasureStep(next(_ids), "a"), *replays()):
        assert talk.ask(command).sentence == cache_view.BUSY_ANYWHERE
    for wrong in (LARGE, -1):
        talk.say(Choose(reply.id, wrong))
        assert (
            talk.hear(Note, reply.id).sentence
            == f"Token {wrong} doesn't exist. Choose another one."
        )
        assert talk.hear(Held, reply.id).token.index == 0
    for stray in (Choose(9, 5), Resume(9), Hold(-1), Stop(-7), Stop(LARGE)):
        talk.say(stray)
    for _ in range(2):
        talk.say(Resume(reply.id))
    assert talk.ending(reply.id).result.token_ids == alone


# --- questions that wait behind each other --------------------------------------------------------


def test_stopping_a_question_that_waits_leaves_the_one_before_it_alone(
    slow_talk: Conversation,
) -> None:
    talk = slow_talk
    long = Generate(next(_ids), IdsPrompt(PROMPT), GREEDY, max_tokens=2, conversation="a")
    assert isinstance(talk.ask(long), Finished)
    measured, waiting = MeasureStep(next(_ids), "a"), replays()[-1]
    talk.say(measured)
    talk.hear(Progress, measured.id)
    talk.say(waiting)
    talk.say(Stop(waiting.id))
    first = talk.hear((Finished, Stopped, Failed))
    assert first == Stopped(waiting.id, Done())
    ending = talk.ending(measured.id)
    assert isinstance(ending.result, StepMeasured), ending


def test_stopping_a_question_about_a_text_breaks_no_measurement_off(
    slow_talk: Conversation,
) -> None:
    talk = slow_talk
    long = Generate(next(_ids), IdsPrompt(PROMPT), GREEDY, max_tokens=2, conversation="a")
    assert isinstance(talk.ask(long), Finished)
    measured = MeasureStep(next(_ids), "a")
    talk.say(measured)
    talk.hear(Progress, measured.id)
    for _ in range(8):
        text = Tokenize(next(_ids), "word " * 2000)
        talk.say(text)
        talk.say(Stop(text.id))
    assert isinstance(talk.ending(measured.id).result, StepMeasured)


def test_nearest_tokens_are_looked_for_beside_a_reply_and_stopped_alone(
    slow_talk: Conversation,
) -> None:
    talk, reply, found = slow_talk, generate(1500), FindNearest(next(_ids), [Term(500)])
    talk.say(reply)
    talk.hear(TokenArrived, reply.id)
    talk.say(found)
    talk.hear(Progress, found.id)
    talk.say(Stop(found.id))
    assert talk.ending(found.id) == Stopped(found.id, Done())
    talk.hear(TokenArrived, reply.id)
    talk.say(Stop(reply.id))
    assert isinstance(talk.ending(reply.id), Stopped)
    assert isinstance(talk.ask(FindNearest(next(_ids), [Term(500)])).result, NearestTokens)


def test_nothing_is_measured_while_a_request_waits(session: NativeSession) -> None:
    request_id = session.add(PROMPT, max_tokens=1, conversation="a")
    for command in (MeasureStep(900, "a"), replays()[0]):
        ending = session.scheduler.cache.answer(command)
        assert ending == Failed(command.id, "busy", cache_view.BUSY_ANYWHERE)
    session.run()
    assert isinstance(session.ending(request_id), Finished)


def test_a_grammar_that_takes_too_long_ends_a_draw_that_is_done_again(
    session: NativeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammar, "_LIMIT_S", -1.0)
    sampling = Sampling([TopK(5)], Dist(), grammar="root ::= [a-z ]+")
    command = ReplayDraws(900, [100, 200, 300, 400], 2, sampling, [AskedDraw(3, 0.5)])
    ending = session.scheduler.cache.answer(command)
    assert ending == Failed(900, "bad_setting", grammar.TOO_SLOW, "grammar")


# --- without weights ------------------------------------------------------------------------------


def test_without_weights_each_says_so_and_a_load_brings_everything(
    forked_engines: None, made_gguf: Path
) -> None:
    conversation = Conversation()
    try:
        asked = [
            *(command for command, _ in questions()),
            *replays(),
            MeasureStep(next(_ids), "a"),
            generate(2),
            generate(2, score_prompt=True),
        ]
        for command in asked:
            ending = conversation.ask(command)
            if isinstance(command, ReadDevices):  # the one that needs no weights
                assert isinstance(ending, Finished)
                continue
            assert isinstance(ending, Failed), command
            assert ending.kind == "not_loaded"
            assert ending.sentence.startswith("No model is loaded.")
        options = LoadOptions(n_ctx=512, n_threads=1)
        again = conversation.ask(LoadWeights(next(_ids), str(made_gguf), options))
        assert isinstance(again, Finished)
        told = conversation.ask(ReadCache(next(_ids))).result
        assert (told.n_ctx, told.n_used, told.turns) == (512, 0, [])
        draws = ReplayDraws(next(_ids), [1, 2, 3, 4], 2, FIVE, [AskedDraw(3, 0.5)])
        assert isinstance(conversation.ask(draws).result, DrawsReplayed)
        failed = [e for e in conversation.events if isinstance(e, Failed)]
        assert not any(e.sentence == INTERNAL for e in failed)
    finally:
        assert conversation.leave() == 0


# --- everything at once ---------------------------------------------------------------------------

N_ACTS, LONGEST = examples(600), 24


class Crowd:
    """Five chats in four slots of 512 cells. What each prompt is answered with alone is known: the
    weights are random, so a wrong cell makes another reply."""

    def __init__(self, talk: Conversation, seed: int) -> None:
        self._talk, self._chance = talk, random.Random(seed)
        self._open: dict[int, Any] = {}
        self._wanted: dict[int, list[int]] = {}
        self._alone: list[tuple[list[int], list[int]]] = []
        self.n_whole = 0

    def ask_alone(self) -> None:
        """Prompts that share their beginnings, each in an empty cache."""
        chance = self._chance
        stem = [chance.randrange(20, 220) for _ in range(90)]
        for _ in range(24):
            shared = stem[: chance.randrange(90)]
            ids = [*shared, *(chance.randrange(20, 220) for _ in range(chance.randrange(2, 40)))]
            self._talk.ask(ChangeCache(next(_ids), "clear"))
            alone = Generate(next(_ids), IdsPrompt(ids), WITHOUT_END, max_tokens=LONGEST)
            self._alone.append((ids, self._talk.ask(alone).result.token_ids))

    def act(self) -> None:
        chance, number, chat = self._chance, next(_ids), self._chance.choice("abcde")
        replies = [i for i, command in self._open.items() if isinstance(command, Generate)]
        ids, told = chance.choice(self._alone)
        match chance.randrange(8):
            case 0 | 1 if len(replies) < 6:
                length = chance.randrange(1, LONGEST + 1)
                self._wanted[number] = told[:length]
                self._say(
                    Generate(
                        *(number, IdsPrompt(ids), WITHOUT_END, length),
                        conversation=chat,
                        hold=chance.random() < 0.2,
                        score_prompt=chance.random() < 0.1,
                    )
                )
            case 2 | 3:
                acts: list[CacheAct] = ["clear", "park", "drop", "keep_prefix"]
                keep, copy = chance.choice([0, 5, 30, -3, LARGE]), chance.choice([0, 0, 7])
                self._say(ChangeCache(number, chance.choice(acts), chat, keep, copy))
            case 4:
                self._say(MeasureStep(number, chat))
            case 5:
                self._say(ReplayDraws(number, ids, 1, FIVE, [AskedDraw(len(ids), 0.5)]))
            case 6 if self._open:
                self._talk.say(Stop(chance.choice(list(self._open))))
            case 7 if replies:
                self._talk.say(chance.choice([Hold, Resume])(chance.choice(replies)))
            case _:
                self._say(ReadCache(number))
        if len(self._open) > 8:
            self.settle()

    def _say(self, command: Any) -> None:
        self._open[command.id] = command
        self._talk.say(command)

    def settle(self) -> None:
        """Let everybody run on, until each has ended: once, and with what it had to say."""
        while self._open:
            for request_id, command in self._open.items():
                if isinstance(command, Generate):
                    self._talk.say(Resume(request_id))
            ending = self._talk.hear((Finished, Stopped, Failed))
            command = self._open.pop(ending.id)
            if isinstance(ending, Failed):
                assert ending.kind in ("bad_setting", "busy", "out_of_memory"), ending
            elif isinstance(command, Generate) and isinstance(ending, Finished):
                told, wanted = ending.result.token_ids, self._wanted[ending.id]
                is_cut = ending.result.stop_reason == "context_full"
                assert told == (wanted[: len(told)] if is_cut else wanted), command
                self.n_whole += not is_cut


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_no_reply_is_another_one_whatever_is_done_beside_it(
    forked_engines: None, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "tiny.gguf"
    tiny_llama(path, vocabulary=bpe_vocabulary(), seed=seed, kind="f32")
    conversation = Conversation()
    try:
        parked_bytes = [10_000_000, 200_000][seed % 2]
        # All in float32: other batch shapes must not move the scores by more than their distance.
        options = LoadOptions(n_ctx=512, n_threads=1, n_ubatch=32, n_slots=4, type_k="f32")
        exact = {"type_v": "f32", "flash_attention": "off", "parked_bytes": parked_bytes}
        conversation.load(path, msgspec.structs.replace(options, **exact))
        crowd = Crowd(conversation, seed)
        crowd.ask_alone()
        for _ in range(N_ACTS):
            crowd.act()
        crowd.settle()
        assert crowd.n_whole > N_ACTS // 12
        assert conversation.ask(ReadCache(next(_ids))).result.n_used <= 512
    finally:
        assert conversation.leave() == 0
