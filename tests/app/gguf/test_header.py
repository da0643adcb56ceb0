"""Headers of good, cut, lying and foreign files: each is read, or refused in words."""

from __future__ import annotations

import os
import random
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from gguf_writer import Tensor, Typed, tiny_llama, write_gguf
from hypothesis import HealthCheck, given, settings, strategies as st

from app.gguf import cursor
from app.gguf.chat_check import read_chat_header
from app.gguf.header import Header, read_header
from app.gguf.refusal import HeaderRefused

MAX_S = 2.0
EXPERTS = {"llama.expert_count": 4, "llama.expert_used_count": 2}
WHOLE_NUMBERS = {24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64"}
MAX_BYTES = 64 * 1024 * 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "weights.gguf"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Any]:
    """The bytes of a small whole file, and where its parts lie."""
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    layout = tiny_llama(path)
    return path.read_bytes(), layout


def refused(path: Path) -> HeaderRefused:
    """The refusal of this file, which must come soon and cheaply."""
    tracemalloc.start()
    begun = time.process_time()
    try:
        with pytest.raises(HeaderRefused) as caught:
            read_chat_header(path)
        assert time.process_time() - begun < MAX_S
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES
    finally:
        tracemalloc.stop()
    assert caught.value.sentence.endswith(".")
    assert path.name in caught.value.sentence
    return caught.value


def outcome_of(path: Path) -> Header | HeaderRefused:
    try:
        return read_chat_header(path)
    except HeaderRefused as error:
        return error


# --- good files ---------------------------------------------------------------------------------


def test_a_name_is_never_longer_than_a_line(path: Path) -> None:
    tiny_llama(path, metadata={"general.name": " long " * 100_000})
    assert 900 < len(read_header(path).name) <= 1000


def test_starter_weights_are_read_quickly(starter_gguf: Path) -> None:
    begun = time.thread_time()
    header = read_header(starter_gguf)
    assert time.thread_time() - begun < 1.0
    assert header.architecture == "llama"
    assert (header.n_layer, header.n_embd, header.n_ctx_train) == (30, 576, 8192)
    assert header.array_counts["tokenizer.ggml.tokens"] == 49152
    assert "tokenizer.ggml.tokens" not in header.metadata
    assert header.expected_bytes == header.size_bytes == starter_gguf.stat().st_size
    assert "<|im_start|>" in (header.chat_template or "")
    embedding = next(t for t in header.tensors if t.name == "token_embd.weight")
    assert embedding.shape == (576, 49152)
    assert embedding.size_bytes == 576 * 49152 // 32 * {"Q4_1": 20, "Q8_0": 34}[embedding.type_name]


def test_every_kind_of_value_is_read(path: Path) -> None:
    values = {
        "t.u8": Typed("u8", 255),
        "t.i8": Typed("i8", -1),
        "t.u16": Typed("u16", 65535),
        "t.i16": Typed("i16", -2),
        "t.u32": Typed("u32", 2**32 - 1),
        "t.i32": Typed("i32", -3),
        "t.f32": Typed("f32", 0.5),
        "t.bool": True,
        "t.text": "Ž 模型 🙂",
        "t.u64": Typed("u64", 2**64 - 1),
        "t.i64": Typed("i64", -(2**63)),
        "t.f64": Typed("f64", 1e300),
    }
    write_gguf(path, metadata=values)
    header = read_header(path)
    plain = {k: v.value if isinstance(v, Typed) else v for k, v in values.items()}
    assert {key: header.metadata[key] for key in values} == plain


def test_arrays_are_counted_and_kept_only_on_request(path: Path) -> None:
    write_gguf(path, metadata={"a.numbers": [1, 2, 3], "a.texts": ["x", "", "z" * 5000]})
    header = read_header(path)
    assert (header.array_counts["a.numbers"], header.array_counts["a.texts"]) == (3, 3)
    assert "a.numbers" not in header.metadata
    kept = read_header(path, keep_arrays=frozenset({"a.numbers", "a.texts"}))
    assert kept.metadata["a.numbers"] == [1, 2, 3]
    assert kept.metadata["a.texts"] == ["x", "", "z" * 5000]


