"""One file over real HTTP from the fake hub: every body that goes wrong, and what is left."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fake_hub.acts import Act, captive_portal, rate_limited
from fake_hub.hub import FakeAccount, FakeHub
from fake_hub.repos import FakeFile
from transferring import QUICK, REPO, Fetching, Heard, a_repo, some_bytes

from app.hub.downloads.partial import NameTaken, Partial
from app.hub.downloads.patience import Limits
from app.hub.downloads.transfer import CHANGED_NOTE, NO_RANGE_NOTE, UNKNOWN_NOTE
from app.hub.downloads.transfer_faults import TransferFault
from app.hub.gate import Call, CalledOff, Gate, GateClosed

SIZE = 300_000


@pytest.fixture
def fetching(tmp_path: Path) -> Iterator[Fetching]:
    file = FakeFile("Q4/tiny-Q4_K_M.gguf", some_bytes(SIZE))
    with FakeHub() as hub:
        hub.add(a_repo(file))
        gate = Gate(is_open=True)
        yield Fetching(hub, tmp_path / "weights", gate, file)
        gate.shut_down()


def fault(fetching: Fetching, heard: Heard | None = None, **changes: Any) -> TransferFault:
    """The attempt fails, and no partial passes for the whole."""
    before = sorted(p for p in fetching.folder.glob("*.gguf")) if fetching.folder.exists() else []
    with pytest.raises(TransferFault) as caught:
        fetching.run(heard, **changes)
    assert caught.value.sentence.rstrip().endswith(".")
    assert sorted(fetching.folder.glob("*.gguf")) == before
    return caught.value


def put_part(fetching: Fetching, content: bytes) -> None:
    fetching.folder.mkdir(exist_ok=True)
    fetching.part.write_bytes(content)


# --- what goes well -----------------------------------------------------------------------------


def test_a_file_arrives_whole_and_nothing_else_is_left(fetching: Fetching) -> None:
    heard = Heard()
    mtime_ns = fetching.run(heard)
    assert fetching.target.read_bytes() == fetching.file.content
    assert fetching.target.stat().st_mtime_ns == mtime_ns
    assert fetching.left() == [fetching.target.name]
    assert heard.done[-1] == SIZE
    (asked,) = fetching.hub.asked(server="cdn")
    assert asked.headers["accept-encoding"] == "identity"


def test_while_it_grows_only_the_partial_is_there(fetching: Fetching) -> None:
    seen: list[list[str]] = []
    fetching.run(Heard(on_moved=lambda _: seen.append(fetching.left())))
    name = fetching.target.name
    assert all(names == sorted([f".{name}.lock", fetching.part.name]) for names in seen)


def test_a_second_attempt_asks_only_for_the_rest(fetching: Fetching) -> None:
    fetching.hub.script(Act(close_after=120_000), server="cdn")
    first, second = Heard(), Heard()
    assert "40%" in fault(fetching, first).sentence
    assert fetching.part.stat().st_size == 120_000
    fetching.run(second, etag=first.etags[-1])
    assert fetching.target.read_bytes() == fetching.file.content
    asked = fetching.hub.asked(server="cdn")
    assert [each.range for each in asked] == [None, "bytes=120000-"]
    assert asked[1].headers["if-range"] == f'"{fetching.file.sha256}"'
    assert (second.n_checked, second.notes) == (120_000, [])


def test_a_partial_that_is_whole_already_needs_no_request(fetching: Fetching) -> None:
    put_part(fetching, bytes(fetching.file.content))  # type: ignore[arg-type]
    assert fetching.run() is not None
    assert fetching.hub.requests == []
    assert fetching.target.read_bytes() == fetching.file.content


def test_a_whole_file_that_is_there_is_taken_as_it_is(fetching: Fetching) -> None:
    fetching.run()
    put_part(fetching, b"left by a killed program")
    fetching.hub.forget()
    assert fetching.run() is None
    assert fetching.hub.requests == []
    assert fetching.left() == [fetching.target.name]


@pytest.mark.parametrize("content", [b"mine", some_bytes(SIZE, seed=2)], ids=["short", "as long"])
def test_another_file_of_that_name_is_never_overwritten(fetching: Fetching, content: bytes) -> None:
    fetching.folder.mkdir()
    fetching.target.write_bytes(content)
    with pytest.raises(NameTaken):
        fetching.run()
    assert fetching.target.read_bytes() == content
    assert fetching.hub.requests == []


def test_a_file_that_appears_meanwhile_is_not_overwritten_either(fetching: Fetching) -> None:
    with pytest.raises(NameTaken):
        fetching.run(Heard(on_moved=lambda _: fetching.target.write_bytes(b"mine")))
    assert fetching.target.read_bytes() == b"mine"


def test_nor_where_the_disk_knows_no_links(
    fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", no_link)
    with pytest.raises(NameTaken):
        fetching.run(Heard(on_moved=lambda _: fetching.target.write_bytes(b"mine")))
    assert fetching.target.read_bytes() == b"mine"
    fetching.target.unlink()
    fetching.run()
    assert fetching.left() == [fetching.target.name]


def test_e06_an_empty_file_finishes(fetching: Fetching) -> None:
    """E06: with and without a hash, through the hub's own server."""
    for file in (FakeFile("a.gguf", b""), FakeFile("b.gguf", b"", is_lfs=False)):
        fetching.hub.repos[REPO].files.append(file)
        fetching.file = file
        assert fetching.run(sha256="") is not None
        assert fetching.target.read_bytes() == b""
    assert fetching.left() == ["a.gguf", "b.gguf"]


