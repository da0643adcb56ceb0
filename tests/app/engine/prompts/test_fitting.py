"""Context policies: what is left out, that it stays so, and what happens at the limit."""

from __future__ import annotations

import random
from itertools import pairwise

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings, strategies as st

from app.engine.prompts import fitting
from app.engine.prompts.fitting import (
    PromptTooLong,
    Sized,
    counted,
    fit_prompt,
    left_out,
    measure,
)
from app.engine.prompts.prompt import BuiltPrompt
from app.engine.prompts.tokens import PromptPart
from app.engine.protocol.prompt_messages import (
    ChatMessage,
    ChatPrompt,
    IdsPrompt,
    Prompt,
    TextPrompt,
)

WINDOW = 256


def words(n_tokens: int, seed: int = 0) -> str:
    """A text of `n_tokens` tokens of the toy builder, different for each seed."""
    return "".join(chr(97 + (seed * 7 + i) % 26) for i in range(n_tokens))


def build(prompt: Prompt) -> BuiltPrompt:
    """One token per character; `[` before and `]` after each message, `>` opens the reply."""
    if isinstance(prompt, IdsPrompt):
        return BuiltPrompt(prompt.token_ids, "", [])
    if isinstance(prompt, TextPrompt):
        return BuiltPrompt([ord(c) for c in prompt.text], prompt.text, [])
    ids = [0]
    parts = [PromptPart(0, 1, "scaffold")]
    for message in prompt.messages:
        for text, origin, message_id in (
            ("[", "scaffold", None),
            (message.content, message.role, message.message_id),
            ("]", "scaffold", None),
        ):
            if text:
                parts.append(PromptPart(len(ids), len(ids) + len(text), origin, message_id))
                ids += [ord(c) for c in text]
    parts.append(PromptPart(len(ids), len(ids) + 1, "scaffold"))
    ids.append(ord(">"))
    return BuiltPrompt(ids, "".join(map(chr, ids)), parts)


def chat(*lengths: int, system: int = 0, pinned: tuple[int, ...] = ()) -> ChatPrompt:
    """user, assistant, user, … of these lengths."""
    messages = [ChatMessage("system", "S" * system, message_id="s")] if system else []
    for number, length in enumerate(lengths):
        role = "assistant" if number % 2 else "user"
        messages.append(
            ChatMessage(
                role, words(length, number), message_id=f"m{number}", is_pinned=number in pinned
            )
        )
    return ChatPrompt(messages)


def user_message_for(n_tokens: int) -> ChatPrompt:
    """One message whose prompt has `n_tokens`."""
    return chat(n_tokens - 4)


@pytest.mark.parametrize("policy", ["stop", "drop_oldest"])
@pytest.mark.parametrize("n_tokens", [WINDOW - 1, WINDOW])
def test_a_prompt_up_to_the_limit_is_taken_whole(policy: fitting.Policy, n_tokens: int) -> None:
    """C01."""
    built = fit_prompt(user_message_for(n_tokens), build, WINDOW, policy)
    assert len(built.ids) == n_tokens
    assert built.cut == []
    assert built.notes == []


@pytest.mark.parametrize("policy", ["stop", "drop_oldest"])
def test_one_message_over_the_limit_is_refused_in_words(policy: fitting.Policy) -> None:
    """C01: with used and limit, and what to do."""
    with pytest.raises(PromptTooLong) as refused:
        fit_prompt(user_message_for(WINDOW + 1), build, WINDOW, policy)
    assert (refused.value.used, refused.value.limit) == (257, 256)
    assert "257" in refused.value.sentence
    assert "256" in refused.value.sentence
    assert "larger context" in refused.value.sentence