@pytest.mark.parametrize("lengths", [[0] * 70_000, [300_000] * 3, [7, 262_144, 0, 262_137, 9]])
def test_skipping_texts_ends_at_the_right_place(path: Path, lengths: list[int]) -> None:
    write_gguf(path, metadata={"a.texts": ["x" * n for n in lengths], "b.after": 77})
    header = read_header(path)
    assert header.metadata["b.after"] == 77
    assert header.array_counts["a.texts"] == len(lengths)


def test_tensor_table_and_data_are_where_the_writer_put_them(path: Path) -> None:
    tensors = {"one": Tensor((3, 2), [1.0] * 6), "two": Tensor((5,), [2.0] * 5, kind="f16")}
    layout = write_gguf(path, tensors=tensors, alignment=64)
    header = read_header(path)
    assert header.data_offset == layout.data_start
    places = {t.name: (header.data_offset + t.offset, t.size_bytes) for t in header.tensors}
    assert places == layout.tensors
    assert [t.type_name for t in header.tensors] == ["F32", "F16"]


def test_odd_paths_are_read(tmp_path: Path) -> None:
    """D09, D11."""
    folder = tmp_path / "Ž модели 模型 🙂 'q' \"d\" % # & end."
    folder.mkdir()
    path = folder / "e\u0301 weights.gguf"
    write_gguf(path)
    assert read_header(path).name == "e\u0301 weights"


def test_long_texts_are_passed_over(path: Path) -> None:
    write_gguf(path, metadata={"a.long": "x" * (3 << 20), "b.after": 7})
    header = read_header(path)
    assert "a.long" not in header.metadata
    assert header.metadata["b.after"] == 7
    assert header.entries["a.long"].count == 3 << 20


def test_short_arrays_about_layers_and_languages_are_kept(path: Path) -> None:
    lists = {
        "general.languages": ["de", "en"],
        "llama.attention.head_count_kv": [4, 2],
        "llama.feed_forward_length": [1] * 513,
        "a.numbers": [1],
    }
    write_gguf(path, metadata=lists)
    metadata = read_header(path).metadata
    assert metadata["general.languages"] == ["de", "en"]
    assert metadata["llama.attention.head_count_kv"] == [4, 2]
    assert not {"llama.feed_forward_length", "a.numbers"} & set(metadata)


def test_entries_say_where_each_value_lies(path: Path) -> None:
    values = {"a.text": "Žá", "a.list": Typed("array:u16", [1, 2, 3]), "a.number": 7}
    layout = write_gguf(path, metadata=values)
    entries, data = read_header(path).entries, path.read_bytes()
    assert {key: entry.end for key, entry in entries.items()} == dict(layout.keys)
    assert data[entries["a.text"].offset : entries["a.text"].end].decode() == "Žá"
    assert data[entries["a.list"].offset : entries["a.list"].end] == struct.pack("<3H", 1, 2, 3)
    assert entries["a.list"].kind_name == "array of uint16"
    assert (entries["a.list"].count, entries["a.number"].kind_name) == (3, "uint32")
    starts = [entry.start for entry in entries.values()]
    assert starts == [layout.metadata_start, *(entry.end for entry in entries.values())][:-1]


# --- cut files ----------------------------------------------------------------------------------


def test_a_file_cut_anywhere_is_incomplete(path: Path, tiny: tuple[bytes, Any]) -> None:
    """D01."""
    data, layout = tiny
    path.write_bytes(data)
    expected = read_header(path).expected_bytes
    for length in [point for point in layout.cut_points() if 0 < point < expected]:
        path.write_bytes(data[:length])
        error = refused(path)
        assert error.kind == "incomplete_file", length
        assert f"{length:,}" in error.sentence
        if length > layout.data_start:
            assert f"{expected:,}" in error.sentence
        assert error.sentence.endswith("Download it again.")


