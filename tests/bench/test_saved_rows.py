"""Chats that were saved, against the clock: with the included weights, in turns, as ratios."""

from __future__ import annotations

import os
import statistics
import threading
import time
from pathlib import Path

import pytest

from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.process.cache.keeping import SAVE_AT_END_S
from app.engine.protocol.cache_messages import CacheMap, ReadCache
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Command, CountPrompt, Finished, Generate, Summary, Tokenize
from app.engine.protocol.prompt_messages import IdsPrompt
from app.engine.protocol.saved_messages import KEY_BYTES, SavedFolder
from app.engine.protocol.stages import Greedy, Sampling

pytestmark = [pytest.mark.weights, pytest.mark.soak]

GREEDY = Sampling(filters=[], select=Greedy(), ban_end_token=True)
TEXT = "The lighthouse keeper counted the ships, wrote their names into his book, and slept. "
QUESTION = " And what did he write into it on the day when no ship came to the harbour, and why?"
TURNS = 5
N_TOKENS = 2000
PATIENCE_S = 240.0


class Run:
    """One run of the engine, as the window has it."""

    def __init__(self, gguf: Path, folder: Path, *, may_write: bool = True) -> None:
        self._engine = Engine(child_command("engine"), lambda event: None)
        saved = SavedFolder(os.fsencode(folder), bytes(KEY_BYTES), 1 << 40, may_write)
        # Two threads wait for each other beside other programs, until the governor has seen it.
        options = LoadOptions(n_ctx=4096, n_threads=1, governor=False)
        assert isinstance(self._wait(self._engine.load(gguf, options, saved)), Finished)

    def _wait(self, request_id: int) -> object:
        return self._engine.wait_for(request_id, PATIENCE_S)

    def ask(self, command: Command) -> object:
        ending = self._wait(self._engine.request(command))
        assert isinstance(ending, Finished), ending
        return ending.result

    def ids(self, text: str) -> list[int]:
        tokens = self.ask(Tokenize(0, text))
        return list(tokens.token_ids)  # type: ignore[attr-defined]

    def reply(self, ids: list[int], *, is_stored: bool = False, length: int = 2) -> Summary:
        request = Generate(
            0,
            IdsPrompt(ids),
            GREEDY,
            max_tokens=length,
            conversation="a",
            is_stored=is_stored,
        )
        summary = self.ask(request)
        assert isinstance(summary, Summary)
        return summary

    def open_chat(self, ids: list[int]) -> None:
        """What the window does when a chat comes on screen; ends when it is in host memory."""
        self.ask(CountPrompt(0, IdsPrompt(ids)))
        pause = threading.Event()
        ends_at = time.monotonic() + PATIENCE_S
        while True:
            told = self.ask(ReadCache(0))
            assert isinstance(told, CacheMap)
            if told.parked:
                return
            assert time.monotonic() < ends_at
            pause.wait(0.01)

    def close(self) -> float:
        """How long it takes."""
        started = time.perf_counter()
        self._engine.close()
        return time.perf_counter() - started


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kv"


def test_a_chat_that_was_closed_goes_on_as_if_it_never_had_been(
    starter_gguf: Path, folder: Path
) -> None:
    """Time to the first token: after a restart ÷ in the run that goes on."""
    first = Run(starter_gguf, folder)
    ids, question = first.ids(TEXT * 200)[:N_TOKENS], first.ids(QUESTION)
    unread = first.reply(ids, is_stored=True).first_token_s
    closing_s = first.close()
    (file,) = folder.iterdir()
    warm, opened, sent_at_once, closings = [], [], [], []
    for _ in range(TURNS):
        run = Run(starter_gguf, folder, may_write=False)
        run.reply(question)  # the first pass through weights reads them from the disk
        run.open_chat(ids)
        reply = run.reply([*ids, *question])
        assert (reply.reuse_source, reply.evaluated) == ("saved", len(question))
        opened.append(reply.first_token_s)
        run.reply(ids)
        reply = run.reply([*ids, *question])
        assert (reply.reuse_source, reply.evaluated) == ("slot", len(question))
        warm.append(reply.first_token_s)
        closings.append(run.close())
        run = Run(starter_gguf, folder, may_write=False)
        run.reply(question)
        reply = run.reply([*ids, *question])
        assert reply.reuse_source == "saved"
        sent_at_once.append(reply.first_token_s)
        run.close()
    usual = min(warm)  # whatever else the machine does only slows
    print(
        f"{len(ids)} tokens, {file.stat().st_size / 1e6:.1f} MB; unread {unread:.2f} s, "
        f"warm {usual:.3f} s, reopened ÷ warm {min(opened) / usual:.2f}, "
        f"sent before it was read ÷ warm {min(sent_at_once) / usual:.2f}, "
        f"closed in {closing_s:.2f} s, with nothing to save in {min(closings):.2f} s"
    )
    assert min(opened) / usual <= 1.5
    assert closing_s <= statistics.median(closings) + SAVE_AT_END_S


def test_a_reply_is_no_slower_while_a_chat_waits_to_be_written(
    starter_gguf: Path, folder: Path, tmp_path: Path
) -> None:
    """Decoding beside a parked copy that is not on disk yet ÷ where none is ever written."""
    runs = [
        Run(starter_gguf, folder),
        Run(starter_gguf, tmp_path / "never", may_write=False),
    ]
    ids = runs[0].ids(TEXT * 200)[: N_TOKENS // 5]
    speeds: list[list[float]] = [[], []]
    for turn in range(2 * TURNS):
        for run, found in zip(runs, speeds, strict=True):
            run.reply([turn, *ids], is_stored=True)
            found.append(run.reply([50 + turn, *ids[:40]], length=40).tokens_per_s)
    ratio = max(speeds[0]) / max(speeds[1])  # whatever else the machine does only slows
    print(f"tokens/s while a chat waits to be written ÷ else: {ratio:.3f}")
    for run in runs:
        run.close()
    assert ratio >= 0.95
