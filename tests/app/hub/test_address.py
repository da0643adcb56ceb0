"""What people paste, and where a hub is."""

from __future__ import annotations

import contextlib

import pytest
from each import each
from hypothesis import given, strategies as st

from app.hub.address import (
    DEFAULT_ENDPOINT,
    HubAddress,
    checked_endpoint,
    checked_server,
    default_endpoint,
    file_url,
    host_of,
    is_repo_id,
    read_address,
)
from app.refusal import Refusal

MIRROR = "https://mirror.example.org/hub"
HOME = "https://huggingface.co"
FILE = "b/tiny-Q4_K_M.gguf"


@each(
    ("text", "address"),
    [
        ("ana/tiny-GGUF", HubAddress("ana/tiny-GGUF", is_plain=True)),
        ("  ana/tiny-GGUF\n", HubAddress("ana/tiny-GGUF", is_plain=True)),
        ("ana/tiny-GGUF:Q4_K_M", HubAddress("ana/tiny-GGUF", quantisation="Q4_K_M")),
        ("ana/tiny:UD-Q4_K_XL", HubAddress("ana/tiny", quantisation="UD-Q4_K_XL")),
        ("hf.co/ana/tiny:Q4_K_M", HubAddress("ana/tiny", quantisation="Q4_K_M")),
        ("https://hf.co/ana/tiny:Q4_K_M", HubAddress("ana/tiny", quantisation="Q4_K_M")),
        ("HF.CO/ana/tiny", HubAddress("ana/tiny")),
        ("huggingface.co/ana/tiny", HubAddress("ana/tiny")),
        (f"{HOME}/ana/tiny", HubAddress("ana/tiny")),
        (f"{HOME}/ana/tiny/", HubAddress("ana/tiny")),
        (f"<{HOME}/ana/tiny>", HubAddress("ana/tiny")),
        (f"{HOME}/ana/tiny?library=gguf#files", HubAddress("ana/tiny")),
        (f"{HOME}/ana/tiny/discussions/3", HubAddress("ana/tiny")),
        (f"{HOME}/ana/tiny/tree/main", HubAddress("ana/tiny", "main")),
        (f"{HOME}/ana/tiny/tree/v1%2E0/b", HubAddress("ana/tiny", "v1.0")),
        (f"{HOME}/ana/tiny/blob/main/{FILE}", HubAddress("ana/tiny", "main", FILE)),
        (
            f"{HOME}/ana/tiny/resolve/main/{FILE}?download=true",
            HubAddress("ana/tiny", "main", FILE),
        ),
        (f"{HOME}/ana/tiny/raw/main/a%20b.gguf", HubAddress("ana/tiny", "main", "a b.gguf")),
        ("http://www.huggingface.co/ana/tiny", HubAddress("ana/tiny")),
        ("mirror.example.org/hub/ana/tiny", HubAddress("ana/tiny")),
        (f"{MIRROR}/ana/tiny/resolve/main/{FILE}", HubAddress("ana/tiny", "main", FILE)),
        (f"{MIRROR}/api/models/ana/tiny", HubAddress("ana/tiny")),
        (f"hf://ana/tiny/{FILE}", HubAddress("ana/tiny", file_name=FILE)),
        ("hf://models/ana/tiny", HubAddress("ana/tiny")),
        ("ollama run hf.co/ana/tiny:Q4_K_M", HubAddress("ana/tiny", quantisation="Q4_K_M")),
        ("$ llama-server -hf ana/tiny:Q8_0", HubAddress("ana/tiny", quantisation="Q8_0")),
        ("./llama-cli -cnv -hf ana/tiny", HubAddress("ana/tiny")),
        (f"ana/tiny/{FILE}", HubAddress("ana/tiny", file_name=FILE)),
    ],
)
def test_addresses_are_read(text, address):
    assert read_address(text, MIRROR) == address


@each(
    "text",
    ["", "   ", "smol", "smol lm 2", "ana / tiny", "ana/", "/ana", "a--b/c", "ana/ti..ny", "Q4_K_M",
     "one/two/three", "ollama run llama3", "llama-cli -m x.gguf",
     "x" * 3000, "datasets/ana/x", "и/я", ".ana/tiny"],
)  # fmt: skip
def test_words_are_words(text):
    assert read_address(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("https://example.org/ana/tiny", "“example.org” isn't the current hub"),
        ("https://user:pa55@example.org/ana/tiny", "“example.org” isn't the current hub"),
        ("https://huggingface.co.evil.test/ana/tiny", "isn't the current hub"),
        ("ftp://huggingface.co/ana/tiny", "“ftp://” addresses aren't supported"),
        ("file:///etc/passwd", "“file://” addresses aren't supported"),
        (f"{HOME}/datasets/ana/x", "the address of a data set"),
        (f"{HOME}/spaces/ana/x", "the address of a space"),
        (f"{HOME}/models", "doesn't name a repository"),
        (f"{HOME}", "doesn't name a repository"),
        ("ana/tiny:", "isn't a quantisation"),
        ("ana/tiny:Q4 K", ""),
        ("hf.co/ana/tiny:../x", "isn't a quantisation"),
    ],
)
def test_other_addresses_are_refused_in_words(text, words):
    if not words:
        assert read_address(text) is None
        return
    with pytest.raises(Refusal, match=words.replace("(", r"\(")) as caught:
        read_address(text)
    assert "pa55" not in str(caught.value)