def test_file_that_shrinks_while_it_is_read_is_refused(path: Path, tiny: tuple[bytes, Any]) -> None:
    path.write_bytes(tiny[0])
    real_stat = os.stat_result(path.stat())
    path.write_bytes(tiny[0][:100])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "stat", lambda self, **_: real_stat)
        assert refused(path).kind == "incomplete_file"


# --- files that lie -----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2**60, 2**64 - 1, 2**32, 2**24 + 1])
@pytest.mark.parametrize("what", ["n_tensors", "n_metadata"])
def test_huge_counts_are_refused(path: Path, what: str, count: int) -> None:
    """D05."""
    write_gguf(path, **{what: count})
    error = refused(path)
    assert error.kind == "not_a_gguf"
    assert "damaged" in error.sentence


def test_count_that_does_not_fit_the_file_is_refused(path: Path) -> None:
    write_gguf(path, n_tensors=1_000_000)
    assert refused(path).kind == "incomplete_file"


@pytest.mark.parametrize("alignment", [0, 3, 2**31, -8])
def test_alignment_that_cannot_be_is_refused(path: Path, alignment: int) -> None:
    """D05."""
    kind = "i32" if alignment < 0 else "u32"
    write_gguf(path, metadata={"general.alignment": Typed(kind, alignment)})
    assert refused(path).kind == "not_a_gguf"


@pytest.mark.parametrize("layers", [0, 513, 2**31, -1])
def test_number_of_layers_that_would_overflow_is_refused(path: Path, layers: int) -> None:
    """D05."""
    kind = "i64" if layers < 0 else "u64"
    write_gguf(path, metadata={"llama.block_count": Typed(kind, layers)})
    assert refused(path).kind == "unsupported"


def array_of(kind: int, count: int, rest: bytes = b"") -> Typed:
    return Typed("raw", struct.pack("<IIQ", 9, kind, count) + rest)


@pytest.mark.parametrize(
    "value",
    [
        array_of(4, 2**62),
        array_of(4, 2**64 - 1),
        array_of(8, 2**62),
        array_of(8, 2**40, b"\0" * 64),
        Typed("raw", struct.pack("<IQ", 8, 2**63)),
        Typed("raw", struct.pack("<IQ", 8, 2**40)),
    ],
)
def test_sizes_beyond_the_file_are_refused(path: Path, value: Typed) -> None:
    write_gguf(path, metadata={"a.key": value})
    assert refused(path).kind == "incomplete_file"


@pytest.mark.parametrize(
    "value",
    [Typed("raw", struct.pack("<I", 13)), array_of(9, 1, b"\0" * 64), array_of(99, 1)],
)
def test_unknown_kinds_of_value_are_refused(path: Path, value: Typed) -> None:
    write_gguf(path, metadata={"a.key": value})
    assert refused(path).kind == "not_a_gguf"


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        (Tensor((4,), [0.0] * 4, type_id=4), "unsupported"),
        (Tensor((4,), [0.0] * 4, type_id=10_000), "unsupported"),
        (Tensor((4,), [0.0] * 4, type_id=12), "not_a_gguf"),
        (Tensor((4,), [0.0] * 4, stored_shape=(2**62, 2**62)), "not_a_gguf"),
        (Tensor((4,), [0.0] * 4, stored_shape=(2**63,)), "not_a_gguf"),
        (Tensor((4,), [0.0] * 4, stored_shape=(1, 1, 1, 1, 1)), "not_a_gguf"),
        (Tensor((4,), [0.0] * 4, stored_offset=2**63), "not_a_gguf"),
        (Tensor((4,), [0.0] * 4, stored_offset=2**40), "incomplete_file"),
        (Tensor((4,), [0.0] * 4, stored_shape=(2**40,)), "incomplete_file"),
    ],
)
def test_impossible_tensors_are_refused(path: Path, tensor: Tensor, kind: str) -> None:
    write_gguf(path, tensors={"t": tensor})
    assert refused(path).kind == kind


