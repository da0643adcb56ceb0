"""llama.cpp as a loaded library: order of loading, log, devices, arrays shared with C.

Only the engine process imports this file. What must hold:

* llama.cpp is loaded before numpy (the other way round, loading weights crashed inside
  std::regex on one machine), and with `GGML_NO_BACKTRACE` set, since its backtraces go to
  stdout.
* Every object that C keeps a pointer to (callbacks, arrays) is kept alive by its owner here.
* No callback from C runs Python while it computes, except for log lines: one that waits for
  the GIL would stall all of llama.cpp's threads.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import re
import shutil
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

os.environ.setdefault("GGML_NO_BACKTRACE", "1")
# numpy's own thread pool would take cores from llama.cpp's, which spin while they wait.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _load_bindings() -> tuple[ModuleType, Any]:
    """Import llama_cpp's low-level bindings, and only those; return them and ggml's libraries.

    The package's `__init__` also imports the high-level class with jinja2, diskcache and numpy
    (0.2 s and a wrong order), so it is put in place without being run.
    """
    if "llama_cpp" not in sys.modules:
        spec = importlib.util.find_spec("llama_cpp")
        if spec is None:
            raise ImportError("llama-cpp-python is not installed")
        sys.modules["llama_cpp"] = importlib.util.module_from_spec(spec)
    extensions = importlib.import_module("llama_cpp._ctypes_extensions")
    bindings = importlib.import_module("llama_cpp.llama_cpp")
    folder = Path(bindings.__file__ or "").parent / "lib"
    folder = Path(os.environ.get("LLAMA_CPP_LIB_PATH", folder))
    return bindings, {
        "ggml": extensions.load_shared_library("ggml", folder),
        "base": extensions.load_shared_library("ggml-base", folder),
        "cpu": extensions.load_shared_library("ggml-cpu", folder),
    }


def _version() -> str:
    """Of the package, whose `__init__` is not run (see above). `importlib.metadata` would import
    `email` for it, 30 ms of a cold start."""
    origin = importlib.util.find_spec("llama_cpp.llama_cpp")
    assert origin is not None
    assert origin.origin is not None
    text = Path(origin.origin).with_name("__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__\s*=\s*["\']([^"\']+)', text, re.MULTILINE)
    return found[1] if found else "unknown"


llama, _ggml = _load_bindings()

import numpy as np  # noqa: E402  (after llama.cpp, see above)
import psutil  # noqa: E402

from app.engine.planning.host_memory import host_memory  # noqa: E402
from app.engine.planning.load_plan import Machine  # noqa: E402
from app.engine.planning.placement import DeviceMemory, GraphicsEvidence  # noqa: E402
from app.engine.protocol.loading_messages import Device  # noqa: E402

VERSION: Final = _version()

GGML_TYPES: Final[dict[str, int]] = {
    "f32": llama.GGML_TYPE_F32,
    "f16": llama.GGML_TYPE_F16,
    "bf16": 30,  # the bindings do not name it
    "q8_0": llama.GGML_TYPE_Q8_0,
    "q5_1": llama.GGML_TYPE_Q5_1,
    "q5_0": llama.GGML_TYPE_Q5_0,
    "q4_1": llama.GGML_TYPE_Q4_1,
    "q4_0": llama.GGML_TYPE_Q4_0,
    "iq4_nl": llama.GGML_TYPE_IQ4_NL,
}
"""Types that a KV cache may have."""


# --- log ------------------------------------------------------------------------------------------

_LEVELS: Final = {1: "debug", 2: "info", 3: "warning", 4: "error"}
_CONTINUED: Final = 5
_MAX_LINE: Final = 500


class NativeLog:
    """llama.cpp's log as whole lines. Debug lines are dropped (a reserve prints thousands).

    `on_line(level, text)` is called on whatever thread logs; it must be quick. The last lines
    are kept as evidence. `recording()` collects the lines of one action.
    """

    def __init__(self, on_line: Callable[[str, str], None] | None = None, keep: int = 400) -> None:
        self._on_line = on_line
        self._lock = threading.Lock()
        self._kept: deque[str] = deque(maxlen=keep)
        self._recordings: list[list[str]] = []
        self._open = ""
        self._level = 2
        self._callback = llama.llama_log_callback(self._receive)

    def install(self) -> None:
        """Take llama.cpp's and ggml's log; keep this object alive from now on."""
        llama.llama_log_set(self._callback, None)

    def install_into(self, take_log: Callable[[Any, None], object]) -> None:
        """Take the log of another of its libraries, too."""
        take_log(self._callback, None)

    def tail(self, count: int = 20) -> list[str]:
        with self._lock:
            return list(self._kept)[-count:]

    @contextmanager
    def recording(self) -> Iterator[list[str]]:
        """The lines that arrive inside the `with` block, from any thread."""
        lines: list[str] = []
        with self._lock:
            self._recordings.append(lines)
        try:
            yield lines
        finally:
            with self._lock:
                self._recordings = [other for other in self._recordings if other is not lines]

    def _receive(self, level: int, data: bytes, _: object) -> None:
        if level == 1 or not data:
            return
        text = data.decode("utf-8", "replace")
        with self._lock:
            if level != _CONTINUED:
                self._level = level
            self._open += text
            if not self._open.endswith("\n") and len(self._open) < _MAX_LINE:
                return
            lines, self._open = self._open.splitlines(), ""
            lines = [line[:_MAX_LINE] for line in lines if line.strip(" .")]
            self._kept.extend(lines)
            for recording in self._recordings:
                recording.extend(lines)
            name = _LEVELS.get(self._level, "info")
        if self._on_line is not None:
            for line in lines:
                self._on_line(name, line)


# --- stop a decode from another thread ------------------------------------------------------------


class AbortFlag:
    """A byte that stops llama_decode within milliseconds when it is set (CPU only).

    llama.cpp asks `bool callback(void *data)` some 500 times per step. A Python callback would
    need the GIL each time, and any busy Python thread would stall the computation by up to 5 ms
    a time. So the callback is C's own `strlen`: of an empty string it says 0, which is false;
    when a byte is put before the terminator it says 1, which is true.
    """

    def __init__(self) -> None:
        self._data = ctypes.create_string_buffer(2)
        library = ctypes.CDLL("msvcrt") if sys.platform == "win32" else ctypes.CDLL(None)
        self.callback = ctypes.cast(library.strlen, llama.ggml_abort_callback)
        self.data = ctypes.cast(self._data, ctypes.c_void_p)

    def set(self) -> None:
        self._data[0] = b"\x01"

    def clear(self) -> None:
        self._data[0] = b"\x00"

    @property
    def is_set(self) -> bool:
        return self._data[0] != b"\x00"


# --- arrays shared with C -------------------------------------------------------------------------


class Batch:
    """A llama_batch over numpy arrays, filled row by row.

    `add` appends a run of tokens of one sequence; the last one may ask for scores.
    """

    def __init__(self, capacity: int, n_seq_max: int) -> None:
        self.capacity = capacity
        self.size = 0
        self._token = np.zeros(capacity, np.int32)
        self._pos = np.zeros(capacity, np.int32)
        self._n_seq_id = np.ones(capacity, np.int32)
        self._wants = np.zeros(capacity, np.int8)
        self._sequences = np.arange(n_seq_max, dtype=np.int32)
        self._first_sequence = self._sequences.ctypes.data
        self._seq_id = np.zeros(capacity, np.uintp)
        self._items = (
            self._token.data,
            self._pos.data,
            self._seq_id.data,
            self._wants.data,
        )
        self.native = llama.llama_batch(
            n_tokens=0,
            token=self._token.ctypes.data_as(ctypes.POINTER(llama.llama_token)),
            embd=None,
            pos=self._pos.ctypes.data_as(ctypes.POINTER(llama.llama_pos)),
            n_seq_id=self._n_seq_id.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            seq_id=self._seq_id.ctypes.data_as(ctypes.POINTER(ctypes.POINTER(llama.llama_seq_id))),
            logits=self._wants.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )

    def clear(self) -> None:
        self.size = 0
        self.native.n_tokens = 0

    @property
    def room(self) -> int:
        return self.capacity - self.size

    def add(
        self,
        tokens: list[int],
        position: int,
        sequence: int,
        *,
        want_scores: bool,
        want_all: bool = False,
    ) -> int:
        """Append `tokens` at `position`…; return the row of the last one. `want_all`: each of
        them asks for scores."""
        start, end = self.size, self.size + len(tokens)
        if len(tokens) == 1:  # a writer's, one per step: item by item, and not through numpy
            token_ids, positions, sequences, wants = self._items
            token_ids[start], positions[start] = tokens[0], position
            sequences[start] = self._first_sequence + 4 * sequence
            wants[start] = want_scores or want_all
            self.size = self.native.n_tokens = end
            return start
        self._token[start:end] = tokens
        self._pos[start:end] = np.arange(position, position + len(tokens))
        self._seq_id[start:end] = self._first_sequence + 4 * sequence
        self._wants[start:end] = want_all
        self._wants[end - 1] = want_scores or want_all
        self.size = end
        self.native.n_tokens = end
        return end - 1


def vector_batch(vectors: Any, positions: Any, sequence: int) -> Any:
    """A llama_batch of vectors in the place of tokens, none of which asks for scores. `vectors`
    [n, width] float32, `positions` [n, or 4 n by axis] int32: it keeps them alive."""
    count = len(vectors)
    sequences = np.full(count, sequence, np.int32)
    first = sequences.ctypes.data
    each = np.arange(first, first + 4 * count, 4, dtype=np.uintp)
    ones, nothing = np.ones(count, np.int32), np.zeros(count, np.int8)
    batch = llama.llama_batch(
        n_tokens=count,
        token=None,
        embd=vectors.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
        pos=positions.ctypes.data_as(ctypes.POINTER(llama.llama_pos)),
        n_seq_id=ones.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
        seq_id=each.ctypes.data_as(ctypes.POINTER(ctypes.POINTER(llama.llama_seq_id))),
        logits=nothing.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
    )
    batch.kept = (vectors, positions, sequences, each, ones, nothing)
    return batch


class NativeError(Exception):
    """llama.cpp refused or failed; the message is evidence, not a sentence for the user."""


def cpu_library() -> Any:
    """ggml's code for processors, as ctypes has loaded it."""
    return _ggml["cpu"]


