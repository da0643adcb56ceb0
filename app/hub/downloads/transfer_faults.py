"""How a transfer ends otherwise than with a file: each ending by its kind, in a sentence that says
what to do next."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

import httpx2

from app.amounts import bytes_words, seconds_words
from app.hub.faults import HubFault

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_ACCESS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class TransferFault(Exception):  # noqa: N818
    """`may_retry`: time may mend it. `wait_s` is what the server asks for, or None."""

    def __init__(
        self, kind: str, sentence: str, *, may_retry: bool = False, wait_s: float | None = None
    ) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence
        self.may_retry = may_retry
        self.wait_s = wait_s


def of_hub(fault: HubFault) -> TransferFault:
    return TransferFault(
        fault.kind,
        fault.sentence,
        may_retry=fault.may_pass,
        wait_s=fault.retry_after_s,
    )


def of_disk(error: OSError, target: Path, left_bytes: int) -> TransferFault:
    """Of the folder or the file in it."""
    name, folder = target.name, target.parent
    if error.errno in _NO_SPACE:
        return TransferFault(
            "no_space",
            f"The disk with “{folder}” is full, and {bytes_words(left_bytes)} of “{name}” are "
            "still missing. The partial file is kept. Free some space, then press Retry, or "
            "remove the download to free its space.",
        )
    if error.errno in _NO_ACCESS:
        return TransferFault("read_only", no_access_sentence(folder))
    if error.errno == errno.EFBIG:
        return TransferFault(
            "too_big",
            f"“{name}” is too large for the file system of “{folder}”. Choose a folder on "
            "another disk on the Downloads page, then download it again.",
        )
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ESTALE):
        return TransferFault(
            "folder_gone",
            f"The folder “{folder}” can't be found. Reconnect its disk or choose another folder "
            "on the Downloads page, then press Retry.",
        )
    why = error.strerror or type(error).__name__
    return TransferFault(
        "disk",
        f"“{name}” couldn't be saved in “{folder}” ({why}). Check the disk, then press Retry.",
    )


def no_access_sentence(folder: Path) -> str:
    return (
        f"Can't save in “{folder}”: it is read-only, or you don't have permission. "
        "Choose another folder on the Downloads page, then download it again."
    )


def of_stream(error: httpx2.HTTPError, done: int, size: int, stall_s: float) -> TransferFault:
    """A body that broke off."""
    if isinstance(error, httpx2.TimeoutException):
        return stalled(done, size, stall_s)
    return broke_off(done, size)


def stalled(done: int, size: int, stall_s: float) -> TransferFault:
    return TransferFault(
        "stalled",
        f"The download stalled: no data for {seconds_words(stall_s)} after {_so_far(done, size)}. "
        "Check your connection, then press Retry to resume.",
        may_retry=True,
    )


def too_slow(done: int, size: int) -> TransferFault:
    return TransferFault(
        "slow",
        f"The download became too slow after {_so_far(done, size)}. Press Retry later to resume.",
        may_retry=True,
    )


def broke_off(done: int, size: int) -> TransferFault:
    return TransferFault(
        "broke_off",
        f"The connection was lost after {_so_far(done, size)}. Check your network, then press "
        "Retry to resume.",
        may_retry=True,
    )


def wrong_length(name: str, said: int | None, size: int) -> TransferFault:
    what = "more" if said is None else bytes_words(said)
    return TransferFault(
        "wrong_length",
        f"The hub lists “{name}” with {bytes_words(size)}, but the server sent {what}. Nothing "
        "was kept. The file may have changed: find it on the hub again.",
        may_retry=True,
    )


def web_page(name: str) -> TransferFault:
    return TransferFault(
        "web_page",
        f"The server sent a web page instead of “{name}”. Your network may require a login: open "
        "any page in a browser, then press Retry.",
        may_retry=True,
    )


def compressed(name: str, encoding: str) -> TransferFault:
    return TransferFault(
        "compressed",
        f"“{name}” arrived compressed ({encoding[:20]}), so it can't be verified. Something on "
        "your network may be changing it: try another network or hub address, then press Retry.",
    )


def other_content(name: str) -> TransferFault:
    return TransferFault(
        "other_content",
        f"“{name}” doesn't match the hub's checksum (SHA-256), so it was deleted. Press Retry to "
        "download it again. If that fails too, don't trust this source.",
        may_retry=True,
    )


def changed(name: str) -> TransferFault:
    return TransferFault(
        "changed",
        f"“{name}” has changed on the hub since you chose it, so it wasn't saved. Find it on the "
        "hub again to download the new version.",
    )


def bad_redirect(name: str) -> TransferFault:
    return TransferFault(
        "redirect",
        f"The hub redirects “{name}” to an address that can't be used. Check the hub address, "
        "then press Retry.",
    )


def expired(name: str) -> TransferFault:
    return TransferFault(
        "expired",
        f"The download link for “{name}” has expired. Press Retry to get a new one.",
        may_retry=True,
    )


def occupied(name: str) -> TransferFault:
    return TransferFault(
        "occupied",
        f"Another window or program is already downloading “{name}” into this folder. Cutaway "
        "uses that file once it is finished. Press Retry to check now.",
        may_retry=True,
    )


def _so_far(done: int, size: int) -> str:
    """Rounded down: 100 % is said of what is whole."""
    share = f" ({done * 100 // size}%)" if size else ""
    return f"{bytes_words(done)} of {bytes_words(size)}{share}"
