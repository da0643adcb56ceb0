"""Pictures and sounds in replies of real networks, against llama.cpp's own way with them
(`mtmd_helper_eval_chunks`), whatever else is going on beside them."""

from __future__ import annotations

import ctypes
import importlib
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_adapters import write_lora
from msgspec.structs import replace as replace_struct
from native_session import GREEDY, NativeSession, load_in_float32
from saved_session import PATIENCE_S, SavedSession
from small_networks import small_network
from small_projectors import IMAGE_KINDS, axes_network, png, small_projector, wav

from app.engine.process.native import projector as projecting
from app.engine.process.native.adapters import AdapterSet
from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.drafting import WITH_PICTURES
from app.engine.prompts.fitting import fit_prompt
from app.engine.prompts.media import is_media, media_ids
from app.engine.prompts.prompt import BuiltPrompt, build_prompt, render_plain
from app.engine.protocol.adapter_messages import Adapters, Lora
from app.engine.protocol.cache_messages import CacheMap, ChangeCache, MeasureStep, ReadCache
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.draft_messages import Drafts
from app.engine.protocol.media_messages import SHOWN, Media
from app.engine.protocol.messages import Failed, Finished, Generate, Progress, Stopped, Summary
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.replay_messages import AskedDraw, DrawsReplayed, ReplayDraws
from app.engine.protocol.stages import Dist, Sampling
from app.refusal import Refusal

RED, BLUE = png(40, 30, 1), png(40, 30, 2)
CLOSE = 2e-6
"""Of log-probabilities: what float32 rounds in the sum over the vocabulary."""

Load = Callable[..., Weights]


