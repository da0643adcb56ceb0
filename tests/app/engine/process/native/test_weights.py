"""Loading for real: what is measured, what is refused, and what is left after a cancel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gguf_writer import Shape, Tensor, bpe_vocabulary, tiny_llama, write_gguf
from native_session import NativeSession, load_quietly

from app.engine.planning.load_checks import check_options
from app.engine.planning.sizes import outline_of
from app.engine.process.native import native
from app.engine.process.native.logparse import read_load
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import LoadCancelled, Weights, load
from app.engine.protocol.loading_messages import Device, LoadOptions
from app.gguf.header import read_header
from app.refusal import Refusal

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def tiny_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    tiny_llama(path)
    return path


def refusal(path: Path, log: NativeLog, **options: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        load_quietly(path, log, **options)
    assert caught.value.sentence.endswith(".")
    return caught.value


# --- what is measured -------------------------------------------------------------------------


def test_starter_weights_describe_themselves(starter: Weights) -> None:
    loaded = starter.loaded
    assert (loaded.architecture, loaded.n_layer, loaded.n_embd) == ("llama", 30, 576)
    assert (loaded.n_head, loaded.n_head_kv, loaded.n_vocab) == (9, 3, 49_152)
    assert (loaded.n_ctx, loaded.n_ctx_train, loaded.n_ubatch) == (1024, 8192, 64)
    assert loaded.n_params == 134_515_008
    assert loaded.description == "llama 256M Q4_1"
    assert loaded.eog_ids == [0, 2, 4]
    assert not loaded.add_bos
    assert loaded.has_template
    assert starter.chat_template is not None
    assert "<|im_start|>" in starter.chat_template
    assert loaded.flash_attention
    assert loaded.n_gpu_layers == 0
    assert loaded.load_s > 0
    assert sum(p.size_bytes for p in loaded.memory if p.what == "kv") == 1024 * 23_040


def test_sizes_from_the_header_are_those_of_the_loaded_file(
    starter: Weights, starter_gguf: Path
) -> None:
    header = read_header(starter_gguf)
    sizes = outline_of(header).sizes("f16", "f16")
    assert sizes.n_layer == 30
    assert len(set(sizes.layer_bytes)) == 1
    embedding = next(t.size_bytes for t in header.tensors if t.name == "token_embd.weight")
    norm = next(t.size_bytes for t in header.tensors if t.name == "output_norm.weight")
    assert sizes.output_bytes == embedding + norm  # tied: the embedding serves as output matrix
    total = sum(sizes.layer_bytes) + sizes.input_bytes + norm
    assert total == int(native.llama.llama_model_size(starter.model))
    assert starter.loaded.size_bytes == starter_gguf.stat().st_size
    assert sum(sizes.kv_bytes_per_token) == starter.loaded.kv_bytes_per_token
    assert (sizes.n_vocab, sizes.n_embd, sizes.n_ctx_train) == (49_152, 576, 8192)


def test_compute_reserve_is_above_what_is_measured(starter: Weights, starter_gguf: Path) -> None:
    sizes = outline_of(read_header(starter_gguf)).sizes("f16", "f16")
    measured = sum(p.size_bytes for p in starter.loaded.memory if p.what in ("compute", "output"))
    assert measured < sizes.compute_bytes(64, 1024)


def test_quantised_cache_is_smaller_by_what_the_arithmetic_says(
    starter_gguf: Path, native_log: NativeLog
) -> None:
    quantised = load_quietly(
        starter_gguf, native_log, n_ctx=512, n_threads=1, type_k="q8_0", type_v="q8_0"
    )
    sizes = outline_of(read_header(starter_gguf)).sizes("q8_0", "q8_0")
    assert quantised.loaded.kv_bytes_per_token == sum(sizes.kv_bytes_per_token) == 23_040 * 34 // 64
    assert (quantised.loaded.type_k, quantised.loaded.type_v) == ("q8_0", "q8_0")
    reply = NativeSession(quantised, native_log).reply(
        quantised.vocabulary.tokenize("The capital of France is"), max_tokens=1
    )
    assert reply.text == " Paris"
    quantised.close()


def test_flash_attention_as_asked(tiny_file: Path, native_log: NativeLog) -> None:
    for asked, on in (("on", True), ("off", False)):
        opened = load_quietly(tiny_file, native_log, flash_attention=asked)
        assert opened.loaded.flash_attention is on
        opened.close()


def test_defaults_are_decided_and_stated(tiny_file: Path, native_log: NativeLog) -> None:
    opened = load_quietly(tiny_file, native_log)
    loaded = opened.loaded
    assert loaded.n_threads == native.physical_cores()
    assert loaded.n_ctx == loaded.n_ctx_train == 512
    assert loaded.n_ubatch == 512
    assert any(note.startswith("Context window: 512 tokens") for note in loaded.notes)
    assert any("on the CPU" in note for note in loaded.notes)
    assert loaded.name == "Tiny test file"
    opened.set_threads(3)
    assert opened.n_threads == 3
    opened.close()
    opened.close()


def test_small_contexts_are_what_llama_cpp_makes_of_them(
    tiny_file: Path, native_log: NativeLog
) -> None:
    opened = load_quietly(tiny_file, native_log, n_ctx=64)
    assert opened.loaded.n_ctx == 256
    opened.close()


@pytest.mark.parametrize("use_mmap", [True, False])
def test_mapped_or_read(tiny_file: Path, native_log: NativeLog, use_mmap: bool) -> None:
    opened = load_quietly(tiny_file, native_log, use_mmap=use_mmap)
    devices = {p.device for p in opened.loaded.memory if p.what == "weights"}
    assert ("CPU_Mapped" in devices) is use_mmap
    opened.close()


def test_awkward_paths(tmp_path: Path, native_log: NativeLog) -> None:
    """D09, D11."""
    folder = tmp_path / "Ž models 模型 🙂 #1 & 'two' %20"
    folder.mkdir()
    path = folder / "weights e\u0301.gguf"
    tiny_llama(path)
    opened = load_quietly(path, native_log)
    assert opened.loaded.path == str(path)
    opened.close()


def test_unused_graphics_device_is_named(
    tiny_file: Path, native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.engine.planning.placement import GraphicsEvidence

    monkeypatch.setattr(
        native, "graphics_evidence", lambda: GraphicsEvidence(drm_vendors=("0x10de",))
    )
    monkeypatch.setattr(native, "can_offload", lambda: False)
    opened = load_quietly(tiny_file, native_log)
    assert any("-DGGML_CUDA=on" in note for note in opened.loaded.notes)
    opened.close()


# --- progress and cancel ----------------------------------------------------------------------


def test_progress_rises_to_the_size_of_the_file(tiny_file: Path, native_log: NativeLog) -> None:
    seen: list[tuple[int, int]] = []
    opened = load(
        str(tiny_file),
        LoadOptions(),
        log=native_log,
        on_progress=lambda done, total: seen.append((done, total)),
        is_cancelled=lambda: False,
    )
    opened.close()
    size = tiny_file.stat().st_size
    assert {total for _, total in seen} == {size}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == size


@pytest.mark.parametrize("after", [0, pytest.param(1, marks=pytest.mark.soak), 40])
def test_cancel_leaves_nothing_and_the_next_load_works(
    starter_gguf: Path, native_log: NativeLog, after: int
) -> None:
    """`after` counts how often the load asks whether to go on: before and between tensors."""
    asked = 0

    def is_cancelled() -> bool:
        nonlocal asked
        asked += 1
        return asked > after

    with pytest.raises(LoadCancelled):
        load(
            str(starter_gguf),
            LoadOptions(n_ctx=256),
            log=native_log,
            on_progress=lambda done, total: None,
            is_cancelled=is_cancelled,
        )
    assert asked <= after + 2
    load_quietly(starter_gguf, native_log, n_ctx=256).close()


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_ctx": 0}, "Context window must be between 1"),
        ({"n_ctx": -5}, "not -5"),
        ({"n_threads": 0}, "Threads"),
        ({"n_threads": 100_000}, "Threads"),
        ({"n_gpu_layers": -1}, "Layers on the GPU"),
        ({"n_ubatch": 0}, "Prefill batch"),
        ({"type_k": "q3"}, "cache type for keys must be one of f32, f16"),
        ({"type_v": "—🙂" * 100}, "cache type for values"),
        ({"type_v": "q8_0", "flash_attention": "off"}, "needs flash attention"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(
    tmp_path: Path, native_log: NativeLog, options: dict[str, Any], words: str
) -> None:
    """C03."""
    refused = refusal(tmp_path / "is not even there", native_log, **options)
    assert refused.kind == "bad_setting"
    assert words in refused.sentence
    assert len(refused.sentence) < 250


def test_good_options_pass() -> None:
    check_options(LoadOptions(4096, 2, 0, 64, "q8_0", "q8_0", "auto"))
    check_options(LoadOptions(type_k="q4_0", type_v="f16", flash_attention="off"))


def test_context_beyond_memory_is_refused_before_it_is_tried(
    starter_gguf: Path, native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C09."""
    cpu = Device("CPU", "made up", "cpu", 4 * 1024**3, 8 * 1024**3)
    monkeypatch.setattr(native, "list_devices", lambda: [cpu])
    refused = refusal(starter_gguf, native_log, n_ctx=1_000_000)
    assert refused.kind == "out_of_memory"
    assert "4.29 GB are free" in refused.sentence


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        ("bert", "not_a_chat_model"),
        ("nomic-bert", "not_a_chat_model"),
        ("clip", "not_a_chat_model"),
        ("foo", "unsupported"),
    ],
)
def test_architectures_that_cannot_chat(
    tmp_path: Path, native_log: NativeLog, architecture: str, kind: str
) -> None:
    """C13, D07."""
    path = tmp_path / "other.gguf"
    tiny_llama(path, architecture=architecture)
    refused = refusal(path, native_log)
    assert refused.kind == kind
    assert architecture in refused.sentence


