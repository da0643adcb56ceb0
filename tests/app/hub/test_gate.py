"""The gate: closed means no socket, for everything that could open one."""

from __future__ import annotations

import logging
import socket
import ssl
import threading

import httpx2
import huggingface_hub
import pytest
from fake_hub.acts import Act
from fake_hub.repos import FakeFile, FakeRepo
from huggingface_hub.utils import send_telemetry

from app.hub import library
from app.hub.address import origin_of
from app.hub.faults import Asked, HubFault, fault_of
from app.hub.gate import KEY_ORIGIN, Call, CalledOff, Gate, GateClosed
from app.hub.transport import READ_TIMEOUT_S, AnswerTooLong, AnswerTooSlow, plain_client, read_whole

DATA = bytes(range(256)) * 400


@pytest.fixture
def gate(fake_hub):
    fake_hub.add(FakeRepo("ana/tiny-GGUF", [FakeFile("tiny-Q4_0.gguf", DATA)], card="# Tiny"))
    made = Gate(is_open=True)
    made.token_origin = origin_of(fake_hub.endpoint)
    yield made
    library.let_go(made)
    made.shut_down()
    assert made.n_connections == 0


@pytest.fixture
def sockets(monkeypatch):
    """Every socket that is made, and every name that is looked up, from now on."""
    made: list[str] = []
    original = socket.socket.__init__

    def noted(self, family=-1, *args, **named):
        made.append(f"socket {family}")
        original(self, family, *args, **named)

    monkeypatch.setattr(socket.socket, "__init__", noted)
    look_up = socket.getaddrinfo

    def looked_up(*args, **named):
        made.append(f"name {args[0]}")
        return look_up(*args, **named)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    return made


def test_it_is_closed_at_first_and_says_so(sockets):
    gate = Gate()
    assert not gate.is_open
    with pytest.raises(GateClosed, match="still loading"):
        gate.client(plain_client).get("http://127.0.0.1:9/")
    gate.close_it()
    with pytest.raises(GateClosed, match="Turn off Offline"):
        gate.client(plain_client).get("http://127.0.0.1:9/")
    assert sockets == []
    gate.shut_down()


def test_this_machine_is_a_switch_of_its_own(fake_hub, sockets):
    gate = Gate()
    gate.let_here(lets=True)
    client, port = gate.client(plain_client), fake_hub.endpoint.rpartition(":")[2]
    for host in ("127.0.0.1", "localhost", "LOCALHOST."):
        assert client.get(f"http://{host}:{port}/api/models").status_code == 200
    assert {each for each in sockets if each.startswith("name")} <= {"name 127.0.0.1", "name ::1"}
    sockets.clear()
    for host in ("hub.example.org", "localhost.evil.test", "127.1", "10.0.0.1", "0.0.0.0"):
        with pytest.raises(GateClosed):
            client.get(f"http://{host}:{port}/api/models")
    assert (sockets, gate.n_connections) == ([], 3)
    gate.let_here(lets=False)  # what is open is cut
    assert gate.n_connections == 0
    with pytest.raises(GateClosed):
        client.get(f"http://127.0.0.1:{port}/api/models")
    gate.let_here(lets=True)
    gate.shut_down()
    with pytest.raises(GateClosed):
        gate.check(is_here=True)


def test_a_name_that_leads_elsewhere_is_not_this_machine(fake_hub, monkeypatch):
    """Who it is counts by the address that the connection has, not by the name that was asked."""
    gate, port = Gate(), fake_hub.endpoint.rpartition(":")[2]
    gate.let_here(lets=True)
    monkeypatch.setattr("app.hub.transport.ends_here", lambda stream: False)
    with pytest.raises(GateClosed):
        gate.client(plain_client).get(f"http://127.0.0.1:{port}/api/models")
    assert (gate.n_connections, fake_hub.requests) == (0, [])
    gate.shut_down()


