"""What answers at an address, by what each kind says of itself."""

from __future__ import annotations

import pytest
import scripted_servers as servers
from scripted_servers import Reply, ScriptedServer

from app.engine.protocol.remote_messages import EngineAddress, EngineOffer
from app.engine.protocol.stage_rules import RULES
from app.engine.remote.trying import ask_server
from app.hub.engines.faults import ServerFault
from app.hub.gate import Gate


@pytest.fixture
def ask():
    gate = Gate()
    gate.let_here(lets=True)

    def ask(answers, key=None) -> EngineOffer:
        with ScriptedServer(answers) as server:
            found = ask_server(gate, EngineAddress("e1", "Mine", server.url, "k"), key)
            ask.requests = server.requests
            return found

    yield ask
    gate.shut_down()


@pytest.mark.parametrize(
    ("answers", "kind", "version"),
    [
        (servers.llama_server(), "llama-server", "b6999-abcdef"),
        (servers.cutaway(), "cutaway", ""),
        (servers.vllm(), "vllm", "0.12.0"),
        (servers.sglang(), "sglang", "0.5.6"),
        (servers.ollama(), "ollama", "0.13.1"),
        (servers.lm_studio(), "lm-studio", ""),
        (servers.llama_cpp_python(), "llama-cpp-python", ""),
        (servers.plain(), "openai", ""),
    ],
)
def test_each_kind_is_known_by_what_it_says(ask, answers, kind, version):
    offer = ask(answers)
    assert (offer.kind, offer.version, offer.engine_id, offer.name) == (kind, version, "e1", "Mine")
    assert [model.id for model in offer.models] == ["m"]
    for lack in (*offer.missing, *offer.stages):
        assert lack.sentence.endswith(".")
        assert "{" not in lack.sentence
    names = {rule.name for rule in RULES.values()}
    assert {lack.name.partition(".")[0] for lack in offer.stages} <= names


def test_what_a_server_says_of_its_models_is_kept(ask):
    (model,) = ask(servers.llama_server()).models
    assert (model.n_ctx, model.n_ctx_train, model.n_vocab) == (4096, 8192, 49152)
    assert (model.size_bytes, model.n_params) == (96576768, 134515008)
    (model,) = ask(servers.vllm()).models
    assert model.n_ctx == 8192
    (model,) = ask(servers.lm_studio()).models  # what makes embeddings is no model to talk to
    assert (model.n_ctx, model.n_ctx_train, model.is_loaded) == (4096, 40960, True)


def test_each_missing_ability_and_stage_has_its_sentence(ask):
    offer = ask(servers.vllm())
    assert offer.can("continue")
    assert offer.can("prompt_logprobs")
    assert offer.can("grammar")
    assert offer.why_not("inside") == (
        "The inside of a network can only be read from a model on this computer."
    )
    assert offer.why_not_stage("top-k") == ""
    assert "“Mine”" in offer.why_not_stage("dry", "base")
    assert "vLLM has no such setting" in offer.why_not_stage("penalties", "last_n")
    assert offer.why_not_stage("penalties", "repeat") == ""
    plain = ask(servers.plain())
    assert "no documented way to continue" in plain.why_not("continue")
    assert "doesn't take this stage" in plain.why_not_stage("top-k")
    assert "Modelfile" in ask(servers.ollama()).why_not_stage("top-k")
    assert not ask(servers.lm_studio()).can("logprobs")


def test_an_older_llama_server_lacks_what_its_settings_lack(ask):
    answers = servers.llama_server()
    del answers["/props"]["default_generation_settings"]["params"]["top_n_sigma"]
    offer = ask(answers)
    assert offer.why_not_stage("top-n-sigma")
    assert offer.why_not_stage("adaptive-p")
    assert not offer.why_not_stage("xtc")


