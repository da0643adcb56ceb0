"""`ask --answers`: each answer whole, one that fails beside the others, and the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import bpe_vocabulary, tiny_llama

from app.command_line import cli

pytestmark = pytest.mark.usefixtures("forked_children", "forked_engines")


def words(*texts: str, **fields: Any) -> dict[str, Any]:
    stages = [["temperature", 9, 0.5], ["dist", 9, 0.25]]
    return {"tokens": [{"text": t, "probability": 0.5, "stages": stages} for t in texts]} | fields


@pytest.fixture
def script(tmp_path: Path) -> Any:
    def write(*replies: dict[str, Any]) -> str:
        path = tmp_path / "script.json"
        path.write_text(json.dumps({"load": {"ms": 1}, "replies": list(replies)}), "utf-8")
        return str(path)

    return write


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_each_answer_and_then_the_table(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = script(words("The", " cat"), words("The", " dog"), words("A", " cat"))
    assert cli.main(["Hi", "--answers", "3", "--seed", "5", "--scripted", path]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Answer 1 · seed 5\nThe cat\n\nAnswer 2 · seed 6\nThe dog\n")
    assert "1 at once," in out  # the script plays one after the other
    table = out[out.index("First difference") :].splitlines()
    assert table[0] == "First difference at token 1, in 3 answers:"
    assert [line.split()[:3] for line in table[2:]] == [
        ["'The'", "2", "66.7%"],
        ["'A'", "1", "33.3%"],
    ]


def test_json_names_the_answer_of_each_line(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(words("The"), words("A"))
    assert cli.main(["Hi", "--answers", "2", "--json", "--scripted", path]) == 0
    found = lines(capsys.readouterr().out)
    tokens = [(line["answer"], line["text"]) for line in found if line["event"] == "token"]
    assert tokens == [(1, "The"), (2, "A")]
    summaries = [line for line in found if line["event"] == "summary"]
    assert [line["answer"] for line in summaries] == [1, 2]
    assert len({line["seed"] for line in summaries}) == 2
    (batch,) = (line for line in found if line["event"] == "batch")
    assert [(one["answer"], one["written"]) for one in batch["answers"]] == [(1, 1), (2, 1)]
    table = found[-1]
    assert (table["event"], table["position"], table["n"]) == ("outcomes", 0, 2)
    assert {row["text"]: row["expected"] for row in table["rows"]} == {"The": 0.25, "A": 0.25}


def test_one_that_fails_ends_no_other(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    broken = {"tokens": [{"text": "Ha"}, {"fail": {"kind": "native_error", "sentence": "No."}}]}
    path = script(words("One"), broken, words("Three"))
    assert cli.main(["Hi", "--answers", "3", "--scripted", path]) == 1
    out, err = capsys.readouterr()
    assert [text in out for text in ("One", "Ha", "Three")] == [True] * 3
    assert err == "Answer 2: No.\n"


def test_settings_of_each_are_listed_in_the_file(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.json"
    warm: dict[str, Any] = {"temperature": 1.5, "seed": 1}
    chain = {"chain": [{"stage": "top_k", "k": 3}], "seed": 2}
    content = {"temperature": 0.3, "max_tokens": 7, "answers": [warm, chain]}
    file.write_text(json.dumps(content), encoding="utf-8")
    path = script(words("One"), words("Two"))
    code = cli.main(["Hi", "--settings", str(file), "--json", "--scripted", path])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    found = lines(out)
    assert [line["seed"] for line in found if line["event"] == "summary"] == [1, 2]
    assert found[-1]["event"] == "batch"  # other settings, other odds: no table


@pytest.mark.parametrize(
    ("arguments", "content", "words_of_it"),
    [
        (["--answers", "0"], None, "between 1 and 64"),
        (["--answers", "65"], None, "between 1 and 64"),
        ([], {"answers": []}, "a list of 1 to 64"),
        ([], {"answers": [1]}, "a list of 1 to 64"),
        (["--answers", "3"], {"answers": [{}, {}]}, "--answers says 3"),
        ([], {"answers": [{"load": {}}]}, "how the model is loaded"),
        ([], {"answers": [{"top_kk": 1}]}, "top_kk"),
    ],
)
def test_wrong_arguments(
    script: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    content: dict[str, Any] | None,
    words_of_it: str,
) -> None:
    if content is not None:
        file = tmp_path / "settings.json"
        file.write_text(json.dumps(content), encoding="utf-8")
        arguments = [*arguments, "--settings", str(file)]
    assert cli.main(["Hi", *arguments, "--scripted", script(words("One"))]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words_of_it in err
    assert err.count("\n") == 1


@pytest.mark.weights
def test_eight_of_a_real_file_share_their_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each expected share against the softmax of the same candidates: at temperature 1 and with
    nothing but chance, both columns say the same."""
    gguf = tmp_path / "tiny.gguf"
    tiny_llama(gguf, vocabulary=bpe_vocabulary())
    settings = tmp_path / "settings.json"
    settings.write_text('{"chain": [{"stage": "dist"}], "ban_end_token": true}', encoding="utf-8")
    # Long enough that the last of them is asked for while the first one writes.
    arguments = ["--raw", "--answers", "8", "--max-tokens", "200", "--threads", "1", "--json"]
    assert (
        cli.main(
            ["A text to go on with", *arguments, "--settings", str(settings), "--gguf", str(gguf)]
        )
        == 0
    )
    found = {line["event"]: line for line in lines(capsys.readouterr().out)}
    assert found["batch"]["at_once"] == 8
    read = [answer["read"] for answer in found["batch"]["answers"]]
    # One reads the prompt; the others take over most of it.
    assert 2 * sorted(read)[6] < sorted(read)[7], read
    rows = found["outcomes"]["rows"]
    assert sum(row["count"] for row in rows) == found["outcomes"]["n"] == 8
    for row in rows:
        assert row["expected"] == pytest.approx(row["model"], rel=0.02)