def test_what_goes_by_a_proxy_here_goes_elsewhere(fake_hub, monkeypatch):
    monkeypatch.setenv("http_proxy", fake_hub.cdn)
    monkeypatch.delenv("no_proxy", raising=False)
    gate = Gate(is_open=True)
    gate.let_here(lets=True)
    gate.client(plain_client).get("http://hub.example.org/api/models")
    assert gate.n_connections == 1
    gate.close_it()
    assert gate.n_connections == 0
    with pytest.raises(GateClosed):
        gate.client(plain_client).get("http://hub.example.org/api/models")
    gate.shut_down()


def test_a_servers_key_goes_to_its_origin_alone(fake_hub):
    gate = Gate(is_open=True)
    client, own = gate.client(plain_client), {"Authorization": "Bearer k"}

    def sent(origin):
        client.get(f"{fake_hub.endpoint}/x", headers=own, extensions={KEY_ORIGIN: origin})
        return "authorization" in fake_hub.requests[-1].headers

    assert sent(origin_of(fake_hub.endpoint))
    assert not sent(origin_of(fake_hub.cdn))
    assert not sent("")
    gate.shut_down()


def test_open_it_connects(gate, fake_hub, sockets):
    assert gate.client(plain_client).get(f"{fake_hub.endpoint}/api/models").status_code == 200
    assert gate.n_connections == 1
    assert sockets != []


def test_a_kept_connection_is_not_used_while_it_is_closed(gate, fake_hub, sockets):
    client = gate.client(plain_client)
    client.get(f"{fake_hub.endpoint}/api/models")
    sockets.clear()
    assert gate.n_connections == 1
    gate.close_it()
    assert gate.n_connections == 0  # nobody waited on it: it is closed at once
    with pytest.raises(GateClosed):
        client.get(f"{fake_hub.endpoint}/api/models")
    assert len(fake_hub.requests) == 1
    gate.open_it()
    assert client.get(f"{fake_hub.endpoint}/api/models").status_code == 200


def test_the_library_opens_nothing_while_it_is_closed(gate, fake_hub, sockets):
    api = library.api(gate, fake_hub.endpoint)
    gate.close_it()
    for ask in (
        lambda: list(api.list_models(limit=1)),
        lambda: api.model_info("ana/tiny-GGUF", token=False),
        lambda: api.whoami(token="hf_good"),
        lambda: huggingface_hub.get_hf_file_metadata(
            f"{fake_hub.endpoint}/ana/tiny-GGUF/resolve/main/tiny-Q4_0.gguf", token=False
        ),
        lambda: huggingface_hub.get_session().get(fake_hub.endpoint),
    ):
        with pytest.raises(HubFault) as caught:
            ask()
        assert caught.value.kind == "offline"
    send_telemetry("chat/opened")
    assert (sockets, fake_hub.n_connections) == ([], 0)