@pytest.mark.parametrize("tokeniser", ["none", "no_vocab"])
def test_weights_without_a_vocabulary(
    tmp_path: Path, native_log: NativeLog, tokeniser: str
) -> None:
    """C13: such a file says how many tokens it has, but asking for one aborts."""
    path = tmp_path / "mute.gguf"
    tiny_llama(path, metadata={"tokenizer.ggml.model": tokeniser})
    refused = refusal(path, native_log)
    assert refused.kind == "unsupported"
    assert "no vocabulary" in refused.sentence


def test_unknown_tokeniser_is_named(tmp_path: Path, native_log: NativeLog) -> None:
    path = tmp_path / "other.gguf"
    tiny_llama(path, vocabulary=bpe_vocabulary(pre="never-heard-of"))
    refused = refusal(path, native_log)
    assert refused.kind == "unsupported"
    assert "never-heard-of" in refused.sentence


def test_missing_tensor_is_llama_cpps_word_with_evidence(
    tmp_path: Path, native_log: NativeLog
) -> None:
    path = tmp_path / "lacking.gguf"
    vocabulary = bpe_vocabulary()
    metadata = {
        "llama.context_length": 64,
        "llama.embedding_length": 32,
        "llama.block_count": 1,
        "llama.feed_forward_length": 32,
        "llama.attention.head_count": 2,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
    }
    tensors = {"token_embd.weight": Tensor((32, len(vocabulary)), [0.0] * 32 * len(vocabulary))}
    write_gguf(
        path, architecture="llama", vocabulary=vocabulary, metadata=metadata, tensors=tensors
    )
    refused = refusal(path, native_log)
    assert refused.kind == "unsupported"
    assert "“lacking.gguf” lacks the tensor “output_norm.weight”" in refused.sentence
    assert "output_norm.weight" in refused.evidence


