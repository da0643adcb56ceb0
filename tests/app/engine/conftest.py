"""Fixtures for the engine: weights in this process, loaded once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from forked import Source, fork_from

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parent / "prompts"))

if TYPE_CHECKING:
    from conversation import Conversation
    from gguf_writer import Vocabulary
    from native_session import NativeSession

    from app.engine.process.native.native import NativeLog
    from app.engine.process.native.weights import Weights


@pytest.fixture(scope="session")
def native_log() -> NativeLog:
    """llama.cpp's log; it is installed for the whole process, so there is one."""
    from app.engine.process.native import native

    log = native.NativeLog()
    native.start(log)
    return log


@pytest.fixture(scope="session")
def starter(starter_gguf: Path, native_log: NativeLog) -> Iterator[Weights]:
    """The starter weights with a context of 1,024 tokens. One thread: on a busy machine several
    wait for each other and take ten times as long."""
    from native_session import load_quietly

    options = {"n_ctx": 1024, "n_ubatch": 64, "n_threads": 1, "n_slots": 4}
    weights = load_quietly(starter_gguf, native_log, **options)
    yield weights
    weights.close()


@pytest.fixture(scope="session")
def gemma(gemma_gguf: Path, native_log: NativeLog) -> Iterator[Weights]:
    """Gemma with the same settings: another architecture, with sliding windows."""
    from native_session import load_quietly

    weights = load_quietly(gemma_gguf, native_log, n_ctx=1024, n_ubatch=64, n_threads=1)
    yield weights
    weights.close()


@pytest.fixture(scope="session")
def made_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small random weights, for what any weights show."""
    from gguf_writer import tiny_llama

    path = tmp_path_factory.mktemp("made") / "llama.gguf"
    tiny_llama(path, vocabulary=_many_words(), n_ctx_train=1024)
    return path


@pytest.fixture(scope="session")
def made(made_gguf: Path, native_log: NativeLog) -> Iterator[Weights]:
    """Those, with the same settings."""
    from native_session import load_quietly

    weights = load_quietly(made_gguf, native_log, n_ctx=1024, n_ubatch=64, n_threads=1)
    yield weights
    weights.close()


@pytest.fixture(scope="session")
def made_window(
    native_log: NativeLog, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Weights]:
    """The same with a sliding window of 512 tokens, as Gemma has one."""
    from native_session import load_quietly
    from window_gguf import tiny_gemma

    path = tmp_path_factory.mktemp("made") / "gemma.gguf"
    tiny_gemma(path, vocabulary=_many_words())
    weights = load_quietly(path, native_log, n_ctx=1024, n_ubatch=64, n_threads=1)
    yield weights
    weights.close()


def _many_words() -> Vocabulary:
    """A vocabulary of 843 tokens."""
    from gguf_writer import bpe_vocabulary

    return bpe_vocabulary(f" {a}{b}{c}" for a in "abcdefgh" for b in "ijklmnop" for c in "qrstuvwx")


@pytest.fixture
def session(starter: Weights, native_log: NativeLog) -> NativeSession:
    """A scheduler on the starter weights, with nothing in its cells."""
    from native_session import NativeSession

    return NativeSession(starter, native_log)


@pytest.fixture
def made_session(made: Weights, native_log: NativeLog) -> NativeSession:
    """The same on the small random weights."""
    from native_session import NativeSession

    return NativeSession(made, native_log)


@pytest.fixture(scope="session")
def forked_conversation(forked_engine_source: Source | None) -> Callable[[], Conversation]:
    """Begins a conversation with an engine that is forked, not started; whoever asks leaves it."""
    from conversation import Conversation

    def begin() -> Conversation:
        with pytest.MonkeyPatch.context() as patch:
            fork_from(forked_engine_source, patch, "engine")
            return Conversation()

    return begin
