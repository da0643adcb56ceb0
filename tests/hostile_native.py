"""Loads every mutation that our reader accepts into llama.cpp, each in a fork. Run by hand, or by
`make soak` through tests/app/engine/process/native/test_hostile_native.py:

    python hostile_native.py FILE

Prints JSON: how many were tried, and the names of those at which llama.cpp ended the process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path

# The bindings themselves: the package may be ours, without what its `__init__` adds (native.py).
import llama_cpp.llama_cpp as llama_cpp
from gguf_fields import mutations_of
from hostile_headers import outcome_of

DEADLINE_S = 20


def load_and_decode(path: Path) -> None:
    """As far as the file goes: load, tokenise, decode."""
    model = llama_cpp.llama_model_load_from_file(
        str(path).encode(), llama_cpp.llama_model_default_params()
    )
    if not model:
        return
    options = llama_cpp.llama_context_default_params()
    options.n_ctx, options.n_threads = 64, 1
    context = llama_cpp.llama_init_from_model(model, options)
    if not context:
        return
    tokens = (llama_cpp.llama_token * 64)()
    vocabulary = llama_cpp.llama_model_get_vocab(model)
    count = llama_cpp.llama_tokenize(vocabulary, b"hello world", 11, tokens, 64, True, True)
    if count > 0:
        llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, count))


def ends_well(path: Path) -> bool:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            signal.alarm(DEADLINE_S)
            load_and_decode(path)
            status = 0
        finally:  # whatever happens: it must not go on as the one that forked
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def main(path: Path) -> None:
    whole = path.read_bytes()
    tried, bad = 0, []
    with tempfile.TemporaryDirectory() as folder:
        mutated = Path(folder) / "mutated.gguf"
        for mutation in mutations_of(whole):
            data = mutation.applied(whole)
            if outcome_of(data) != "accepted":
                continue
            mutated.write_bytes(data)
            tried += 1
            if not ends_well(mutated):
                bad.append(mutation.name)
    print(json.dumps({"tried": tried, "bad": bad}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
