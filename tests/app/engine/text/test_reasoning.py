"""Reasoning and answer, however the stream is cut, whatever the tags are."""

from __future__ import annotations

import pytest
from each import each
from hypothesis import given, strategies as st

from app.engine.text.reasoning import (
    KNOWN,
    USUAL,
    ReasoningSplitter,
    Tags,
    answer_tags,
    last_opened,
    opened_reasoning,
    opened_section,
    tags_in_prompt,
    unclosed_reasoning,
    used_tags,
)
from app.engine.text.text import ReplyText

THINK = KNOWN[0]
HUNYUAN = "{% if '<answer>' in content %}{% endif %}"
GRANITE = "Write your thoughts after 'Here is my thought process:' and your response after that."

TAG_WORDS = "<think>|||</think>|||<|channel>|||thought|||<channel|>|||<answer>|||</answer>"

ALWAYS = [
    ("plain answer", "plain answer", ""),
    ("\n\n  indented", "\n\n  indented", ""),
    ("<think>a b</think>answer", "answer", "a b"),
    ("\n\n<think>\na b\n</think>\n\nanswer\n", "answer\n", "a b"),
    ("<think>never closed", "", "never closed"),
    ("</think>\n\nanswer", "answer", ""),
    ("thoughts</think>answer", "thoughts</think>answer", ""),
    ("<think>a<think>b</think>c", "c", "a<think>b"),
    ("```\n<think>code</think>\n```", "```\n<think>code</think>\n```", ""),
    ("<think></think>answer", "answer", ""),
    ("<thin", "<thin", ""),
    ("  \n", "  \n", ""),
    ("<think>a < b </thin", "", "a < b </thin"),
    ("<table>", "<table>", ""),
    ("<think>x\n\n\ny</think>z</think>", "z</think>", "x\n\n\ny"),
    # who was asked for these tags gets them
    ("<think>a</think>\n<answer>b</answer>", "<answer>b</answer>", "a"),
    ("Here is my thought process: first …", "Here is my thought process: first …", ""),
]
GEMMA = [
    ("<|channel>thought\na b\n<channel|>answer", "answer", "a b"),
    ("<|channel>thought\n<channel|>answer", "answer", ""),
    ("<|channel>thought<channel|>answer", "answer", ""),
    ("<|channel>thought\n\n<channel|>\nanswer", "answer", ""),
    ("<|channel>thoughtful words<channel|>answer", "answer", "thoughtful words"),
    ("<|channel>words<channel|>answer", "answer", "words"),
    ("<|channel>thought", "", ""),
    ("<|channel>tho", "", ""),
    ("<|channel>thought\nnever closed", "", "never closed"),
    ("<channel|>answer", "answer", ""),
]
FAMILIES = [
    (f"{tags.opening}{tags.name}\na\n{tags.closing}\n\nb", "b", "a")
    for tags in KNOWN
    if not tags.is_phrase
]


def told_apart(
    text: str, size: int, splitter: ReasoningSplitter, stops: list[str] | None = None, **how: bool
) -> tuple[str, str]:
    """(content, reasoning) of a text that comes in pieces of so many bytes."""
    data, reply = text.encode(), ReplyText(stops or [], splitter, **how)
    shown = {"content": "", "reasoning": ""}
    for at in range(0, len(data), size):
        reading = reply.feed(data[at : at + size])
        for part, piece in reading.pieces:
            shown[part] += piece
        if reading.stop is not None:
            break
    for part, piece in reply.flush().pieces:
        shown[part] += piece
    assert (shown["content"], shown["reasoning"]) == (reply.content, reply.reasoning)
    return reply.content, reply.reasoning


@each("size", [1, 2, 3, 7, 1000])
@each(("text", "content", "reasoning"), [*ALWAYS, *GEMMA, *FAMILIES])
def test_reasoning_is_told_apart(text: str, content: str, reasoning: str, size: int) -> None:
    """B15, N09, N10."""
    assert told_apart(text, size, ReasoningSplitter()) == (content, reasoning)


