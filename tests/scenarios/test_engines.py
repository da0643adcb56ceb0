"""One conversation: begun on the included model (scripted), continued on a server, back again. What
the panels show is of the engine that wrote the reply, or a reason, and of no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_server import llama_server as real_server
from PySide6.QtWidgets import QApplication, QLabel, QTabBar, QWidget
from scripted_servers import (
    DONE,
    ScriptedServer,
    Stream,
    delta,
    finish,
    llama_server,
    logprobs,
    ollama,
    sse,
    token,
    usage,
)

from app.chat.replies.written_by import writer_of
from models.records import Message
from ui.section.panel import Panel

LOCAL = {"replies": [{"text": "From the included model."}]}
CHAT = "/v1/chat/completions"
ANSWER = Stream(
    sse(
        delta("From", logprobs(token("From", -0.1, ("From", -0.1), ("To", -2.5)))),
        delta(" the", logprobs(token(" the", -0.2, (" the", -0.2), (" a", -1.9)))),
        delta(" box", logprobs(token(" box", -0.7, (" box", -0.7), (" lab", -0.9)))),
        finish("stop"),
        usage(31, 3),
        DONE,
    )
)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(ollama()) as made:
        made.answers[CHAT] = ANSWER
        yield made


def add(person: Any, url: str, key: str = "") -> str:
    """The path of the server's model, once it has said what it has."""
    engines, said = person.app.desk.engines, []
    engines.add("Box", url, key, said.append)
    assert said == [""]
    person.wait(lambda: engines.all and (engines.all[0].offer or engines.all[0].sentence))
    assert engines.all[0].sentence == ""
    path: str = engines.all[0].models()[0].path
    return path


def load(person: Any, path: str) -> None:
    loader = person.app.desk.loader
    loader.load(path)
    person.wait(lambda: loader.is_ready and loader.loaded and loader.loaded.path == path)


def ask(person: Any, text: str) -> Message:
    person.send(text)
    ended: Message = person.wait_ended()
    return ended


class Inside:
    """The panels of a person, gone through one by one."""

    def __init__(self, person: Any) -> None:
        self.person = person
        person.app.window.action_registry.run("toggle_section")
        self.section = person.app.window.section_acts.section()
        person.wait(self.section.isVisible)

    def look_at(self, message: Message, index: int = 1) -> None:
        looking = self.person.app.window.section_acts.looking()
        looking.look_at(message.id)
        self.person.wait(lambda: len(looking.traces))
        looking.look_at(message.id, index)

    def panel(self, title: str, room: str = "") -> str:
        """All words that stand in it, once what it asked for is there."""
        self.section.show_panel(title)
        panel: Panel = self.section.panel()
        if room:
            panel.enter(room)
        self.person.wait(lambda: not self.person.app.desk.questions._asked)
        for _ in range(3):  # rows that were made get their place
            QApplication.processEvents()
        return words_in(self.section._stack)

    def line(self) -> dict[str, str]:
        return {each.stage.name: each.figure for each in self.section.line.buttons}


def words_in(widget: QWidget) -> str:
    found = []
    for each in widget.findChildren(QWidget):
        if each.isVisible():
            words = each.text() if isinstance(each, QLabel) else ""
            found += [words, each.toolTip(), each.accessibleName(), each.accessibleDescription()]
    return "\n".join(found)


def test_one_conversation_goes_to_a_server_and_back_and_panels_are_true_on_both_sides(
    open_window: Callable[..., Any], server: ScriptedServer
) -> None:
    person = open_window(LOCAL, is_offline=False)
    person.wait_ready()
    desk, window = person.app.desk, person.window
    here = desk.loader.path
    first = ask(person, "First?")
    path = add(person, server.url)
    load(person, path)
    assert window.chat.header.weights_button.text() == "m · Box"
    status = window.chat.status
    assert (status.text("threads"), status.text("memory"), status.text("device")) == ("", "", "Box")
    assert (
        status.text("context") == ""
    )  # what the included model had used is no figure of the server
    second = ask(person, "Second?")
    assert second.content == "From the box"
    sent = server.asked(CHAT)[-1].body["messages"]
    assert [each["content"] for each in sent[1:]] == ["First?", first.content, "Second?"]
    inside = Inside(person)
    inside.look_at(second)
    of_server(inside)
    # The first reply is the included model's, whatever is loaded now.
    inside.look_at(first)
    assert "Recorded live. Probabilities before samplers" in inside.panel("Tokens", "This reply")
    assert "which wrote this reply" in inside.panel("Inside")
    assert "Recorded by the engine's clock" in inside.panel("Time")
    assert inside.line()["ID"] != "–"
    assert inside.line()["Layers"] == "–"
    assert "“Box” doesn't tell what its cache holds." in inside.panel("Cache")
    # And back.
    load(person, here)
    third = ask(person, "Third?")
    assert (third.content, writer_of(third.settings)) == (LOCAL["replies"][0]["text"], None)
    inside.look_at(second)
    back = inside.panel("Tokens", "This reply")
    assert "as “Box” (Ollama 0.13.1) told them" in back
    assert "entropy" not in back
    assert "replies of a model on this computer" in inside.panel("Inside")
    assert "replies of a model on this computer" in inside.panel("Sampling", "What if")
    assert "doesn't tell what its time went into" in inside.panel("Time")
    assert inside.line() | {"Token": "", "Probability": ""} == LINE
    assert "KV cache" in inside.panel("Cache")  # the included model's own, now
    inside.look_at(third)
    assert "Recorded live." in inside.panel("Tokens", "This reply")
    assert "told" not in inside.panel("Time")