def test_the_library_sends_nothing_about_the_user(gate, fake_hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_of_another_program")
    api = library.api(gate, fake_hub.endpoint)
    list(api.list_models(limit=1))
    send_telemetry("chat/opened")
    api.model_info("ana/tiny-GGUF", token=False)
    assert [each.path for each in fake_hub.requests] == [
        "/api/models",
        "/api/models/ana/tiny-GGUF",
    ]
    for each in fake_hub.requests:
        assert each.token is None
        assert "agent/" not in each.headers["user-agent"]
        assert "cookie" not in each.headers


def test_a_gate_that_is_let_go_leaves_the_library_closed(gate, fake_hub, sockets):
    library.api(gate, fake_hub.endpoint)
    library.let_go(gate)
    with pytest.raises(HubFault) as caught:
        huggingface_hub.get_session().get(fake_hub.endpoint)
    assert caught.value.kind == "offline"
    assert sockets == []


def test_closing_cuts_what_is_under_way(gate, fake_hub):
    fake_hub.script(Act(stall_after=100), path="/api/models")
    caught: list[BaseException] = []

    def ask() -> None:
        try:
            gate.client(plain_client).get(f"{fake_hub.endpoint}/api/models")
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    fake_hub.wait_for(1)
    gate.close_it()
    thread.join(READ_TIMEOUT_S / 2)
    assert not thread.is_alive()
    assert isinstance(caught[0], GateClosed)


def test_a_connection_that_is_made_while_it_closes_is_let_go(gate, fake_hub, monkeypatch):
    create = socket.create_connection

    def slow(*args, **named):
        made = create(*args, **named)
        gate.close_it()
        return made

    monkeypatch.setattr(socket, "create_connection", slow)
    with pytest.raises(GateClosed):
        gate.client(plain_client).get(f"{fake_hub.endpoint}/api/models")
    assert (gate.n_connections, fake_hub.requests) == (0, [])


def test_a_call_is_called_off_in_mid_answer(gate, fake_hub):
    fake_hub.script(Act(stall_after=1_000), server="cdn")
    sha256 = fake_hub.repos["ana/tiny-GGUF"].files[0].sha256
    call, caught, read = Call(), [], threading.Event()

    def ask() -> None:
        try:
            with (
                call.running(),
                gate.client(plain_client).stream(
                    "GET", f"{fake_hub.cdn}/x/{sha256}?Signature=1"
                ) as answer,
            ):
                for _ in answer.iter_raw():
                    read.set()
        except CalledOff as off:
            caught.append(off)

    thread = threading.Thread(target=ask)
    thread.start()
    assert read.wait(5)
    call.cancel()
    thread.join(READ_TIMEOUT_S / 2)
    assert not thread.is_alive()
    assert len(caught) == 1
    with pytest.raises(CalledOff), call.running():
        raise AssertionError("it runs no more")
    # Others go on, over connections of their own.
    assert gate.client(plain_client).get(f"{fake_hub.endpoint}/api/models").status_code == 200


def test_a_token_goes_to_its_origin_alone(gate, fake_hub):
    own = {"Authorization": "Bearer hf_secret"}
    gate.client(plain_client).get(f"{fake_hub.endpoint}/api/models", headers=own)
    assert fake_hub.requests[-1].headers["authorization"] == "Bearer hf_secret"
    gate.client(plain_client).get(f"{fake_hub.cdn}/x", headers=own)
    assert "authorization" not in fake_hub.requests[-1].headers
    gate.token_origin = origin_of(fake_hub.cdn)
    gate.client(plain_client).get(f"{fake_hub.endpoint}/api/models", headers=own)
    assert "authorization" not in fake_hub.requests[-1].headers


def test_a_token_does_not_go_along_a_redirect(gate, fake_hub):
    fake_hub.script(Act(location=f"{fake_hub.cdn}/elsewhere"), path="/api/models/ana")
    fake_hub.accounts["hf_secret"] = object()  # type: ignore[assignment]
    api = library.api(gate, fake_hub.endpoint)
    with pytest.raises(HubFault):
        api.model_info("ana/tiny-GGUF", token="hf_secret")
    first, second = fake_hub.requests
    assert first.token == "hf_secret"
    assert (second.server, second.path) == ("cdn", "/elsewhere")
    assert "authorization" not in second.headers


def test_a_token_is_not_sent_in_the_clear_to_another_machine(gate):
    transport = gate.client(plain_client)._transport
    gate.token_origin = "http://hub.example.org:80"
    assert not transport._may_have_token(httpx2.URL("http://hub.example.org/api"))
    gate.token_origin = "https://hub.example.org:443"
    assert transport._may_have_token(httpx2.URL("https://hub.example.org/api"))
    assert not transport._may_have_token(httpx2.URL("https://hub.example.org:8443/api"))
    assert not transport._may_have_token(httpx2.URL("https://hub.example.org.evil.test/api"))


def test_certificates_are_checked(gate, fake_hub):
    secure = fake_hub.endpoint.replace("http:", "https:")
    gate.token_origin = origin_of(secure)
    with pytest.raises(httpx2.ConnectError) as caught:
        gate.client(plain_client).get(
            f"{secure}/api/models", headers={"Authorization": "Bearer hf_secret"}
        )
    fault = fault_of(caught.value, Asked("hub.example.org"))
    assert (fault.kind, fake_hub.requests) == ("network", [])
    assert "has no valid certificate" in fault.sentence
    context = gate.client(plain_client)._transport._context
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_no_wait_is_endless_whatever_is_asked_for(gate, fake_hub, monkeypatch):
    monkeypatch.setattr("app.hub.transport.READ_TIMEOUT_S", 0.1)
    fake_hub.script(Act(stall_after=0), path="/api/models")
    with pytest.raises(httpx2.ReadTimeout):
        gate.client(plain_client).get(f"{fake_hub.endpoint}/api/models", timeout=None)


def test_answers_are_bounded_in_bytes_and_time(gate, fake_hub):
    def ask(max_bytes: int = 10_000_000, deadline_s: float = 5.0) -> bytes:
        request = gate.client(plain_client).build_request("GET", f"{fake_hub.endpoint}/api/models")
        answer = gate.client(plain_client).send(request, stream=True)
        return read_whole(answer, max_bytes, deadline_s)

    packed = Act(body=bytes(3_000_000), gzip=True)
    fake_hub.script(packed, packed, Act(endless=True), Act(drip=(10, 0.02)))
    assert ask() == bytes(3_000_000)
    with pytest.raises(AnswerTooLong):
        ask(max_bytes=2_999_999)
    with pytest.raises(AnswerTooLong):
        ask()
    with pytest.raises(AnswerTooSlow):
        ask(deadline_s=0.05)


def test_a_proxy_is_used_but_not_for_this_machine(gate, fake_hub, monkeypatch):
    monkeypatch.setenv("http_proxy", fake_hub.cdn)
    monkeypatch.delenv("no_proxy", raising=False)
    assert gate.client(plain_client).get(f"{fake_hub.endpoint}/api/models").status_code == 200
    assert fake_hub.requests[-1].server == "hub"
    gate.client(plain_client).get("http://hub.example.org/api/models")
    assert fake_hub.requests[-1].server == "cdn"
    assert fake_hub.requests[-1].headers["host"] == "hub.example.org"
    gate.close_it()
    with pytest.raises(GateClosed):
        gate.client(plain_client).get("http://hub.example.org/api/models")


def _no_socks(**_named):
    raise RuntimeError("Attempted to use SOCKS support, but the `socksio` package is missing.")


@pytest.mark.parametrize("proxy", ["socks5://me:pa55@127.0.0.1:1", "ftp://me:pa55@x:1"])
def test_a_proxy_that_cannot_be_used_is_said(gate, monkeypatch, proxy):
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    # Without socksio, as the program is installed; the tests' own packages bring it along.
    monkeypatch.setattr("httpcore2.SOCKSProxy", _no_socks)
    with pytest.raises(httpx2.ProxyError) as caught:
        gate.client(plain_client).get("http://hub.example.org/api/models")
    sentence = fault_of(caught.value, Asked("hub.example.org")).sentence
    assert "The proxy refused the connection to “hub.example.org”" in sentence
    assert "pa55" not in sentence


def test_addresses_and_tokens_are_in_no_log(gate, fake_hub, caplog):
    caplog.set_level(logging.DEBUG)
    own = {"Authorization": "Bearer hf_secret"}
    gate.client(plain_client).get(f"{fake_hub.cdn}/x?Signature=s1gned", headers=own)
    gate.client(plain_client).get(f"{fake_hub.endpoint}/api/models", headers=own)
    with pytest.raises(HubFault):
        library.api(gate, fake_hub.endpoint).whoami(token="hf_secret")
    assert "hf_secret" not in caplog.text
    assert "s1gned" not in caplog.text
