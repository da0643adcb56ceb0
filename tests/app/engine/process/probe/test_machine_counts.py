"""The blocks of a file add up to what llama.cpp counts, whatever the file is."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from gguf_writer import Tensor, Typed, bpe_vocabulary, tiny_llama, write_gguf
from probing import weights_of
from recurrent_gguf import tiny_jamba, tiny_mamba
from small_networks import small_network

from app.engine.process.native.native import NativeLog
from app.gguf.header import read_header
from app.insight.inside.machine import Machine, machine_of
from app.library.header_shown import read_shown

pytestmark = pytest.mark.weights


def machine_at(path: Path) -> Machine:
    shown = read_shown(path)
    return machine_of(shown.header, shown.tensors, missing=shown.missing)


def data_bytes(path: Path) -> int:
    """What stands behind the header, less the padding between tensors."""
    header = read_header(path)
    places = sorted((each.offset, each.offset + each.size_bytes) for each in header.tensors)
    gaps = sum(start - end for (_, end), (start, _) in pairwise(places))
    return path.stat().st_size - header.data_offset - gaps


@pytest.mark.parametrize("file", ["starter_gguf", "gemma_gguf"])
def test_parameters_are_llama_cpps_and_bytes_the_files(
    file: str, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(file)
    machine = machine_at(path)
    loaded = request.getfixturevalue(file.removesuffix("_gguf")).loaded
    assert machine.n_params == loaded.n_params
    assert len(machine.layers) == loaded.n_layer
    heads = machine.layers[0][0].heads
    assert heads is not None
    assert (heads.n_head, heads.n_kv) == (loaded.n_head, loaded.n_head_kv)
    assert machine.is_tied
    assert 0 <= data_bytes(path) - machine.size_bytes < 32
    by_block = sum(8 * block.size_bytes for block in machine.blocks)
    assert machine.bits_per_weight == pytest.approx(by_block / machine.n_params)


def _tied(path: Path) -> None:
    tiny_llama(path)
    header = read_header(path)
    shapes = {t.name: t.shape for t in header.tensors if t.name != "output.weight"}
    write_gguf(
        path,
        vocabulary=bpe_vocabulary(),
        metadata={k: v for k, v in header.metadata.items() if k.startswith("llama.")},
        tensors={name: Tensor(shape, [0.0] * math.prod(shape)) for name, shape in shapes.items()},
    )


FILES: dict[str, Callable[[Path], object]] = {
    "untied": tiny_llama,
    "tied": _tied,
    "grouped": lambda path: small_network(path, "grouped"),
    "experts": lambda path: small_network(path, "experts"),
    "window": lambda path: small_network(path, "window"),
    "capped": lambda path: small_network(path, "capped"),
    "mamba": tiny_mamba,
    "jamba": tiny_jamba,
}


@pytest.mark.parametrize("kind", FILES)
def test_whatever_the_file_is_its_blocks_add_up(
    kind: str, tmp_path: Path, native_log: NativeLog
) -> None:
    path = tmp_path / "tiny.gguf"
    FILES[kind](path)
    machine = machine_at(path)
    with weights_of(path, native_log) as weights:
        assert machine.n_params == weights.loaded.n_params
    assert 0 <= data_bytes(path) - machine.size_bytes < 32
    assert machine.is_tied == (kind in ("tied", "window", "capped"))
    assert (machine.output.n_params == 0) == machine.is_tied


def test_the_parts_of_a_split_file_are_one_machine(tmp_path: Path, native_log: NativeLog) -> None:
    whole = tmp_path / "whole.gguf"
    small_network(whole, "grouped")
    paths = split(whole, tmp_path / "big")
    machine = machine_at(paths[1])
    assert machine == machine_at(whole)
    with weights_of(paths[0], native_log) as weights:
        assert machine.n_params == weights.loaded.n_params
    paths[1].unlink()
    half = machine_at(paths[0])
    assert half.missing == (paths[1].name,)
    assert half.n_params < machine.n_params
    assert not half.is_tied, "its output may stand in the part that isn't there"


def split(whole: Path, stem: Path) -> list[Path]:
    """Two files with the tensors of one, as llama.cpp's splitter makes them."""
    header = read_header(whole)
    data = whole.read_bytes()[header.data_offset :]
    half, paths = len(header.tensors) // 2, []
    for number, tensors in enumerate((header.tensors[:half], header.tensors[half:])):
        path = stem.with_name(f"{stem.name}-{number + 1:05d}-of-00002.gguf")
        own = {k: v for k, v in header.metadata.items() if k.startswith("llama.")}
        write_gguf(
            path,
            vocabulary=bpe_vocabulary() if number == 0 else None,
            metadata={
                **own,
                "split.no": Typed("u16", number),
                "split.count": Typed("u16", 2),
                "split.tensors.count": Typed("i32", len(header.tensors)),
            },
            tensors={
                t.name: Tensor(t.shape, array("f", data[t.offset : t.offset + t.size_bytes]))
                for t in tensors
            },
        )
        paths.append(path)
    return paths
