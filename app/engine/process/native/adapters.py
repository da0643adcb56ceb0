"""What changes the weights while they compute: LoRA adapters and control vectors, by reply.

A file is read and looked through by our own bounded reader before llama.cpp sees it, so one that is
truncated, foreign or full of nonsense is refused with a sentence. A LoRA adapter is loaded into the
weights when a reply first asks for it, and stays as long as they do; llama.cpp makes its graph anew
when a context gets other ones. What must hold:

* adapters belong to a context, so whoever decodes puts those of its reply in force first, and no
  pass is shared by replies with different ones (`scheduling/turns.py`);
* an `AdapterSet` is known by its `key`, which stands with the cells that were computed with it: the
  same files by their content, scales and layers, and nothing that has no effect. A scale of 0 is
  no adapter, to the last bit.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from app.engine.process.native.adapter_content import Stamp, checked_hash, stamp_of
from app.engine.process.native.control_vectors import (
    WEIGHTS_KEY,
    Directions,
    check_vector,
    read_directions,
)
from app.engine.process.native.logparse import last_error, names_lack_of_memory
from app.engine.process.native.native import NativeLog, llama
from app.engine.protocol.adapter_messages import (
    Adapters,
    AdapterUsed,
    ControlVector,
    Lora,
    check_adapters,
)
from app.engine.protocol.bounds import BadSetting
from app.gguf.header import Header, read_header
from app.gguf.refusal import HeaderRefused
from app.refusal import Refusal

_INVOCATION = "adapter.alora.invocation_tokens"
LORA: Final = "LoRA adapter"
VECTOR: Final = "control vector"
_KINDS: Final = {LORA: "lora", VECTOR: "control_vector"}
MAX_SETS: Final = 256
"""Sets that are remembered by their key, for cells that were computed with them."""

TOO_STRONG: Final = (
    "With these adapters the model returned no usable scores (NaN or infinite). Lower their scales "
    "or remove them."
)
OTHER_WEIGHTS: Final = "The control vector “{name}” was made with another model than this one."


@dataclass(frozen=True, slots=True, eq=False)
class AdapterSet:
    """What a context computes with. `vector` [n_layer - 1, n_embd]: the sum of all control vectors,
    each times its scale, in the layers that it acts on. `notes`: sentences for whoever uses it."""

    key: str = ""
    loras: tuple[tuple[Any, float], ...] = ()
    vector: Directions | None = None
    used: tuple[AdapterUsed, ...] = ()
    notes: tuple[str, ...] = ()

    def apply(self, context: Any) -> None:
        """From now on every pass through `context` is changed by these and no others. Raises
        Refusal."""
        count = len(self.loras)
        pointers = (llama.llama_adapter_lora_p_ctypes * count)(*(h for h, _ in self.loras))
        scales = (ctypes.c_float * count)(*(scale for _, scale in self.loras))
        if llama.llama_set_adapters_lora(context, pointers, count, scales) != 0:
            raise Refusal("native_error", "llama.cpp couldn't apply the LoRA adapters.")
        if self.vector is None:
            code = llama.llama_set_adapter_cvec(context, None, 0, 0, 0, 0)
        else:
            data = self.vector.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
            n_layers, n_embd = self.vector.shape
            code = llama.llama_set_adapter_cvec(
                context, data, self.vector.size, n_embd, 1, n_layers
            )
        if code != 0:
            raise Refusal("native_error", "llama.cpp couldn't apply the control vector.")


NO_ADAPTERS: Final = AdapterSet()


class _File(NamedTuple):
    """A file that fits the weights. `directions`: a control vector's."""

    stamp: Stamp | None
    header: Header
    hash: str
    directions: Directions | None = None


class _Acting(NamedTuple):
    """A file with a scale that is not 0, and the layers of a control vector."""

    file: _File
    scale: float
    first: int
    last: int


