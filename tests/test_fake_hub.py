"""The fake hub speaks as the real one does: huggingface_hub reads its shapes and its errors, and
each thing that can go wrong with a body is seen by a client that knows nothing of this project."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import threading
from typing import Any
from urllib.parse import urlsplit

import huggingface_hub
import pytest
from fake_hub.acts import Act, captive_portal, rate_limited
from fake_hub.hub import FakeAccount, FakeHub
from fake_hub.repos import FakeFile, FakeRepo
from huggingface_hub import constants, errors
from huggingface_hub.utils import _http

DATA = bytes(range(256)) * 40
REPO = "ana/tiny-GGUF"
NAME = "tiny-Q4_K_M.gguf"


@pytest.fixture(autouse=True)
def quiet_library(monkeypatch):
    """As who installs it has it: not through the gate that another test may have left."""
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    before = _http._GLOBAL_CLIENT_FACTORY
    huggingface_hub.set_client_factory(_http.default_client_factory)
    yield
    huggingface_hub.close_session()
    huggingface_hub.set_client_factory(before)


@pytest.fixture
def hub(fake_hub):
    files = [FakeFile(NAME, DATA), FakeFile("folder/other-Q8_0.gguf", DATA * 2)]
    fake_hub.add(
        FakeRepo(REPO, files, card="---\nlicense: mit\n---\n# Tiny", n_parameters=2_000_000),
        FakeRepo("ben/big-GGUF", files, downloads=900, updated_days=3, licence="mit"),
        FakeRepo("ben/gated", files, gated="manual"),
        FakeRepo("cleo/private", files, private=True),
    )
    fake_hub.accounts["hf_good"] = FakeAccount("ana", frozenset({"cleo/private"}))
    return fake_hub


def get(
    url: str, method: str = "GET", timeout_s: float = 5.0, **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    """One request over a plain connection; a redirect is not followed."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=timeout_s)
    try:
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(
            method, target, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def file_url(hub: FakeHub, name: str = NAME, repo: str = REPO) -> str:
    return f"{hub.endpoint}/{repo}/resolve/main/{name}"


def cdn_url(hub: FakeHub) -> str:
    return get(file_url(hub))[0].headers["Location"]


def api(hub: FakeHub) -> Any:
    return huggingface_hub.HfApi(endpoint=hub.endpoint, token=False)


def test_the_library_reads_the_listing(hub):
    hub.page_size = 1
    found = list(api(hub).list_models(filter=["gguf", "license:mit"], sort="downloads"))
    assert [each.id for each in found] == ["ben/big-GGUF"]
    found = list(api(hub).list_models(sort="downloads", expand=["downloads", "gguf", "gated"]))
    assert [each.id for each in found] == ["ben/big-GGUF", REPO, "ben/gated"]
    assert [each.downloads for each in found] == [900, 100, 100]
    assert found[1].gguf["total"] == 2_000_000
    assert [each.gated for each in found] == [False, False, "manual"]
    assert len(hub.asked("/api/models")) == 4


def test_the_library_reads_files_with_their_hashes(hub):
    info = api(hub).model_info(REPO, files_metadata=True)
    weights = next(each for each in info.siblings if each.rfilename == NAME)
    sha256 = hashlib.sha256(DATA).hexdigest()
    assert (weights.size, weights.lfs.sha256, weights.lfs.size) == (len(DATA), sha256, len(DATA))
    tree = list(api(hub).list_repo_tree(REPO, recursive=True))
    assert [each.path for each in tree] == ["README.md", "folder", "folder/other-Q8_0.gguf", NAME]
    assert tree[-1].lfs.sha256 == sha256
    data = huggingface_hub.get_hf_file_metadata(file_url(hub), token=False)
    assert (data.size, data.etag, data.commit_hash) == (len(DATA), sha256, info.sha)
    assert data.location.startswith(hub.cdn)


def test_the_library_knows_who_asks(hub):
    assert api(hub).whoami(token="hf_good")["name"] == "ana"
    assert hub.requests[-1].token == "hf_good"


@pytest.mark.parametrize(
    ("repo", "token", "kind", "status"),
    [
        ("ben/gated", False, errors.GatedRepoError, 401),
        ("ben/gated", "hf_good", errors.GatedRepoError, 403),
        ("nobody/nothing", "hf_good", errors.RepositoryNotFoundError, 404),
        ("nobody/nothing", False, errors.RepositoryNotFoundError, 401),
        ("cleo/private", False, errors.RepositoryNotFoundError, 401),
        (REPO, "hf_bad", errors.HfHubHTTPError, 401),
    ],
)
def test_the_library_tells_the_errors_apart(hub, repo, token, kind, status):
    with pytest.raises(kind) as caught:
        huggingface_hub.get_hf_file_metadata(
            file_url(hub, repo=repo), token=token, endpoint=hub.endpoint
        )
    assert caught.value.response.status_code == status
    assert type(caught.value) is kind


def test_a_private_repo_is_there_for_its_owner(hub):
    assert api(hub).model_info("cleo/private", token="hf_good").private is True


def test_a_file_comes_from_the_other_server_in_parts(hub):
    first, _ = get(file_url(hub), authorization="Bearer hf_good")
    assert first.status == 302
    url = first.headers["Location"]
    answer, body = get(url)
    assert (answer.status, body) == (200, DATA)
    answer, body = get(url, range="bytes=100-299")
    assert (answer.status, body) == (206, DATA[100:300])
    assert answer.headers["Content-Range"] == f"bytes 100-299/{len(DATA)}"
    assert get(url, range="bytes=10200-")[1] == DATA[10200:]
    assert get(url, range="bytes=-10")[1] == DATA[-10:]
    answer, body = get(url, range=f"bytes={len(DATA)}-")
    assert (answer.status, answer.headers["Content-Range"]) == (416, f"bytes */{len(DATA)}")
    answer, body = get(url, range="bytes=5-", if_range='"older"')
    assert (answer.status, len(body)) == (200, len(DATA))
    assert get(url, "HEAD")[1] == b""
    assert [each.range for each in hub.asked(server="cdn")][1:3] == [
        "bytes=100-299",
        "bytes=10200-",
    ]


def test_a_body_can_end_early(hub):
    url = cdn_url(hub)
    hub.script(Act(close_after=4_000), server="cdn")
    with pytest.raises(http.client.IncompleteRead) as caught:
        get(url)
    assert len(caught.value.partial) == 4_000
    assert get(url)[1] == DATA


def test_a_connection_can_close_without_an_answer(hub):
    hub.script(Act(close_after=-1))
    with pytest.raises(http.client.RemoteDisconnected):
        get(file_url(hub))


def test_another_body_a_wrong_length_and_another_tag(hub):
    url = cdn_url(hub)
    hub.script(
        captive_portal(), Act(claimed_length=50), Act(etag="new"), Act(gzip=True), server="cdn"
    )
    answer, body = get(url)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"log in" in body
    assert get(url)[1] == DATA[:50]
    assert get(url)[0].headers["ETag"] == '"new"'
    answer, body = get(url)
    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == DATA


def test_ranges_can_be_ignored_and_bodies_come_in_chunks(hub):
    url = cdn_url(hub)
    hub.script(Act(ignore_range=True), Act(is_chunked=True), server="cdn")
    answer, body = get(url, range="bytes=100-")
    assert (answer.status, body) == (200, DATA)
    answer, body = get(url, range="bytes=100-")
    assert (answer.status, body) == (206, DATA[100:])
    assert answer.headers["Transfer-Encoding"] == "chunked"


def test_a_body_can_stall_drip_and_never_end(hub):
    url = cdn_url(hub)
    parts = urlsplit(url)
    hub.script(Act(stall_after=10), Act(endless=True), Act(drip=(1_000, 0.001)), server="cdn")
    connection = http.client.HTTPConnection(parts.netloc, timeout=0.2)
    connection.request("GET", f"{parts.path}?{parts.query}")
    response = connection.getresponse()
    assert response.read(10) == DATA[:10]
    with pytest.raises(TimeoutError):
        response.read(1)
    response.close()
    connection.close()
    connection = http.client.HTTPConnection(parts.netloc, timeout=5)
    connection.request("GET", f"{parts.path}?{parts.query}")
    response = connection.getresponse()
    assert len(response.read(len(DATA) + 1_000_000)) == len(DATA) + 1_000_000
    response.close()
    connection.close()
    assert get(url)[1] == DATA


def test_limits_and_troubles_of_the_server(hub):
    hub.script(
        rate_limited(2),
        rate_limited(7, retry_after=False, ratelimit=True),
        rate_limited(7, retry_after=False),
        Act(status=503),
        Act(location="http://127.0.0.1:9/elsewhere"),
        path="/resolve/",
    )
    answer, _ = get(file_url(hub))
    assert (answer.status, answer.headers["Retry-After"]) == (429, "2")
    answer, _ = get(file_url(hub))
    assert answer.headers["ratelimit"] == '"resolvers";r=0;t=7'
    answer, _ = get(file_url(hub))
    assert (answer.headers["Retry-After"], answer.headers["ratelimit"]) == (None, None)
    assert get(file_url(hub))[0].status == 503
    assert get(file_url(hub))[0].headers["Location"] == "http://127.0.0.1:9/elsewhere"


def test_an_answer_can_be_held_back(hub):
    hold = threading.Event()
    hub.script(Act(hold=hold))
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(get(file_url(hub))[0].status))
    asking.start()
    hub.wait_for(1, "/resolve/")
    assert answers == []
    hold.set()
    asking.join()
    assert answers == [302]


def test_a_renamed_repo_redirects(hub):
    hub.renamed["ana/old"] = REPO
    assert api(hub).model_info("ana/old").id == REPO