def test_key_that_comes_twice_is_refused(path: Path) -> None:
    layout = write_gguf(path, metadata={"aa.aa": 1, "bb.bb": 2})
    data = path.read_bytes().replace(b"bb.bb", b"aa.aa")
    path.write_bytes(data)
    assert layout.size == len(data)
    assert "twice" in refused(path).sentence


def test_millions_of_empty_texts_end_in_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On any machine, however fast: by a clock that goes on by one with each look at it."""
    looks = [0]

    def clock() -> float:
        looks[0] += 1
        return float(looks[0])

    monkeypatch.setattr(cursor.time, "thread_time", clock)
    needed = []
    for count in (3, 2_000_000):
        write_gguf(path, metadata={"a.texts": array_of(8, count, b"\0" * (8 * count))})
        looks[0] = 0
        read_header(path, deadline_s=10**9)
        needed.append(looks[0])
    few, many = needed
    assert many - few >= 5, "the time is looked at between the texts, too"
    looks[0] = 0
    with pytest.raises(HeaderRefused, match="too long"):
        read_header(path, deadline_s=(few + many) / 2)
    assert few < looks[0] < many


def test_text_larger_than_any_real_one_is_not_kept(path: Path) -> None:
    write_gguf(path, metadata={"a.text": "x" * (33 * 1024 * 1024)})
    assert refused(path).kind == "not_a_gguf"


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_does_more_than_a_refusal(
    data: st.DataObject, path: Path, tiny: tuple[bytes, Any]
) -> None:
    head = bytearray(tiny[0][: tiny[1].data_start])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(head) - 1))
        value = data.draw(st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\x80", b"\x7f" * 4, b"A"]))
        head[at : at + len(value)] = value
    path.write_bytes(bytes(head) + tiny[0][len(head) :])
    begun = time.process_time()
    outcome = outcome_of(path)
    if isinstance(outcome, HeaderRefused):
        assert outcome.sentence.endswith(".")
        outcome.sentence.encode()
    assert time.process_time() - begun < MAX_S


# --- files that are something else --------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><html><title>404</title></html>", "a web page"),
        (b"  \n<HTML>", "a web page"),
        (b"PK\x03\x04rest", "a zip archive"),
        (b"PK\x03\x04" + bytes(26) + b"archive/data.pkl", "a PyTorch file: convert"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "a PyTorch file: convert"),
        (b"\x89PNG\r\n\x1a\n", "an image (PNG)"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "an image (JPEG)"),
        (b"GIF89a\1\0\1\0", "an image (GIF)"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "an image (WebP)"),
        (b"%PDF-1.7\n%\xe2\xe3", "a PDF document"),
        (b"\0\0\0\x18ftypmp42", "a video"),
        (bytes(257) + b"ustar\x0000", "a tar archive"),
        (b"7z\xbc\xaf\x27\x1c\0\4", "a 7z archive. Unpack it"),
        (b"Rar!\x1a\x07\1\0", "a RAR archive"),
        (b"\xfd7zXZ\0\0", "an xz archive"),
        (b"BZh91AY&SY\xb1\0\xff\0\2\1", "a bzip2 archive"),
        (b"\x93NUMPY\1\0", "a NumPy array"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\x7fELF\2\1\1\0", "a program"),
        (b"MZ\x90\0\3\0\0\0", "a Windows program"),
        (b"MZ is how I begin my notes", "a text file"),
        (b"FUGG\0\0\0\3", "swapped bytes"),
        (bytes(4096), "an unfinished download"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a Git LFS pointer"),
        (b"tjgg\x03\0\0\0", "an old GGML file"),
        (b"lmgg\x01\0\0\0", "an old GGML file"),
        (b"Hello, this is only text.\n", "a text file"),
        ("Привет, мир: просто текст".encode(), "a text file"),
        (b'{"error": "not found"}', "a JSON file"),
        (struct.pack("<Q", 100) + b'{"__metadata__":{}}', "a safetensors file"),
        (b"\x1f\x8b\x08\0", "a gzip archive"),
        (random.Random(1).randbytes(64).replace(b"G", b"g") + b"\0", "not a GGUF file"),
    ],
)
def test_other_files_are_named_for_what_they_are(path: Path, content: bytes, words: str) -> None:
    """D08."""
    path.write_bytes(content)
    error = refused(path)
    assert error.kind == "not_a_gguf"
    assert words in error.sentence
    assert path.name in error.sentence


def test_missing_file(path: Path) -> None:
    assert refused(path).kind == "missing_file"


def test_path_below_a_file_is_missing(path: Path) -> None:
    path.write_bytes(b"x")
    assert refused(path / "weights.gguf").kind == "missing_file"


def test_directory(tmp_path: Path) -> None:
    error = refused(tmp_path)
    assert error.kind == "not_a_gguf"
    assert "folder" in error.sentence


def test_pipe_does_not_block(path: Path) -> None:
    os.mkfifo(path)
    assert refused(path).kind == "not_a_gguf"


def test_path_that_no_system_takes(tmp_path: Path) -> None:
    assert refused(Path("a\0b")).kind == "not_readable"
    assert refused(tmp_path / ("x" * 5000)).kind == "not_readable"


def test_unreadable_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(path)

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)
    assert refused(path).kind == "not_readable"


@pytest.mark.parametrize(
    ("version", "words"),
    [(1, "no longer supported"), (4, "newer engine"), (0x03000000, "big-endian")],
)
def test_other_versions(path: Path, version: int, words: str) -> None:
    write_gguf(path, version=version)
    error = refused(path)
    assert error.kind == "unsupported"
    assert words in error.sentence


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("big.Q5_K_M.gguf.part1of2", "big.Q5_K_M.gguf"),
        ("big.Q5_K_M.gguf-part2of2", "big.Q5_K_M.gguf"),
        ("big.gguf-split-a", "big.gguf"),
        ("big.gguf.part01", "big.gguf"),
        ("big.part1of3.gguf", "big.gguf"),
    ],
)
@pytest.mark.parametrize("content", [b"", b"GGUF\3\0\0\0\1", b"\x01\x02\x03\xfe" * 200])
def test_byte_pieces_of_old_uploads(tmp_path: Path, name: str, whole: str, content: bytes) -> None:
    """D08."""
    path = tmp_path / name
    path.write_bytes(content)
    sentence = refused(path).sentence
    assert f"one piece of “{whole}”" in sentence
    assert "Join all pieces" in sentence


# --- what the engine would abort at or not take --------------------------------------------------


def test_offsets_that_leave_gaps_or_overlap_are_refused(path: Path) -> None:
    for first, second in ((32, 64), (0, 0), (0, 64), (32, 0), (0, 33)):
        tensors = {
            "a": Tensor((4,), [0.0] * 4, stored_offset=first),
            "b": Tensor((4,), [0.0] * 4, stored_offset=second),
        }
        write_gguf(path, tensors=tensors)
        with path.open("ab") as file:
            file.write(bytes(256))
        assert "damaged" in refused(path).sentence, (first, second)


def test_extent_of_nothing_is_refused(path: Path) -> None:
    write_gguf(path, tensors={"t": Tensor((4,), [0.0] * 4, stored_shape=(4, 0))})
    assert "impossible shape" in refused(path).sentence


def test_alignment_of_another_kind_is_refused(path: Path) -> None:
    write_gguf(path, metadata={"general.alignment": Typed("u64", 32)})
    assert "alignment" in refused(path).sentence


def test_key_without_a_name_is_refused(path: Path) -> None:
    write_gguf(path, metadata={"": 1})
    assert "without a name" in refused(path).sentence


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"llama.expert_count": 513, "llama.expert_used_count": 2}, "513 experts"),
        ({"llama.expert_count": 4, "llama.expert_used_count": 5}, "5 of 4 experts"),
        ({"llama.expert_count": 4}, "0 of 4 experts"),
        ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "impossible value"),
        ({"llama.attention.layer_norm_rms_epsilon": -1.0}, "impossible value"),
        ({"llama.rope.dimension_count": 18}, "18 of the 16 values of a head"),
        ({"llama.rope.dimension_count": 15}, "15 of the 16 values"),
        ({"tokenizer.ggml.tokens": Typed("array:i32", [1, 2])}, "tokens that aren't text"),
        ({"tokenizer.ggml.scores": Typed("array:f32", [1.0])}, "“scores” for only 1 of them"),
        ({"tokenizer.ggml.scores": Typed("array:u8", [1] * 400)}, "as array of uint8"),
        ({"tokenizer.ggml.token_type": 5}, "“token_type” of its vocabulary as uint32"),
        ({"general.name": "an odd number", "general.alignment": 4}, "multiple of 32"),
        ({"llama.expert_group_count": 2}, "0 experts into 2 groups"),
        ({**EXPERTS, "llama.expert_group_count": 4}, "4 experts into 4 groups"),
        ({**EXPERTS, "llama.expert_group_count": 3}, "4 experts into 3 groups"),
        ({**EXPERTS, "llama.expert_group_count": 2}, "2 groups and uses 0"),
        (
            {**EXPERTS, "llama.expert_group_count": 2, "llama.expert_group_used_count": 2},
            "2 groups and uses 2",
        ),
        ({**EXPERTS, "llama.expert_used_count": [0]}, "0 of 4 experts"),
        ({**EXPERTS, "llama.expert_used_count": [5, 1]}, "5 of 4 experts"),
        ({"llama.expert_used_count": Typed("array:bool", [True])}, "1 of 0 experts"),
        ({"llama.nextn_predict_layers": 3}, "3 of its 2 layers"),
        ({"llama.nextn_predict_layers": 2**32 - 1}, "4,294,967,295 of its 2 layers"),
        ({"llama.rope.scaling.type": "odd"}, "RoPE scaling “odd”"),
        ({"llama.rope.scaling.type": ""}, "RoPE scaling “”"),
        ({"tokenizer.ggml.model": "no_vocab"}, "no vocabulary"),
        ({"tokenizer.ggml.model": "none"}, "no vocabulary"),
    ],
)
def test_values_at_which_llama_cpp_ends_are_refused_before(
    path: Path, metadata: dict[str, Any], words: str
) -> None:
    alignment = metadata.get("general.alignment", 32)
    tiny_llama(path, metadata=metadata, alignment=alignment)
    error = refused(path)
    assert error.kind == "unsupported"
    assert words in error.sentence
    assert read_header(path).architecture == "llama"


@pytest.mark.parametrize(
    "metadata",
    [
        {"llama.nextn_predict_layers": 2},
        {"llama.expert_group_count": 0},
        {**EXPERTS, "llama.expert_group_count": 1},
        {**EXPERTS, "llama.expert_group_count": 2, "llama.expert_group_used_count": 1},
        {**EXPERTS, "llama.expert_used_count": [2, 1]},
        *({"llama.rope.scaling.type": kind} for kind in ("none", "linear", "yarn", "longrope")),
    ],
)
def test_values_beside_those_are_taken(path: Path, metadata: dict[str, Any]) -> None:
    tiny_llama(path, metadata=metadata)
    read_chat_header(path)


@pytest.mark.parametrize(
    ("architecture", "words"),
    [
        ("llada-moe", "no experts, which llada-moe models need"),
        ("smallthinker", "no experts, which smallthinker models need"),
        ("paddleocr", "RoPE dimension sections"),
    ],
)
def test_what_an_architecture_cannot_be_without(path: Path, architecture: str, words: str) -> None:
    tiny_llama(path, architecture=architecture)
    assert words in refused(path).sentence


def test_sections_of_positions_are_read(path: Path) -> None:
    key = "paddleocr.rope.dimension_sections"
    tiny_llama(path, architecture="paddleocr", metadata={key: [4, 2, 2, 0]})
    read_chat_header(path)
    tiny_llama(path, architecture="paddleocr", metadata={key: [0, 0, 0, 8]})
    assert "RoPE dimension sections" in refused(path).sentence


@pytest.mark.parametrize(
    ("name", "type_id", "words"),
    [
        *(("blk.0.attn_q.weight", n, f"as {kind}") for n, kind in WHOLE_NUMBERS.items()),
        ("token_embd.weight", 26, "“token_embd.weight” as I32"),
        ("output_norm.weight", 1, "“output_norm.weight” as F16"),
        ("blk.0.attn_q.bias", 30, "“blk.0.attn_q.bias” as BF16"),
    ],
)
def test_tensors_of_types_that_llama_cpp_does_not_compute_are_refused(
    path: Path, name: str, type_id: int, words: str
) -> None:
    write_gguf(path, tensors={name: Tensor((4,), [0.0] * 8, type_id=type_id)})
    assert words in refused(path).sentence


def test_a_table_of_ids_is_whole_numbers_by_right(path: Path) -> None:
    write_gguf(path, tensors={"blk.0.ffn_gate_tid2eid": Tensor((4,), [0.0] * 4, type_id=26)})
    read_chat_header(path)


def test_tensor_name_longer_than_ggml_takes(path: Path) -> None:
    write_gguf(path, tensors={"t" * 64: Tensor((4,), [0.0] * 4)})
    assert "64 bytes" in refused(path).sentence
    write_gguf(path, tensors={"t" * 63: Tensor((4,), [0.0] * 4)})
    read_chat_header(path)


# --- sound files that cannot chat ---------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["bert", "nomic-bert", "clip", "flux", "t5encoder"])
def test_weights_that_write_no_text(path: Path, architecture: str) -> None:
    """C13."""
    write_gguf(path, architecture=architecture)
    error = refused(path)
    assert error.kind == "not_a_chat_model"
    assert architecture in error.sentence
    assert read_header(path).architecture == architecture


def test_draft_heads_guess_only_for_others(path: Path) -> None:
    write_gguf(path, architecture="eagle3")
    assert "only drafts for other models" in refused(path).sentence


@pytest.mark.parametrize("kind", ["adapter", "mmproj", "imatrix"])
def test_files_that_are_no_weights(path: Path, kind: str) -> None:
    """D13."""
    write_gguf(path, metadata={"general.type": kind})
    assert refused(path).kind == "not_a_chat_model"


@pytest.mark.parametrize("architecture", ["", None])
def test_file_without_architecture(path: Path, architecture: str | None) -> None:
    """D07."""
    write_gguf(path, architecture=architecture)
    assert refused(path).kind == "unsupported"


def test_parts_of_a_split_file(tmp_path: Path) -> None:
    def part(number: int) -> Path:
        return tmp_path / f"big-{number:05d}-of-00002.gguf"

    for number in (1, 2):
        write_gguf(
            part(number),
            metadata={
                "split.no": Typed("u16", number - 1),
                "split.count": Typed("u16", 2),
            },
        )
    read_chat_header(part(1))
    assert "big-00001-of-00002.gguf" in refused(part(2)).sentence
    part(2).unlink()
    error = refused(part(1))
    assert error.kind == "incomplete_file"
    assert part(2).name in error.sentence


@pytest.mark.parametrize("name", ["big.gguf", "big-00001-of-00003.gguf", "big-1-of-2.gguf"])
def test_a_part_under_another_name(tmp_path: Path, name: str) -> None:
    """llama.cpp finds the other parts by the name of the first."""
    path = tmp_path / name
    write_gguf(path, metadata={"split.no": Typed("u16", 0), "split.count": Typed("u16", 2)})
    assert "-00001-of-00002.gguf" in refused(path).sentence
    assert read_header(path).architecture == "llama"
