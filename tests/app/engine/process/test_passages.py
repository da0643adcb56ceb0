"""An embedding model beside the weights, against llama.cpp's own vectors of the same file."""

from __future__ import annotations

import dataclasses
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_writer import tiny_llama
from minilm_file import minilm_path, package_folder, tensors, words
from small_networks import tiny_bert

from app.engine.process.native import native
from app.engine.process.native.native import Batch, NativeLog, llama
from app.engine.process.native.vocabulary import Vocabulary
from app.engine.process.pooling.embedder import opened
from app.engine.process.pooling.passages import IDLE_S, PassageRoom
from app.engine.protocol.loading_messages import Device
from app.engine.protocol.messages import Event, Failed, Finished, Progress, Stopped
from app.engine.protocol.passage_messages import EmbedPassages, PassagesEmbedded

TEXTS = ["the harbour is deep", "a", "deep " * 900]


@dataclasses.dataclass
class Room:
    log: NativeLog
    now: float = 0.0
    step_s: float = 0.0
    events: list[Event] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.room = PassageRoom(self.log, self.events.append, lambda: 1, self.clock)

    def clock(self) -> float:
        self.now += self.step_s
        return self.now

    def run(self, command: EmbedPassages) -> Event:
        self.room.ask(command)
        while self.room.has_work(beside_replies=False):
            self.room.step()
        return self.events[-1]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bert") / "tiny-bert.gguf"
    tiny_bert(path)
    return path


@pytest.fixture
def room(native_log: NativeLog):
    found = Room(native_log)
    yield found
    found.room.close()


def _vectors(ending: Event) -> np.ndarray:
    assert isinstance(ending, Finished), ending
    assert isinstance(ending.result, PassagesEmbedded)
    numbers = np.array(ending.result.vectors.numbers())
    return numbers.reshape(ending.result.n, ending.result.n_embd)


def test_vectors_are_those_of_llama_cpp(bert: Path, room: Room) -> None:
    ending = room.run(EmbedPassages(1, str(bert), TEXTS))
    found = _vectors(ending)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, PassagesEmbedded)
    assert (ending.result.pooling, ending.result.n_cut) == ("mean", 1)
    assert ending.result.memory_bytes > bert.stat().st_size / 2
    told = [(event.done, event.total) for event in room.events if isinstance(event, Progress)]
    assert told == [(1, 3), (2, 3), (3, 3)]
    model = llama.llama_model_load_from_file(str(bert).encode(), llama.llama_model_default_params())
    params = llama.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 512
    params.n_threads = params.n_threads_batch = 1
    params.embeddings = True
    context = llama.llama_init_from_model(model, params)
    vocabulary = Vocabulary(llama.llama_model_get_vocab(model))
    try:
        for text, vector in zip(TEXTS[:2], found, strict=False):
            ids = vocabulary.with_ends(vocabulary.tokenize(text))
            batch = Batch(512, 1)
            batch.add(ids, 0, 0, want_scores=True, want_all=True)
            assert llama.llama_decode(context, batch.native) == 0
            native = llama.llama_get_embeddings_seq(context, 0)
            expected = np.ctypeslib.as_array(native, (len(vector),)).astype(float)
            assert vector == pytest.approx(expected / np.linalg.norm(expected), abs=1e-4)
    finally:
        llama.llama_free(context)
        llama.llama_model_free(model)


def test_it_loads_once_rests_beside_replies_and_goes_when_idle(bert: Path, native_log) -> None:
    n_opened = 0

    def counted(*arguments):
        nonlocal n_opened
        n_opened += 1
        return opened(*arguments)

    room = Room(native_log)
    room.room = PassageRoom(native_log, room.events.append, lambda: 1, room.clock, open_=counted)
    first = _vectors(room.run(EmbedPassages(1, str(bert), ["a", "b"])))
    again = _vectors(room.run(EmbedPassages(2, str(bert), ["b"], path_bytes=bytes(bert))))
    assert again[0] == pytest.approx(first[1], abs=1e-6)
    assert n_opened == 1
    assert room.room.idle_s == IDLE_S
    room.now += IDLE_S
    room.room.give_back()
    assert room.room.idle_s is None
    room.step_s = 1.0  # a text takes a second now: nobody's reply waits for that
    room.room.ask(EmbedPassages(3, str(bert), ["a"] * 3))
    while n_opened < 2 or not any(isinstance(e, Progress) and e.id == 3 for e in room.events):
        room.room.step()
    room.now += 1000
    assert not room.room.has_work(beside_replies=True)
    assert room.room.has_work(beside_replies=False)
    room.room.stop(3)
    assert isinstance(room.events[-1], Stopped)
    room.room.close()


