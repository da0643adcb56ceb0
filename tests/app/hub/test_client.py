"""The client against the fake hub, over real HTTP."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
from datetime import UTC, datetime

import httpx2
import pytest
from fake_hub.acts import Act, captive_portal, rate_limited
from fake_hub.hub import FakeAccount
from fake_hub.repos import FakeFile, FakeRepo
from hypothesis import HealthCheck, given, settings, strategies as st

from app.hub import library
from app.hub.client import PAGE, Hub, files_of, repo_of, without_front_matter
from app.hub.faults import HubFault
from app.hub.gate import Gate
from app.hub.records import HubFile, HubSearchPage, SearchWish, pick
from app.hub.transport import GateTransport

DATA = bytes(range(256)) * 16
CARD = "---\nlicense: mit\ntags:\n- x\n---\n# Tiny\n\nA *tiny* one.\n"
PUBLIC = "ana/tiny-GGUF"


class Asker:
    """A hub, and the token that it is asked with."""

    def __init__(self, endpoint: str) -> None:
        self.gate = Gate(is_open=True)
        self.token: str | None = None
        self.refused: list[str] = []
        self.hub = Hub(self.gate, endpoint, lambda: self.token, self._refuse)

    def _refuse(self, token: str) -> None:
        self.refused.append(token)
        self.token = None


@pytest.fixture
def fake(fake_hub):
    weights = [
        FakeFile("tiny-Q8_0.gguf", DATA * 3),
        FakeFile("tiny-Q4_K_M.gguf", DATA),
        FakeFile("parts/tiny-F16-00002-of-00002.gguf", DATA * 4),
        FakeFile("parts/tiny-F16-00001-of-00002.gguf", DATA * 2),
        FakeFile("mmproj-tiny-F16.gguf", DATA),
        FakeFile("config.json", b"{}", is_lfs=False),
    ]
    fake_hub.add(
        FakeRepo(
            PUBLIC, weights, card=CARD, n_parameters=135_000_000, downloads=50, likes=9,
            updated_days=900, licence="mit", languages=("en", "fr"), tags=("chat",),
        ),
        FakeRepo("ben/big-GGUF", weights[:1], n_parameters=70_000_000_000, downloads=900, likes=1),
        FakeRepo("ben/odd", weights[-1:], downloads=10, likes=3, languages=("de",)),
        FakeRepo("cleo/gated", weights[:1], gated="manual", downloads=5, card=CARD),
        FakeRepo("cleo/private", weights[:1], private=True, downloads=4),
    )  # fmt: skip
    fake_hub.accounts["hf_good"] = FakeAccount("ana", frozenset({"cleo/private"}))
    fake_hub.accounts["hf_cleo"] = FakeAccount("cleo", frozenset({"cleo/private", "cleo/gated"}))
    return fake_hub


@pytest.fixture
def asker(fake):
    made = Asker(fake.endpoint)
    yield made
    library.let_go(made.gate)
    made.gate.shut_down()


def found(asker: Asker, **wish) -> list[str]:
    return [repo.id for repo in asker.hub.search(SearchWish(**wish)).next_page().repos]


def fault(ask) -> HubFault:
    with pytest.raises(HubFault) as caught:
        ask()
    assert caught.value.sentence.endswith(".")
    assert "hf_" not in caught.value.sentence
    return caught.value


# --- search -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sort", "first"),
    [("downloads", "ben/big-GGUF"), ("likes", PUBLIC), ("updated", PUBLIC)],
)
def test_a_search_is_sorted(asker, sort, first):
    assert found(asker, sort=sort)[0] == first


def test_a_search_is_filtered(asker):
    assert found(asker, text="tiny") == [PUBLIC]
    assert found(asker, author="ben") == ["ben/big-GGUF"]
    assert found(asker, author="ben", gguf_only=False) == ["ben/big-GGUF", "ben/odd"]
    assert found(asker, licence="mit") == [PUBLIC]
    assert found(asker, language="fr") == [PUBLIC]
    assert found(asker, max_parameters=1_000_000_000) == [PUBLIC, "cleo/gated"]
    days = (datetime.now(UTC) - datetime(2024, 3, 1, tzinfo=UTC)).days
    assert found(asker, updated_within_days=days - 800) == [PUBLIC]
    assert found(asker, text="no such thing") == []


def test_a_repo_is_told_as_the_hub_has_it(asker):
    repo = asker.hub.search(SearchWish("tiny")).next_page().repos[0]
    assert (repo.author, repo.name, repo.downloads, repo.likes) == ("ana", "tiny-GGUF", 50, 9)
    assert (repo.licence, repo.languages) == ("mit", ("en", "fr"))
    assert (repo.n_parameters, repo.architecture, repo.n_ctx_train) == (135_000_000, "llama", 8192)
    assert repo.updated == datetime(2026, 8, 18, 12, tzinfo=UTC)
    assert not repo.is_gated
    assert asker.hub.search(SearchWish("gated")).next_page().repos[0].is_gated


def test_a_search_goes_on_page_by_page(asker, fake):
    fake.add(*(FakeRepo(f"dora/n{n:02}", [FakeFile("x.gguf", b"x")]) for n in range(2 * PAGE)))
    search = asker.hub.search(SearchWish(author="dora"))
    first, second, third = (search.next_page() for _ in range(3))
    assert (len(first.repos), first.has_more) == (PAGE, True)
    assert (len(second.repos), second.has_more) == (PAGE, False)
    assert (third.repos, third.has_more) == ((), False)
    assert len({repo.id for repo in (*first.repos, *second.repos)}) == 2 * PAGE
    assert [each.one("limit") for each in fake.asked("/api/models")] == [str(PAGE)] * 2


def test_a_page_that_fails_is_asked_for_again(asker, fake):
    fake.add(*(FakeRepo(f"dora/n{n:02}", [FakeFile("x.gguf", b"x")]) for n in range(PAGE + 3)))
    search = asker.hub.search(SearchWish(author="dora"))
    search.next_page()
    fake.script(Act(status=503))
    assert fault(search.next_page).kind == "server"
    assert len(search.next_page().repos) == 3
    assert search.next_page() == HubSearchPage()
    late = asker.hub.search(SearchWish(author="dora", max_parameters=10))
    fake.repos["dora/n00"].n_parameters = 11
    fake.script(Act(), Act(status=503))
    page = late.next_page()  # 19 of the first page, then a fault: what is there is shown
    assert (len(page.repos), page.has_more) == (PAGE - 1, True)
    assert len(late.next_page().repos) == 3


def test_a_token_that_runs_out_between_two_pages_is_left_out(asker, fake):
    fake.add(*(FakeRepo(f"dora/n{n:02}", [FakeFile("x.gguf", b"x")]) for n in range(PAGE + 3)))
    asker.token = "hf_good"
    search = asker.hub.search(SearchWish(author="dora"))
    search.next_page()
    del fake.accounts["hf_good"]
    assert len(search.next_page().repos) == 3
    assert asker.refused == ["hf_good"]


def test_a_mirror_is_asked_for_the_next_page_too(asker, fake):
    """What it hands on names the hub behind it."""
    fake.add(*(FakeRepo(f"dora/n{n:02}", [FakeFile("x.gguf", b"x")]) for n in range(PAGE + 3)))
    behind = "https://hub.example.org/api/models?author=dora&cursor=MjA=&limit=20"
    fake.script(Act(headers={"Link": f'<{behind}>; rel="next"'}))
    search = asker.hub.search(SearchWish(author="dora"))
    assert search.next_page().has_more
    assert len(search.next_page().repos) == 3
    assert fake.requests[-1].one("cursor") == "MjA="
    fake.script(Act(headers={"Link": '<https://[>; rel="next"'}))
    search = asker.hub.search(SearchWish(author="dora"))
    search.next_page()
    assert search.next_page() == HubSearchPage()


def test_no_redirect_leads_away_from_tls(asker):
    """From https to http: neither for the API nor for files."""
    request = httpx2.Request("GET", "https://hub.example.org/api/models/a/b")
    answer = httpx2.Response(302, headers={"Location": "http://hub.example.org/x"})

    def answered(self: object, sent: httpx2.Request) -> httpx2.Response:
        answer.request = sent
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GateTransport, "handle_request", answered)
        with pytest.raises(HubFault, match="like a model hub"):
            library.LibraryTransport(asker.gate).handle_request(request)
        with pytest.raises(httpx2.UnsupportedProtocol):
            asker.hub.open(str(request.url), {})
        answer.headers["Location"] = "https://other.example.org/x"
        sent = library.LibraryTransport(asker.gate).handle_request(request)
        assert sent.has_redirect_location


def test_a_listing_with_damaged_entries_is_a_listing_without_them(asker, fake):
    body = (
        b'[{"id": 7}, null, {"id": "../../etc"}, {"id": "a/b", "downloads": "many", "tags": 3,'
        b' "gguf": [], "lastModified": "soon", "likes": -1}, {}]'
    )
    fake.script(Act(body=body))
    (repo,) = asker.hub.search(SearchWish()).next_page().repos
    assert (repo.id, repo.downloads, repo.likes, repo.tags, repo.updated) == ("a/b", 0, 0, (), None)


@pytest.mark.parametrize("body", [b"<html>", b"{", b'"x"', b"7", b"null", b"\xff\xfe"])
def test_what_is_no_listing_is_no_hub(asker, fake, body):
    fake.script(Act(body=body))
    assert fault(lambda: asker.hub.search(SearchWish()).next_page()).kind == "not_hub"


def test_private_repos_are_found_with_a_token(asker):
    assert "cleo/private" not in found(asker)
    asker.token = "hf_good"
    assert "cleo/private" in found(asker)


# --- files and card -----------------------------------------------------------------------------


def test_files_have_their_real_names_and_sets_are_one(asker, fake):
    files = asker.hub.look(PUBLIC).files
    assert [each.names for each in files] == [
        ("tiny-Q4_K_M.gguf",),
        ("tiny-Q8_0.gguf",),
        ("parts/tiny-F16-00001-of-00002.gguf", "parts/tiny-F16-00002-of-00002.gguf"),
        ("mmproj-tiny-F16.gguf",),
    ]
    assert [each.size_bytes for each in files] == [4096, 3 * 4096, 6 * 4096, 4096]
    assert [each.is_projector for each in files] == [False, False, False, True]
    assert [each.quantisation for each in files[:3]] == ["Q4_K_M", "Q8_0", "F16"]
    assert files[2].bits == 16
    assert files[0].sha256s == (fake.repos[PUBLIC].files[1].sha256,)
    assert {each.revision for each in files} == {fake.repos[PUBLIC].commit}
    assert asker.hub.url(files[2], 1) == (
        f"{fake.endpoint}/{PUBLIC}/resolve/{files[2].revision}/parts/tiny-F16-00002-of-00002.gguf"
    )
    assert pick(files, quantisation="q8_0") is files[1]
    assert pick(files, name="parts/tiny-F16-00002-of-00002.gguf") is files[2]
    assert pick(files, quantisation="Q2_K") is None


def test_missing_parts_are_named(asker, fake):
    names = ["x-00001-of-00003.gguf", "x-00003-of-00003.gguf", "y-00002-of-00002.gguf"]
    fake.add(FakeRepo("ana/torn", [FakeFile(name, b"x") for name in names]))
    files = {each.names: each.missing for each in asker.hub.look("ana/torn").files}
    assert files == {
        tuple(names[:2]): ("x-00002-of-00003.gguf",),
        (names[2],): ("y-00001-of-00002.gguf",),
    }


def test_a_claim_of_many_parts_costs_nothing():
    class Info:
        id, sha = "a/b", None

        class Sibling:
            rfilename, size, lfs = "x-00001-of-99999.gguf", 1, None

        siblings = (Sibling,)

    assert files_of(Info) == ()  # type: ignore[arg-type]


def test_a_card_comes_without_its_front_matter(asker):
    assert asker.hub.card(PUBLIC) == "# Tiny\n\nA *tiny* one."
    assert asker.hub.card("ben/big-GGUF") == ""
    assert without_front_matter("\ufeff---\r\na: 1\r\n---\r\n# B") == "# B"
    assert without_front_matter("# A\n\n---\n\nb\n---\n") == "# A\n\n---\n\nb\n---"
    assert without_front_matter("---\nnever ends") == "---\nnever ends"


def test_a_card_is_bounded(asker, fake):
    fake.script(Act(endless=True), path="README.md")
    assert fault(lambda: asker.hub.card(PUBLIC)).kind == "not_hub"


def test_a_renamed_repo_is_found_under_its_new_name(asker, fake):
    fake.renamed["ana/old"] = PUBLIC
    asker.token = "hf_good"
    assert asker.hub.look("ana/old").repo.id == PUBLIC
    assert asker.hub.card("ana/old").startswith("# Tiny")


# --- tokens, and the four ways to be refused ----------------------------------------------------


def test_gated_private_missing_and_bad_are_told_apart(asker):
    """E10: each with its own next step."""
    gated = fault(lambda: asker.hub.card("cleo/gated"))
    asker.token = "hf_good"
    forbidden = fault(lambda: asker.hub.card("cleo/gated"))
    missing = fault(lambda: asker.hub.look("nobody/nothing"))
    asker.token = "hf_expired"
    bad = fault(lambda: asker.hub.look("cleo/private"))
    kinds = ["gated", "forbidden", "private_or_missing", "token_bad"]
    faults = [gated, forbidden, missing, bad]
    assert [each.kind for each in faults] == kinds
    assert len({each.sentence for each in faults}) == 4
    assert "Accept its terms on its page" in gated.sentence
    assert "cleo/gated" in gated.sentence
    assert "Request access" in forbidden.sentence
    assert "Check the spelling" in missing.sentence
    assert "Create a new one" in bad.sentence
    assert [each.status for each in faults] == [401, 403, 404, 401]


def test_without_a_token_a_missing_one_may_be_private(asker):
    found = fault(lambda: asker.hub.look("cleo/private"))
    assert (found.kind, found.status) == ("private_or_missing", 401)
    assert "owner's token" in found.sentence


def test_what_the_hub_took_down_is_no_matter_of_tokens(asker, fake):
    message = {"X-Error-Message": "Access to this resource is disabled."}
    fake.script(Act(status=403, headers=message), for_ever=True)
    for asker.token in (None, "hf_good"):
        found = fault(lambda: asker.hub.look(PUBLIC))
        assert (found.kind, found.status) == ("not_found", 403)
        assert "even with a token" in found.sentence


def test_a_bad_token_is_left_out_for_what_is_public(asker, fake):
    for ask in (
        lambda: asker.hub.look(PUBLIC).repo.id == PUBLIC,
        lambda: asker.hub.card(PUBLIC).startswith("# Tiny"),
        lambda: PUBLIC in found(asker),
    ):
        asker.token = "hf_expired"
        fake.forget()
        assert ask()
        assert [each.token for each in fake.requests] == ["hf_expired", None]
    assert asker.refused == ["hf_expired"] * 3


def test_a_good_token_opens_what_it_may(asker):
    asker.token = "hf_cleo"
    assert asker.hub.look("cleo/private").repo.is_private
    assert asker.hub.card("cleo/gated").startswith("# Tiny")
    assert asker.hub.who("hf_cleo") == "cleo"
    assert fault(lambda: asker.hub.who("hf_unknown")).kind == "token_bad"


def test_the_token_goes_to_the_hub_alone(asker, fake):
    asker.token = "hf_good"
    file = asker.hub.look(PUBLIC).files[0]
    assert asker.hub.headers_for(asker.hub.url(file)) == {"Authorization": "Bearer hf_good"}
    assert asker.hub.headers_for(f"{fake.cdn}/x") == {}
    assert asker.hub.headers_for(fake.endpoint.replace("127.0.0.1", "127.0.0.2")) == {}
    answer = asker.hub.open(asker.hub.url(file), asker.hub.headers_for(asker.hub.url(file)))
    assert answer.read() == DATA
    assert [each.token for each in fake.asked(server="hub")][-1] == "hf_good"
    assert [each.token for each in fake.asked(server="cdn")] == [None]


def test_the_token_is_in_no_log_and_no_error(asker, fake, caplog):
    caplog.set_level(logging.DEBUG)
    asker.token = "hf_expired"
    fake.script(Act(body=b'{"error": "hf_expired is bad"}', status=500), path="gated")
    faults = [
        fault(lambda: asker.hub.look("cleo/gated")),
        fault(lambda: asker.hub.look("cleo/private")),
        fault(lambda: asker.hub.who("hf_expired")),
    ]
    assert "hf_expired" not in caplog.text
    for each in faults:
        assert "hf_expired" not in repr(each) + str(each) + str(each.__dict__)


# --- the network --------------------------------------------------------------------------------


def test_limits_say_how_long_to_wait(asker, fake):
    look = lambda: asker.hub.look(PUBLIC)  # noqa: E731
    fake.script(
        rate_limited(2),
        rate_limited(7, retry_after=False, ratelimit=True),
        rate_limited(7, retry_after=False, ratelimit=True, is_used_up=False),
        rate_limited(7, retry_after=False),
        Act(status=429, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        Act(status=429, headers={"Retry-After": "1" * 4000}),
        Act(status=503, headers={"Retry-After": "5"}),
        Act(status=500),
    )
    waits = [(each.kind, each.retry_after_s) for each in (fault(look) for _ in range(8))]
    assert waits == [
        ("rate_limited", 2.0),
        ("rate_limited", 7.0),
        ("rate_limited", None),
        ("rate_limited", None),
        ("rate_limited", 0.0),
        ("rate_limited", 3600.0),
        ("server", 5.0),
        ("server", None),
    ]
    assert len(fake.requests) == 8  # the library's own retries would have slept


def test_a_login_page_is_told_from_a_hub(asker, fake):
    fake.script(captive_portal(), for_ever=True)
    for ask in (
        lambda: asker.hub.look(PUBLIC),
        lambda: asker.hub.card(PUBLIC),
        lambda: asker.hub.search(SearchWish()).next_page(),
        lambda: asker.hub.who("hf_good"),
        asker.hub.check,
    ):
        found = fault(ask)
        assert found.kind == "not_hub"
        assert "log in with a browser" in found.sentence


def test_a_hub_that_is_one_passes_the_check(asker, fake):
    asker.token = "hf_good"
    asker.hub.check()
    assert [each.token for each in fake.requests] == [None]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (Act(close_after=-1), "closed the connection early"),
        (Act(close_after=10), "closed the connection early"),
        (Act(location="ftp://example.org/x"), "like a model hub"),
        (Act(headers={"Content-Encoding": "gzip"}), "like a model hub"),
        (Act(status=418), "rejected the request"),
        (Act(status=404), "couldn't find this in"),
    ],
)
def test_odd_answers_end_in_words(asker, fake, act, words):
    fake.script(act, for_ever=True)
    assert words in fault(lambda: asker.hub.look(PUBLIC)).sentence


def test_redirects_end(asker, fake):
    fake.script(Act(location=f"{fake.endpoint}/api/models/x/y"), for_ever=True)
    assert fault(lambda: asker.hub.look(PUBLIC)).kind == "not_hub"
    assert fault(lambda: asker.hub.card(PUBLIC)).kind == "not_hub"
    assert len(fake.requests) < 15


def test_no_network_is_said_by_its_cause(monkeypatch):
    """E12: the resolver fails, the connection is refused, nothing answers, offline."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        refusing = f"http://127.0.0.1:{closed.getsockname()[1]}"

    def no_names(*args, **named):
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    sentences = []
    for endpoint in (refusing, "https://hub.example.org"):
        asker = Asker(endpoint)
        if endpoint != refusing:
            monkeypatch.setattr(socket, "getaddrinfo", no_names)
        found = fault(lambda hub=asker.hub: hub.look(PUBLIC))
        assert found.kind == "network"
        assert found.may_pass
        sentences.append(found.sentence)
        asker.gate.close_it()
        assert fault(lambda hub=asker.hub: hub.look(PUBLIC)).kind == "offline"
        library.let_go(asker.gate)
        asker.gate.shut_down()
    assert "refused the connection" in sentences[0]
    assert "The address “hub.example.org” can't be found" in sentences[1]
    assert all("Models on this computer still work" in each for each in sentences)