@pytest.mark.parametrize("n_tokens", [WINDOW - 1, WINDOW, WINDOW + 1])
def test_dropping_takes_the_oldest_pairs_with_their_replies(n_tokens: int) -> None:
    """C01: whole pairs from the first on, down to 60 % of the window at once."""
    lengths = [20, 20, 20, 20, 20, 20, 20, 20, 20, 20]
    last = n_tokens - 1 - 1 - 12 - sum(n + 2 for n in lengths) - 2
    built = fit_prompt(chat(*lengths, last, system=10), build, WINDOW, "drop_oldest")
    # 256 holds 16 tokens for a reply: all three are over it.
    assert built.n_whole == n_tokens
    assert len(built.ids) <= 0.6 * WINDOW
    assert [c.message_id for c in built.cut] == ["m0", "m1", "m2", "m3", "m4", "m5"]
    assert [c.role for c in built.cut] == ["user", "assistant"] * 3
    assert built.n_whole - len(built.ids) == sum(c.n_tokens for c in built.cut)
    assert [note.kind for note in built.notes] == ["turns_left_out"]
    assert "6 messages" in built.notes[0].sentence
    assert built.rendered.startswith("\0[SSSSSSSSSS]")
    assert {part.message_id for part in built.parts} == {
        None, "s", "m6", "m7", "m8", "m9", "m10",
    }  # fmt: skip


def test_what_stood_before_the_first_message_is_counted_with_it() -> None:
    built = fit_prompt(chat(80, 80, 80), build, WINDOW, "drop_oldest")
    assert [c.message_id for c in built.cut] == ["m0", "m1"]
    assert sum(c.n_tokens for c in built.cut) == built.n_whole - len(built.ids)


def test_stop_leaves_nothing_out() -> None:
    with pytest.raises(PromptTooLong):
        fit_prompt(chat(*[20] * 13), build, WINDOW, "stop")


def test_pinned_turns_and_the_system_prompt_stay() -> None:
    prompt = chat(*[20] * 13, system=10, pinned=(3,))
    built = fit_prompt(prompt, build, WINDOW, "drop_oldest")
    gone = [c.message_id for c in built.cut]
    assert "m2" not in gone  # the pinned reply's own question
    assert "m3" not in gone
    assert gone[:2] == ["m0", "m1"]
    assert words(20, 3) in built.rendered
    assert len(built.ids) <= WINDOW - WINDOW // fitting.REPLY_SHARE


def test_when_what_must_stay_does_not_fit_it_is_said() -> None:
    """C01."""
    prompt = chat(100, 100, 20, 20, 100, pinned=(0,))
    with pytest.raises(PromptTooLong) as refused:
        fit_prompt(prompt, build, WINDOW, "drop_oldest")
    assert "pinned" in refused.value.sentence
    assert refused.value.used == 1 + 102 + 102 + 102 + 1


def test_the_last_message_stays_even_where_it_is_more_than_the_target() -> None:
    built = fit_prompt(chat(30, 30, 30, 30, 200), build, WINDOW, "drop_oldest")
    assert [c.message_id for c in built.cut] == ["m0", "m1", "m2", "m3"]
    assert len(built.ids) == 204


@pytest.mark.parametrize(
    ("prompt", "policy"),
    [
        (TextPrompt("x" * 257), "stop"),
        (IdsPrompt([1] * 257), "stop"),
        (IdsPrompt([1] * 257), "drop_oldest"),
    ],
)
def test_plain_texts_have_no_turns_to_leave_out(prompt: Prompt, policy: fitting.Policy) -> None:
    with pytest.raises(PromptTooLong, match="The text has 257 tokens") as refused:
        fit_prompt(prompt, build, WINDOW, policy)
    assert "messages" not in refused.value.sentence