def test_what_makes_no_vectors_is_a_sentence(
    tmp_path: Path, bert: Path, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the file is, a sentence says so and nothing is left; the next one is served."""
    (tmp_path / "no.gguf").write_bytes(b"GGUF but not really")
    tiny_llama(tmp_path / "eyes.gguf", architecture="clip")
    tiny_llama(tmp_path / "foo.gguf", architecture="foo")
    tiny_bert(tmp_path / "cut.gguf")
    whole = (tmp_path / "cut.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    tiny_llama(tmp_path / "hollow.gguf", architecture="nomic-bert")  # lacks all that it needs
    for number, (name, part) in enumerate(
        [
            ("missing.gguf", "missing.gguf"),
            ("no.gguf", "no.gguf"),
            ("eyes.gguf", "makes no vectors of texts. Choose an embedding model."),
            ("foo.gguf", "couldn't load “foo.gguf” as an embedding model"),
            ("cut.gguf", "cut.gguf"),
            ("hollow.gguf", "couldn't load “hollow.gguf” as an embedding model"),
        ],
        1,
    ):
        ending = room.run(EmbedPassages(number, str(tmp_path / name), ["a"]))
        assert isinstance(ending, Failed), name
        assert part in ending.sentence
    assert room.room.idle_s is None
    cpu = Device("CPU", "made up", "cpu", 1024, 8 * 1024**3)
    with monkeypatch.context() as full:
        full.setattr(native, "list_devices", lambda: [cpu])
        ending = room.run(EmbedPassages(8, str(bert)))
        assert isinstance(ending, Failed)
        assert (ending.kind, "of memory, which isn't free" in ending.sentence) == (
            "out_of_memory",
            True,
        )
    assert isinstance(room.run(EmbedPassages(9, str(bert), ["a"])), Finished)


def test_weights_that_write_make_vectors_too(made_gguf: Path, room: Room) -> None:
    """Many embedding models are language models that were trained on."""
    ending = room.run(EmbedPassages(1, str(made_gguf), ["a", "b"], are_questions=True))
    assert np.linalg.norm(_vectors(ending), axis=1) == pytest.approx(1.0)


def by_hand(text: str) -> np.ndarray[Any, Any]:
    """The vector of a text of known words, layer by layer in numpy, from the package's own
    weights."""
    folder = package_folder()
    w, known = tensors(folder), {word: place for place, word in enumerate(words(folder))}
    ids = [known["[CLS]"], *(known[word] for word in text.lower().split()), known["[SEP]"]]

    def norm(x: Any, name: str) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return centred / spread * w[f"{name}.weight"] + w[f"{name}.bias"]

    def dense(x: Any, name: str) -> Any:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def gelu(x: Any) -> Any:
        return x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))

    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(6):
        at = f"encoder.layer.{layer}"
        q, k, v = (
            dense(x, f"{at}.attention.self.{each}").reshape(len(ids), 12, 32).transpose(1, 0, 2)
            for each in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(32)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        mixed = (shares @ v).transpose(1, 0, 2).reshape(len(ids), 384)
        x = norm(
            x + dense(mixed, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm"
        )
        wide = gelu(dense(x, f"{at}.intermediate.dense"))
        x = norm(x + dense(wide, f"{at}.output.dense"), f"{at}.output.LayerNorm")
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


@pytest.mark.soak
def test_vectors_of_a_real_model_are_those_of_the_layers_in_numpy(native_log: NativeLog) -> None:
    loading = opened(str(minilm_path()), 1, native_log)
    try:
        while True:
            next(loading)
    except StopIteration as done:
        embedder = done.value
    try:
        for text in ("the harbour is deep", "bread and flour for the old bakery"):
            found, _, is_cut = embedder.vector(text, is_question=False)
            assert not is_cut
            assert float(found @ by_hand(text)) > 0.999
    finally:
        embedder.close()
