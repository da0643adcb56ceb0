"""LoRA adapters: small GGUF files that change the weights they were made for.

An adapter is read by our own bounded header reader before llama.cpp sees it, so a truncated or
foreign one is refused with a sentence. What must hold: adapters are loaded before the context is
made (it sizes its graph by them) and live as long as the weights, which free them.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.engine.process.native.logparse import last_error, names_lack_of_memory
from app.engine.process.native.native import llama
from app.engine.protocol.loading_messages import Lora
from app.gguf.header import Header, read_header
from app.gguf.refusal import HeaderRefused
from app.refusal import Refusal

_INVOCATION = "adapter.alora.invocation_tokens"


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter that fits the weights, not yet loaded."""

    lora: Lora
    header: Header

    @property
    def size_bytes(self) -> int:
        """What its matrices take in memory."""
        return sum(tensor.size_bytes for tensor in self.header.tensors)

    @property
    def note(self) -> str:
        return f"LoRA adapter “{self.header.name}” is applied with scale {self.lora.scale:g}."


def read_adapters(loras: list[Lora], weights: Header) -> list[Adapter]:
    """Read and check the files. Raises Refusal naming the first that does not fit."""
    shapes = {tensor.name: tensor.shape for tensor in weights.tensors}
    adapters = []
    for lora in loras:
        try:
            header = read_header(Path(lora.path).expanduser())
        except HeaderRefused as refused:
            sentence = f"A LoRA adapter can't be loaded. {refused.sentence}"
            raise Refusal(refused.kind, sentence, refused.evidence) from refused
        _check(header, weights, shapes)
        adapters.append(Adapter(lora, header))
    return adapters


def _check(adapter: Header, weights: Header, shapes: dict[str, tuple[int, ...]]) -> None:
    name, base = adapter.path.name, weights.path.name
    if adapter.kind != "adapter" or adapter.metadata.get("adapter.type") != "lora":
        raise Refusal(
            "unsupported",
            f"“{name}” isn't a LoRA adapter. Choose an adapter in GGUF format, or load it as a "
            "model.",
        )
    if adapter.architecture != weights.architecture:
        raise Refusal(
            "unsupported",
            f"The LoRA adapter “{name}” was made for {adapter.architecture or 'unknown'} models, "
            f"but the architecture of “{base}” is {weights.architecture}. Choose a matching "
            "adapter.",
        )
    if adapter.array_counts.get(_INVOCATION):
        raise Refusal(
            "unsupported",
            f"The LoRA adapter “{name}” applies only after certain words (an “activated” LoRA), "
            "which isn't supported. Remove it.",
        )
    pairs = _pairs(adapter)
    fits = bool(pairs) and all(
        halves.keys() == {"a", "b"} and _fits(target, halves["a"], halves["b"], shapes.get(target))
        for target, halves in pairs.items()
    )
    if not fits:
        raise Refusal(
            "unsupported",
            f"The LoRA adapter “{name}” was made for a different model than “{base}”: its "
            "matrices don't match. Choose a matching adapter.",
        )


def _pairs(adapter: Header) -> dict[str, dict[str, tuple[int, ...]]]:
    """By the matrix that they change: the shapes of the two factors, `a` and `b`."""
    pairs: dict[str, dict[str, tuple[int, ...]]] = {}
    for tensor in adapter.tensors:
        target, _, half = tensor.name.rpartition(".lora_")
        if not target and tensor.name.endswith("_norm.weight"):
            continue  # llama.cpp leaves them out, too
        pairs.setdefault(target or tensor.name, {})[half] = tensor.shape
    return pairs


def _fits(
    target: str, a: tuple[int, ...], b: tuple[int, ...], matrix: tuple[int, ...] | None
) -> bool:
    """Whether b · a has the shape of the matrix, as llama.cpp asks it.

    >>> _fits("blk.0.attn_q.weight", (64, 4), (4, 128), (64, 128))
    True
    """
    if matrix is None or min(len(a), len(b), len(matrix)) < 2:
        return False
    if target.endswith("token_embd.weight"):
        return matrix[0] == b[1] and matrix[1] == a[1]
    return matrix[0] == a[0] and matrix[1] == b[1] and a[1] == b[0]


def load_adapters(model: Any, adapters: list[Adapter], lines: list[str]) -> list[Any]:
    """Load them into the weights; the weights own them from now on. Raises Refusal."""
    handles = []
    for adapter in adapters:
        path = str(adapter.header.path).encode("utf-8", "surrogateescape")
        handle = llama.llama_adapter_lora_init(model, path)
        if not handle:
            evidence = last_error(lines)
            is_memory = names_lack_of_memory(evidence)
            raise Refusal(
                "out_of_memory" if is_memory else "native_error",
                f"llama.cpp couldn't load the LoRA adapter “{adapter.header.path.name}”. "
                + ("Free some memory or remove it." if is_memory else "Remove it."),
                evidence,
            )
        handles.append(handle)
    return handles


def apply_adapters(context: Any, adapters: list[Adapter], handles: list[Any]) -> None:
    """From now on every pass through `context` is changed by the adapters."""
    if not handles:
        return
    count = len(handles)
    pointers = (llama.llama_adapter_lora_p_ctypes * count)(*handles)
    scales = (ctypes.c_float * count)(*(adapter.lora.scale for adapter in adapters))
    if llama.llama_set_adapters_lora(context, pointers, count, scales) != 0:
        raise Refusal("native_error", "llama.cpp couldn't apply the LoRA adapters.")