@given(st.text(max_size=60))
def test_whatever_is_typed_is_an_address_words_or_refused(text):
    for typed in (text, f"{HOME}/{text}", f"ana/tiny:{text}", f"hf.co/{text}"):
        with contextlib.suppress(Refusal):
            address = read_address(typed)
            assert address is None or is_repo_id(address.repo_id)


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("https://hub.example.org/", "https://hub.example.org"),
        ("hub.example.org", "https://hub.example.org"),
        ("HTTPS://Hub.Example.ORG:443/a/b//", "https://hub.example.org/a/b"),
        ("hub.example.org:8443", "https://hub.example.org:8443"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("localhost:8000", "http://localhost:8000"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://192.168.0.5", "http://192.168.0.5"),
    ],
)
def test_endpoints_are_kept_in_one_form(text, endpoint):
    assert checked_endpoint(text) == endpoint
    assert checked_endpoint(endpoint) == endpoint


@each(
    "text",
    ["", "  ", "ftp://hub.example.org", "https://", "https://a b", "https://x:99999", "https://x:0",
     "https://me:pw@hub.example.org", "https://hub.example.org?x=1", "https://hub.example.org#x",
     "https://me:pw@hub:99999", "https://[::1",
     "https://hub.example.org:port", "javascript:alert(1)", "https://a\x01b"],
)  # fmt: skip
def test_endpoints_that_cannot_be_are_refused_in_words(text):
    with pytest.raises(Refusal) as caught:
        checked_endpoint(text)
    assert str(caught.value).endswith(".")
    assert "pw" not in str(caught.value)


def test_the_environment_says_where_the_hub_is(monkeypatch):
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert default_endpoint() == DEFAULT_ENDPOINT
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example.org/")
    assert default_endpoint() == "https://mirror.example.org"
    monkeypatch.setenv("HF_ENDPOINT", "not an address")
    assert default_endpoint() == DEFAULT_ENDPOINT


def test_a_file_address_is_quoted_and_stays_inside():
    url = file_url("https://h.example.org", "ana/tiny", "main", "a b/Ž#?%.gguf")
    assert url == "https://h.example.org/ana/tiny/resolve/main/a%20b/%C5%BD%23%3F%25.gguf"
    for name in ("../x.gguf", "a/../../x.gguf", "/x.gguf", "a//x.gguf", "", "./x.gguf"):
        with pytest.raises(Refusal):
            file_url("https://h.example.org", "ana/tiny", "main", name)
    assert host_of("https://h.example.org:8443/x") == "h.example.org:8443"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("127.0.0.1:8000/v1/", "http://127.0.0.1:8000"),
        ("[::1]:8000/v1", "http://[::1]:8000"),
        ("192.168.1.20:11434/v1", "http://192.168.1.20:11434"),
        ("workstation:8000/v1", "http://workstation:8000"),
        ("box.local:8000", "http://box.local:8000"),
        ("api.example.org/v1", "https://api.example.org"),
        ("8.8.8.8/v1", "https://8.8.8.8"),
        (" https://api.example.org:443/v1/chat/completions ", "https://api.example.org"),
        ("http://localhost:8080/v1/models", "http://localhost:8080"),
    ],
)
def test_servers_are_kept_in_one_form(text: str, address: str) -> None:
    assert checked_server(text) == address
    assert checked_server(address) == address


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "Enter an address like http://localhost:8080"),
        ("ftp://box/v1", "isn't an address"),
        ("http://", "isn't an address"),
        ("http://box:99999/v1", "isn't an address"),
        ("http://a b/v1", "isn't an address"),
        ("http://ann:secret@box/v1", "Enter a key instead"),
        ("http://box/v1?key=secret", "Remove that part"),
        ("http://box/" + "v" * 3_000, "limited to"),
    ],
)
def test_servers_that_cannot_be_are_refused_in_words(text: str, word: str) -> None:
    with pytest.raises(Refusal) as refused:
        checked_server(text)
    assert word in refused.value.sentence
    assert "secret" not in refused.value.sentence
