"""Pictures in real replies, against llama.cpp's own way (`mtmd_helper_eval_chunks`)."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_session import NativeSession, load_in_float32
from small_networks import small_network
from small_projectors import CELLS, IMAGE_KINDS, axes_network, png, small_projector

from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.projector import Chunk
from app.engine.process.native.weights import Weights
from app.engine.prompts.prompt import BuiltPrompt, build_prompt, render_plain
from app.engine.protocol.media_messages import Media
from app.engine.protocol.messages import Generate, Summary
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.stages import Greedy, Sampling

GREEDY = Sampling(filters=[], select=Greedy())


def _weights(folder: Path, kind: str, log: NativeLog, **options: Any) -> Weights:
    text, eyes = folder / "text.gguf", folder / f"{kind}.gguf"
    if kind == "qwen2vl":
        axes_network(text)
    else:
        small_network(text, "grouped")
    small_projector(eyes, kind)
    return load_in_float32(text, log, projector=str(eyes), **options)


@pytest.fixture(scope="module", params=IMAGE_KINDS)
def eyes(
    request: pytest.FixtureRequest, native_log: NativeLog, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Weights]:
    weights = _weights(tmp_path_factory.mktemp("eyes"), request.param, native_log, n_slots=3)
    yield weights
    weights.close()


def _prompt(weights: Weights, *pictures: bytes, text: str = "Hello world, look") -> BuiltPrompt:
    media = [Media(f"p{i}", "image", data, 5) for i, data in enumerate(pictures)]
    prompt = ChatPrompt([ChatMessage("user", text, media=media, message_id="m1")])
    assert weights.projector is not None
    return build_prompt(prompt, weights.vocabulary, None, render_plain, weights.projector.see)


class _Session(NativeSession):
    def ask(self, prompt: BuiltPrompt, **fields: Any) -> int:
        request_id = next(self._ids)
        fields = {"max_tokens": 1, "alternatives": 64, "conversation": "a"} | fields
        generate = Generate(request_id, ChatPrompt([]), GREEDY, **fields)
        self.scheduler.add(generate, prompt, 0.0)
        return request_id

    def scores(self, prompt: BuiltPrompt, **fields: Any) -> tuple[list[float], Summary]:
        request_id = self.ask(prompt, **fields)
        self.run()
        ending = self.ending(request_id)
        token = self.tokens(request_id)[0].token
        found = dict(zip(token.alternative_ids.numbers(), token.alternative_logprobs.numbers()))
        return [found[i] for i in sorted(found)], ending.result


def _by_llama_cpp(weights: Weights, prompt: BuiltPrompt, *pictures: bytes) -> list[float]:
    """Log-probabilities of the same 64, by mtmd's own evaluation in a context of its own."""
    mtmd = importlib.import_module("llama_cpp.mtmd_cpp")
    projector = weights.projector._context
    bitmaps = (ctypes.c_void_p * len(pictures))()
    for number, data in enumerate(pictures):
        buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        bitmaps[number] = mtmd.mtmd_helper_bitmap_init_from_buf(projector, buffer, len(data), False)
    text = prompt.rendered.replace("\ufffc", "<__media__>").encode()
    given = mtmd.mtmd_input_text(text, len(text), False, True)
    chunks = mtmd.mtmd_input_chunks_init()
    assert mtmd.mtmd_tokenize(projector, chunks, ctypes.byref(given), bitmaps, len(pictures)) == 0
    context = weights.open_beside(256)
    past = llama.llama_pos(0)
    code = mtmd.mtmd_helper_eval_chunks(
        projector, context, chunks, 0, 0, weights.n_ubatch, True, ctypes.byref(past)
    )
    assert code == 0
    assert mtmd.mtmd_helper_get_n_tokens(chunks) == len(prompt.ids)
    n_vocab = weights.vocabulary.n_vocab
    logits = np.ctypeslib.as_array(llama.llama_get_logits_ith(context, -1), (n_vocab,)).astype(float)
    llama.llama_free(context)
    logits -= logits.max()
    return list(logits - np.log(np.exp(logits).sum()))


def test_it(eyes: Weights, native_log: NativeLog) -> None:
    session = _Session(eyes, native_log)
    prompt = _prompt(eyes, png(40, 30, 1), png(70, 30, 2))
    print(prompt.media, [i for i in prompt.ids if i < -1][:3], prompt.rendered, eyes.loaded.projector)
    found, summary = session.scores(prompt)
    print(summary.timeline)
    theirs = _by_llama_cpp(eyes, prompt, png(40, 30, 1), png(70, 30, 2))
    theirs = sorted(theirs)[-64:]
    print(max(abs(a - b) for a, b in zip(sorted(found), theirs)))