@each("size", [1, 2, 3, 7, 1000])
@each(
    ("text", "content", "reasoning"),
    [
        ("<think>\na\n</think>\n<answer>\nb\n</answer>", "b", "a"),
        ("<think>a</think><answer>b</answer>\n", "b", "a"),
        ("<think>a</think><answer>b", "b", "a"),
        ("<think>a</think><answer>b\n", "b\n", "a"),
        ("<think>a</think><answer>b</answer> and c", "b</answer> and c", "a"),
        ("<think>a</think>an answer", "an answer", "a"),
        ("<think>a</think><ans", "<ans", "a"),
        ("<answer>b</answer>", "b", ""),
        ("an answer", "an answer", ""),
    ],
)
def test_tags_around_the_answer_of_which_the_template_speaks(
    text: str, content: str, reasoning: str, size: int
) -> None:
    splitter = ReasoningSplitter(answers=answer_tags(HUNYUAN))
    assert told_apart(text, size, splitter) == (content, reasoning)


K3_ANSWER = "<|open|>response<|sep|>"
K3_END = "<|close|>response<|sep|><|close|>message<|sep|>"


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize(
    ("text", "content", "reasoning"),
    [
        (f"a b<|close|>think<|sep|>{K3_ANSWER}answer{K3_END}", "answer", "a b"),
        (f"a b<|close|>think<|sep|>{K3_ANSWER}answer", "answer", "a b"),
        ("a b<|close|>thi", "", "a b<|close|>thi"),
        (f"a<|close|>think<|sep|>{K3_ANSWER}b{K3_END} c", f"b{K3_END} c", "a"),
    ],
)
def test_kimi_k3_writes_in_sections(text: str, content: str, reasoning: str, size: int) -> None:
    tags = next(tags for tags in KNOWN if tags.answer)
    answers = answer_tags("{% macro o(t) %}<|open|>{{ t }}<|sep|>{% endmacro %}")
    splitter = ReasoningSplitter(inside=tags, answers=answers)
    assert told_apart(text, size, splitter) == (content, reasoning)
    if content == "answer":  # reasoning is off, or the answer is continued
        end = text.removeprefix(f"a b<|close|>think<|sep|>{K3_ANSWER}")
        section = opened_section(f"Hi{K3_ANSWER}", answers)
        assert opened_section(f"Hi{K3_ANSWER}", answer_tags(HUNYUAN)) == ""
        inside = ReasoningSplitter(answers=answers, section=section)
        assert told_apart(end, size, inside) == (content, "")


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_phrases_are_tags_where_the_prompt_speaks_of_them(size: int) -> None:
    text = "Here is my thought process:\na b\n\nHere is my response:\n\nc"
    for asked in ({"template": GRANITE}, {"rendered": f"<|system|>{GRANITE}"}):
        assert told_apart(text, size, ReasoningSplitter(used_tags(**asked))) == ("c", "a b")
    assert told_apart(text, size, ReasoningSplitter()) == (text, "")


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_tags_that_were_given(size: int) -> None:
    tags = used_tags([("<<", ">>"), ("(think)", "(say)"), ("", "x")])
    assert told_apart("<<a>>b", size, ReasoningSplitter(tags)) == ("b", "a")
    assert told_apart("(think) a (say) b", size, ReasoningSplitter(tags)) == (" b", " a ")
    assert told_apart("<think>a</think>b", size, ReasoningSplitter(tags)) == ("b", "a")
    assert len(tags) == len(USUAL) + 2


@given(
    st.lists(
        st.sampled_from((*TAG_WORDS.split("|||"), "a", " ", "\n", "<", "thi", "🙂", "```")),
        max_size=12,
    ),
    st.lists(st.integers(1, 5), min_size=1),
    st.sampled_from(["", HUNYUAN]),
)
def test_reasoning_does_not_depend_on_the_cut_and_loses_nothing(
    words: list[str], sizes: list[int], template: str
) -> None:
    """B15."""
    text = "".join(words)
    data = text.encode()

    def read(pieces: list[bytes]) -> tuple[str, str]:
        reply = ReplyText([], ReasoningSplitter(answers=answer_tags(template)))
        for piece in pieces:
            reply.feed(piece)
        reply.flush()
        return reply.content, reply.reasoning

    pieces, at = [], 0
    while at < len(data):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[at : at + size])
        at += size
    whole = read([data])
    assert read(pieces) == whole
    for letter in "🙂`":
        assert sum(part.count(letter) for part in whole) == text.count(letter)


# --- stop strings -----------------------------------------------------------------------------