def test_a_silent_hub_is_given_up(asker, fake, monkeypatch):
    monkeypatch.setattr("app.hub.transport.READ_TIMEOUT_S", 0.1)
    fake.script(Act(stall_after=0))
    assert "didn't respond in time" in fault(lambda: asker.hub.look(PUBLIC)).sentence


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
KEYS = ("id", "author", "sha", "lastModified", "createdAt", "gated", "private", "downloads",
        "likes", "tags", "gguf", "siblings", "cardData", "config", "safetensors")  # fmt: skip


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from(KEYS), JSON),
    st.lists(st.dictionaries(st.sampled_from(["rfilename", "size", "lfs", "blobId"]), JSON)),
)
def test_whatever_json_comes_ends_in_an_answer_or_a_fault(asker, fake, shape, siblings):
    """Any shape under any key, for a listing and for a repository."""
    for body in (shape, shape | {"id": PUBLIC, "siblings": siblings}):
        assert repo_of(body) is None or repo_of(body).id == body["id"]
        fake.unscript()
        fake.script(Act(body=json.dumps(body).encode()), Act(body=json.dumps([body]).encode()))
        for ask in (
            lambda: asker.hub.look(PUBLIC),
            lambda: asker.hub.search(SearchWish()).next_page(),
        ):
            with contextlib.suppress(HubFault):
                ask()


def test_names_that_lead_elsewhere_are_never_asked_for(asker, fake):
    assert fault(lambda: asker.hub.look("../admin")).kind == "private_or_missing"
    assert repo_of({"id": "a/b/../c"}) is None
    file = HubFile("a/b", "main", ("../../x.gguf",), (1,), ("",))
    with pytest.raises(Exception, match="isn't a valid file name"):
        asker.hub.url(file)
    assert fake.requests == []