def test_the_cut_holds_until_the_window_is_full_again() -> None:
    """Each prompt but those that cut begins with the one before it: only new tokens are read."""
    lengths = [22] * 81
    prompts = [
        fit_prompt(chat(*lengths[: 2 * n + 1], system=10), build, WINDOW, "drop_oldest").ids
        for n in range(40)
    ]
    # The opening of the reply is where the reply itself follows.
    cuts = sum(after[: len(before) - 1] != before[:-1] for before, after in pairwise(prompts))
    assert all(len(ids) <= WINDOW for ids in prompts)
    assert 0 < cuts <= 40 / 2
    assert max(map(len, prompts)) > 0.85 * WINDOW


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(0, 30))
def test_playing_on_never_brings_a_turn_back(sizes: list[int], system: int) -> None:
    """What was left out for one turn is left out for the next, and everything fits."""
    messages = [Sized("system", system)] + [
        Sized("assistant" if i % 2 else "user", n) for i, n in enumerate(sizes)
    ]
    before: list[int] = []
    for end in range(2, len(messages) + 1, 2):
        gone = [i for turn in left_out(messages[:end], 3, WINDOW) for i in turn.indices]
        assert gone[: len(before)] == before
        assert 3 + sum(m.n_tokens for i, m in enumerate(messages[:end]) if i not in gone) <= WINDOW
        assert 0 not in gone
        assert end - 1 not in gone
        before = gone


def test_a_template_that_tells_nobody_where_messages_are_is_counted_again() -> None:
    def unknown(prompt: Prompt) -> BuiltPrompt:
        built = build(prompt)
        return BuiltPrompt(built.ids, built.rendered, [PromptPart(0, len(built.ids), "scaffold")])

    built = fit_prompt(chat(*[20] * 21), unknown, WINDOW, "drop_oldest")
    assert len(built.ids) <= WINDOW
    assert built.cut
    assert built.rendered.endswith(f"[{words(20, 20)}]>")


def test_a_template_that_makes_more_of_the_rest_is_believed() -> None:
    """The choice is an estimate; what is sent was counted."""

    def swelling(prompt: Prompt) -> BuiltPrompt:
        built = build(prompt)
        extra = 0 if isinstance(prompt, ChatPrompt) and len(prompt.messages) == 13 else 110
        return BuiltPrompt([*built.ids, *[0] * extra], built.rendered, built.parts)

    built = fit_prompt(chat(*[20] * 13), swelling, WINDOW, "drop_oldest")
    assert len(built.ids) <= WINDOW


def test_neighbouring_questions_are_turns_of_their_own() -> None:
    messages = [ChatMessage("user", words(60, i), message_id=str(i)) for i in range(5)]
    built = fit_prompt(ChatPrompt(messages), build, WINDOW, "drop_oldest")
    # It was cut at the fourth; the fifth fits beside what was left then.
    assert [c.message_id for c in built.cut] == ["0", "1"]


def test_sizes_add_up_to_the_whole() -> None:
    rng = random.Random(3)
    prompt = chat(*[rng.randint(1, 40) for _ in range(9)], system=7)
    numbered = [
        ChatMessage(m.role, m.content, message_id=str(i)) for i, m in enumerate(prompt.messages)
    ]
    whole = build(ChatPrompt(numbered))
    sizes, overhead = measure(numbered, whole)
    assert overhead + sum(one.n_tokens for one in sizes) == len(whole.ids)


def test_the_far_past_of_a_very_long_conversation_is_not_rendered() -> None:
    """The rule is the same on a larger scale, so the cut still holds."""
    rendered: list[int] = []

    def counting(prompt: Prompt) -> BuiltPrompt:
        rendered.append(len(prompt.messages) if isinstance(prompt, ChatPrompt) else 0)
        return build(prompt)

    lengths = [22] * 2001
    prompts = []
    n_turns = examples(100)
    for end in range(1001, 1001 + 2 * n_turns, 2):
        built = fit_prompt(chat(*lengths[:end], system=10), counting, WINDOW, "drop_oldest")
        prompts.append(built.ids)
        gone = [c.message_id for c in built.cut]
        assert gone == [f"m{i}" for i in range(len(gone))]
        assert [note.kind for note in built.notes] == ["turns_left_out"]
        assert built.n_whole > 1001 * 15
    assert max(rendered) < 250
    cuts = sum(after[: len(before) - 1] != before[:-1] for before, after in pairwise(prompts))
    assert cuts <= n_turns / 2


