"""A child's exit number in words: what happened, what to do next.

    describe_exit(-11, "answering").sentence
    -> "The engine crashed in llama.cpp (SIGSEGV) while it was answering. ..."

The number alone is not enough: on Linux the kernel's memory killer and a person's `kill -9`
look the same, and a C++ `bad_alloc` ends as SIGABRT. So the last lines of stderr are looked
at first, for words that name the cause.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Doing = Literal[
    "starting", "loading", "loading draft", "loading projector", "looking", "answering", "idle"
]

_WHILE: Final[dict[Doing, str]] = {
    "starting": " while starting",
    "loading": " while loading the model",
    "loading draft": " while loading the draft model",
    "loading projector": " while loading the projector",
    "looking": " while processing a picture or sound",
    "answering": " while generating",
    "idle": "",
}

_NEXT_AFTER_CRASH: Final[dict[Doing, str]] = {
    "starting": "See the log in Settings.",
    "loading": "Try another model or a smaller context window. The log has the details.",
    "loading draft": (
        "Choose another draft model or none, then load the model again. The log has the details."
    ),
    "loading projector": (
        "Choose another projector or none, then load the model again. The log has the details."
    ),
    "looking": "Remove it or choose another projector, then try again.",
    "answering": "The partial reply is kept. Try again to reload the model.",
    "idle": "The model reloads with your next message.",
}

_LESS_MEMORY: Final = "Choose a smaller model or context window, or close other programs."

_NO_MEMORY: Final = re.compile(
    r"out of memory|bad_alloc|MemoryError|failed to allocate|unable to allocate"
    r"|cannot allocate memory|failed to mmap|cudaErrorMemoryAllocation|insufficient memory",
    re.IGNORECASE,
)
_LAST_LINES: Final = 40
_STACK: Final = re.compile(r'  (File "|\.\.\.)|(Current t|T)hread 0x|Extension modules: ')

_NO_LIBRARY: Final = re.compile(
    r"error while loading shared libraries: (?P<so>[^\s:]+)"
    r"|(?P<open>[\w.+-]+\.(?:so|dylib)[\w.]*): cannot open shared object file"
    r"|Library not loaded: (?P<mac>\S+)"
    r"|(?P<dll>DLL load failed|Could not find module)"
)
_NO_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'")

_WINDOWS: Final[dict[int, tuple[str, str]]] = {
    0xC0000005: ("crash", "access violation"),
    0xC000001D: ("illegal", "illegal instruction"),
    0xC00000FD: ("crash", "stack overflow"),
    0xC0000409: ("abort", "aborted by a check"),
    0x40000015: ("abort", "aborted by a check"),
    0xC0000017: ("memory", "no memory"),
    0xC000012D: ("memory", "no memory"),
    0xC0000135: ("library", "0xC0000135"),
    0xC0000139: ("library", "0xC0000139"),
    0xC000007B: ("library", "0xC000007B"),
    0xC000013A: ("ended", "Ctrl-C"),
}
"""NTSTATUS codes that a process on Windows ends with."""

_SIGNALS: Final[dict[str, str]] = {
    "SIGSEGV": "crash",
    "SIGBUS": "bus",
    "SIGFPE": "crash",
    "SIGILL": "illegal",
    "SIGABRT": "abort",
    "SIGKILL": "killed",
    "SIGTERM": "ended",
    "SIGHUP": "ended",
    "SIGINT": "ended",
    "SIGQUIT": "ended",
}


@dataclass(frozen=True, slots=True)
class ExitReport:
    """`kind` is one of `Failed.kind`; `sentence` is for the user; `name` is short, for a log."""

    kind: str
    sentence: str
    name: str


def last_words(lines: Sequence[str]) -> list[str]:
    """The last lines of a log. The stacks that Python prints of all threads when native code ends
    the process do not count, since the cause stands before them; the first lines stay."""
    said = [index for index, line in enumerate(lines) if not _STACK.match(line)]
    found, of_stacks = [], 0
    for line in lines[said[-_LAST_LINES] if len(said) > _LAST_LINES else 0 :]:
        of_stacks += bool(_STACK.match(line))
        if of_stacks <= _LAST_LINES or not _STACK.match(line):
            found.append(line)
    return found


def describe_exit(
    code: int, doing: Doing, stderr: Sequence[str] = (), *, file: str = ""
) -> ExitReport:
    """Translate a return code as `subprocess` gives it (negative: ended by that signal).

    `file`: the name of what was being loaded, if anything was.
    """
    name, sort = _name_and_sort(code)
    text = "\n".join(stderr)
    when = _WHILE[doing]
    if file and doing == "loading":
        when = f" while loading “{file}”"
    elif file and doing in ("loading draft", "loading projector"):
        when += f" “{file}”"
    if sort == "library" or _NO_LIBRARY.search(text) or _NO_MODULE.search(text):
        return _missing_part(name, when, text)
    if sort == "memory" or (code != 0 and _NO_MEMORY.search(text)):
        return ExitReport(
            "out_of_memory", f"The engine ran out of memory{when}. {_LESS_MEMORY}", name
        )
    return _by_sort(sort, name, doing, when)


def _by_sort(sort: str, name: str, doing: Doing, when: str) -> ExitReport:
    next_step = _NEXT_AFTER_CRASH[doing]
    sentences = {
        "crash": f"The engine crashed in llama.cpp ({name}){when}. {next_step}",
        "abort": f"llama.cpp stopped ({name}){when} because an internal check failed. {next_step}",
        "bus": f"The engine lost the file it was reading ({name}){when}. Was it moved, or is "
        "the disk full? Open it again.",
        "illegal": f"This build of llama.cpp doesn't support your CPU ({name}). Reinstall "
        "llama-cpp-python, compiled on this computer.",
        "killed": (
            f"The system stopped the engine ({name}){when}, most likely because it ran out of "
            f"memory. {_LESS_MEMORY}"
        ),
        "ended": f"Another program stopped the engine ({name}){when}. {next_step}",
        "done": f"The engine stopped unexpectedly{when}. {next_step}",
        "code": f"The engine stopped with {name}{when}. {next_step}",
    }
    kind = "out_of_memory" if sort == "killed" else "native_error"
    return ExitReport(kind, sentences[sort], name)


def _missing_part(name: str, when: str, text: str) -> ExitReport:
    """A library or Python module that is not there: no retry can help, an installation can."""
    module = _NO_MODULE.search(text)
    if module:
        return ExitReport(
            "unsupported",
            f"The engine couldn't start because the Python package “{module['name']}” isn't "
            "installed. Run “make run” to install it.",
            name,
        )
    found = _NO_LIBRARY.search(text)
    library = (found["so"] or found["open"] or found["mac"]) if found else None
    named = f"the library “{library}”" if library else "a library that llama.cpp needs"
    return ExitReport(
        "unsupported",
        f"The engine stopped{when} because {named} is missing ({name}). Install it, or reinstall "
        "llama-cpp-python.",
        name,
    )


def _name_and_sort(code: int) -> tuple[str, str]:
    """(name for people, sort). Shells report a signal n as 128 + n, so that counts too."""
    unsigned = code & 0xFFFFFFFF
    if unsigned in _WINDOWS:
        sort, name = _WINDOWS[unsigned]
        return name, sort
    if code == 0:
        return "exit code 0", "done"
    if code == 127:
        return "exit code 127", "library"
    number = -code if code < 0 else code - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"exit code {code}", "code"
    return name, _SIGNALS.get(name, "crash" if code < 0 else "code")
