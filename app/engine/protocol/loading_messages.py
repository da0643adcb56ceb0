"""Loading as the two processes speak of it: how to load, and what then stands in memory.

`load_plan.py` and its neighbours judge the values before native code sees them; in `Loaded` all is
measured or read from the file.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from app.engine.protocol.adapter_messages import Lora
from app.engine.protocol.cache_messages import CacheShape
from app.engine.protocol.frames import (
    FEW,
    MANY,
    Amount,
    Count,
    Name,
    Seconds,
    Sentence,
    TokenId,
    WireMessage,
    Word,
)
from app.engine.protocol.media_messages import ProjectorOffer
from app.engine.protocol.remote_messages import EngineOffer
from app.engine.protocol.saved_messages import SavedFolder


class RopeScaling(WireMessage, frozen=True, tag=True):
    """Position encoding beyond the trained window. 0 means: as the file says.

    kind: none, linear, yarn, longrope. `freq_scale` 0.5 doubles the window (linear);
    `yarn_orig_ctx` is the window that the weights were trained with.
    """

    kind: Literal["file", "none", "linear", "yarn", "longrope"] = "file"
    freq_base: float = 0.0
    freq_scale: float = 0.0
    yarn_orig_ctx: int = 0
    yarn_ext_factor: float | None = None
    yarn_attn_factor: float | None = None
    yarn_beta_fast: float | None = None
    yarn_beta_slow: float | None = None


class LoadOptions(WireMessage, frozen=True, tag=True):
    """How to load. None always means: the engine decides and says what it decided.

    `devices`: names from Hello, in order (None: all that can compute; an empty list: CPU only).
    `tensor_split`: shares of the layers by device. `main_device`: for split "none" and "row".
    `cpu_moe_layers`: experts of the first n layers stay in host memory (-1: of all).
    `n_slots`: replies at once. `parked_bytes`: cap of the host memory for parked KV state (None:
    an eighth of what is free, at most 2 GiB; 0: none is parked).
    `governor`: steer the number of threads while decoding. `draft`: path of smaller weights with
    the same vocabulary, which then draft for these.
    """

    n_ctx: int | None = None
    n_threads: int | None = None
    n_gpu_layers: int | None = None
    n_ubatch: int | None = None
    type_k: str = "f16"
    type_v: str = "f16"
    flash_attention: Literal["auto", "on", "off"] = "auto"
    use_mmap: bool = True
    use_mlock: bool = False
    devices: list[str] | None = None
    tensor_split: list[float] | None = None
    split_mode: Literal["layer", "row", "none"] = "layer"
    main_device: int = 0
    cpu_moe_layers: int = 0
    rope: RopeScaling = msgspec.field(default_factory=RopeScaling)
    loras: list[Lora] = msgspec.field(default_factory=list)
    n_slots: int | None = None
    parked_bytes: int | None = None
    governor: bool = True
    draft: str = ""


BESIDE: Final = "beside"
"""In place of a projector's path: the best one that lies beside the weights, if any."""


class LoadWeights(WireMessage, frozen=True, tag=True):
    """`path_bytes`: the path as the system has it, where `path` cannot say it: names of files
    need not be UTF-8, and what is not, no text on the wire can hold. `saved`: where KV state lies
    beyond this run, if anywhere. `projector`: path of the file that lets them see or hear, or
    BESIDE."""

    id: Amount
    path: str
    options: LoadOptions = msgspec.field(default_factory=LoadOptions)
    path_bytes: bytes = b""
    saved: SavedFolder | None = None
    projector: str = ""


class Device(WireMessage, frozen=True, tag=True):
    """A compute device as ggml lists it. `kind`: cpu, gpu, igpu, accel."""

    name: Name
    description: Name
    kind: Word
    free_bytes: Amount
    total_bytes: Amount


class ReadDevices(WireMessage, frozen=True, tag=True):
    """What is free on each device now. Answered beside a running reply."""

    id: Amount


class DevicesRead(WireMessage, frozen=True, tag=True):
    devices: Annotated[list[Device], FEW]


class MemoryPart(WireMessage, frozen=True, tag=True):
    """One measured allocation, from llama.cpp's log, or an estimated one.

    `what`: weights, kv, compute, output, adapter, draft (all of a draft model there).
    """

    device: Name
    what: Word
    size_bytes: Amount


class Loaded(WireMessage, frozen=True, tag=True):
    """The weights as they now stand in memory: measured, not estimated.

    `size_bytes`: of the file, or of all files of a set. `templates` names the file's chat
    templates, its main one first as "default". `fast_hash` is `app.gguf.fingerprint`'s; empty if
    the file could not be read again. `cache`: what each cell of the KV cache is made of.
    `draft`: the name of the draft model that stands beside them. `remote`: they stand on a server
    elsewhere, which can this; what it does not say of them is 0 or empty then. `projector`: what
    became of the one that was asked for; None: none was.
    """

    path: Name
    name: Name
    architecture: Name
    description: Name
    size_bytes: Amount
    n_params: Amount
    n_layer: Count
    n_embd: Count
    n_head: Count
    n_head_kv: Count
    n_vocab: Count
    n_ctx: Count
    n_ctx_train: Count
    n_ubatch: Count
    n_threads: Count
    n_gpu_layers: Count
    flash_attention: bool
    type_k: Word
    type_v: Word
    has_template: bool
    add_bos: bool
    eog_ids: Annotated[list[TokenId], MANY]
    memory: Annotated[list[MemoryPart], FEW]
    kv_bytes_per_token: Amount
    load_s: Seconds
    notes: Annotated[list[Sentence], FEW]
    fast_hash: Word = ""
    estimate: Annotated[list[MemoryPart], FEW] = msgspec.field(default_factory=list)
    loras: Annotated[list[Lora], FEW] = msgspec.field(default_factory=list)
    n_slots: Count = 1
    devices: Annotated[list[Name], FEW] = msgspec.field(default_factory=list)
    templates: Annotated[list[Name], MANY] = msgspec.field(default_factory=list)
    cache: CacheShape | None = None
    draft: Name = ""
    remote: EngineOffer | None = None
    projector: ProjectorOffer | None = None