def test_of_a_long_text_the_end_stays_and_the_cut_holds_while_it_grows():
    """What is left begins the same for many lengths, so that the cache is not read anew."""
    beginnings = set()
    for length in range(250, 400):
        text = words(length)
        built = fit_prompt(TextPrompt(text), build, WINDOW, "drop_oldest")
        kept = "".join(map(chr, built.ids))
        assert text.endswith(kept)
        assert WINDOW * 0.5 < len(built.ids) <= WINDOW - WINDOW // 16
        assert built.n_whole == length
        assert built.cut[0].n_tokens == length - len(kept)
        assert [(part.start, part.end) for part in built.parts] in ([], [(0, len(kept))])
        beginnings.add(length - len(kept))
    assert len(beginnings) == 2


def test_a_text_that_fits_is_left_alone_and_keeps_what_begins_it():
    def with_bos(prompt: Prompt) -> BuiltPrompt:
        assert isinstance(prompt, TextPrompt)
        ids = [1, *(ord(c) for c in prompt.text)]
        parts = [PromptPart(0, 1, "scaffold"), PromptPart(1, len(ids), "text")]
        return BuiltPrompt(ids, prompt.text, parts)

    short = fit_prompt(TextPrompt("abc"), with_bos, WINDOW, "drop_oldest")
    assert (short.ids, short.cut) == ([1, 97, 98, 99], [])
    long = fit_prompt(TextPrompt("y" * 300 + "z"), with_bos, WINDOW, "drop_oldest")
    assert (long.ids[0], long.ids[-1]) == (1, ord("z"))
    first, second = long.parts
    assert (first.start, first.end, second.start, second.end) == (0, 1, 1, len(long.ids))


def test_the_meter_is_told_the_last_message_that_is_left_out() -> None:
    prompt = chat(*[30] * 13, system=10)
    named = ChatPrompt(
        [
            ChatMessage(m.role, m.content, message_id=f"m{number}")
            for number, m in enumerate(prompt.messages)
        ]
    )
    built = fit_prompt(named, build, WINDOW, "drop_oldest")
    gone = [message.message_id for message in built.cut]
    count = counted(built, WINDOW)
    assert gone
    assert (count.n_cut, count.last_cut) == (len(gone), gone[-1])
    assert count.n_tokens == len(built.ids) < count.n_whole
    text = fit_prompt(TextPrompt("a" * 3 * WINDOW), build, WINDOW, "drop_oldest")
    assert (counted(text, WINDOW).n_cut, counted(text, WINDOW).last_cut) == (1, "")
    short = counted(fit_prompt(chat(3), build, WINDOW, "drop_oldest"), WINDOW)
    assert (short.n_cut, short.n_whole, short.last_cut) == (0, 0, "")


@pytest.mark.parametrize("policy", ["stop", "drop_oldest"])
@pytest.mark.parametrize("prompt", [chat(30, 30, 30), chat(*[40] * 9), TextPrompt(words(400))])
def test_a_beginning_that_fits_leaves_the_prompt_above_it_as_it_was(
    policy: fitting.Policy, prompt: ChatPrompt | TextPrompt
) -> None:
    if policy == "stop" and len(build(prompt).ids) > WINDOW:
        with pytest.raises(PromptTooLong):
            fit_prompt(prompt, build, WINDOW, policy)
        return
    bare = fit_prompt(prompt, build, WINDOW, policy)
    begin_ids = [1000 + i for i in range(WINDOW - len(bare.ids))]
    begun = fit_prompt(msgspec.structs.replace(prompt, begin_ids=begin_ids), build, WINDOW, policy)
    assert begun.ids == [*bare.ids, *begin_ids]
    assert (begun.cut, begun.rendered, begun.n_begun) == (bare.cut, bare.rendered, len(begin_ids))
    assert begun.parts[-1] == PromptPart(len(bare.ids), WINDOW, "assistant")


