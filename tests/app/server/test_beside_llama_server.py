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


def _top(entry: dict[str, Any]) -> dict[int, float]:
    return {each["id"]: each["logprob"] for each in entry["top_logprobs"]}


def _check_scores(ours: list[Any], theirs: list[Any]) -> None:
    assert [each["id"] for each in ours] == [each["id"] for each in theirs]
    for own, other in zip(ours, theirs, strict=True):
        assert own["bytes"] == other["bytes"]
        assert own["logprob"] == pytest.approx(other["logprob"], abs=NEAR)
        mine, others = _top(own), _top(other)
        assert len(mine) == len(others) == 5
        shared = mine.keys() & others.keys()
        assert len(shared) >= 4  # at the edge of the five a last bit decides
        for token_id in shared:
            assert mine[token_id] == pytest.approx(others[token_id], abs=NEAR)


@pytest.mark.parametrize("prompt", WORDS[:4])
def test_a_text_goes_on_with_the_same_tokens(
    programs: tuple[Program, Program], prompt: str
) -> None:
    body = {"prompt": prompt, "max_tokens": N_WRITTEN, "temperature": 0.0, "n_probs": 5}
    ours, theirs = (program.ask("/v1/completions", body)["choices"][0] for program in programs)
    assert ours["text"] == theirs["text"]
    assert ours["finish_reason"] == theirs["finish_reason"]
    told = theirs["logprobs"]["content"]
    assert ours["logprobs"]["tokens"] == [each["token"] for each in told]
    expected = [each["logprob"] for each in told]
    assert ours["logprobs"]["token_logprobs"] == pytest.approx(expected, abs=NEAR)


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
    assert text == text_2
    assert (ending, counts) == (ending_2, counts_2)
    _check_scores(scores, scores_2)


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
    body = {"prompt": WORDS[0], "max_tokens": 32, "temperature": 0.0, **fields}
    ours, theirs = (program.ask("/v1/completions", body)["choices"][0] for program in programs)
    assert ours["text"] == theirs["text"]


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