@contextmanager
def before_terminate(act: Callable[[], object]) -> Iterator[None]:
    """If a C++ exception ends the process in the `with` block, do this before its name is printed.
    Nothing happens where the standard library is not to be found."""
    try:
        set_handler = _ggml["base"]._ZSt13set_terminatePFvvE  # std::set_terminate
    except AttributeError:
        yield
        return
    handler = ctypes.CFUNCTYPE(None)
    set_handler.restype, set_handler.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

    def last() -> None:
        act()
        handler(before)()

    callback = handler(last)
    before = set_handler(ctypes.cast(callback, ctypes.c_void_p))
    try:
        yield
    finally:
        set_handler(before)


def start(log: NativeLog) -> None:
    """Initialise the library, its log going to `log`, which must live as long as the process."""
    log.install()
    llama.llama_backend_init()


# --- the machine ----------------------------------------------------------------------------------

_KINDS: Final = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accel"}


def ggml_function(library: str, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(_ggml[library], name)
    function.restype, function.argtypes = result, list(arguments)
    return function


_dev_count = ggml_function("ggml", "ggml_backend_dev_count", ctypes.c_size_t)
_dev_get = ggml_function("ggml", "ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)
_dev_name = ggml_function("base", "ggml_backend_dev_name", ctypes.c_char_p, ctypes.c_void_p)
_dev_text = ggml_function("base", "ggml_backend_dev_description", ctypes.c_char_p, ctypes.c_void_p)
_dev_type = ggml_function("base", "ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p)
_dev_memory = ggml_function(
    "base",
    "ggml_backend_dev_memory",
    None,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)
_dev_by_name = ggml_function("ggml", "ggml_backend_dev_by_name", ctypes.c_void_p, ctypes.c_char_p)
_cpu_buffers = ggml_function("base", "ggml_backend_cpu_buffer_type", ctypes.c_void_p)


def device_list(names: Sequence[str]) -> Any:
    """The handles of these devices as llama.cpp wants them: an array that ends in NULL.

    With no names it says "the processor alone"; no array at all would mean "all devices".
    """
    return (ctypes.c_void_p * (len(names) + 1))(*(_dev_by_name(n.encode()) for n in names), None)


class _BufferOverride(ctypes.Structure):
    """llama_model_tensor_buft_override."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p))


EXPERTS: Final = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
"""Names of the tensors that hold experts, as llama.cpp's own --n-cpu-moe says it."""


def experts_on_host(n_layers: int) -> Any:
    """Overrides that keep the experts of the first layers in host memory; None for none.

    The array and its patterns must live until the weights are loaded.
    """
    if n_layers <= 0:
        return None
    patterns = [rf"blk\.{layer}{EXPERTS}".encode() for layer in range(n_layers)]
    rows = [_BufferOverride(pattern, _cpu_buffers()) for pattern in patterns]
    return (_BufferOverride * (n_layers + 1))(*rows, _BufferOverride(None, None))


def repacked_types() -> frozenset[str]:
    """Tensor types whose matrices this processor's code keeps in another order, beside the file.

    As `ggml_repack_get_optimal_repack_type` decides; types that only some widths of RISC-V and
    SVE units repack are left out, which makes the estimate too small there by those matrices.
    """

    def has(feature: str) -> bool:
        return bool(ggml_function("cpu", f"ggml_cpu_has_{feature}", ctypes.c_int)())

    if has("avx2"):
        return frozenset({"Q4_0", "Q4_K", "IQ4_NL", *(("Q2_K",) if has("avx512") else ())})
    if has("neon") and has("dotprod"):
        return frozenset({"Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL"})
    return frozenset()


def list_devices() -> list[Device]:
    """All devices of this build, the processor too, with what is free on each now."""
    devices = []
    for index in range(_dev_count()):
        handle = _dev_get(index)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        _dev_memory(handle, ctypes.byref(free), ctypes.byref(total))
        kind = _KINDS.get(_dev_type(handle), "accel")
        if kind == "cpu":
            free.value, total.value = host_memory()
        devices.append(
            Device(
                name=_dev_name(handle).decode("utf-8", "replace"),
                description=_dev_text(handle).decode("utf-8", "replace"),
                kind=kind,
                free_bytes=free.value,
                total_bytes=total.value,
            )
        )
    return devices


def machine() -> Machine:
    """What there is to place weights on, now."""
    found = (
        DeviceMemory(d.name, d.description, d.kind, d.free_bytes, d.total_bytes)
        for d in list_devices()
    )
    return Machine(tuple(found), can_offload(), repacked_types())


def can_offload() -> bool:
    return bool(llama.llama_supports_gpu_offload())


def library_version() -> str:
    """llama.cpp's own version and the bindings'."""
    return f"{llama.llama_version().decode()} (llama-cpp-python {VERSION})"


def metadata(model: Any, name: str) -> str:
    """A value of the file's header as text, empty where there is none; 255 bytes of it."""
    value = ctypes.create_string_buffer(256)
    llama.llama_model_meta_val_str(model, name.encode(), value, len(value))
    return value.value.decode("utf-8", "replace")


def physical_cores() -> int:
    """Physical cores that this process may use: threads beyond them only wait for each other."""
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = min(cores, len(os.sched_getaffinity(0)))
    return max(min(cores, _container_limit(Path("/sys/fs/cgroup/cpu.max"))), 1)


def _container_limit(path: Path) -> int:
    """Whole cores that the control group grants; a large number where it sets no limit."""
    try:
        quota, period = path.read_text().split()
        return max(int(quota) // int(period), 1)
    except (OSError, ValueError):
        return 1 << 16


def graphics_evidence(root: Path = Path("/")) -> GraphicsEvidence:
    """What the operating system shows of graphics devices, without any driver's library."""
    vendors = []
    for path in sorted((root / "sys/class/drm").glob("card[0-9]*/device/vendor")):
        try:
            vendors.append(path.read_text().strip())
        except OSError:
            continue
    nvidia = (root / "proc/driver/nvidia/version").exists() or bool(shutil.which("nvidia-smi"))
    apple = sys.platform == "darwin" and platform.machine() == "arm64"
    return GraphicsEvidence(nvidia, tuple(vendors), apple)
