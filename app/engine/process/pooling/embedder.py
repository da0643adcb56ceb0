"""A small embedding model beside the loaded weights: its file checked, loaded, its context.

On the processor, whatever the weights lie on: such a model is small, and the device's memory was
planned without it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

import numpy as np

from app.amounts import bytes_words
from app.engine.planning.estimate import HOST
from app.engine.process.native import native
from app.engine.process.native.logparse import last_error, read_load
from app.engine.process.native.native import Batch, NativeError, NativeLog, llama
from app.engine.process.native.vocabulary import Vocabulary
from app.engine.protocol.loading_messages import MemoryPart
from app.gguf.header import Header
from app.gguf.token_check import read_for_vectors
from app.refusal import Refusal

MOST_CTX: Final = 1024
"""Tokens of a passage, at most: the window of a model with more costs memory that nobody uses."""

_LOOK_EVERY_S: Final = 0.02
_RANKS: Final = "“{name}” ranks texts, so it has no vectors for them. Choose an embedding model."
_NO_ROOM: Final = (
    "“{name}” needs {needed} of memory, which isn't free. Close other programs or choose a smaller "
    "embedding model."
)
_FAILED: Final = (
    "llama.cpp couldn't load “{name}” as an embedding model. The file may be damaged or need a "
    "newer engine. The engine log has the details."
)
_NO_VECTORS: Final = "“{name}” gives no vectors of texts. Choose an embedding model."
_NAMES: Final = {1: "mean", 2: "cls", 3: "last"}
"""llama.cpp's kinds of pooling."""
_PREFIXES: Final = (
    ("nomic-embed", "search_document: ", "search_query: "),
    ("embeddinggemma", "title: none | text: ", "task: search result | query: "),
    ("e5-", "passage: ", "query: "),
    (
        "qwen3-embedding",
        "",
        "Instruct: Given a question, retrieve passages that answer it\nQuery: ",
    ),
)
"""What models were taught to read before a passage and before a question, by a part of their
name; from their model cards."""

Vector = np.ndarray[Any, np.dtype[np.float32]]


def prefixes_of(name: str) -> tuple[str, str]:
    """What stands before a passage, and before a question.

    >>> prefixes_of("Nomic Embed Text v1.5")
    ('search_document: ', 'search_query: ')
    """
    plain = name.lower().replace(" ", "-").replace("_", "-")
    found = ((passage, question) for part, passage, question in _PREFIXES if part in plain)
    return next(found, ("", ""))


class Embedder:
    """A loaded embedding model with its one context. `close` frees both."""

    def __init__(self, header: Header, model: Any, context: Any, memory_bytes: int) -> None:
        self._name = header.path.name
        self._model, self._context = model, context
        self._vocabulary = Vocabulary(llama.llama_model_get_vocab(model))
        self._prefixes = prefixes_of(f"{header.name} {header.path.name}")
        self.memory_bytes = memory_bytes
        self.n_ctx = int(llama.llama_n_ctx(context))
        self.n_embd = int(llama.llama_model_n_embd_out(model))
        self.pooling = _NAMES[int(llama.llama_pooling_type(context))]
        self._batch = Batch(self.n_ctx, 1)

    def set_threads(self, n_threads: int) -> None:
        llama.llama_set_n_threads(self._context, n_threads, n_threads)

    def vector(self, text: str, *, is_question: bool) -> tuple[Vector, int, bool]:
        """[n_embd], of length 1; how many tokens were read; whether the text was cut to the
        window."""
        ids = self._ids(self._prefixes[is_question] + text)
        is_cut = len(ids) > self.n_ctx
        if is_cut:  # what ends a text for the model stays at its end
            ids = [*ids[: self.n_ctx - 1], ids[-1]]
        memory = llama.llama_get_memory(self._context)
        if memory:  # those that only read have none
            llama.llama_memory_clear(memory, True)
        self._batch.clear()
        self._batch.add(ids, 0, 0, want_scores=True, want_all=True)
        code = int(llama.llama_decode(self._context, self._batch.native))
        if code != 0:
            raise NativeError(f"llama_decode returned {code}")
        numbers = llama.llama_get_embeddings_seq(self._context, 0)
        if not numbers:
            raise Refusal("unsupported", _NO_VECTORS.format(name=self._name))
        found = np.ctypeslib.as_array(numbers, (self.n_embd,)).astype(np.float32)
        length = float(np.linalg.norm(found))
        if not np.isfinite(length):
            raise Refusal("no_candidate", f"“{self._name}” computes no numbers for this text.")
        return (found / length if length else found), len(ids), is_cut

    def _ids(self, text: str) -> list[int]:
        """With what the file puts around a text; nothing in it acts as a control token."""
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        ids = (llama.llama_token * room)()
        n = llama.llama_tokenize(self._vocabulary.handle, data, len(data), ids, room, True, False)
        if n < 0:
            raise NativeError(f"llama.cpp could not tokenise {len(data)} bytes")
        return list(ids[:n])

    def close(self) -> None:
        if self._context is not None:
            llama.llama_free(self._context)
            llama.llama_model_free(self._model)
        self._context = self._model = None