LINE = {
    **dict.fromkeys(
        ("ID", "Vector", "Position", "Layers", "Logit", "Choice", "KV cache", "Draft"), "–"
    ),
    "Prompt": "31 tokens",
    "Token": "",
    "Probability": "",
    "Text": "4 bytes",
    "Loop": "3 times",
}


def of_server(inside: Inside) -> None:
    """Every panel with the server's reply, while its model is loaded."""
    tokens = inside.panel("Tokens", "This reply")
    assert "perplexity 1.40" in tokens
    assert "It doesn't tell IDs" in tokens
    assert "entropy" not in tokens
    assert inside.line() | {"Token": "", "Probability": ""} == LINE
    for title, room, words in (
        ("Tokens", "Try a text", "no way to ask how a text is tokenised"),
        ("Tokens", "Vocabulary", "doesn't tell its vocabulary"),
        ("Inside", "", "replies of a model on this computer"),
        ("Sampling", "What if", "replies of a model on this computer"),
        ("Sampling", "Adapters", "set where it is started"),
        ("Cache", "", "doesn't tell what its cache holds"),
        ("Prompt", "", "doesn't tell the rendered prompt"),
    ):
        assert words in inside.panel(title, room), (title, room)
    chain = inside.panel("Sampling", "Chain")
    assert "doesn't tell what each stage did to a token" in chain
    assert "“Box” doesn't take min-p this way" in chain
    assert "an order of its own" in chain
    assert "takes no grammar" in inside.panel("Sampling", "Grammar, limits")
    time = inside.panel("Time")
    assert "As they arrived here" in time
    for claim in ("Prefill", "one pass", "bound by"):
        assert claim not in time


def test_tokens_are_tinted_and_one_is_branched_by_keys(
    open_window: Callable[..., Any], server: ScriptedServer
) -> None:
    with ScriptedServer(llama_server()) as lab:
        lab.answers[CHAT] = ANSWER
        person = open_window(LOCAL, is_offline=False)
        person.wait_ready()
        load(person, add(person, lab.url))
        person.wait(lambda: "is sent to “Box”" in words_in(person.window.chat.empty))
        reply = ask(person, "Where?")
        inside = Inside(person)
        inside.look_at(reply, 2)
        inside.panel("Tokens", "This reply")
        table = inside.section.panel().room().alternatives.table
        assert [table.candidates.piece(table.candidates.candidate(at)) for at in range(2)] == [
            "·box",
            "·lab",
        ]
        assert table.candidates.drawn_row == 0
        table.selectRow(1)
        table._pick(1)
        branch = person.wait(
            lambda: (r := person.reply()) and r.id != reply.id and r.state != "streaming" and r
        )
        assert branch.content.startswith("From the lab")
        assert lab.asked(CHAT)[-1].body["messages"][-1]["content"] == "From the lab"
        status = person.window.chat.status
        assert status.text("context") == "34 / 4,096"
        lab.answers[CHAT] = Stream(sse(delta("Untold"), finish("stop"), DONE))
        ask(person, "How long?")
        assert status.text("context") == ""  # what the reply before had is no figure of this one


