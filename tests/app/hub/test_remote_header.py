"""Headers of weights on the hub, by range: few requests, a cap of bytes, nothing taken on trust."""

from __future__ import annotations

import pytest
from fake_hub.acts import Act, captive_portal
from fake_hub.hub import FakeAccount
from fake_hub.repos import FakeFile, FakeRepo
from gguf_writer import tiny_llama

from app.gguf.facts import facts_of
from app.gguf.header import read_header
from app.gguf.refusal import HeaderRefused
from app.hub import library
from app.hub.client import Hub
from app.hub.faults import HubFault
from app.hub.gate import Gate
from app.hub.remote_header import HttpSource, headers_of

REPO = "ana/tiny-GGUF"


@pytest.fixture
def asker(fake_hub, tmp_path):
    tiny_llama(tmp_path / "tiny.gguf")
    tiny = (tmp_path / "tiny.gguf").read_bytes()
    fake_hub.add(
        FakeRepo(
            REPO,
            [
                FakeFile("tiny-F32.gguf", tiny),
                FakeFile("two-00001-of-00002.gguf", tiny),
                FakeFile("two-00002-of-00002.gguf", tiny),
                FakeFile("page-Q8_0.gguf", b"<!DOCTYPE html><html></html>"),
            ],
        ),
        FakeRepo("ana/gated", [FakeFile("tiny-F32.gguf", tiny)], gated="auto"),
    )
    fake_hub.accounts["hf_good"] = FakeAccount("ana", frozenset({"ana/gated"}))

    class Asker:
        gate = Gate(is_open=True)
        token: str | None = None

    Asker.hub = Hub(Asker.gate, fake_hub.endpoint, lambda: Asker.token)
    yield Asker
    library.let_go(Asker.gate)
    Asker.gate.shut_down()


@pytest.fixture
def smol(asker, fake_hub, starter_gguf):
    fake_hub.add(FakeRepo("ana/smol", [FakeFile("smol-Q4_K_M.gguf", starter_gguf)]))
    return file_of(asker, "smol-Q4_K_M.gguf", "ana/smol")


def file_of(asker, name: str, repo: str = REPO):
    return next(each for each in asker.hub.look(repo).files if each.name == name)


def test_it_is_the_header_of_the_file(asker, smol, fake_hub, starter_gguf):
    (header,) = headers_of(asker.hub, smol)
    here = read_header(starter_gguf)
    assert facts_of(header) == facts_of(here)
    assert (header.tensors, header.metadata) == (here.tensors, here.metadata)
    assert (header.size_bytes, header.data_offset) == (here.size_bytes, here.data_offset)
    ranges = [each.range for each in fake_hub.asked(server="cdn")]
    assert len(ranges) <= 3
    assert len(fake_hub.asked("/resolve/", "hub")) == 1  # the redirect is remembered
    last = int(ranges[-1].rpartition("-")[2])
    assert last < header.data_offset + 4 * 1024 * 1024


def test_the_token_stays_at_the_hub(asker, fake_hub):
    asker.token = "hf_good"
    headers_of(asker.hub, file_of(asker, "tiny-F32.gguf", "ana/gated"))
    assert {each.token for each in fake_hub.asked(server="hub")} == {"hf_good"}
    assert {each.token for each in fake_hub.asked(server="cdn")} == {None}


def test_each_part_of_a_split_set_has_its_header(asker):
    (whole,) = headers_of(asker.hub, file_of(asker, "tiny-F32.gguf"))
    both = headers_of(asker.hub, file_of(asker, "two-00001-of-00002.gguf"))
    assert [each.path.name for each in both] == [
        "two-00001-of-00002.gguf",
        "two-00002-of-00002.gguf",
    ]
    assert {each.tensors for each in both} == {whole.tensors}


def test_a_gated_file_needs_a_token(asker):
    with pytest.raises(HubFault) as caught:
        headers_of(asker.hub, file_of(asker, "tiny-F32.gguf", "ana/gated"))
    assert caught.value.kind == "gated"


def test_what_is_no_gguf_is_named(asker):
    with pytest.raises(HeaderRefused, match=r"page-Q8_0\.gguf"):
        headers_of(asker.hub, file_of(asker, "page-Q8_0.gguf"))


def test_there_is_a_cap_of_bytes(asker, smol, fake_hub):
    source = HttpSource(asker.hub, smol, max_bytes=1_000_000)
    assert len(source.read_at(0, 900_000)) == 900_000
    fake_hub.forget()
    with pytest.raises(HubFault, match="implausibly large"):
        source.read_at(900_000, 200_000)
    assert fake_hub.requests == []
    assert source.read_at(smol.size_bytes, 10) == b""
    assert len(source.read_at(smol.size_bytes - 10, 100)) == 10


def test_an_address_that_has_run_out_is_asked_for_again(asker, fake_hub):
    source = HttpSource(asker.hub, file_of(asker, "tiny-F32.gguf"))
    source.read_at(0, 100)
    fake_hub.script(Act(status=403), server="cdn")
    assert source.read_at(0, 4) == b"GGUF"
    assert len(fake_hub.asked("/resolve/", "hub")) == 2


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (Act(ignore_range=True), "doesn't send parts"),
        (captive_portal(), "doesn't send parts"),
        (Act(headers={"Content-Range": "bytes 0-99/5"}), "doesn't match the listing"),
        (Act(headers={"Content-Range": "bytes 1-100/999"}), "doesn't match the listing"),
        (Act(without=("Content-Range",)), "doesn't match the listing"),
        (Act(gzip=True), "doesn't match the listing"),
        (Act(claimed_length=50), "cut short"),
        (Act(close_after=50), "closed the connection early"),
        (Act(status=416), "rejected the request"),
        (Act(status=503), "server error"),
    ],
)
def test_what_was_not_asked_for_is_not_read(asker, fake_hub, act, words):
    source = HttpSource(asker.hub, file_of(asker, "tiny-F32.gguf"))
    fake_hub.script(act, server="cdn")
    with pytest.raises(HubFault, match=words) as caught:
        source.read_at(0, 100)
    assert caught.value.sentence.endswith(".")


def test_a_file_that_changes_while_it_is_read_is_not_read(asker, fake_hub):
    source = HttpSource(asker.hub, file_of(asker, "tiny-F32.gguf"))
    source.read_at(0, 100)
    fake_hub.script(Act(etag="other"), server="cdn")
    with pytest.raises(HubFault, match="changed while it was being read"):
        source.read_at(100, 100)