def test_a_beginning_that_does_not_fit_behind_it_costs_more_turns() -> None:
    prompt = chat(*[40] * 5)
    bare = fit_prompt(prompt, build, WINDOW, "drop_oldest")
    begin_ids = list(range(100))
    longer = msgspec.structs.replace(prompt, begin_ids=begin_ids)
    begun = fit_prompt(longer, build, WINDOW, "drop_oldest")
    assert len(begun.ids) <= WINDOW
    assert begun.ids[-100:] == begin_ids
    assert len(begun.cut) > len(bare.cut)
    endless = msgspec.structs.replace(prompt, begin_ids=[0] * WINDOW)
    text = TextPrompt("x" * 300, begin_ids=[0] * (WINDOW + 1))
    short = TextPrompt("x", begin_ids=[0] * (WINDOW + 1))
    for one, policy in (
        *((longer, "stop"), (endless, "drop_oldest"), (endless, "stop")),
        *((text, "drop_oldest"), (short, "drop_oldest"), (short, "stop")),
    ):
        with pytest.raises(PromptTooLong) as refused:
            fit_prompt(one, build, WINDOW, policy)  # type: ignore[arg-type]
        assert refused.value.limit == WINDOW
        assert refused.value.used > WINDOW
        assert f"holds only {WINDOW}" in refused.value.sentence


def test_a_turn_that_was_answered_is_cut_as_when_it_was_asked_and_as_for_a_short_next_one():
    """Without the next question, the meter counts the path alone: it must see the same cut."""
    rng = random.Random(5)
    n_kept = n_further = 0
    for _ in range(2000):
        window = rng.randrange(60, 200)
        turns = [(rng.randrange(3, 25), rng.randrange(3, 60)) for _ in range(rng.randrange(2, 12))]
        chat = [
            Sized(role, size)
            for turn in turns
            for role, size in zip(("user", "assistant"), turn, strict=True)
        ]
        asked = [turn.indices for turn in left_out(chat[:-1], 5, window)]
        answered = [turn.indices for turn in left_out(chat, 5, window)]
        following = [turn.indices for turn in left_out([*chat, Sized("user", 0)], 5, window)]
        assert answered[: len(asked)] == asked
        held = 5 + sum(m.n_tokens for m in chat) - sum(chat[i].n_tokens for t in asked for i in t)
        if held <= window - window // 16:
            assert answered == following == asked
            n_kept += bool(asked)
        else:
            # The turn itself cannot go as long as it is the last one.
            assert answered == [turn for turn in following if turn[0] != len(chat) - 2]
            n_further += 1
    assert n_kept > 100
    assert n_further > 100


# --- the ends are kept ------------------------------------------------------------------------


@pytest.mark.parametrize("n_tokens", [WINDOW - 1, WINDOW, WINDOW + 1])
def test_keeping_the_ends_drops_whole_turns_of_the_middle(n_tokens: int) -> None:
    lengths = [20] * 10
    last = n_tokens - 1 - 1 - 12 - sum(n + 2 for n in lengths) - 2
    built = fit_prompt(chat(*lengths, last, system=10), build, WINDOW, "keep_ends")
    assert built.n_whole == n_tokens
    assert len(built.ids) <= 0.6 * WINDOW
    assert [c.message_id for c in built.cut] == ["m2", "m3", "m4", "m5", "m6", "m7"]
    assert {part.message_id for part in built.parts} == {
        None, "s", "m0", "m1", "m8", "m9", "m10",
    }  # fmt: skip
    assert "6 messages in its middle were dropped" in built.notes[0].sentence
    count = counted(built, WINDOW)
    assert (count.first_cut, count.last_cut, count.n_cut) == ("m2", "m7", 6)


