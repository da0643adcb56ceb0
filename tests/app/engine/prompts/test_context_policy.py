"""Context policies through the real engine process, at a window of 256 tokens."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from gguf_writer import CHATML, bpe_vocabulary, tiny_llama

from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.client.supervisor import Ending, EngineEvent
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import (
    CountPrompt,
    Failed,
    Finished,
    Generate,
    Note,
    PromptCount,
    Summary,
)
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.stages import Greedy, Sampling

pytestmark = pytest.mark.weights

SYSTEM = ChatMessage("system", "Answer briefly.", message_id="system")


class Talk:
    """An engine with a window of 256 tokens."""

    def __init__(self, gguf: Path) -> None:
        self._endings: queue.SimpleQueue[Ending] = queue.SimpleQueue()
        self.notes: list[Note] = []
        self.engine = Engine(child_command("engine"), self._on_event)
        self.engine.load(str(gguf), LoadOptions(n_ctx=256, n_threads=1))
        loaded = self._endings.get(timeout=60)
        assert isinstance(loaded, Finished), loaded

    def _on_event(self, event: EngineEvent) -> None:
        if isinstance(event, Note):
            self.notes.append(event)
        elif isinstance(event, Ending):
            self._endings.put(event)

    def generate(
        self,
        messages: list[ChatMessage],
        policy: str,
        max_tokens: int = 8,
        ban_end_token: bool = False,
    ) -> Ending:
        self.notes.clear()
        self.engine.generate(
            Generate(
                id=0,
                prompt=ChatPrompt(messages),
                sampling=Sampling([], Greedy(), ban_end_token=ban_end_token),
                max_tokens=max_tokens,
                conversation="c",
                context_policy=policy,  # type: ignore[arg-type]
            )
        )
        return self._endings.get(timeout=60)

    def summary(
        self,
        messages: list[ChatMessage],
        policy: str,
        max_tokens: int = 8,
        ban_end_token: bool = False,
    ) -> Summary:
        ending = self.generate(messages, policy, max_tokens, ban_end_token)
        assert isinstance(ending, Finished), ending
        assert isinstance(ending.result, Summary)
        return ending.result

    def count(self, messages: list[ChatMessage], policy: str = "stop") -> PromptCount:
        self.engine.request(
            CountPrompt(0, ChatPrompt(messages), policy)  # type: ignore[arg-type]
        )
        ending = self._endings.get(timeout=60)
        assert isinstance(ending, Finished), ending
        assert isinstance(ending.result, PromptCount)
        return ending.result

    def message_of(self, n_tokens: int) -> list[ChatMessage]:
        """One user message whose whole prompt has this many tokens."""
        text = "Write a long story about the sea, with these words: one"
        n_missing = n_tokens - self.count([ChatMessage("user", text)]).n_tokens
        messages = [ChatMessage("user", text + " one" * n_missing)]
        assert self.count(messages).n_tokens == n_tokens
        return messages


FIRST = "Answer Write Tell Question And Indeed Hello"
OTHERS = (
    "briefly a long story about the sea with these words one me something number in few please is "
    "rather it not and so this answer to now"
)


def made(path: Path) -> Path:
    """Small weights that have these words as tokens and answer all with three of them."""
    words = [
        *FIRST.split(),
        *(f" {word}" for word in OTHERS.split()),
        "user",
        "assistant",
        "system",
    ]
    vocabulary = bpe_vocabulary(words)
    said = [vocabulary.id_of_byte(10), *map(vocabulary.id_of, (" so", " it", " is"))]
    successors = dict(pairwise([*said, vocabulary.id_of("<|im_end|>")]))
    tiny_llama(path, vocabulary=vocabulary, template=CHATML, successors=successors)
    return path


@pytest.fixture(scope="module", params=["made", pytest.param("starter", marks=pytest.mark.soak)])
def talk(
    forked_engines_here: None,
    request: pytest.FixtureRequest,
    starter_gguf: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Talk]:
    is_made = request.param == "made"
    talk = Talk(made(tmp_path_factory.mktemp("made") / "tiny.gguf") if is_made else starter_gguf)
    yield talk
    talk.engine.close()


@pytest.mark.parametrize("policy", ["stop", "drop_oldest"])
def test_at_the_limit_both_policies_end_by_design(talk: Talk, policy: str) -> None:
    """C01: limit − 1, limit, limit + 1; then the next message works."""
    fits = talk.summary(talk.message_of(255), policy)
    assert (fits.prompt_tokens, fits.stop_reason) == (255, "context_full")
    assert len(fits.token_ids) == 2
    exact = talk.summary(talk.message_of(256), policy)
    assert (exact.prompt_tokens, exact.stop_reason) == (256, "context_full")
    assert len(exact.token_ids) == 1
    over = talk.generate(talk.message_of(257), policy)
    assert isinstance(over, Failed)
    assert (over.kind, over.evidence) == ("prompt_too_long", "257/256")
    assert "257" in over.sentence
    after = talk.summary([SYSTEM, ChatMessage("user", "Hello")], policy)
    assert after.generated > 0


def test_a_reply_that_fills_the_window_ends_as_context_full(talk: Talk) -> None:
    """C01."""
    filled = talk.summary(talk.message_of(210), "stop", max_tokens=0, ban_end_token=True)
    assert filled.stop_reason == "context_full"
    assert filled.prompt_tokens + filled.generated == 257


def test_a_growing_conversation_is_cut_rarely_and_reads_only_what_is_new(talk: Talk) -> None:
    """The turn after a cut evaluates the new tokens alone."""
    messages = [SYSTEM]
    cuts: list[int] = []
    for number in range(14):
        text = f"Tell me something about the number {number}, in a few words please."
        question = ChatMessage("user", text, message_id=f"q{number}")
        messages.append(question)
        reply = talk.summary(messages, "drop_oldest")
        last = len(reply.cut)
        is_new_cut = last > (cuts[-1] if cuts else 0)
        cuts.append(last)
        if is_new_cut:
            assert reply.prompt_tokens <= 0.6 * 256 + 2
            assert [n.kind for n in talk.notes] == ["turns_left_out"]
            assert all(c.role in ("user", "assistant") and c.n_tokens > 0 for c in reply.cut)
            assert reply.cut[0].message_id == "q0"
        elif number:
            # The end of the reply's turn, the question, and the opening of the next reply.
            assert reply.evaluated < 40, (number, reply.evaluated, reply.reused)
            assert reply.reused + reply.evaluated == reply.prompt_tokens
        messages.append(
            ChatMessage(
                "assistant",
                reply.text,
                token_ids=reply.token_ids,
                message_id=f"a{number}",
            )
        )
    assert cuts[-1] > 0
    changes = sum(1 for a, b in pairwise(cuts) if a != b)
    assert 2 <= changes <= 6


def test_a_count_says_what_would_be_left_out(talk: Talk) -> None:
    messages = [SYSTEM]
    for number in range(12):
        messages += [
            ChatMessage("user", f"Question number {number} is a rather long one, is it not?"),
            ChatMessage("assistant", "Indeed it is, and so is this answer to it."),
        ]
    messages.append(ChatMessage("user", "And now?"))
    whole = talk.count(messages)
    assert whole.n_tokens > whole.n_ctx == 256
    assert (whole.n_cut, whole.n_whole) == (0, 0)
    fitted = talk.count(messages, "drop_oldest")
    assert fitted.n_tokens <= 256
    assert fitted.n_whole == whole.n_tokens
    assert fitted.n_cut >= 2
    assert talk.summary(messages, "drop_oldest").prompt_tokens == fitted.n_tokens
