"""Replies of the real engine whose text is awkward: parts, cut characters, odd templates.

Each file says, token by token, what the test wants to hear: after a token there is one that
follows, so each stands in a reply once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from conversation import OPTIONS, Conversation
from gguf_writer import bpe_vocabulary, tiny_llama

from app.engine.protocol.messages import (
    Choose,
    Event,
    Failed,
    Finished,
    Generate,
    Held,
    Note,
    Resume,
    Stop,
    Stopped,
    Summary,
    TextFlushed,
    TokenArrived,
)
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.stages import Greedy, Sampling

pytestmark = pytest.mark.weights

ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
END = "<|end|>"
TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
TEMPLATE = TURNS + "{% if add_generation_prompt %}<|assistant|>{% endif %}"
QUESTION = ChatMessage("user", "Q")
SMILE = "🙂".encode()


class Sayer:
    """The engine with a file that says these pieces after `<|assistant|>`, and ends. All tests
    talk to one engine, where no id may come twice."""

    _ids = count(1)

    def __init__(self, talk: Conversation, folder: Path) -> None:
        self.talk = talk
        self._folder = folder
        self.vocabulary = bpe_vocabulary()

    def load(
        self,
        pieces: Sequence[str | bytes],
        *,
        template: str = TEMPLATE,
        control: Sequence[str] = (),
        user_defined: Sequence[str] = (),
        n_ctx: int = 512,
        others: dict[str, str] | None = None,
    ) -> None:
        """`others`: what follows on further tokens."""
        words = [p for p in pieces if isinstance(p, str) and len(p) > 1]
        words = [p for p in words if p not in (*control, *user_defined)]
        self.vocabulary = bpe_vocabulary(
            words, control=(*ROLES, *control, END), user_defined=user_defined
        )
        chain = [self.id("<|assistant|>"), *map(self.id, pieces), self.id(END)]
        assert len(set(chain)) == len(chain)
        successors = dict(pairwise(chain))
        successors |= {self.id(a): self.id(b) for a, b in (others or {}).items()}
        number = next(self._ids)
        path = self._folder / f"{number}.gguf"
        tiny_llama(path, vocabulary=self.vocabulary, template=template, successors=successors)
        options = OPTIONS.__class__(n_ctx=n_ctx, n_threads=1)
        self.talk.load(path, options)

    def id(self, piece: str | bytes) -> int:
        if isinstance(piece, bytes):
            return self.vocabulary.id_of_byte(piece[0])
        return self.vocabulary.id_of(piece)

    def generate(self, *messages: ChatMessage, **fields: Any) -> Generate:
        of_prompt = {
            name: fields.pop(name)
            for name in ("continue_last", "reasoning_tags", "begin_ids", "reasoning_budget")
            if name in fields
        }
        prompt = ChatPrompt(list(messages) or [QUESTION], **of_prompt)
        sampling = fields.pop("sampling", Sampling([], Greedy()))
        return Generate(next(self._ids), prompt, sampling, **fields)

    def say(self, *messages: ChatMessage, **fields: Any) -> Summary:
        """The reply, whose events join to the same text."""
        generate = self.generate(*messages, **fields)
        ending = self.talk.ask(generate)
        assert isinstance(ending, Finished), ending
        return self.checked(generate.id, ending)

    def checked(self, request_id: int, ending: Finished | Stopped | Failed) -> Summary:
        summary = ending.partial if isinstance(ending, Failed) else ending.result
        assert isinstance(summary, Summary)
        events = [e for e in self.talk.events if getattr(e, "id", None) == request_id]
        assert joined(events, "content") == summary.text
        assert joined(events, "reasoning") == summary.reasoning
        return summary

    def kinds(self) -> list[str]:
        """Of the notes about the last request."""
        last = next(e for e in reversed(self.talk.events) if isinstance(e, Finished | Stopped))
        return [e.kind for e in self.talk.events if isinstance(e, Note) and e.id == last.id]


def joined(events: Sequence[Event], part: str) -> str:
    arrived = [e for e in events if isinstance(e, TokenArrived | TextFlushed)]
    return "".join(e.text for e in arrived if e.part == part)


@pytest.fixture
def talk(forked_engines: None) -> Iterator[Conversation]:
    conversation = Conversation()
    yield conversation
    assert conversation.leave() == 0


@pytest.fixture
def sayer(talk: Conversation, tmp_path: Path) -> Sayer:
    return Sayer(talk, tmp_path)


# --- a reply that is cut inside a character ----------------------------------------------------


CUT = ["Yes", *(SMILE[i : i + 1] for i in range(4)), "done"]


@pytest.mark.parametrize("n_bytes", [1, 2, 3])
def test_the_limit_inside_a_character_and_on_from_there(sayer: Sayer, n_bytes: int) -> None:
    """N11: max tokens."""
    sayer.load(CUT)
    first = sayer.say(max_tokens=1 + n_bytes)
    assert (first.text, first.stop_reason) == ("Yes", "max_tokens")
    assert len(first.token_ids) == 1 + n_bytes

    cut = ChatMessage("assistant", first.text, token_ids=first.token_ids)
    rest = sayer.say(QUESTION, cut, continue_last=True)
    assert first.text + rest.text == "Yes🙂done"
    assert "\ufffd" not in rest.rendered_prompt

    later = sayer.say(QUESTION, cut, ChatMessage("user", "Q"))
    assert "\ufffd" not in later.rendered_prompt
    assert later.text == "Yes🙂done"


def test_a_grammar_goes_on_with_a_reply_that_goes_on(sayer: Sayer) -> None:
    """Inside a character, too; what does not fit it, as the words that somebody put before, is
    passed over, and the grammar begins with what is written."""
    sayer.load(CUT)
    rule = Sampling([], Greedy(), grammar='root ::= "Yes🙂" ("done" | "Yes")')
    first = sayer.say(sampling=rule, max_tokens=3)
    assert first.text == "Yes"
    cut = ChatMessage("assistant", first.text, token_ids=first.token_ids)
    assert sayer.say(QUESTION, cut, continue_last=True, sampling=rule).text == "🙂done"
    by_hand = ChatMessage("assistant", "Yes🙂")
    assert sayer.say(QUESTION, by_hand, continue_last=True, sampling=rule).text == "done"
    other = ChatMessage("assistant", "Well: ")
    text = sayer.say(QUESTION, other, continue_last=True, sampling=rule).text
    assert text.startswith("Yes🙂")


def test_a_full_context_inside_a_character(sayer: Sayer) -> None:
    sayer.load(CUT, n_ctx=256)
    long = ChatMessage("user", "x" * (256 - 3 - 3))  # its turn's marks and the opening; three fit
    summary = sayer.say(long)
    assert summary.stop_reason == "context_full"
    assert (summary.text, len(summary.token_ids)) == ("Yes", 4)  # the last needs no cell


def test_stop_in_step_mode_inside_a_character(sayer: Sayer) -> None:
    sayer.load(CUT)
    generate = sayer.generate(hold=True)
    sayer.talk.say(generate)
    for _ in range(3):
        held = sayer.talk.hear(Held, generate.id)
        sayer.talk.say(Choose(generate.id, held.token.token_id))
    sayer.talk.hear(Held, generate.id)
    sayer.talk.say(Stop(generate.id))
    stopped = sayer.talk.ending(generate.id)
    assert isinstance(stopped, Stopped)
    summary = sayer.checked(generate.id, stopped)
    assert (summary.text, len(summary.token_ids)) == ("Yes", 3)


def test_a_branch_that_begins_inside_a_character(sayer: Sayer) -> None:
    """What was begun is completed; another token in its place makes it no character."""
    sayer.load(CUT)
    begun = [sayer.id(piece) for piece in CUT[:3]]
    generate = sayer.generate(begin_ids=begun)
    summary = sayer.checked(generate.id, sayer.talk.ask(generate))
    assert summary.text == "Yes🙂done"
    other = sayer.generate(begin_ids=begun, forced_ids=[sayer.id("done")])
    assert sayer.checked(other.id, sayer.talk.ask(other)).text == "Yes\ufffddone"
    cut = sayer.generate(begin_ids=begun, max_tokens=1)
    assert sayer.checked(cut.id, sayer.talk.ask(cut)).text == "Yes"


def test_held_and_resumed_inside_a_character_nothing_is_lost(sayer: Sayer) -> None:
    sayer.load(CUT)
    generate = sayer.generate(hold=True)
    sayer.talk.say(generate)
    for _ in range(3):
        held = sayer.talk.hear(Held, generate.id)
        sayer.talk.say(Choose(generate.id, held.token.token_id))
    sayer.talk.hear(Held, generate.id)
    sayer.talk.say(Resume(generate.id))
    ending = sayer.talk.ending(generate.id)
    assert sayer.checked(generate.id, ending).text == "Yes🙂done"


# --- reasoning and answer ----------------------------------------------------------------------


GEMMA = ["<|channel>", "thought", "\n", "hm", "<channel|>", "four"]


@pytest.mark.parametrize("size", ["control", "user_defined", "ordinary"])
def test_gemmas_channel(sayer: Sayer, size: str) -> None:
    """N09: the marks as control tokens, as tokens of their own, and as words."""
    marks = {} if size == "ordinary" else {size: ("<|channel>", "<channel|>")}
    sayer.load(GEMMA, **marks)
    summary = sayer.say()
    assert (summary.reasoning, summary.text) == ("hm", "four")
    sayer.load(["<|channel>", "thought", "\n", "<channel|>", "four"], **marks)
    summary = sayer.say()
    assert (summary.reasoning, summary.text) == ("", "four")
    assert "reasoning_unclosed" not in sayer.kinds()


@pytest.mark.parametrize(
    ("opening", "closing", "control"),
    [
        ("<thought>", "</thought>", False),
        ("[THINK]", "[/THINK]", True),
        ("<|START_THINKING|>", "<|END_THINKING|>", True),
        ("<seed:think>", "</seed:think>", True),
        ("<|inner_prefix|>", "<|inner_suffix|>", True),
    ],
)
def test_other_families(sayer: Sayer, opening: str, closing: str, control: bool) -> None:
    """N10."""
    marks = (opening, closing) if control else ()
    sayer.load([opening, "hm", closing, "four"], control=marks)
    summary = sayer.say()
    assert (summary.reasoning, summary.text) == ("hm", "four")


@pytest.mark.parametrize("control", [False, True])
def test_tags_that_were_given(sayer: Sayer, control: bool) -> None:
    """N10."""
    marks = ("<<mull>>", "<<say>>") if control else ()
    sayer.load(["<<mull>>", "hm", "<<say>>", "four"], control=marks)
    summary = sayer.say(reasoning_tags=[("<<mull>>", "<<say>>")])
    assert (summary.reasoning, summary.text) == ("hm", "four")
    without = sayer.say()
    assert without.reasoning == ""


@pytest.mark.parametrize(
    ("opening", "closing", "is_control", "own"),
    [
        ("<think>", "</think>", False, False),
        ("[THINK]", "[/THINK]", True, False),
        ("<<mull>>", "<<say>>", True, True),
    ],
)
def test_reasoning_is_closed_at_its_limit_by_its_own_tag(
    sayer: Sayer, opening: str, closing: str, is_control: bool, own: bool
) -> None:
    marks = (opening, closing) if is_control else ()
    words = [opening, "hm", "mm", "so", "on", "four"]
    sayer.load(words, control=marks, others={"\n": "four"})
    tags = [(opening, closing)] if own else []
    free = sayer.say(reasoning_tags=tags)
    assert (free.reasoning, free.text) == ("hmmmsoonfour", "")
    limited = sayer.say(reasoning_tags=tags, reasoning_budget=2)
    assert (limited.reasoning, limited.text) == ("hmmm", "four")
    assert (limited.reasoning_tokens, limited.reasoning_limit) == (2, 2)
    assert sayer.kinds() == ["reasoning_limit"]


def test_a_reply_goes_on_inside_reasoning_of_a_family(sayer: Sayer) -> None:
    template = TEMPLATE + "{# <|channel>thought #}"
    sayer.load(GEMMA, template=template, control=("<|channel>", "<channel|>"))
    first = sayer.say(max_tokens=4)
    assert (first.reasoning, first.text) == ("hm", "")
    begun = ChatMessage("assistant", "", "hm", first.token_ids)
    rest = sayer.say(QUESTION, begun, continue_last=True)
    assert (rest.reasoning, rest.text) == ("", "four")


@pytest.mark.parametrize("control", [False, True])
def test_stop_strings_in_reasoning(sayer: Sayer, control: bool) -> None:
    """N08."""
    pieces = ["<think>", "Question:", "hm", "</think>", "four", "STOP", "five"]
    sayer.load(pieces, control=("<think>", "</think>") if control else ())
    summary = sayer.say(stop=["Question:", "STOP"])
    assert (summary.reasoning, summary.text) == ("Question:hm", "four")
    assert (summary.stop_reason, summary.stop_detail) == ("stop_string", "STOP")

    both = sayer.say(stop=["Question:", "STOP"], stop_in_reasoning=True)
    assert (both.reasoning, both.text) == ("", "")
    assert both.stop_detail == "Question:"

    tag = sayer.say(stop=["</think>"], stop_in_reasoning=True)
    assert (tag.reasoning, tag.text, tag.stop_detail) == ("Question:hm", "", "</think>")
    assert sayer.say(stop=["</think>"]).text == "fourSTOPfive"


def test_a_control_token_that_stops_does_so_in_reasoning_too(sayer: Sayer) -> None:
    """The weights do not quote it: they take up another turn."""
    sayer.load(["<think>", "hm", "<|halt|>", "on"], control=("<|halt|>",))
    summary = sayer.say(stop=["<|halt|>"])
    assert (summary.reasoning, summary.stop_detail) == ("hm", "<|halt|>")


# --- templates ---------------------------------------------------------------------------------


def test_a_template_that_does_not_begin_the_reply(sayer: Sayer) -> None:
    """N16: without what begins a reply the file would write it itself."""
    sayer.load(["four"], template=TURNS, others={END: "<|assistant|>"})
    summary = sayer.say()
    assert summary.text == "four"
    assert summary.rendered_prompt.endswith("<|assistant|>")
    assert sayer.kinds() == ["reply_opened"]


def test_a_conversation_that_begins_with_the_assistant(sayer: Sayer) -> None:
    """N12."""
    template = (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% endfor %}"
        + TEMPLATE
    )
    sayer.load(["four"], template=template)
    welcome = ChatMessage("assistant", "Hi")
    summary = sayer.say(welcome, QUESTION)
    assert summary.text == "four"
    assert summary.rendered_prompt.startswith("<|user|><|end|><|assistant|>Hi<|end|><|user|>Q")
    assert sayer.kinds() == ["user_first"]
    sayer.say(QUESTION, welcome, ChatMessage("tool", "21"))
    assert sayer.kinds() == ["tools_as_user"]