def test_the_first_exchange_goes_only_where_nothing_else_is_left_to_go() -> None:
    built = fit_prompt(chat(60, 60, 20, 20, 20, 20, 130), build, WINDOW, "keep_ends")
    assert [c.message_id for c in built.cut] == [f"m{i}" for i in range(6)]
    assert "its oldest 6 messages were dropped" in built.notes[0].sentence
    # A reply without a question before it belongs to the first exchange.
    opened = chat(5, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20)
    messages = [ChatMessage("assistant", "Hi", message_id="hi"), *opened.messages]
    built = fit_prompt(ChatPrompt(messages), build, 200, "keep_ends")
    assert built.cut[0].message_id == "m2"


def test_a_message_larger_than_the_window_does_not_take_the_first_exchange_along() -> None:
    """It was asked in a larger window."""
    built = fit_prompt(chat(10, 10, 10, 10, 900, 10, 20), build, WINDOW, "keep_ends")
    assert [c.message_id for c in built.cut] == ["m2", "m3", "m4", "m5"]
    assert "4 messages in its middle were dropped" in built.notes[0].sentence


def test_the_middle_stays_out_as_the_chat_goes_on() -> None:
    lengths = [22] * 81
    prompts = [
        fit_prompt(chat(*lengths[: 2 * n + 1], system=10), build, WINDOW, "keep_ends").ids
        for n in range(40)
    ]
    cuts = sum(after[: len(before) - 1] != before[:-1] for before, after in pairwise(prompts))
    assert all(len(ids) <= WINDOW for ids in prompts)
    assert 0 < cuts <= 40 / 2
    head = prompts[1][: 1 + 12 + 2 * 24]  # system prompt and first exchange
    assert all(ids[: len(head)] == head for ids in prompts[1:])


def test_of_a_very_long_chat_the_first_exchange_is_kept_too() -> None:
    lengths = [22] * 1001
    built = fit_prompt(chat(*lengths, system=10), build, WINDOW, "keep_ends")
    gone = [c.message_id for c in built.cut]
    assert gone == [f"m{i}" for i in range(2, 2 + len(gone))]
    assert len(gone) > 900


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_of_a_text_both_ends_are_kept(over: int) -> None:
    limit = WINDOW - WINDOW // fitting.REPLY_SHARE
    text = words(limit + over)
    built = fit_prompt(TextPrompt(text), build, WINDOW, "keep_ends")
    kept = "".join(map(chr, built.ids))
    if over <= 0:
        assert (kept, built.cut) == (text, [])
        return
    n_gone = built.cut[0].n_tokens
    assert kept == text[:32] + text[32 + n_gone :]
    assert "its middle" in built.notes[0].sentence


def test_a_text_cannot_be_summarized_and_that_is_said() -> None:
    built = fit_prompt(TextPrompt(words(300)), build, WINDOW, "summarize")
    assert built.cut
    assert "A text can't be summarized." in built.notes[0].sentence


@settings(max_examples=examples(40))
@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(0, 30))
def test_what_was_left_out_of_the_middle_never_comes_back(sizes: list[int], system: int) -> None:
    messages = [Sized("system", system)] + [
        Sized("assistant" if i % 2 else "user", n) for i, n in enumerate(sizes)
    ]
    before: set[int] = set()
    for end in range(2, len(messages) + 1, 2):
        turns = left_out(messages[:end], 3, WINDOW, keep_first=True)
        gone = {i for turn in turns for i in turn.indices}
        assert before <= gone
        held = 3 + sum(m.n_tokens for i, m in enumerate(messages[:end]) if i not in gone)
        assert held <= WINDOW
        # Where the first exchange went, nothing but the turn that is asked is left.
        assert 1 not in gone or len(gone) == end - 2
        before = gone
