"""A real llama-server (`xllamacpp`) or llama-cpp-python's own, in a process of its own on loopback.

    with llama_server(path) as url: …

Run as a program it is that process: it prints its address and serves until its stdin ends.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

_START_S = 120.0


@contextlib.contextmanager
def llama_server(
    gguf: Path, *, kind: str = "xllamacpp", n_ctx: int = 1024, projector: Path | None = None
) -> Iterator[str]:
    """Its address. The process is gone afterwards."""
    child = subprocess.Popen(
        [sys.executable, __file__, kind, str(gguf), str(n_ctx), str(projector or "")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        line = child.stdout.readline().strip()
        assert line.startswith("http://"), f"{kind} ended with {child.wait()}: {line}"
        yield line
    finally:
        child.stdin.close()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _serve_xllamacpp(gguf: str, n_ctx: int, _port: int, projector: str) -> object:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.mmproj.path, params.mmproj_use_gpu = projector, False
    params.n_ctx, params.n_parallel, params.n_gpu_layers = n_ctx, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup, params.fit_params = False, False
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    return xllamacpp.Server(params)


def _serve_llama_cpp_python(gguf: str, n_ctx: int, port: int, _projector: str) -> object:
    import uvicorn
    from llama_cpp.server.app import create_app
    from llama_cpp.server.settings import ModelSettings, ServerSettings

    settings = ModelSettings(
        model=gguf, n_ctx=n_ctx, n_threads=1, logits_all=True, verbose=False, model_alias="made"
    )
    app = create_app(server_settings=ServerSettings(), model_settings=[settings])
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error")
    threading.Thread(target=uvicorn.Server(config).run, daemon=True).start()
    return app


def main(kind: str, gguf: str, n_ctx: str, projector: str) -> None:
    address = os.dup(1)
    os.dup2(2, 1)  # native code prints where it likes
    port = _free_port()
    serve = _serve_xllamacpp if kind == "xllamacpp" else _serve_llama_cpp_python
    server = serve(gguf, int(n_ctx), port, projector)
    url = getattr(server, "listening_address", "") or f"http://127.0.0.1:{port}"
    ends_at = time.monotonic() + _START_S
    while time.monotonic() < ends_at:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/v1/models", timeout=5):
            break
        time.sleep(0.02)
    os.write(address, f"{url}\n".encode())
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