def test_offline_closes_servers_but_those_of_this_computer_where_that_is_wished(
    open_window: Callable[..., Any], server: ScriptedServer
) -> None:
    person = open_window(LOCAL, is_offline=False)
    person.wait_ready()
    desk = person.app.desk
    path = add(person, server.url)
    load(person, path)
    desk.settings.set("offline", True)
    n_asked = len(server.requests)
    failed = ask(person, "Are you there?")
    assert failed.state == "failed"
    assert "ffline" in (failed.error or "")
    assert len(server.requests) == n_asked
    desk.settings.set("local_engines_offline", True)
    assert ask(person, "And now?").content == "From the box"
    acts = person.window.action_registry
    assert not acts["show_memory"].is_enabled()
    acts.run("unload_weights")
    person.wait(lambda: desk.loader.state.state == "stopped")
    assert ask(person, "Again?").content == "From the box"  # loaded again for the message
    desk.settings.set("local_engines_offline", False)
    engine_id = desk.engines.all[0].address.id
    desk.engines.try_now(engine_id)
    person.wait(lambda: not desk.engines.all[0].is_asking)
    assert "ffline" in desk.engines.all[0].sentence


@pytest.mark.soak
def test_a_model_of_a_server_has_no_file_and_what_only_a_file_has_is_not_offered(
    open_window: Callable[..., Any], server: ScriptedServer
) -> None:
    person = open_window(LOCAL, is_offline=False)
    person.wait_ready()
    window = person.window
    load(person, add(person, server.url))
    window.lazy.show_defaults()
    parts = window.lazy._library_view().findChild(QTabBar, "defaults_parts")
    assert parts is not None
    there = {parts.tabText(at): parts.isTabEnabled(at) for at in range(parts.count())}
    assert there == {
        "Loading": False,
        "Replies": True,
        "Template": False,
        "Draft": False,
        "Notes": True,
    }
    assert "on a server" in parts.tabToolTip(0)
    window.action_registry.run("control_vectors")
    (vectors,) = (w for w in QApplication.topLevelWidgets() if w.objectName() == "vectors_window")
    make = vectors.findChild(QWidget, "make_button")
    assert make is not None
    assert not make.isEnabled()
    assert "Control vectors can only be made" in words_in(vectors)


def test_the_token_view_gives_a_server_nothing_that_it_has_not_had(
    open_window: Callable[..., Any],
) -> None:
    with ScriptedServer(llama_server()) as lab:
        lab.answers[CHAT] = ANSWER
        lab.answers["/tokenize"] = {"tokens": [{"id": 7, "piece": "Mine?"}]}
        person = open_window(LOCAL, is_offline=False)
        person.wait_ready()
        ask(person, "Mine?")
        load(person, add(person, lab.url))
        desk, tokens = person.app.desk, person.window.chat.transcript.tokens
        desk.settings.set("token_view", True)
        question = desk.shelf.path[0].id
        person.wait(lambda: tokens.tokens_of(question))
        assert not tokens.tokens_of(question).are_tokens
        assert lab.asked("/tokenize") == []
        ask(person, "Yours?")  # now it has had both
        desk.settings.set("token_view", False)
        desk.settings.set("token_view", True)
        person.wait(lambda: (t := tokens.tokens_of(question)) and t.are_tokens)
        assert lab.asked("/tokenize")


@pytest.mark.soak
def test_the_same_on_the_included_model_and_a_real_llama_server(
    open_window: Callable[..., Any], starter_gguf: Path
) -> None:
    with real_server(starter_gguf) as url:
        person = open_window(None, "--gguf", str(starter_gguf), is_offline=False)
        person.wait_ready()
        desk = person.app.desk
        desk.settings.set("max_tokens", 8)
        desk.settings.set("temperature", 0)
        here = desk.loader.path
        first = ask(person, "What is the capital of France?")
        path = add(person, url)
        load(person, path)
        # The same file, greedily: the same words.
        desk.replies.answer(first.id)
        second = person.wait(
            lambda: (r := person.reply()) and r.id != first.id and r.state == "complete" and r
        )
        assert second.content == first.content
        writer = writer_of(second.settings)
        assert writer is not None
        assert writer.kind == "llama-server"
        inside = Inside(person)
        inside.look_at(second)
        assert "told them" in inside.panel("Tokens", "This reply")
        assert "bytes" in inside.panel("Tokens", "Try a text")
        prompt = inside.panel("Prompt")
        assert "Rendered and tokenised by “Box”" in prompt
        load(person, here)
        third = ask(person, "And of Italy?")
        assert writer_of(third.settings) is None
        inside.look_at(third)
        assert "Recorded live." in inside.panel("Tokens", "This reply")
