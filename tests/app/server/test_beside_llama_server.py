"""The same file behind our server and behind llama.cpp's own: the same greedy text, and the same
top log-probabilities. In float32 (`plain_file.py` says why)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from bench.served import WORDS, Program, both
from plain_file import in_float32

pytestmark = [pytest.mark.soak, pytest.mark.weights]

N_WRITTEN = 32
NEAR = 0.05
"""Of log-probabilities: passes of another shape give other last bits."""


@pytest.fixture(scope="module", params=["starter_gguf", "gemma_gguf"])
def programs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Program, Program]]:
    source = request.getfixturevalue(request.param)
    plain = in_float32(source, tmp_path_factory.mktemp("plain") / "plain.gguf")
    with both(str(plain), n_threads=2, n_slots=1) as found:
        yield found
    plain.unlink()


Step = tuple[str, float, dict[str, float]]
"""A token, its log-probability, and those of the best candidates."""


def _of_chat(entries: list[Any]) -> list[Step]:
    return [
        (
            each["token"],
            each["logprob"],
            {one["token"]: one["logprob"] for one in each["top_logprobs"]},
        )
        for each in entries
    ]


def _of_text(scores: Any) -> list[Step]:
    """OpenAI's shape for texts; llama-server has that of chats here, too."""
    if "content" in scores:
        return _of_chat(scores["content"])
    parts = (scores["tokens"], scores["token_logprobs"], scores["top_logprobs"])
    return list(zip(*parts, strict=True))


def _check(ours: list[Step], theirs: list[Step], least: int = 4) -> None:
    """The same tokens with the same scores, until two candidates are as good as equal: then a last
    bit decides, and what follows is another text."""
    assert min(len(ours), len(theirs)) >= least
    for own, other in zip(ours, theirs, strict=False):
        shared = own[2].keys() & other[2].keys()
        assert len(shared) >= len(own[2]) - 1  # at the edge of the best a last bit decides, too
        for token in shared:
            assert own[2][token] == pytest.approx(other[2][token], abs=NEAR)
        if own[0] != other[0]:
            assert own[1] == pytest.approx(other[1], abs=NEAR)
            return
        assert own[1] == pytest.approx(other[1], abs=NEAR)
    assert len(theirs) - len(ours) in (0, 1)  # they tell of the end token, too


@pytest.mark.parametrize("prompt", WORDS[:4])
def test_a_text_goes_on_with_the_same_tokens(
    programs: tuple[Program, Program], prompt: str
) -> None:
    body = {"prompt": prompt, "max_tokens": N_WRITTEN, "temperature": 0.0, "n_probs": 5}
    ours, theirs = (program.ask("/v1/completions", body)["choices"][0] for program in programs)
    _check(_of_text(ours["logprobs"]), _of_text(theirs["logprobs"]))


@pytest.mark.parametrize("is_streaming", [False, True])
def test_a_chat_has_the_same_answer_scores_and_counts(
    programs: tuple[Program, Program], is_streaming: bool
) -> None:
    messages = [
        {"role": "system", "content": "You answer in one sentence."},
        {"role": "user", "content": "What is the sea made of?"},
    ]
    body = {
        "messages": messages,
        "max_tokens": N_WRITTEN,
        "temperature": 0.0,
        "logprobs": True,
        "top_logprobs": 5,
    }
    found = []
    for program in programs:
        if is_streaming:
            chunks = program.stream("/v1/chat/completions", body)
            choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
            text = "".join(choice["delta"].get("content") or "" for choice in choices)
            scores = [s for c in choices if c.get("logprobs") for s in c["logprobs"]["content"]]
            found.append((text, scores, choices[-1]["finish_reason"], None))
        else:
            answer = program.ask("/v1/chat/completions", body)
            choice = answer["choices"][0]
            text, scores = choice["message"]["content"], choice["logprobs"]["content"]
            counts = (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"])
            found.append((text, scores, choice["finish_reason"], counts))
    (text, scores, ending, counts), (text_2, scores_2, ending_2, counts_2) = found
    _check(_of_chat(scores), _of_chat(scores_2))
    assert text == "".join(step[0] for step in _of_chat(scores))
    if text == text_2:
        assert ending == ending_2
        if counts is not None and counts_2 is not None:
            assert counts[0] == counts_2[0]
            is_ended = ending == "stop"  # they count the end token as one that was written
            assert counts[1] == counts_2[1] - is_ended


@pytest.mark.parametrize(
    "fields",
    [
        {"repeat_penalty": 1.3, "repeat_last_n": 32},
        {"presence_penalty": 1.5, "frequency_penalty": 0.5},
        {"dry_multiplier": 2.0, "dry_allowed_length": 1},
        {"logit_bias": [[11, False], [" the", -5.0]]},
        {"grammar": 'root ::= [a-z ]+ "."'},
    ],
)
def test_what_shapes_a_greedy_draw_shapes_it_alike(
    programs: tuple[Program, Program], fields: dict[str, Any]
) -> None:
    body = {"prompt": WORDS[0], "max_tokens": 24, "temperature": 0.0, "n_probs": 5, **fields}
    ours, theirs = (program.ask("/v1/completions", body)["choices"][0] for program in programs)
    # Scores are those before the samplers, so they tell nothing of how near the draw was.
    steps = [_of_text(each["logprobs"]) for each in (ours, theirs)]
    same = [own[0] == other[0] for own, other in zip(*steps, strict=False)]
    assert all(same[:8]), (ours["text"], theirs["text"])


def test_a_schema_is_held_where_others_hold_it(programs: tuple[Program, Program]) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    messages = [{"role": "user", "content": "Invent a person."}]
    body = {"messages": messages, "response_format": form, "temperature": 0.0, "max_tokens": 200}
    for program in programs:
        choice = program.ask("/v1/chat/completions", body)["choices"][0]
        made = json.loads(choice["message"]["content"])
        assert set(made) == {"name", "age"}
        assert isinstance(made["age"], int)


def test_a_chat_that_grows_reads_only_what_is_new(programs: tuple[Program, Program]) -> None:
    ours = programs[0]
    messages: list[Any] = [{"role": "user", "content": f"Tell me a story. {' '.join(WORDS)}"}]
    first = ours.ask(
        "/v1/chat/completions", {"messages": messages, "max_tokens": 40, "temperature": 1.5}
    )
    messages += [first["choices"][0]["message"], {"role": "user", "content": "Go on."}]
    second = ours.ask("/v1/chat/completions", {"messages": messages, "max_tokens": 4})
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    whole = first["usage"]["prompt_tokens"] + first["usage"]["completion_tokens"]
    assert cached >= whole - 2
    assert second["timings"]["prompt_n"] == second["usage"]["prompt_tokens"] - cached
