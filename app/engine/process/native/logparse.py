"""Reads llama.cpp's log: the measured sizes stand only there.

`llama_get_memory_breakdown` gives a std::map, which ctypes cannot read, so the lines that
llama.cpp prints for people are parsed. Their wording is that of the llama.cpp which
llama-cpp-python 0.3.36 carries; a test holds recorded lines and compares a real load.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from app.engine.protocol.loading_messages import MemoryPart

MIB: Final = 1024 * 1024

_BUFFER: Final = re.compile(
    r"^\S+:\s+(?P<device>.+?)\s+(?P<what>model|KV|RS|compute|output|LoRA)\s+buffer size =\s+"
    r"(?P<mib>\d+\.\d+) MiB"
)
_OFFLOADED: Final = re.compile(r"offloaded (\d+)/\d+ layers to GPU")
_FLASH: Final = re.compile(r"Flash Attention (enabled|not supported)")
_FLASH_ASKED: Final = re.compile(r"flash_attn\s+= (auto|enabled|disabled)")
_NOT_LOCKED: Final = re.compile(r"failed to (mlock|VirtualLock)")
_CACHE: Final = re.compile(
    r"size =\s+\d+\.\d+ MiB \(\s*(?P<cells>\d+) cells,\s*(?P<layers>\d+) layers"
)

_WHAT: Final = {
    "model": "weights",
    "KV": "kv",
    "RS": "kv",
    "compute": "compute",
    "output": "output",
    "LoRA": "adapter",
}


@dataclass(slots=True)
class LoadReport:
    """What the log of one load said. `offloaded` is 0 where nothing was said;
    `cache_layers`: of each KV cache (a sliding-window file has two, that of the window last);
    `is_locked` is False where the system refused to keep the weights from being swapped out."""

    memory: list[MemoryPart] = field(default_factory=list)
    offloaded: int = 0
    flash_attention: bool = False
    kv_cells: int = 0
    cache_layers: list[int] = field(default_factory=list)
    is_locked: bool = True

    @property
    def kv_bytes(self) -> int:
        return sum(part.size_bytes for part in self.memory if part.what == "kv")


def read_load(lines: Iterable[str]) -> LoadReport:
    """Collect the sizes from the lines of one load, in the order in which they stand.

    >>> read_load(["sched_reserve:        CPU compute buffer size =   102.51 MiB"]).memory
    [MemoryPart(device='CPU', what='compute', size_bytes=107489526)]
    """
    report = LoadReport()
    sizes: dict[tuple[str, str], int] = {}
    for line in lines:
        _read_line(line, report, sizes)
    report.memory = [MemoryPart(device, what, size) for (device, what), size in sizes.items()]
    return report


def _read_line(line: str, report: LoadReport, sizes: dict[tuple[str, str], int]) -> None:
    if match := _BUFFER.search(line):
        key = (match["device"], _WHAT[match["what"]])
        size = round(float(match["mib"]) * MIB)
        # A compute buffer that is reserved again replaces the old one; the others add up
        # (a sliding-window file has two caches, a split file several weight buffers).
        sizes[key] = size if key[1] == "compute" else sizes.get(key, 0) + size
    elif match := _OFFLOADED.search(line):
        report.offloaded = int(match[1])
    elif (match := _FLASH.search(line)) or (match := _FLASH_ASKED.search(line)):
        report.flash_attention = match[1] == "enabled"
    elif _NOT_LOCKED.search(line):
        report.is_locked = False
    elif match := _CACHE.search(line):
        report.kv_cells = max(report.kv_cells, int(match["cells"]))
        report.cache_layers.append(int(match["layers"]))


def last_error(lines: Iterable[str]) -> str:
    """The lines to show as evidence of a failure: the last few that name an error, else the end.

    >>> last_error(["a: ok", "x: failed to allocate compute buffers", "b: ok"])
    'x: failed to allocate compute buffers'
    """
    lines = [line for line in lines if line.strip()]
    telling = [line for line in lines if re.search(r"error|fail|abort|invalid|unable", line, re.I)]
    return "\n".join((telling or lines)[-6:])


def names_lack_of_memory(evidence: str) -> bool:
    """Whether llama.cpp's words say that memory ran out."""
    return bool(
        re.search(
            r"failed to allocate|out of memory|unable to allocate|cudaMalloc failed|bad_alloc"
            r"|OutOfDeviceMemory|ErrorOutOfHostMemory|mmap failed.*memory",
            evidence,
            re.I,
        )
    )


def names_unknown_architecture(evidence: str) -> str | None:
    """The architecture that llama.cpp says it does not know, if it says so."""
    match = re.search(r"unknown model architecture: '([^']*)'", evidence)
    return match[1] if match else None


def names_missing_tensor(evidence: str) -> str | None:
    """The tensor that llama.cpp says it misses, if it says so.

    >>> names_missing_tensor("check_tensor_dims: tensor 'blk.0.attn_q.weight' not found")
    'blk.0.attn_q.weight'
    """
    match = re.search(r"tensor '([^']*)' not found", evidence)
    return match[1] if match else None


def names_unknown_tokeniser(evidence: str) -> str | None:
    """The tokeniser that llama.cpp says it does not know, if it says so."""
    match = re.search(r"unknown (?:pre-tokenizer type|tokenizer): '([^']*)'", evidence)
    return match[1] if match else None
