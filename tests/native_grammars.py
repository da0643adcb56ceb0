"""Shows grammars to llama.cpp without any check of ours, each in a fork with little memory:

    python native_grammars.py VOCABULARY.gguf < GRAMMARS.json

Prints a JSON list with what became of each: "taken", "refused", or "died".
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import Any

import llama_cpp

ROOM_BYTES = 48 * 1024 * 1024
DEADLINE_S = 30
_OUTCOMES = {0: "taken", 1: "refused"}


def private_bytes() -> int:
    with open("/proc/self/status", encoding="ascii") as lines:  # noqa: PTH123
        return next(int(line.split()[1]) for line in lines if line.startswith("VmData")) * 1024


def outcome_of(grammar: str, vocabulary: Any) -> str:
    child = os.fork()
    if child == 0:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        limit = private_bytes() + ROOM_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        signal.alarm(DEADLINE_S)
        taken = llama_cpp.llama_sampler_init_grammar(vocabulary, grammar.encode(), b"root")
        os._exit(0 if taken else 1)
    status = os.waitpid(child, 0)[1]
    return _OUTCOMES.get(os.waitstatus_to_exitcode(status), "died")


def main(path: str) -> None:
    options = llama_cpp.llama_model_default_params()
    options.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(path.encode(), options)
    vocabulary = llama_cpp.llama_model_get_vocab(model)
    print(json.dumps([outcome_of(grammar, vocabulary) for grammar in json.load(sys.stdin)]))


if __name__ == "__main__":
    main(sys.argv[1])
