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
            f"The disk of “{folder}” is full; {bytes_words(left_bytes)} of “{name}” are missing. "
            "What came so far is kept. Free some space, then press Retry; or remove it from the "
            "list, which gives its space back.",
        )
    if error.errno in _NO_ACCESS:
        return TransferFault("read_only", no_access_sentence(folder))
    if error.errno == errno.EFBIG:
        return TransferFault(
            "too_big",
            f"“{name}” is larger than a file may be on the disk of “{folder}”. Choose a folder on "
            "another disk on the Downloads page, then download it again.",
        )
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ESTALE):
        return TransferFault(
            "folder_gone",
            f"The folder “{folder}” is not there any more. Connect its disk again, or choose "
            "another folder on the Downloads page; then press Retry.",
        )
    why = error.strerror or type(error).__name__
    return TransferFault(
        "disk",
        f"“{name}” could not be written to “{folder}” ({why}). Check the disk, then press Retry.",
    )


def no_access_sentence(folder: Path) -> str:
    return (
        f"Nothing can be saved in “{folder}”: it is read-only or belongs to somebody else. "
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
        f"Nothing came for {seconds_words(stall_s)}, after {_so_far(done, size)}. "
        "Check the network, then press Retry: it goes on from there.",
        may_retry=True,
    )


def too_slow(done: int, size: int) -> TransferFault:
    return TransferFault(
        "slow",
        f"The server sends hardly anything, after {_so_far(done, size)}. "
        "Press Retry later: it goes on from there.",
        may_retry=True,
    )


def broke_off(done: int, size: int) -> TransferFault:
    return TransferFault(
        "broke_off",
        f"The connection ended after {_so_far(done, size)}. "
        "Check the network, then press Retry: it goes on from there.",
        may_retry=True,
    )


def wrong_length(name: str, said: int | None, size: int) -> TransferFault:
    what = "more" if said is None else bytes_words(said)
    return TransferFault(
        "wrong_length",
        f"The server sends {what} for “{name}”, where the hub's list says {bytes_words(size)}. "
        "Nothing of it is used. The file may have been changed: look for it on the hub again.",
        may_retry=True,
    )


def web_page(name: str) -> TransferFault:
    return TransferFault(
        "web_page",
        f"A web page came in place of “{name}”. Perhaps this network wants you to log in first: "
        "open any page in a browser, then press Retry.",
        may_retry=True,
    )


def compressed(name: str, encoding: str) -> TransferFault:
    return TransferFault(
        "compressed",
        f"The server sends “{name}” compressed ({encoding[:20]}), though it was asked not to, so "
        "its bytes cannot be checked. Something on the way changes what is sent: try another "
        "network or another hub address, then press Retry.",
    )


def other_content(name: str) -> TransferFault:
    return TransferFault(
        "other_content",
        f"What came as “{name}” is not what the hub describes (its SHA-256 is another). It was "
        "removed. Press Retry to fetch it again; if that does not help, do not trust this source.",
        may_retry=True,
    )


def changed(name: str) -> TransferFault:
    return TransferFault(
        "changed",
        f"“{name}” was changed on the hub since you chose it. Nothing of the new one was saved. "
        "Search for it again and download what is there now.",
    )


def bad_redirect(name: str) -> TransferFault:
    return TransferFault(
        "redirect",
        f"The hub sends “{name}” from an address that cannot be used. Check the hub's address, "
        "then press Retry.",
    )


def expired(name: str) -> TransferFault:
    return TransferFault(
        "expired",
        f"The address that “{name}” comes from is not valid any more. Press Retry: the hub then "
        "gives a new one.",
        may_retry=True,
    )


def occupied(name: str) -> TransferFault:
    return TransferFault(
        "occupied",
        f"Another window or program is downloading “{name}” into this folder. Once it is done, the "
        "finished file is taken as it is; Retry looks again now.",
        may_retry=True,
    )


def _so_far(done: int, size: int) -> str:
    """Rounded down: 100 % is said of what is whole."""
    share = f" ({done * 100 // size}%)" if size else ""
    return f"{bytes_words(done)} of {bytes_words(size)}{share}"