@pytest.mark.parametrize("act", [Act(), Act(is_chunked=True)], ids=["length", "chunks"])
def test_a_size_that_the_list_does_not_know_is_not_taken_for_an_empty_file(
    fetching: Fetching, act: Act
) -> None:
    fetching.hub.script(act, server="cdn")
    fetching.hub.script(Act(without=("X-Linked-Size",)), server="hub")
    fetching.has_hash = False
    assert fault(fetching, size_bytes=0).kind in ("wrong_length", "changed")
    assert fetching.part.stat().st_size == 0


def test_a_file_without_a_hash_is_taken_by_its_length(fetching: Fetching) -> None:
    fetching.hub.script(Act(is_chunked=True), server="cdn")
    assert fetching.run(sha256="") is not None
    assert fetching.target.read_bytes() == fetching.file.content


# --- what the server does -----------------------------------------------------------------------


def test_e01_a_body_that_ends_early_says_how_far_it_came(fetching: Fetching) -> None:
    """E01, the first half: 43 % of it, then the connection is closed."""
    fetching.hub.script(Act(close_after=SIZE * 43 // 100), server="cdn")
    found = fault(fetching)
    assert (found.kind, found.may_retry) == ("broke_off", True)
    assert "43%" in found.sentence
    assert fetching.left() == [fetching.part.name]
    fetching.hub.script(Act(close_after=SIZE - SIZE * 43 // 100 - 1), server="cdn")
    assert "(99%)" in fault(fetching).sentence


def test_e01_an_error_page_with_200_is_not_saved(fetching: Fetching) -> None:
    """E01, the second half: a page of 635 bytes, as text and as if it were the file."""
    page = b"<!doctype html>" + b"x" * 620
    for kind, expected in (("text/html", "web_page"), ("binary/octet-stream", "wrong_length")):
        fetching.hub.script(Act(body=page, headers={"Content-Type": kind}), server="cdn")
        found = fault(fetching)
        assert (found.kind, found.may_retry) == (expected, True)
        assert fetching.part.stat().st_size == 0
    fetching.hub.script(captive_portal(), server="hub")
    assert "require a login" in fault(fetching).sentence


def test_a_page_in_the_middle_does_not_spoil_what_was_there(fetching: Fetching) -> None:
    put_part(fetching, fetching.file.read(0, 1000))
    fetching.hub.script(captive_portal(), server="hub")
    assert fault(fetching, etag=f'"{fetching.file.sha256}"').kind == "web_page"
    fetching.run(etag=f'"{fetching.file.sha256}"')
    assert fetching.target.read_bytes() == fetching.file.content


def test_a_length_that_is_not_the_lists_is_refused_before_a_byte(fetching: Fetching) -> None:
    fetching.hub.script(Act(claimed_length=SIZE + 1), server="cdn")
    assert fault(fetching).kind == "wrong_length"
    assert fetching.part.stat().st_size == 0


def test_an_endless_body_is_read_up_to_its_promised_size(fetching: Fetching) -> None:
    fetching.hub.script(Act(endless=True), server="cdn")
    assert fetching.run() is not None
    assert fetching.target.read_bytes() == fetching.file.content


def test_an_endless_body_without_a_hash_is_no_file(fetching: Fetching) -> None:
    fetching.hub.script(Act(endless=True), server="cdn")
    fetching.has_hash = False
    assert fault(fetching).kind == "wrong_length"
    assert fetching.part.stat().st_size <= SIZE


def test_a_compressed_body_is_refused(fetching: Fetching) -> None:
    fetching.hub.script(Act(gzip=True), server="cdn")
    found = fault(fetching)
    assert (found.kind, found.may_retry) == ("compressed", False)


def test_other_content_of_the_right_length_is_removed(fetching: Fetching) -> None:
    fetching.hub.script(Act(body=some_bytes(SIZE, seed=3)), server="cdn")
    assert fault(fetching).kind == "other_content"
    assert fetching.left() == []


def test_a_file_that_changed_between_two_parts_starts_over(fetching: Fetching) -> None:
    put_part(fetching, some_bytes(1000, seed=9))
    heard = Heard()
    fetching.run(heard, etag='"of what it was"')
    assert fetching.target.read_bytes() == fetching.file.content
    assert heard.notes == [CHANGED_NOTE]


def test_a_file_that_is_another_one_by_now_is_not_fetched(fetching: Fetching) -> None:
    fetching.hub.script(Act(status=302, location="/x", headers={"X-Linked-Size": "5"}))
    assert fault(fetching).kind == "changed"
    other = FakeFile("x.gguf", some_bytes(SIZE, seed=4)).sha256
    fetching.hub.script(Act(status=302, location="/x", headers={"X-Linked-ETag": f'"{other}"'}))
    assert fault(fetching).kind == "changed"


def test_a_server_that_ignores_the_range_starts_over(fetching: Fetching) -> None:
    put_part(fetching, fetching.file.read(0, 1000))
    fetching.hub.script(Act(ignore_range=True), server="cdn")
    heard = Heard()
    fetching.run(heard, etag=f'"{fetching.file.sha256}"')
    assert heard.notes == [NO_RANGE_NOTE]
    assert fetching.target.read_bytes() == fetching.file.content


@pytest.mark.parametrize(
    "act",
    [
        Act(status=416, body=b"no"),
        Act(headers={"Content-Range": f"bytes 0-{SIZE - 1}/{SIZE}"}),
        Act(headers={"Content-Range": f"bytes 1000-{SIZE - 1}/{SIZE + 1}"}),
        Act(headers={"Content-Range": "nonsense"}),
    ],
    ids=["416", "from elsewhere", "of another length", "nonsense"],
)
def test_a_range_that_does_not_fit_starts_over(fetching: Fetching, act: Act) -> None:
    put_part(fetching, fetching.file.read(0, 1000))
    fetching.hub.script(act, server="cdn")
    heard = Heard()
    fetching.run(heard, etag=f'"{fetching.file.sha256}"')
    assert len(heard.notes) == 1
    assert fetching.ranges() == ["bytes=1000-", None]
    assert fetching.target.read_bytes() == fetching.file.content


def test_a_partial_that_is_nothing_of_this_file_starts_over(fetching: Fetching) -> None:
    """Longer than the whole; or with nothing to tell what it is of."""
    put_part(fetching, bytes(SIZE + 1))
    heard = Heard()
    fetching.run(heard)
    assert heard.notes == [UNKNOWN_NOTE]
    fetching.target.unlink()
    fetching.has_hash = False
    put_part(fetching, bytes(10))
    fetching.run(heard)
    assert heard.notes == [UNKNOWN_NOTE] * 2
    assert fetching.target.read_bytes() == fetching.file.content


def test_e15_a_server_that_stalls_is_left(fetching: Fetching) -> None:
    """E15: it accepts, sends ten bytes, and sleeps."""
    fetching.hub.script(Act(stall_after=10), server="cdn")
    began = time.monotonic()
    found = fault(fetching, limits=QUICK)
    assert (found.kind, found.may_retry) == ("stalled", True)
    assert QUICK.stall_s <= time.monotonic() - began < Limits().stall_s / 2
    assert fetching.part.stat().st_size == 10


def test_a_slow_drip_is_left_too(fetching: Fetching) -> None:
    fetching.hub.script(Act(drip=(100, 0.02)), server="cdn")
    assert fault(fetching, limits=QUICK).kind == "slow"


def test_a_limit_of_our_own_is_no_slow_server(fetching: Fetching) -> None:
    """The watcher waits for the limit of speed; the server is not to blame for that."""
    limits = Limits(slow_window_s=0.1, slow_bytes_per_s=2 * SIZE)
    heard = Heard(on_moved=lambda done: time.sleep(0.15) if done < SIZE else None)
    fetching.hub.script(Act(drip=(SIZE // 2, 0)), server="cdn")
    fetching.run(heard, limits=limits)
    assert fetching.target.read_bytes() == fetching.file.read(0, SIZE)
    assert heard.done[0] < SIZE


@pytest.mark.parametrize("where", ["body", "head"])
def test_e15_it_can_be_called_off_at_once(fetching: Fetching, where: str) -> None:
    """E15: whatever it waits for."""
    held = threading.Event()
    fetching.hub.script(Act(stall_after=10) if where == "body" else Act(hold=held), server="cdn")
    call = Call()
    transfer = fetching.transfer(call=call, limits=Limits())
    raised: list[BaseException] = []

    def work() -> None:
        try:
            transfer.run()
        except CalledOff as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    fetching.hub.wait_for(2)
    time.sleep(0.05)
    call.cancel()
    thread.join(Limits().stall_s / 2)
    is_over = not thread.is_alive()
    held.set()
    assert is_over
    assert len(raised) == 1
    assert fetching.left() in ([], [fetching.part.name])


def test_closing_the_gate_ends_it(fetching: Fetching) -> None:
    fetching.hub.script(Act(stall_after=10), server="cdn")
    threading.Timer(0.1, fetching.gate.close_it).start()
    with pytest.raises(GateClosed):
        fetching.run(limits=Limits())
    assert fetching.left() == [fetching.part.name]


@pytest.mark.parametrize(
    ("act", "kind", "may_retry"),
    [
        (rate_limited(7), "rate_limited", True),
        (Act(status=500, body=b""), "server", True),
        (Act(status=503, body=b"", headers={"Retry-After": "4"}), "server", True),
        (Act(status=404, body=b"", headers={"X-Error-Code": "EntryNotFound"}), "not_found", False),
        (Act(status=416, body=b""), "not_hub", False),
    ],
    ids=["429", "500", "503", "404", "416"],
)
def test_what_the_hub_answers_is_told(
    fetching: Fetching, act: Act, kind: str, may_retry: bool
) -> None:
    fetching.hub.script(act, server="hub")
    found = fault(fetching)
    assert (found.kind, found.may_retry) == (kind, may_retry)
    wanted = act.headers.get("Retry-After")
    assert found.wait_s == (None if wanted is None else float(wanted))


def test_no_one_answers(fetching: Fetching) -> None:
    fetching.hub.script(Act(close_after=-1), server="hub")
    assert fault(fetching).may_retry


def test_an_address_that_has_expired_is_asked_for_again(fetching: Fetching) -> None:
    fetching.hub.script(Act(status=403, body=b"<Error/>"), server="cdn")
    found = fault(fetching)
    assert (found.kind, found.may_retry) == ("expired", True)


# --- redirects and tokens -----------------------------------------------------------------------


def with_token(fetching: Fetching, token: str) -> None:
    fetching.gate.token_origin = fetching.hub.endpoint
    fetching.tokens = lambda url: (
        {"Authorization": f"Bearer {token}"} if url.startswith(fetching.hub.endpoint) else {}
    )


def test_the_token_goes_to_the_hub_and_not_where_it_redirects_to(fetching: Fetching) -> None:
    fetching.hub.repos[REPO].gated = "auto"
    fetching.hub.accounts["hf_secret"] = FakeAccount("ana", frozenset({REPO}))
    with_token(fetching, "hf_secret")
    assert fetching.run() is not None
    assert [(each.server, each.token) for each in fetching.hub.requests] == [
        ("hub", "hf_secret"),
        ("cdn", None),
    ]


def test_a_bad_token_is_left_out_for_a_public_file(fetching: Fetching) -> None:
    with_token(fetching, "hf_revoked")
    assert fetching.run() is not None
    assert [each.token for each in fetching.hub.requests] == ["hf_revoked", None, None]


def test_a_gated_file_says_so(fetching: Fetching) -> None:
    fetching.hub.repos[REPO].gated = "auto"
    found = fault(fetching)
    assert (found.kind, found.may_retry) == ("gated", False)


@pytest.mark.parametrize(
    "location", ["", "ftp://example.org/x", "file:///etc/passwd", "http://x:yy/", "data:,x"]
)
def test_a_redirect_to_no_usable_address_is_refused(fetching: Fetching, location: str) -> None:
    fetching.hub.script(Act(location=location), server="hub")
    assert fault(fetching).kind == "redirect"


def test_a_redirect_from_https_to_http_is_refused(fetching: Fetching) -> None:
    secure = httpx2.URL("https://hub.example/x")
    transfer = fetching.transfer()
    assert str(transfer._next_url(secure, "/y")) == "https://hub.example/y"
    assert transfer._next_url(secure, "https://cdn.example/y").host == "cdn.example"
    with pytest.raises(TransferFault) as caught:
        transfer._next_url(secure, "http://hub.example/y")
    assert caught.value.kind == "redirect"


def test_redirects_end(fetching: Fetching) -> None:
    fetching.hub.script(Act(location=fetching.url), server="hub", for_ever=True)
    assert fault(fetching).kind == "redirect"
    assert len(fetching.hub.requests) == 6


# --- what the disk does -------------------------------------------------------------------------


def test_a_disk_that_is_full_at_60_percent_keeps_what_came(
    fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write really ends short, as a full disk's does: some of it, then nothing."""
    room = SIZE * 60 // 100
    real = Partial._write

    def write(partial: Partial, view: memoryview) -> int:
        left = room - partial.size_bytes
        if left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(partial, view[:left])

    monkeypatch.setattr(Partial, "_write", write)
    found = fault(fetching)
    assert (found.kind, found.may_retry) == ("no_space", False)
    assert "120 kB" in found.sentence
    assert fetching.part.stat().st_size == room
    monkeypatch.undo()
    fetching.run(etag=f'"{fetching.file.sha256}"')
    assert fetching.target.read_bytes() == fetching.file.content
    assert fetching.ranges() == [None, f"bytes={room}-"]


def test_one_file_has_one_writer(fetching: Fetching) -> None:
    other = Partial(fetching.target, fetching.file.sha256)
    other.open()
    other.append(b"theirs")
    assert fault(fetching).kind == "occupied"
    assert fetching.hub.requests == []
    assert fetching.part.read_bytes() == b"theirs"
    other.remove()
    assert fetching.run() is not None
    assert fetching.left() == [fetching.target.name]


def test_nothing_is_written_through_a_link(fetching: Fetching, tmp_path: Path) -> None:
    """Nor into the second name that a killed program left on the whole file."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    fetching.folder.mkdir()
    fetching.part.symlink_to(precious)
    fetching.run()
    assert precious.read_bytes() == b"precious"
    fetching.target.unlink()
    os.link(precious, fetching.part)
    fetching.run()
    assert precious.read_bytes() == b"precious"
    assert fetching.target.read_bytes() == fetching.file.content


def test_a_link_to_nothing_has_the_name(fetching: Fetching) -> None:
    fetching.folder.mkdir()
    fetching.target.symlink_to(fetching.folder / "gone")
    with pytest.raises(NameTaken):
        fetching.run()
    assert fetching.target.is_symlink()


def test_a_folder_that_is_a_file_is_told(fetching: Fetching) -> None:
    fetching.folder.write_bytes(b"")
    with pytest.raises(TransferFault) as caught:
        fetching.run()
    assert caught.value.kind in ("disk", "folder_gone")
    assert str(fetching.folder) in caught.value.sentence