def test_lack_of_memory_is_told_from_the_log(
    tiny_file: Path, native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        native_log._receive(4, b"ggml_aligned_malloc: failed to allocate buffer\n", None)

    monkeypatch.setattr(native.llama, "llama_init_from_model", refuse)
    refused = refusal(tiny_file, native_log)
    assert refused.kind == "out_of_memory"
    assert "context window of 512 tokens" in refused.sentence
    monkeypatch.setattr(native.llama, "llama_model_load_from_file", refuse)
    assert refusal(tiny_file, native_log).kind == "out_of_memory"


def test_uneven_and_fused_files_have_sizes(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    tiny_llama(path, shape=Shape(n_embd=64, n_layer=3, n_head=4, n_head_kv=1))
    sizes = outline_of(read_header(path)).sizes("f16", "f32")
    assert sizes.kv_bytes_per_token == (16 * 2 + 16 * 4,) * 3
    header = read_header(path)
    fused = [t for t in header.tensors if "attn_k" not in t.name and "attn_v" not in t.name]
    header_fused = type(header)(
        **{
            name: getattr(header, name)
            for name in (
                "path",
                "size_bytes",
                "version",
                "metadata",
                "array_counts",
                "data_offset",
                "expected_bytes",
            )
        },
        tensors=(
            *fused,
            *(type(fused[0])(f"blk.{n}.attn_qkv.weight", (64, 96), "F16", 0, 1) for n in range(3)),
        ),
    )
    assert (
        outline_of(header_fused).sizes("f16", "f32").kv_bytes_per_token == sizes.kv_bytes_per_token
    )


def test_recorded_words_are_those_of_this_library(tiny_file: Path, native_log: NativeLog) -> None:
    """If a new llama.cpp words its log otherwise, this fails and logparse must follow."""
    with native_log.recording() as lines:
        opened = load_quietly(tiny_file, native_log)
    report = read_load(lines)
    assert {part.what for part in report.memory} == {"weights", "kv", "compute", "output"}
    assert report.kv_cells == 512
    opened.close()