def opened(
    path: str,
    n_threads: int,
    log: NativeLog,
    on_planned: Callable[[Sequence[MemoryPart]], object] = lambda parts: None,
) -> Generator[None, None, Embedder]:
    """Load the file at `path` on a thread beside; yields while that goes on. `on_planned` is told
    what it will take, before native code sees it. Raises Refusal."""
    header = read_for_vectors(path)
    needed = header.expected_bytes + _context_bytes(header)
    free = sum(device.free_bytes for device in native.list_devices() if device.kind == "cpu")
    if free < needed:
        raise Refusal(
            "out_of_memory", _NO_ROOM.format(name=header.path.name, needed=bytes_words(needed))
        )
    on_planned([MemoryPart(HOST, "weights", needed)])
    with log.recording() as lines:
        loading = _Loading(path)
        try:
            while loading.is_alive():
                loading.join(_LOOK_EVERY_S)
                yield None
        except GeneratorExit:
            loading.drop()
            raise
        if not loading.model:
            raise Refusal("native_error", _FAILED.format(name=header.path.name), last_error(lines))
        try:
            context = _context(loading.model, header, n_threads)
            memory = sum(part.size_bytes for part in read_load(lines).memory)
            return Embedder(header, loading.model, context, memory)
        except BaseException:
            llama.llama_model_free(loading.model)
            raise


class _Loading(threading.Thread):
    """Native code reads the file; replies go on meanwhile."""

    def __init__(self, path: str) -> None:
        super().__init__(name="embedder", daemon=True)
        self._path = path
        self._is_dropped = threading.Event()
        self.model: Any = None
        self.start()

    def run(self) -> None:
        params = llama.llama_model_default_params()
        params.n_gpu_layers = 0
        callback = llama.llama_progress_callback(lambda done, _: not self._is_dropped.is_set())
        params.progress_callback = callback
        self.model = llama.llama_model_load_from_file(os.fsencode(self._path), params)

    def drop(self) -> None:
        self._is_dropped.set()
        self.join()
        if self.model:
            llama.llama_model_free(self.model)


def _context(model: Any, header: Header, n_threads: int) -> Any:
    params = llama.llama_context_default_params()
    # Those that look both ways read a text in one step.
    n_ctx = _n_ctx(header)
    params.n_ctx = params.n_batch = params.n_ubatch = params.n_outputs_max = n_ctx
    params.n_seq_max = 1
    params.embeddings = True
    params.n_threads = params.n_threads_batch = n_threads
    context = llama.llama_init_from_model(model, params)
    if not context:
        raise Refusal("native_error", _FAILED.format(name=header.path.name))
    if int(llama.llama_pooling_type(context)) == 0:  # the file doesn't say how
        llama.llama_free(context)
        params.pooling_type = llama.LLAMA_POOLING_TYPE_MEAN
        context = llama.llama_init_from_model(model, params)
    if context and int(llama.llama_pooling_type(context)) not in _NAMES:
        llama.llama_free(context)
        raise Refusal("unsupported", _RANKS.format(name=header.path.name))
    if not context:
        raise Refusal("native_error", _FAILED.format(name=header.path.name))
    return context


def _n_ctx(header: Header) -> int:
    return min(max(header.number("context_length") or MOST_CTX, 8), MOST_CTX)


def _context_bytes(header: Header) -> int:
    """A bound on what a context takes: scores of attention, and some rows as wide as the feed
    forward's."""
    n_ctx, heads = _n_ctx(header), header.number("attention.head_count") or 1
    width = max(header.number("feed_forward_length") or 0, 4 * (header.n_embd or 0))
    return 4 * n_ctx * (max(heads, 1) * n_ctx * 2 + width * 4)