def test_a_key_goes_along_and_is_in_no_sentence(ask):
    ask(servers.plain(), key="sk-secret")
    assert ask.requests[0].headers["authorization"] == "Bearer sk-secret"
    told = b'{"error":{"message":"Incorrect API key provided: sk-secret."}}'
    with pytest.raises(ServerFault) as caught:
        ask({"/v1/models": Reply(401, told)}, key="sk-secret")
    assert caught.value.kind == "refused"
    assert "rejected its key (error 401)" in caught.value.sentence
    assert "sk-secret" not in caught.value.sentence + caught.value.evidence
    with pytest.raises(ServerFault, match="needs a key"):
        ask({"/v1/models": Reply(401, told)})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Reply(200, b"<html>login</html>", {"Content-Type": "text/html"}), "a web page"),
        (Reply(200, b"{half"), "can't be read"),
        (Reply(200, b"[]"), "can't be read"),
        (Reply(200, b'{"data": {"a": 1}}'), "can't be read"),
        (Reply(200, b"[" * 100_000), "can't be read"),
        (Reply(404, b"{}"), "doesn't know this request"),
        (Reply(503, b'{"error":{"message":"Loading model"}}'), "isn't ready.*Loading model"),
        (Reply(302, b"", {"Location": "http://127.0.0.1:1/"}), "redirects to another address"),
        (Reply(500, b"\x00\xff\x1b[31m"), "reports a server error"),
    ],
)
def test_what_is_no_such_server_is_told(ask, answer, words):
    with pytest.raises(ServerFault, match=words):
        ask({"/v1/models": answer})


def test_nobody_there(ask):
    gate = Gate()
    gate.let_here(lets=True)
    with ScriptedServer() as server:
        url = server.url
    with pytest.raises(ServerFault, match=r"“Mine” isn't running at 127\.0\.0\.1:\d+\. Start it"):
        ask_server(gate, EngineAddress("e1", "Mine", url), None)
    gate.let_here(lets=False)
    with pytest.raises(ServerFault, match="still loading"):
        ask_server(gate, EngineAddress("e1", "Mine", url), None)
    gate.close_it()
    with pytest.raises(ServerFault, match="or allow servers on this computer"):
        ask_server(gate, EngineAddress("e1", "Mine", url), None)
    with pytest.raises(ServerFault, match=r"Turn off Offline in Settings → Data to use “Far”\."):
        ask_server(gate, EngineAddress("e1", "Far", "https://api.example.org"), None)
    gate.shut_down()


def test_https_where_there_is_none():
    gate = Gate()
    gate.let_here(lets=True)
    with ScriptedServer() as server:
        url = server.url.replace("http:", "https:")
        with pytest.raises(ServerFault, match="doesn't answer over https"):
            ask_server(gate, EngineAddress("e1", "Mine", url), None)
    gate.shut_down()


def test_ollama_is_asked_about_the_model_that_is_loaded(talk):
    answers = servers.ollama()
    answers["/api/show"] = {
        "model_info": {"general.parameter_count": 7, "llama.context_length": 131072},
        "capabilities": ["completion", "thinking"],
    }
    one = talk(answers)
    loaded = one.engine.loaded
    assert (loaded.n_ctx, loaded.n_ctx_train, loaded.n_params) == (0, 131072, 7)
    assert loaded.remote.can("thinking")
    assert loaded.remote.why_not("tools") == "“m” can't call tools."
    answers["/api/show"] = [7]
    assert talk(answers).engine.loaded.remote.can("tools")


def test_what_a_server_calls_itself_and_its_models_can_be_shown(ask):
    answers = servers.vllm()
    answers["/version"] = {"version": "1.0\x07\u202e\n<b>"}
    answers["/v1/models"]["data"] += [{"id": each} for each in (" ", "a\nb", "\u202e", "ok")]
    told = ask(answers)
    assert told.version == "1.0<b>"
    assert [each.id for each in told.models] == ["m", "ok"]


def test_damaged_rows_are_a_list_without_them(ask):
    rows = [{"id": 7}, {"id": "m" * 600}, "x", None, {"id": "a\x1bb"}, {"owned_by": "vllm"}]
    good = {"id": "good", "max_model_len": "many", "meta": [], "owned_by": 5}
    offer = ask({"/v1/models": {"data": [*rows, good]}, "/version": {"version": 7}})
    assert [(model.id, model.n_ctx) for model in offer.models] == [("good", 0)]
    assert offer.kind == "openai"


def test_a_key_in_the_clear_is_told(ask):
    with ScriptedServer(servers.plain()) as server:
        from app.engine.remote.trying import Look
        from app.hub.engines.calls import Server

        gate = Gate()
        gate.let_here(lets=True)

        def notes(url, key="k"):
            here = Server(gate, "Mine", server.url, key)
            return Look(here, EngineAddress("e", "Mine", url)).offer().notes

        for url in ("http://10.0.0.9:8000", "http://box", "http://[fe80::1]"):
            assert "sent unencrypted" in notes(url)[0]
            assert notes(url, None) == []
        for url in (server.url, "http://localhost/path", "http://[::1]", "https://box:1"):
            assert notes(url) == []
        gate.shut_down()
