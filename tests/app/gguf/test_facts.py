"""What is shown about weights before they are loaded."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path
from typing import Any

import pytest
from each import each
from gguf_writer import Shape, Tensor, Typed, tiny_llama, tiny_lora, write_gguf

from app.gguf.architectures import DRAFT_HEADS, EMBEDDING, KNOWN, NOT_GENERATING
from app.gguf.facts import Facts, facts_of, size_label
from app.gguf.header import read_header
from app.gguf.local.split_names import SplitName, part_names, piece_of, split_name
from app.gguf.quantisation import FILE_TYPES, nominal_bits, quantisation_in_name
from app.gguf.rewrite import write_copy
from app.gguf.tensor_types import TENSOR_TYPES


def facts(path: Path, **writing: Any) -> Facts:
    tiny_llama(path, **writing)
    return facts_of(read_header(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "weights.gguf"


# --- facts --------------------------------------------------------------------------------------


def test_of_the_included_weights(starter_gguf: Path) -> None:
    found = facts_of(read_header(starter_gguf))
    assert (found.kind, found.architecture, found.trouble) == ("chat", "llama", "")
    assert (found.n_layer, found.n_head, found.n_head_kv) == (30, 9, 3)
    assert (found.n_embd, found.n_ctx_train, found.n_vocab) == (576, 8192, 49152)
    assert found.n_parameters == 134_515_008
    assert (found.licence, found.languages, found.size_label) == ("apache-2.0", ("en",), "135M")
    assert found.quantisation == "Q4_1"
    assert found.tokenizer == "gpt2 (smollm)"


def test_shares_are_what_the_gguf_package_counts(starter_gguf: Path, tmp_path: Path) -> None:
    """The package reads a copy without vocabulary, for which it would take two seconds."""
    from gguf import GGUFReader

    header = read_header(starter_gguf)
    found = facts_of(header)
    bare = tmp_path / "bare.gguf"
    write_copy(starter_gguf, bare, {k: None for k in header.entries if k.startswith("tokenizer.")})
    counted: dict[str, list[int]] = {}
    for tensor in GGUFReader(bare).tensors:
        row = counted.setdefault(tensor.tensor_type.name, [0, 0, 0])
        row[0] += 1
        row[1] += int(tensor.n_elements)
        row[2] += int(tensor.n_bytes)
    ours = {s.type_name: [s.n_tensors, s.n_weights, s.size_bytes] for s in found.types}
    assert ours == counted
    weights, size = (sum(row[n] for row in counted.values()) for n in (1, 2))
    assert found.n_parameters == weights
    assert found.bits_per_weight == pytest.approx(8 * size / weights)
    assert [s.n_weights for s in found.types] == sorted(r[1] for r in counted.values())[::-1]
    assert len(ours) == 3


@pytest.mark.parametrize(
    ("writing", "kind"),
    [
        ({}, "chat"),
        ({"template": None}, "base"),
        ({"template": "  "}, "base"),
        ({"template": None, "metadata": {"tokenizer.chat_template.tool_use": "x"}}, "chat"),
        ({"architecture": "bert"}, "embedding"),
        ({"metadata": {"llama.pooling_type": 3}}, "embedding"),
        ({"metadata": {"llama.pooling_type": 4}}, "other"),
        ({"metadata": {"llama.pooling_type": 0}}, "chat"),
        ({"architecture": "clip"}, "projector"),
        ({"metadata": {"general.type": "mmproj"}}, "projector"),
        ({"metadata": {"general.type": "imatrix"}}, "other"),
        ({"metadata": {"general.type": "adapter"}}, "adapter"),
        ({"architecture": "flux"}, "other"),
        ({"architecture": None}, "other"),
    ],
)
def test_kinds(path: Path, writing: dict[str, Any], kind: str) -> None:
    assert facts(path, **writing).kind == kind


@pytest.mark.parametrize(
    ("writing", "words"),
    [
        ({"architecture": "foo"}, "“foo”, which this version of llama.cpp doesn't support"),
        ({"architecture": "x" * 5000}, "doesn't support"),
        ({"architecture": ""}, "doesn't name its architecture"),
        ({"architecture": None}, "doesn't name its architecture"),
        ({"architecture": "flux"}, "doesn't generate text"),
        ({"architecture": "dflash"}, "only drafts for other models"),
        ({"metadata": {"general.type": "mmproj"}}, "needs its language model"),
        ({"metadata": {"llama.block_count": 513}}, "513 layers"),
    ],
)
def test_trouble(path: Path, writing: dict[str, Any], words: str) -> None:
    """D05, D07."""
    trouble = facts(path, **writing).trouble
    assert words in trouble
    assert trouble.endswith(".")
    assert len(trouble) < 300


def test_an_adapter_is_one(path: Path) -> None:
    """D13."""
    tiny_lora(path)
    found = facts_of(read_header(path))
    assert found.kind == "adapter"
    assert "needs the model it was made for" in found.trouble


def test_values_of_other_kinds_do_no_harm(path: Path) -> None:
    odd: dict[str, Any] = {
        "general.license": 5,
        "general.languages": "de",
        "general.size_label": True,
        "general.file_type": "x",
        "tokenizer.ggml.model": 3,
        "llama.attention.head_count": [4, 8],
        "llama.attention.head_count_kv": ["a"],
        "llama.context_length": "long",
    }
    found = facts(path, metadata=odd)
    assert (found.licence, found.languages, found.tokenizer) == ("", ("de",), "")
    assert (found.n_head, found.n_head_kv, found.n_ctx_train) == (8, None, None)
    assert found.quantisation == "F16"


def test_a_split_set_is_counted_whole(tmp_path: Path) -> None:
    headers = []
    for part in (1, 2):
        path = tmp_path / f"x-{part:05d}-of-00002.gguf"
        tensors = {f"t{part}": Tensor((32,), [0.0] * 32, kind=("f32", "f16")[part - 1])}
        split = {"split.no": Typed("u16", part - 1), "split.count": Typed("u16", 2)}
        write_gguf(path, metadata=split, tensors=tensors)
        headers.append(read_header(path))
    found = facts_of(*headers)
    assert found.n_parameters == 64
    assert found.bits_per_weight == 24.0
    assert {share.type_name for share in found.types} == {"F32", "F16"}


@pytest.mark.parametrize(
    ("file_type", "kind", "name"),
    [(1, "f16", "F16"), (1024 + 1, "f16", "F16"), (15, "f16", "F16"), (0, "f16", "F16")],
)
def test_a_file_type_that_lies_is_not_believed(
    path: Path, file_type: int, kind: str, name: str
) -> None:
    assert facts(path, kind=kind, metadata={"general.file_type": file_type}).quantisation == name


def test_a_file_without_tensors(path: Path) -> None:
    write_gguf(path, metadata={"general.type": "vocab"})
    found = facts_of(read_header(path))
    assert (found.n_parameters, found.bits_per_weight, found.types) == (0, 0.0, ())
    assert (found.quantisation, found.size_label, found.kind) == ("", "", "other")


@pytest.mark.parametrize(
    ("count", "label"),
    [
        (0, ""),
        (410, "1K"),
        (62_000, "62K"),
        (999_400, "999K"),
        (999_600, "1M"),
        (1_543_714_304, "1.5B"),
        (7_615_616_512, "7.6B"),
        (70_553_706_496, "71B"),
        (1_026_408_232_448, "1T"),
    ],
)
def test_size_labels(count: int, label: str) -> None:
    assert size_label(count) == label


def test_parameters_are_those_of_the_shapes(path: Path) -> None:
    tiny_llama(path, shape=Shape(n_layer=3))
    header = read_header(path)
    assert facts_of(header).n_parameters == sum(prod(t.shape) for t in header.tensors)


# --- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("a-00001-of-00003.gguf", SplitName("a", 1, 3)),
        ("a-b-00003-of-00003.gguf", SplitName("a-b", 3, 3)),
        ("Ž 模型-00010-of-00012.gguf", SplitName("Ž 模型", 10, 12)),
        ("a-00000-of-00003.gguf", None),
        ("a-00004-of-00003.gguf", None),
        ("a-1-of-3.gguf", None),
        ("a-00001-of-00003.gguf.part", None),
        ("-00001-of-00003.gguf", None),
        ("a.gguf", None),
    ],
)
def test_names_of_parts(name: str, split: SplitName | None) -> None:
    assert split_name(name) == split
    if split is not None:
        names = part_names(split)
        assert (len(names), names[split.part - 1]) == (split.of, name)


@pytest.mark.parametrize(
    "name",
    ["a.gguf", "a-00001-of-00002.gguf", "party.gguf", "my-part.gguf", "split.gguf", "part1.txt"],
)
def test_whole_names_are_no_pieces(name: str) -> None:
    assert piece_of(name) is None


@each(
    ("name", "quantisation"),
    [
        ("Llama-3.2-1B-Instruct-Q4_K_M.gguf", "Q4_K_M"),
        ("model.q8_0.gguf", "Q8_0"),
        ("model_IQ2_XXS.gguf", "IQ2_XXS"),
        ("x-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("x-UD-IQ1_S-00001-of-00003.gguf", "UD-IQ1_S"),
        ("x.i1-Q4_K_S.gguf", "Q4_K_S"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("mmproj-model-f16.gguf", "F16"),
        ("model-fp16.gguf", "F16"),
        ("BF16/model-BF16-00001-of-00002.gguf", "BF16"),
        ("Q8_0/x-Q4_0.gguf", "Q4_0"),
        ("x-TQ1_0.gguf", "TQ1_0"),
        ("x-Q6_K.gguf", "Q6_K"),
        ("x-Q6_K_L.gguf", "Q6_K_L"),
        ("x-Q4_0_4_8.gguf", "Q4_0_4_8"),
        ("model.gguf", ""),
        ("Q4.gguf", ""),
        ("FAQ4_0x.gguf", ""),
        ("owner/name:Q5_K_M", "Q5_K_M"),
    ],
)
def test_quantisation_in_names(name: str, quantisation: str) -> None:
    assert quantisation_in_name(name) == quantisation


def test_file_types_are_the_gguf_packages() -> None:
    from gguf.constants import LlamaFileType

    theirs = {
        kind.value: re.sub("^(MOSTLY|ALL)_", "", kind.name)
        for kind in LlamaFileType
        if kind.name != "GUESSED"
    }
    assert theirs == FILE_TYPES


def test_of_weights_without_a_template(gemma_gguf: Path) -> None:
    found = facts_of(read_header(gemma_gguf))
    assert (found.kind, found.quantisation, found.trouble) == ("base", "Q4_K_M", "")
    assert (found.n_head, found.n_head_kv, found.n_vocab) == (4, 1, 262144)


def test_every_file_type_has_bits() -> None:
    for name in (*FILE_TYPES.values(), *(kind.name for kind in TENSOR_TYPES.values())):
        assert nominal_bits(name), name
    bits = [nominal_bits(name) or 0 for name in ("IQ2_XS", "Q3_K_M", "Q4_K_M", "Q6_K", "Q8_0")]
    assert bits == sorted(bits)
    assert (nominal_bits("Q8_0"), nominal_bits("bf16"), nominal_bits("nothing")) == (8.5, 16, None)


def test_bits_of_a_real_file_are_near_the_nominal(starter_gguf: Path) -> None:
    """A small file keeps its large embeddings in more bits."""
    found = facts_of(read_header(starter_gguf))
    assert 0 <= found.bits_per_weight - (nominal_bits(found.quantisation) or 0) < 1


# --- architectures ------------------------------------------------------------------------------


def test_architectures_are_all_that_the_engines_library_names() -> None:
    """They stand in a row there, from the first to the last; the shortest ones lie elsewhere."""
    import llama_cpp

    library = Path(llama_cpp.__file__).parent / "lib"
    data = max(library.glob("libllama.so*")).read_bytes()
    row = re.search(rb"\0(clip\0llama\0(?:[a-z0-9_.-]+\0)+)\(unknown\)\0", data)
    assert row is not None
    named = set(row[1].decode().rstrip("\0").split("\0"))
    assert len(named) > 100
    assert named <= KNOWN
    for name in KNOWN:
        assert name.encode() in data, name


def test_sets_of_architectures_fit_together() -> None:
    assert EMBEDDING < NOT_GENERATING
    assert not NOT_GENERATING & DRAFT_HEADS
    assert EMBEDDING | DRAFT_HEADS < KNOWN