@pytest.fixture(scope="module")
def load(native_log: NativeLog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    """Loads a small network with a projector of a kind, once for the same settings."""
    folder, known = tmp_path_factory.mktemp("eyes"), dict[str, Weights]()

    def loaded(kind: str, **options: Any) -> Weights:
        name = f"{kind} {options}"
        if name not in known:
            text, eyes = folder / f"{kind} text.gguf", folder / f"{kind}.gguf"
            if kind == "qwen2vl":
                axes_network(text)
            else:
                small_network(text, "grouped")
            small_projector(eyes, kind)
            wanted = {"n_slots": 3, "projector": str(eyes)} | options
            known[name] = load_in_float32(text, native_log, **wanted)
        return known[name]

    yield loaded
    for weights in known.values():
        weights.close()


@pytest.fixture(params=IMAGE_KINDS)
def eyes(request: pytest.FixtureRequest, load: Load) -> Weights:
    return load(request.param)


class Session(NativeSession):
    def ask(self, prompt: BuiltPrompt, **fields: Any) -> int:
        request_id = next(self._ids)
        fields = {"max_tokens": 1, "alternatives": 64, "conversation": "a"} | fields
        sampling = fields.pop("sampling", GREEDY)
        self.scheduler.add(Generate(request_id, ChatPrompt([]), sampling, **fields), prompt, 0.0)
        return request_id

    def scores(self, prompt: BuiltPrompt, **fields: Any) -> tuple[list[float], Summary]:
        """Log-probabilities of the 64 likeliest first tokens, whichever is chosen."""
        request_id = self.ask(prompt, **{"forced_ids": [40]} | fields)
        self.run()
        return self.told(request_id)

    def told(self, request_id: int) -> tuple[list[float], Summary]:
        ending = self.ending(request_id)
        assert isinstance(ending, Finished), ending
        assert isinstance(ending.result, Summary)
        return self.tokens(request_id)[0].token.alternative_logprobs.numbers(), ending.result

    def cache(self, command: Any) -> Any:
        return self.scheduler.cache.answer(
            command, is_stopped=lambda: False, is_in_the_way=lambda: False
        )

    def map(self) -> CacheMap:
        ending = self.cache(ReadCache(0))
        assert isinstance(ending, Finished)
        assert isinstance(ending.result, CacheMap)
        return ending.result

    def seen(self, request_id: int) -> list[tuple[int, int]]:
        """How many parts were encoded, of how many, each time one was."""
        found = (event for event in self.of(request_id) if isinstance(event, Progress))
        told = [(event.done, event.total) for event in found if event.phase == "seeing"]
        assert not told or told[0][0] == 0  # or nobody knows what it is about, for a minute
        return told[1:]


class Saved(Session, SavedSession):
    def run(self) -> None:
        """Waits for the disk where the scheduler does."""
        while True:
            self._news.clear()
            super().run()
            if not self.scheduler.open_ids:
                return
            assert self._news.wait(PATIENCE_S)


@pytest.fixture
def session(eyes: Weights, native_log: NativeLog) -> Session:
    return Session(eyes, native_log)


def built(
    weights: Weights, *files: bytes, text: str = "Hello world, look", kind: Any = "image"
) -> BuiltPrompt:
    media = [Media(f"p{i}", kind, data, 5) for i, data in enumerate(files)]
    asked = ChatPrompt([ChatMessage("user", text, media=media, message_id="m1")])
    assert weights.projector is not None
    return build_prompt(asked, weights.vocabulary, None, render_plain, weights.projector.see)


def by_llama_cpp(
    weights: Weights, prompt: BuiltPrompt, *files: bytes, adapters: AdapterSet | None = None
) -> list[float]:
    """The same, by mtmd's own evaluation of the same text in a context of its own."""
    mtmd: Any = importlib.import_module("llama_cpp.mtmd_cpp")
    assert weights.projector is not None
    projector = weights.projector._context
    bitmaps = (ctypes.c_void_p * len(files))()
    for number, data in enumerate(files):
        buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        bitmaps[number] = mtmd.mtmd_helper_bitmap_init_from_buf(projector, buffer, len(data), False)
    text = prompt.rendered.replace(SHOWN, "<__media__>").encode()
    given = mtmd.mtmd_input_text(text, len(text), False, True)
    chunks = mtmd.mtmd_input_chunks_init()
    assert mtmd.mtmd_tokenize(projector, chunks, ctypes.byref(given), bitmaps, len(files)) == 0
    context, past = weights.open_beside(512, adapters=adapters), llama.llama_pos(0)
    code = mtmd.mtmd_helper_eval_chunks(
        projector, context, chunks, 0, 0, weights.n_ubatch, True, ctypes.byref(past)
    )
    assert code == 0
    assert mtmd.mtmd_helper_get_n_tokens(chunks) == len(prompt.ids)
    n_vocab = weights.vocabulary.n_vocab
    found = np.ctypeslib.as_array(llama.llama_get_logits_ith(context, -1), (n_vocab,))
    logits = found.astype(float) - found.max()
    llama.llama_free(context)
    mtmd.mtmd_input_chunks_free(chunks)
    for bitmap in bitmaps:
        mtmd.mtmd_bitmap_free(bitmap)
    return sorted(logits - np.log(np.exp(logits).sum()), reverse=True)[:64]


def apart(one: list[float], other: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


# --- what a picture does --------------------------------------------------------------------------


def test_a_picture_is_read_as_llama_cpp_reads_it(session: Session, eyes: Weights) -> None:
    prompt = built(eyes, RED, png(70, 30, 3))
    found, summary = session.scores(prompt)
    assert apart(found, by_llama_cpp(eyes, prompt, RED, png(70, 30, 3))) < CLOSE
    assert summary.prompt_tokens == summary.evaluated == len(prompt.ids)
    assert sum(map(is_media, prompt.ids)) == sum(span.count for span in prompt.media)
    assert session.seen(1) == [(1, 2), (2, 2)]
    assert [span.kind for span in summary.timeline].count("seeing") == 2
    (slot,) = session.map().slots
    assert slot.media == prompt.media
    assert all(span.columns * span.rows == span.count for span in prompt.media)

    other, _ = session.scores(built(eyes, BLUE, png(70, 30, 3)))
    assert apart(found, other) > 0.1
    again, summary = session.scores(built(eyes, RED, png(70, 30, 3)), reuse_prefix=False)
    assert apart(found, again) < CLOSE
    assert "seeing" not in [span.kind for span in summary.timeline]  # it has been looked at


def test_a_picture_is_known_again_whole_or_not_at_all(session: Session, eyes: Weights) -> None:
    prompt = built(eyes, RED)
    first, _ = session.scores(prompt)
    again, summary = session.scores(prompt)
    assert (summary.reused, summary.reuse_source) == (len(prompt.ids) - 1, "slot")
    assert apart(first, again) < 1e-4
    other = built(eyes, BLUE)
    found, summary = session.scores(other)
    assert summary.reused == prompt.media[0].start
    assert apart(found, by_llama_cpp(eyes, other, BLUE)) < 1e-4
    longer = built(eyes, BLUE, text="Hello world, look at that")
    found, summary = session.scores(longer)
    assert summary.reused > prompt.media[0].start + prompt.media[0].count
    assert apart(found, by_llama_cpp(eyes, longer, BLUE)) < 1e-4


def test_forks_and_parked_chats_have_their_pictures(session: Session, eyes: Weights) -> None:
    prompt = built(eyes, RED)
    expected = by_llama_cpp(eyes, prompt, RED)
    forced = {"max_tokens": 5, "forced_ids": [40] * 5}
    both = [session.ask(prompt, conversation=name, **forced) for name in ("a", "b")]
    session.run()
    forked = [session.told(request_id) for request_id in both]
    assert [summary.reuse_source for _, summary in forked] == ["", "fork"]
    assert all(apart(found, expected) < 1e-4 for found, _ in forked)
    assert session.seen(both[1]) == []
    assert isinstance(session.cache(ChangeCache(0, "park", "a")), Finished)
    assert isinstance(session.cache(ChangeCache(0, "drop", "b")), Finished)
    found, summary = session.scores(prompt)
    assert summary.reuse_source == "parked"
    assert summary.reused == len(prompt.ids) - 1
    assert apart(found, expected) < 1e-4
    middle = prompt.media[0].start + 2
    assert isinstance(session.cache(ChangeCache(0, "keep_prefix", "a", middle)), Finished)
    (held,) = (slot for slot in session.map().slots if slot.conversation == "a")
    assert held.token_ids.size == prompt.media[0].start
    assert apart(session.scores(prompt)[0], expected) < 1e-4


def test_a_saved_chat_has_its_pictures_in_another_run(
    eyes: Weights, native_log: NativeLog, tmp_path: Path
) -> None:
    prompt = built(eyes, RED, text="Hello world, look at this and tell me")
    first = Saved(eyes, native_log, tmp_path)
    expected, _ = first.scores(prompt, is_stored=True)
    first.save()
    first.end()
    second = Saved(eyes, native_log, tmp_path)
    second.wait_for_scan()
    found, summary = second.scores(prompt, is_stored=True)
    assert summary.reuse_source == "saved"
    assert summary.reused == len(prompt.ids) - 1
    assert apart(found, expected) < 1e-4
    longer = built(eyes, RED, text="Hello world, look at this and tell them")
    found, summary = second.scores(longer, is_stored=True)
    assert summary.reused > prompt.media[0].start + prompt.media[0].count
    assert apart(found, by_llama_cpp(eyes, longer, RED)) < 1e-4
    second.end()


# --- beside others --------------------------------------------------------------------------------


@pytest.fixture
def slow_eyes(load: Load, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """A projector of which each slice is one node of its graph."""
    monkeypatch.setattr(projecting, "SLICE_S", 0.0)
    weights = load("gemma3")
    assert weights.projector is not None
    monkeypatch.setattr(weights.projector.passes, "_stride", 1)
    weights.projector._known.clear()
    return weights


def test_others_write_while_a_picture_is_looked_at(
    slow_eyes: Weights, native_log: NativeLog
) -> None:
    session = Session(slow_eyes, native_log)
    forced = {"max_tokens": 60, "forced_ids": [40] * 60}
    writing = session.ask(built(slow_eyes, text="Tell me"), conversation="b", **forced)
    for _ in range(3):
        session.scheduler.step()
    prompt = built(slow_eyes, RED)
    looking = session.ask(prompt, forced_ids=[40])
    passes, between = slow_eyes.projector.passes, 0  # type: ignore[union-attr]
    while not session.seen(looking):
        before = len(session.tokens(writing))
        session.scheduler.step()
        between += passes.chunk is not None and len(session.tokens(writing)) > before
    assert between > 5
    session.run()
    assert apart(session.told(looking)[0], by_llama_cpp(slow_eyes, prompt, RED)) < 1e-4
    assert len(session.tokens(writing)) == 60


@pytest.mark.parametrize("beside", [{"hold": True}, {"is_background": True}, {"max_tokens": 3}])
def test_a_picture_never_waits_for_who_computes_nothing(
    beside: dict[str, Any], slow_eyes: Weights, native_log: NativeLog
) -> None:
    """One that is held, rests, or has ended while it had its share of the time."""
    session = Session(slow_eyes, native_log)
    session.ask(built(slow_eyes, text="Tell me"), conversation="b", **{"max_tokens": 60} | beside)
    for _ in range(3):
        session.scheduler.step()
    asked = [session.ask(built(slow_eyes, each), conversation=f"{each}") for each in (RED, BLUE)]
    passes = slow_eyes.projector.passes  # type: ignore[union-attr]
    while passes.chunk is None:
        session.scheduler.step()
    session.scheduler._looks_again_at = session.scheduler._clock() + 1e9
    session.run()
    assert all(isinstance(session.ending(each), Finished) for each in asked)


def test_a_stop_leaves_a_picture_in_the_middle(slow_eyes: Weights, native_log: NativeLog) -> None:
    session = Session(slow_eyes, native_log)
    prompt = built(slow_eyes, RED)
    request_id = session.ask(prompt)
    passes = slow_eyes.projector.passes  # type: ignore[union-attr]
    while passes.chunk is None:
        session.scheduler.step()
    assert session.scheduler.stop(request_id)
    session.run()
    session.scheduler.step()
    assert isinstance(session.ending(request_id), Stopped)
    assert passes.chunk is None
    assert session.seen(request_id) == []
    found, _ = session.scores(prompt)
    assert apart(found, by_llama_cpp(slow_eyes, prompt, RED)) < CLOSE


@pytest.mark.parametrize("kind", ["mlp", "qwen2vl"])
def test_a_picture_larger_than_a_pass_is_read_in_pieces(
    kind: str, load: Load, native_log: NativeLog
) -> None:
    weights = load(kind, n_ubatch=8)
    session = Session(weights, native_log)
    prompt = built(weights, png(60, 60, 4))
    request_id = session.ask(prompt)
    inside = False
    while session.scheduler.has_work:
        session.scheduler.step()
        at = len(session.scheduler.sequences()[0])
        span = prompt.media[0]
        if not inside and span.start < at < span.start + span.count:
            inside = True
            assert session.scheduler.stop(request_id)
    assert inside
    assert isinstance(session.ending(request_id), Stopped)
    found, _ = session.scores(prompt)
    assert apart(found, by_llama_cpp(weights, prompt, png(60, 60, 4))) < 1e-4


def test_a_picture_that_must_be_read_at_once_and_cannot_is_refused(load: Load) -> None:
    weights = load("gemma3", n_ubatch=3)
    with pytest.raises(Refusal, match="4 cells, which this model has to read in one pass"):
        built(weights, RED)


def test_drafts_looked_up_never_propose_a_picture(load: Load, native_log: NativeLog) -> None:
    weights = load("mlp")
    prompt = built(weights, RED, BLUE, text="a b c a b c a b c")
    plain = Session(weights, native_log)
    drafted = Session(weights, native_log)
    fields = {"max_tokens": 40}
    _, expected = plain.scores(prompt, **fields)
    _, found = drafted.scores(prompt, drafts=Drafts("lookup", always=True), **fields)
    assert found.token_ids == expected.token_ids


def test_a_draft_model_stays_out_of_what_it_cannot_see(load: Load, native_log: NativeLog) -> None:
    blind = load("mlp")
    weights = load("mlp", draft=blind.loaded.path)
    session, wish = Session(weights, native_log), {"drafts": Drafts("model", always=True)}
    _, summary = session.scores(built(weights, RED), max_tokens=3, **wish)
    assert WITH_PICTURES in summary.notes
    _, summary = session.scores(built(weights), max_tokens=3, conversation="b", **wish)
    assert WITH_PICTURES not in summary.notes


# --- what does not go -----------------------------------------------------------------------------


def test_what_cannot_be_done_with_pictures_is_refused_in_words(
    load: Load, native_log: NativeLog
) -> None:
    weights = load("mlp")
    session, prompt = Session(weights, native_log), built(weights, RED)
    plain = replace(prompt, media=[], chunks=[])  # IDs alone, as somebody else might send them
    end = prompt.media[0].start + prompt.media[0].count
    cases: list[tuple[BuiltPrompt, dict[str, Any], str]] = [
        (plain, {}, "so only replies can process"),
        (prompt, {"score_prompt": True}, "can't be scored"),
        (prompt, {"cuts": [Cut("head", 0, 0)]}, "can't be cut"),
        (replace(prompt, ids=prompt.ids[:end]), {}, "ends with a picture"),
    ]
    for asked, fields, words in cases:
        ending = session.ending(session.ask(asked, **fields))
        assert isinstance(ending, Failed)
        assert words in ending.sentence
    session.scores(prompt)
    measured = session.cache(MeasureStep(0, "a"))
    assert isinstance(measured, Failed)
    assert "can't be measured" in measured.sentence


def test_draws_behind_a_picture_are_replayed_while_it_is_in_the_cache(
    session: Session, eyes: Weights, native_log: NativeLog
) -> None:
    prompt = built(eyes, RED)
    sampling = Sampling(filters=[], select=Dist(), seed=7, ban_end_token=True)
    request_id = session.ask(prompt, sampling=sampling, max_tokens=6)
    session.run()
    ending = session.ending(request_id)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    written, n_prompt = ending.result.token_ids, len(prompt.ids)
    assert len(written) > 2
    uniforms = [event.token.uniform for event in session.tokens(request_id)]
    asked = [AskedDraw(n_prompt + at, each) for at, each in enumerate(uniforms)]
    command = ReplayDraws(0, [*prompt.ids, *written], n_prompt, sampling, asked)
    replayed = session.cache(command)
    assert isinstance(replayed, Finished), replayed
    assert isinstance(replayed.result, DrawsReplayed)
    assert [draw.token_id for draw in replayed.result.draws] == written
    gone = Session(eyes, native_log).cache(command)  # one that has kept no scores either
    assert isinstance(gone, Failed)
    assert "no longer in the cache" in gone.sentence


def test_a_reply_is_begun_from_its_tokens_behind_a_picture(session: Session, eyes: Weights) -> None:
    prompt = built(eyes, RED)
    asked = {"forced_ids": [], "sampling": replace_struct(GREEDY, ban_end_token=True)}
    _, whole = session.scores(prompt, max_tokens=8, **asked)
    begun = replace(prompt, ids=[*prompt.ids, *whole.token_ids[:3]], n_begun=3)
    _, summary = session.scores(begun, max_tokens=5, conversation="b", **asked)
    assert len(whole.token_ids) == 8
    assert summary.token_ids == whole.token_ids[3:]
    assert summary.reused > prompt.media[0].start + prompt.media[0].count


def test_an_adapter_changes_how_a_picture_is_read(
    session: Session, eyes: Weights, tmp_path: Path
) -> None:
    lora = tmp_path / "lora.gguf"
    write_lora(lora, eyes.loaded.path, ["blk.0.ffn_down.weight"], alpha=20.0)
    adapters, prompt = Adapters([Lora(str(lora), 1.0)]), built(eyes, RED)
    plain, _ = session.scores(prompt)
    found, summary = session.scores(prompt, adapters=adapters)
    assert summary.reused == 0
    with_it = eyes.adapter_set(adapters)
    assert apart(found, by_llama_cpp(eyes, prompt, RED, adapters=with_it)) < 1e-4
    assert apart(found, plain) > 0.001
    again, summary = session.scores(prompt)
    assert apart(again, plain) < 1e-4


def test_what_looks_like_a_mark_is_text(load: Load) -> None:
    """Neither what stands for a picture on the screen, nor llama.cpp's own mark, nor an ID."""
    weights = load("mlp")
    for text in (SHOWN, "<__media__>", f"{SHOWN} and <__media__>"):
        prompt = built(weights, text=text)
        assert prompt.media == []
        assert not any(map(is_media, prompt.ids))
        with_one = built(weights, RED, text=text)
        assert len(with_one.media) == 1
        assert with_one.rendered.count(SHOWN) == text.count(SHOWN) + 1
    assert built(weights, RED).ids != built(weights, text=f"Hello{SHOWN} world, look").ids


def test_the_window_leaves_out_pictures_with_their_messages(load: Load) -> None:
    weights = load("mlp")
    assert weights.projector is not None
    see = weights.projector.see
    messages = []
    for number in range(6):
        media = [Media(f"p{number}", "image", png(40, 30, number), 4)]
        messages += [
            ChatMessage("user", f"See {number}", media=media, message_id=f"u{number}"),
            ChatMessage("assistant", " Yes", message_id=f"a{number}"),
        ]
    asked = ChatPrompt([*messages, ChatMessage("user", "And?", message_id="last")])
    fitted = fit_prompt(
        asked,
        lambda prompt: build_prompt(prompt, weights.vocabulary, None, render_plain, see),
        200,
        "drop_oldest",
    )
    assert 0 < len(fitted.cut) < 12
    assert [span.media_id for span in fitted.media] == [
        f"p{number}" for number in range(len(fitted.cut) // 2, 6)
    ]
    for span in fitted.media:
        cells = fitted.ids[span.start : span.start + span.count]
        assert all(map(is_media, cells))
    assert sum(map(is_media, fitted.ids)) == sum(span.count for span in fitted.media)


@pytest.mark.parametrize(("kind", "n_turns"), [("mlp", 4), ("gemma3", 3), ("qwen2vl", 3)])
def test_where_the_window_fills_up_a_turn_goes_with_its_picture(
    kind: str, n_turns: int, load: Load, native_log: NativeLog
) -> None:
    """llama.cpp moves the rest up, or with M-RoPE it is read again."""
    weights = load(kind)
    assert weights.projector is not None
    see = weights.projector.see
    messages = []
    for number in range(n_turns):
        media = [Media(f"p{number}", "image", png(40, 30, number), 4)]
        messages += [
            ChatMessage("user", f"See {number}", media=media, message_id=f"u{number}"),
            ChatMessage("assistant", " Yes", message_id=f"a{number}"),
        ]
    prompt = fit_prompt(
        ChatPrompt([*messages, ChatMessage("user", "And?", message_id="last")]),
        lambda asked: build_prompt(asked, weights.vocabulary, None, render_plain, see),
        weights.n_ctx,
        "drop_oldest",
    )
    session = Session(weights, native_log)
    room = weights.n_ctx - len(prompt.ids)
    n_tokens = room + 8
    request_id = session.ask(prompt, max_tokens=n_tokens, forced_ids=[40] * n_tokens)
    while len(session.tokens(request_id)) < n_tokens - 1:
        session.scheduler.step()
    (slot,) = session.map().slots
    session.run()
    _, summary = session.told(request_id)
    assert summary.generated == n_tokens
    assert [shift.was_read_again for shift in summary.shifts] == [kind == "qwen2vl"]
    n_gone = sum(cut.role == "user" for cut in summary.shifts[0].messages)
    assert 0 < n_gone < n_turns
    assert [span.media_id for span in slot.media] == [f"p{i}" for i in range(n_gone, n_turns)]


# --- sounds ---------------------------------------------------------------------------------------


def test_a_sound_is_heard_as_llama_cpp_hears_it(load: Load, native_log: NativeLog) -> None:
    weights = load("ultravox", n_ctx=512)
    session = Session(weights, native_log)
    low, high = wav(0.3), wav(0.3, 880.0)
    prompt = built(weights, low, kind="audio")
    heard, _ = session.scores(prompt)
    assert apart(heard, by_llama_cpp(weights, prompt, low)) < CLOSE
    assert {span.kind for span in prompt.media} == {"audio"}
    assert apart(heard, session.scores(built(weights, high, kind="audio"))[0]) > 0.01
    with pytest.raises(Refusal, match="can't see pictures"):
        built(weights, RED)


def test_ids_of_cells_tell_whose_they_are() -> None:
    one, other = media_ids(b"one", 5), media_ids(b"other", 5)
    assert not set(one) & set(other)
    assert one == media_ids(b"one", 5)
    assert all(-(2**31) <= i < -1 for i in one)


def test_what_a_projector_takes_is_planned_and_measured(eyes: Weights) -> None:
    """The reserve holds: llama.cpp's own buffers are within it."""
    loaded = eyes.loaded
    assert loaded.projector is not None
    (planned,) = [part for part in loaded.estimate if part.what == "projector"]
    (measured,) = [part for part in loaded.memory if part.what == "projector"]
    assert measured.device == planned.device == "CPU"
    assert loaded.projector.size_bytes < measured.size_bytes <= planned.size_bytes
    computed = measured.size_bytes - loaded.projector.size_bytes
    assert computed > 4 * 32 * 32  # the pixels of the picture alone


# --- in long runs ---------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("n_ubatch", [8, 64])
@pytest.mark.parametrize("kind", IMAGE_KINDS)
def test_whatever_else_goes_on_each_reply_has_its_own_pictures(
    kind: str, n_ubatch: int, load: Load, native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five replies at a time in three slots of a small window: stopped, parked, forked, set aside
    for a person, giving way to each other, read again. Each is as if it were alone."""
    source = random.Random(f"{kind} {n_ubatch}")
    monkeypatch.setattr(projecting, "SLICE_S", 0.0005)
    weights = load(kind, n_ubatch=n_ubatch)
    assert weights.projector is not None
    texts = ["Hello world, look", "Hello there you", "Hello world, look at that and tell me"]
    pictures = [png(40, 30, seed) for seed in range(3)]
    expected = {}  # before anything else uses the projector
    for text in texts:
        for shown in [(), *itertools.product(pictures), *itertools.product(pictures, pictures)]:
            expected[shown, text] = by_llama_cpp(weights, built(weights, *shown, text=text), *shown)
    session = Session(weights, native_log)
    running: dict[int, Any] = {}
    n_begun = n_checked = 0
    while n_begun < 250 or running:
        if n_begun < 250 and len(running) < 5 and source.random() < 0.3:
            case = source.choice(list(expected))
            if source.random() < 0.3:
                weights.projector._known.clear()
            n_tokens = source.choice([1, 3, 20, 60])
            request_id = session.ask(
                built(weights, *case[0], text=case[1]),
                conversation=source.choice("abcd"),
                max_tokens=n_tokens,
                forced_ids=[40] * n_tokens,
                repeatable=source.random() < 0.05,
                is_guest=source.random() < 0.2,
                is_background=source.random() < 0.1,
                drafts=Drafts("lookup", always=True) if source.random() < 0.2 else None,
            )
            running[request_id] = case
            n_begun += 1
        assert session.scheduler.has_work or not running  # or the engine would fall asleep
        session.scheduler.step()
        if running and source.random() < 0.03:
            session.scheduler.stop(source.choice(list(running)))
        if not running and source.random() < 0.3:
            session.cache(ChangeCache(0, "park", source.choice("abcd")))
        for request_id in list(running):
            endings = [e for e in session.of(request_id) if isinstance(e, Finished | Stopped)]
            if endings and isinstance(endings[0], Finished):
                found, _ = session.told(request_id)
                assert apart(found, expected[running[request_id]]) < 1e-4
                n_checked += 1
            if endings:
                del running[request_id]
    assert n_checked > 100