class AdapterFiles:
    """The adapters of one pair of weights. `check` may be called from any thread, the rest from the
    one that owns the contexts."""

    def __init__(self, weights: Header) -> None:
        self._weights = weights
        self._shapes = {tensor.name: tensor.shape for tensor in weights.tensors}
        self._files: dict[tuple[str, str], _File] = {}
        self._handles: dict[str, Any] = {}
        self._sets: dict[str, AdapterSet] = {"": NO_ADAPTERS}
        self._model: Any = None
        self._log: NativeLog | None = None
        self._n_layer = weights.n_layer or 1
        self.weights_hash = ""
        """What the weights are known by, once they are loaded."""
        self.usual = NO_ADAPTERS
        """What the weights were loaded with."""

    def attach(self, model: Any, log: NativeLog) -> None:
        """The weights are loaded: adapters may be, too."""
        self._model, self._log = model, log

    # --- files ------------------------------------------------------------------------------------

    def check(self, wanted: Adapters) -> list[Header]:
        """Read what has not been read yet; the headers of the LoRA adapters. Raises Refusal naming
        the first file that does not fit."""
        check_adapters(wanted)
        for vector in filter(is_on, wanted.vectors):
            self._file(VECTOR, vector)
        return [self._file(LORA, lora).header for lora in wanted.loras if is_on(lora)]

    def _file(self, kind: str, asked: Lora | ControlVector) -> _File:
        """Raises Refusal."""
        path = Path(asked.path).expanduser()
        file = self._files.get((kind, asked.path))
        if file is None or file.stamp != _stamp(path):
            # Without a lock: whoever decodes waits for no file of another reply.
            file = self._files[kind, asked.path] = self._read(kind, path)
        if asked.hash and asked.hash != file.hash:
            raise Refusal(
                "changed_file",
                f"The {kind} “{path.name}” has changed since. Restore that file, or choose it anew "
                "to use it as it is now.",
                f"{file.hash} is not {asked.hash}",
            )
        return file

    def _read(self, kind: str, path: Path) -> _File:
        try:
            header = read_header(path)
        except HeaderRefused as refused:
            sentence = f"A {kind} can't be loaded. {refused.sentence}"
            raise Refusal(refused.kind, sentence, refused.evidence) from refused
        stamp = _stamp(path)
        if kind == LORA:
            _check(header, self._weights, self._shapes)
            return _File(stamp, header, checked_hash(header, kind))
        check_vector(header, self._weights)
        found = checked_hash(header, kind)
        return _File(stamp, header, found, read_directions(header, self._n_layer))

    # --- sets -------------------------------------------------------------------------------------

    def by_key(self, key: str) -> AdapterSet:
        """The set that cells were computed with."""
        return self._sets.get(key, NO_ADAPTERS)

    def set_of(self, wanted: Adapters | None) -> AdapterSet:
        """What these come to, loaded. None: what the weights were loaded with. Raises Refusal."""
        if wanted is None:
            return self.usual
        check_adapters(wanted)
        loras, vectors = self._acting(LORA, wanted.loras), self._acting(VECTOR, wanted.vectors)
        acting = [*((LORA, each) for each in loras), *((VECTOR, each) for each in vectors)]
        words = [
            f"{_KINDS[kind]} {a.file.hash} {a.scale.hex()} {a.first} {a.last}" for kind, a in acting
        ]
        key = hashlib.blake2b("\n".join(words).encode(), digest_size=16).hexdigest()
        key = key if words else ""
        if key not in self._sets:
            loaded = tuple((self._handle(acting.file), acting.scale) for acting in loras)
            notes = tuple(note for acting in vectors if (note := self._note(acting.file.header)))
            self._sets[key] = AdapterSet(key, loaded, self._vector(vectors), notes=notes)
            while len(self._sets) > MAX_SETS:
                del self._sets[next(k for k in self._sets if k)]
        used = (*self._used(LORA, wanted.loras), *self._used(VECTOR, wanted.vectors))
        return replace(self._sets[key], used=used) if used else self._sets[key]

    def _acting(self, kind: str, asked: Sequence[Lora | ControlVector]) -> list[_Acting]:
        """Each file once, by its hash; what is asked for twice counts twice. As float32, which is
        what llama.cpp computes with. Raises Refusal."""
        found: dict[tuple[str, int, int], _Acting] = {}
        for each in filter(is_on, asked):
            file, first, last = self._file(kind, each), 0, 0
            if isinstance(each, ControlVector):
                first, last = each.first or 1, each.last or self._n_layer - 1
                self._check_layers(first, last)
            place = (file.hash, first, last)
            before = found[place].scale if place in found else 0.0
            scale = float(np.float32(before + each.scale))
            found[place] = _Acting(file, scale, first, last)
        return [found[place] for place in sorted(found) if found[place].scale]

    def _used(self, kind: str, asked: Sequence[Lora | ControlVector]) -> list[AdapterUsed]:
        """Each file as it was asked for: two of the same content, at two places, are both known."""
        used = []
        for each in filter(is_on, asked):
            file, layers = self._file(kind, each), (0, 0)
            if isinstance(each, ControlVector):
                layers = each.first or 1, each.last or self._n_layer - 1
            path = str(Path(each.path).expanduser())
            used.append(AdapterUsed(_KINDS[kind], path, file.hash, each.scale, *layers))
        return used

    def _check_layers(self, first: int, last: int) -> None:
        if not 1 <= first <= last < self._n_layer:
            raise BadSetting(
                "adapters",
                f"A control vector acts on the layers 1 to {self._n_layer - 1} of this model, not "
                f"{first} to {last}.",
            )

    def _vector(self, vectors: list[_Acting]) -> Directions | None:
        if not vectors:
            return None
        total = np.zeros((self._n_layer - 1, self._weights.n_embd or 0), np.float32)
        for file, scale, first, last in vectors:
            assert file.directions is not None
            total[first - 1 : last] += np.float32(scale) * file.directions[first - 1 : last]
        if not np.isfinite(total).all():
            raise BadSetting("adapters", "The control vectors' scales are too large. Lower them.")
        return total

    def _note(self, header: Header) -> str:
        """A direction means something in the weights that it was found in, and nothing in others of
        the same shape. Files from elsewhere don't say which those were."""
        made_with = header.metadata.get(WEIGHTS_KEY)
        if not isinstance(made_with, str) or not self.weights_hash:
            return ""
        return "" if made_with == self.weights_hash else OTHER_WEIGHTS.format(name=header.name)

    def _handle(self, file: _File) -> Any:
        """Loaded into the weights, which own it from now on. Raises Refusal."""
        if file.hash in self._handles:
            return self._handles[file.hash]
        path = file.header.path
        assert self._model is not None
        assert self._log is not None
        if _stamp(path) != file.stamp:
            raise Refusal("changed_file", f"The LoRA adapter “{path.name}” is being written. Wait.")
        with self._log.recording() as lines:
            handle = llama.llama_adapter_lora_init(
                self._model, str(path).encode("utf-8", "surrogateescape")
            )
        if not handle:
            evidence = last_error(lines)
            is_memory = names_lack_of_memory(evidence)
            raise Refusal(
                "out_of_memory" if is_memory else "native_error",
                f"llama.cpp couldn't load the LoRA adapter “{path.name}”. "
                + ("Free some memory or remove it." if is_memory else "Remove it."),
                evidence,
            )
        self._handles[file.hash] = handle
        return handle


def is_on(asked: Lora | ControlVector) -> bool:
    """With a scale of 0 a file isn't looked at: it may be gone, or another model's."""
    return asked.scale != 0


def _stamp(path: Path) -> Stamp | None:
    try:
        return stamp_of(path.stat())
    except (OSError, ValueError):
        return None


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
