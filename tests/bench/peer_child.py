"""llama.cpp's own server, started as a program by `peer`: prints its address, then serves.

    python tests/bench/peer_child.py GGUF N_CTX N_THREADS [N_SLOTS] [embedding]

It is the real one, out of the wheel of xllamacpp. It ends with its standard input. N_CTX is of all
slots together.
"""

from __future__ import annotations

import os
import sys

import xllamacpp


def main() -> None:
    gguf, n_ctx, n_threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.n_ctx = n_ctx
    params.n_parallel = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    params.embedding = "embedding" in sys.argv[5:]
    params.cpuparams.n_threads = n_threads
    params.cpuparams_batch.n_threads = n_threads
    params.port = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # its threads have nothing to save


if __name__ == "__main__":
    main()
