"""Exit numbers become sentences that name the cause and what to do."""

from __future__ import annotations

import pytest
from each import each

from app.engine.client.exits import Doing, describe_exit, last_words


@each(
    ("code", "kind", "words"),
    [
        (-11, "native_error", ["crashed", "SIGSEGV"]),
        (139, "native_error", ["SIGSEGV"]),
        (-6, "native_error", ["SIGABRT", "check failed"]),
        (-9, "out_of_memory", ["SIGKILL", "ran out of memory", "smaller"]),
        (137, "out_of_memory", ["SIGKILL"]),
        (-7, "native_error", ["SIGBUS", "file"]),
        (-4, "native_error", ["SIGILL", "CPU"]),
        (-15, "native_error", ["Another program stopped"]),
        (3, "native_error", ["exit code 3"]),
        (0, "native_error", ["stopped unexpectedly"]),
        (127, "unsupported", ["library"]),
        (0xC0000135, "unsupported", ["library", "0xC0000135"]),
        (0xC0000135 - 2**32, "unsupported", ["0xC0000135"]),
        (0xC0000005, "native_error", ["crashed", "access violation"]),
        (0xC000001D, "native_error", ["CPU"]),
        (0xC0000017, "out_of_memory", ["out of memory"]),
        (255, "native_error", ["exit code 255"]),
        (-64, "native_error", ["SIG"]),
    ],
)
def test_each_way_to_end_has_its_words(code: int, kind: str, words: list[str]) -> None:
    """C07."""
    report = describe_exit(code, "answering")
    assert report.kind == kind
    for word in words:
        assert word in report.sentence
    assert report.sentence.endswith((".", "?"))
    assert str(code) not in report.sentence or 0 <= code < 256


@pytest.mark.parametrize(
    ("line", "code", "kind", "words"),
    [
        ("terminate called after throwing 'std::bad_alloc'", -6, "out_of_memory", "memory"),
        ("ggml_backend_cpu_buffer: failed to allocate buffer", 1, "out_of_memory", "memory"),
        ("CUDA error: out of memory", -6, "out_of_memory", "memory"),
        ("x: error while loading shared libraries: libx.so.1: no", 127, "unsupported", "libx.so.1"),
        ("OSError: libcuda.so.1: cannot open shared object file", 1, "unsupported", "libcuda.so.1"),
        ("ModuleNotFoundError: No module named 'llama_cpp'", 1, "unsupported", "llama_cpp"),
        ("ImportError: DLL load failed while importing x", 1, "unsupported", "library"),
    ],
)
def test_the_last_lines_say_more_than_the_number(
    line: str, code: int, kind: str, words: str
) -> None:
    report = describe_exit(code, "loading", ["an ordinary line", line])
    assert report.kind == kind
    assert words in report.sentence


def test_the_cause_stands_before_the_stacks_of_all_threads() -> None:
    """Python prints them where native code ends the process: some 50 lines with five threads."""
    cause = "terminate called after throwing an instance of 'std::bad_alloc'"
    stacks = ["Fatal Python error: Aborted", *(f'  File "x.py", line {i}' for i in range(50))]
    earlier = ["failed to allocate", *(f"line {i}" for i in range(99))]
    words = last_words([*earlier, cause, *stacks])
    assert describe_exit(-6, "answering", words).kind == "out_of_memory"
    assert describe_exit(-6, "answering", last_words([*earlier, *stacks])).kind == "native_error"
    assert last_words(earlier) == earlier[-40:]
    assert len(words) == 80
    later = [*earlier, cause, *stacks, *(f"line {i}" for i in range(99))]
    assert last_words(later) == earlier[-40:]


def test_an_orderly_end_is_no_lack_of_memory_whatever_was_logged() -> None:
    assert describe_exit(0, "idle", ["out of memory, trying less"]).kind == "native_error"


@pytest.mark.parametrize(
    ("doing", "words"),
    [
        ("starting", "while starting"),
        ("loading", "while loading the model"),
        ("loading draft", "while loading the draft model. Choose another draft model or none"),
        ("loading projector", "while loading the projector. Choose another projector or none"),
        ("answering", "The partial reply is kept"),
        ("idle", "reloads with your next message"),
    ],
)
def test_the_sentence_says_what_was_going_on(doing: Doing, words: str) -> None:
    assert words in describe_exit(-11, doing).sentence


@pytest.mark.parametrize("code", [-11, -6, -7, -9, -15, 0, 3])
def test_a_file_that_was_being_loaded_is_named(code: int) -> None:
    assert "while loading “big.gguf”" in describe_exit(code, "loading", file="big.gguf").sentence
    assert "big" not in describe_exit(code, "answering", file="big.gguf").sentence
    out_of_memory = describe_exit(1, "loading", ["std::bad_alloc"], file="big.gguf")
    assert "“big.gguf”" in out_of_memory.sentence