@each("size", [1, 2, 3, 7, 1000])
@each(
    ("text", "content", "reasoning"),
    [
        ("<think>a END b</think>c END d", "c ", "a END b"),
        ("<think>a EN</think>D b", "D b", "a EN"),
        ("<think>a\n\nb</think>\n\nc\n\nd", "c", "a\n\nb"),
        ("<|channel>thought\na END\n<channel|>b END", "b ", "a END"),
        ("a END b", "a ", ""),
        ("<think>a EN", "", "a EN"),
        ("</think>\n\na\n\nb", "a", ""),
    ],
)
def test_stop_strings_count_in_the_answer(
    text: str, content: str, reasoning: str, size: int
) -> None:
    """N08."""
    assert told_apart(text, size, ReasoningSplitter(), ["END", "\n\n"]) == (content, reasoning)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_stop_strings_count_in_reasoning_as_well_where_that_is_wanted(size: int) -> None:
    """N08. A closing tag can be one then."""
    for text, content, reasoning in (
        ("<think>a b END c</think>d", "", "a b "),
        ("<think>a</think>b END c", "b ", "a"),
        ("<think>a[]b", "", "a"),
    ):
        read = told_apart(text, size, ReasoningSplitter(), ["END", "[]"], stops_in_reasoning=True)
        assert read == (content, reasoning)
    both = {"stops_in_reasoning": True}
    assert told_apart("<think>a</think>b", size, ReasoningSplitter(), ["</think>"], **both) == (
        "",
        "a",
    )


@pytest.mark.parametrize("size", [1, 2, 100])
def test_the_turns_end_ends_reasoning_too(size: int) -> None:
    for text, reasoning in (("<think>a<|odd|>\nuser", "a"), ("<think>a<|odd|>", "a")):
        reply = ReplyText([], ReasoningSplitter(), "<|odd|>\n")
        stop = None
        for at in range(0, len(text), size):
            stop = reply.feed(text[at : at + size].encode()).stop
            if stop is not None:
                break
        stop = reply.flush().stop
        assert stop is not None
        assert (stop.reason, reply.reasoning, reply.content) == ("turn_end", reasoning, "")


def test_going_back_brings_back_how_each_part_stood() -> None:
    text = "<think>a EN</think>b EN"
    for cut in range(1, len(text)):
        reply = ReplyText(["END"], ReasoningSplitter())
        reply.feed(text[:cut].encode())
        mark, before = reply.mark(), (reply.content, reply.reasoning)
        for other in ("</think>c END d", text[cut:] + "D"):
            reply.feed(other.encode())
            reply.flush()
            reply.restore(mark)
            assert (reply.content, reply.reasoning) == before
        assert reply.feed((text[cut:] + "D").encode()).stop is not None
        assert (reply.content, reply.reasoning) == ("b ", "a EN")


# --- where a reply begins ---------------------------------------------------------------------


def test_unclosed_reasoning_is_reported() -> None:
    reply = ReplyText([], ReasoningSplitter())
    reply.feed(b"<think>hm")
    reply.flush()
    assert reply.reasoning_unclosed
    assert reply.reasoning == "hm"


def test_template_that_opened_the_tag_starts_inside() -> None:
    reply = ReplyText([], ReasoningSplitter(inside=THINK))
    reply.feed(b"\nhm\n</th")
    reply.feed(b"ink>\nyes")
    assert (reply.reasoning, reply.content) == ("hm", "yes")


def test_open_tags_at_the_end_of_prompts() -> None:
    assert opened_reasoning("<|im_start|>assistant\n<think>\n") == (THINK, True)
    assert opened_reasoning("<|im_start|>assistant\n") is None
    assert opened_reasoning("<think>\n\n</think>\n\n") is None
    gemma = Tags("<|channel>", "<channel|>", "thought")
    assert opened_reasoning("<|turn>model\n<|channel>thought\n") == (gemma, True)
    assert opened_reasoning("<|turn>model\n<|channel>") == (gemma, False)
    assert opened_reasoning("<|turn>model\n<|channel>thought\n<channel|>") is None
    half = ReasoningSplitter(inside=gemma, is_named=False)
    assert half.feed("thought\na<channel|>b") == [("reasoning", "a"), ("content", "b")]


def test_tags_of_replies_and_prompts() -> None:
    assert unclosed_reasoning("<think>half of a thou") == THINK
    assert unclosed_reasoning("<think>a</think>b") is None
    assert unclosed_reasoning("no tag") is None
    assert last_opened("<think>old</think> so <|channel>thought\nwe").closing == "<channel|>"
    assert tags_in_prompt("{{ '<|channel>thought' }}").start == "<|channel>thought"
    assert tags_in_prompt("nothing of it") == THINK
    assert tags_in_prompt("{{ '<think>' }}", [("<<", ">>")]) == Tags("<<", ">>")
