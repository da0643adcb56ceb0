"""Reads hostile headers in a process of its own, and says what it cost. Run by test_hostile.py:

    python hostile_headers.py mutations FILE     every mutation of FILE, one after another
    python hostile_headers.py each FILE…         each file in a fork, measured by the kernel

Prints JSON. Ends with 0 whatever the headers say; else the reader has let something through.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from gguf_fields import Mutation, mutations_of

from app.gguf.chat_check import check_for_chat, read_chat_header
from app.gguf.facts import facts_of
from app.gguf.header import Header, read_header_of
from app.gguf.refusal import HeaderRefused


class BytesSource:
    """A file that is no file."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.size_bytes = len(data)
        self._data = data

    def read_at(self, offset: int, count: int) -> bytes:
        return self._data[offset : offset + count]

    def close(self) -> None:
        pass


def outcome_of(data: bytes) -> str:
    """How it ended. Everything but a header and a refusal in a sentence is an error."""
    try:
        header = read_header_of(BytesSource("hostile.gguf", data))
        check_bounds(header)
        facts_of(header)
        check_for_chat(header)
    except HeaderRefused as refused:
        return _kind_of_sentence(refused)
    return "accepted"


def _kind_of_sentence(refused: HeaderRefused) -> str:
    assert refused.sentence.endswith("."), refused.sentence
    assert len(refused.sentence) < 600
    refused.sentence.encode()
    return refused.kind


def check_bounds(header: Header) -> None:
    """What was accepted lies in the file."""
    for tensor in header.tensors:
        assert header.data_offset + tensor.offset + tensor.size_bytes <= header.size_bytes
    ends = [entry.end for entry in header.entries.values()]
    assert all(end <= header.table_end <= header.data_offset for end in ends)


def read_mutations(path: Path) -> dict[str, Any]:
    """Outcomes by kind, the longest in seconds, growth of the resident set over all in bytes."""
    whole = path.read_bytes()
    kinds: Counter[str] = Counter()
    seconds, wrong_cuts, before = 0.0, [], _status("VmRSS")
    for mutation in mutations_of(whole):
        data = mutation.applied(whole)
        begun = time.thread_time()
        kind = _named_outcome(mutation, data)
        seconds = max(seconds, time.thread_time() - begun)
        kinds[kind] += 1
        if mutation.length is not None and kind != ("incomplete_file" if data else "not_a_gguf"):
            wrong_cuts.append(mutation.name)
    grown = _status("VmHWM") - before
    return {"kinds": kinds, "seconds": seconds, "grown": grown, "wrong_cuts": wrong_cuts}


def _named_outcome(mutation: Mutation, data: bytes) -> str:
    try:
        return outcome_of(data)
    except BaseException as error:
        error.add_note(f"with {mutation.name}")
        raise


def read_in_fork(path: Path) -> dict[str, Any]:
    """Kind of the outcome, seconds of processor, growth of the resident set in bytes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        before, begun = _status("VmRSS"), time.process_time()
        try:
            read_chat_header(path)
            kind = "accepted"
        except HeaderRefused as refused:
            kind = refused.sentence
        spent = time.process_time() - begun
        found = {"kind": kind, "seconds": spent, "grown": _status("VmHWM") - before}
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"{path.name} ended the process: {status}"
    return {"name": path.name, **json.loads(told)}


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    paths = [Path(argument) for argument in sys.argv[2:]]
    if sys.argv[1] == "mutations":
        print(json.dumps(read_mutations(paths[0])))
    else:
        print(json.dumps([read_in_fork(path) for path in paths]))
