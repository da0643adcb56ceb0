"""Models of servers in the model menu: grouped, said to be away, and exchanged while it is open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, loaded

from app.chat.engines.engines import Standing
from app.chat.events import EngineStateChanged
from app.engine.protocol.remote_messages import EngineAddress, EngineOffer, RemoteModel
from models.records import Weights
from ui.chat.engine_menu import MOST_MODELS, EngineMenu
from ui.chat.header import MOST_WORDS, ChatHeader
from ui.look.theme import Theme

BOX = EngineAddress("e1", "Box & Co", "http://box.example.org:8000/v1")
LAB = EngineAddress("e2", "Lab", "http://lab.example.org/v1")
OFFER = EngineOffer("e1", "Box & Co", "vllm", "0.11", [RemoteModel("small"), RemoteModel("large")])
AWAY = "Nothing answers at “lab.example.org”. Start the server there, or check the address."


@pytest.fixture
def told(desk: FakeDesk) -> list[Callable[[], None]]:
    found: list[Callable[[], None]] = []
    desk.engines.follow = lambda follower: (found.append(follower), lambda: None)[1]
    return found


@pytest.fixture
def header(
    qtbot: QtBot, desk: FakeDesk, theme: Theme, told: list[Callable[[], None]]
) -> ChatHeader:
    made = ChatHeader(theme, lambda: [Weights("/here.gguf", "Here", 98_000_000)])
    qtbot.addWidget(made)
    made.resize(900, 60)
    made.show()
    desk.engines.all = (Standing(BOX, offer=OFFER), Standing(LAB, sentence=AWAY))
    EngineMenu(desk, made, lambda: desk.calls.append(("shown",)))  # type: ignore[arg-type]
    return made


def rows(header: ChatHeader) -> list[tuple[str, bool]]:
    """The text of each, and whether it can be chosen; an empty text is a line."""
    return [
        (action.text().split("\t")[0], action.isEnabled() and not action.isSeparator())
        for action in header.menu.actions()
    ]


def test_models_stand_by_server_below_those_of_this_machine(
    header: ChatHeader, desk: FakeDesk, qtbot: QtBot
) -> None:
    header.menu.aboutToShow.emit()
    texts = rows(header)
    assert texts[:8] == [
        ("Here", True),
        ("", False),
        ("Box && Co · vLLM", False),
        ("small", True),
        ("large", True),
        ("", False),
        ("Lab", False),
        ("Nothing answers at “lab.example.org”. Start the server ther…", False),
    ]
    assert texts[-1] == ("Engines…", True)
    assert desk.called("engines.look") == [()]
    large = header.menu.actions()[4]
    with qtbot.waitSignal(header.weights_chosen) as chosen:
        large.trigger()
    assert chosen.args == ["engine://e1/large"]
    assert large.toolTip() == BOX.url
    assert header.menu.actions()[7].toolTip() == AWAY
    header.menu.actions()[-1].trigger()
    assert desk.calls[-1] == ("shown",)


def test_what_a_server_says_is_no_markup_and_is_cut_short(
    header: ChatHeader, desk: FakeDesk
) -> None:
    evil = "<b>R&D</b>"
    models = [RemoteModel(evil), RemoteModel(f"{evil}{'x' * 500}")]
    offer = EngineOffer("e1", "Box", "vllm", evil, models, model_id=evil)
    desk.engines.all = (Standing(BOX, offer=offer), Standing(LAB, sentence=f"It says: “{evil}”."))
    header.menu.aboutToShow.emit()
    actions = header.menu.actions()
    assert [each.text() for each in actions[3:5]] == [
        "<b>R&&D</b>",
        f"<b>R&&D</b>{'x' * (MOST_WORDS - len(evil) - 1)}…",
    ]
    assert actions[7].text() == "It says: “<b>R&&D</b>”."
    long = models[1].id
    header.set_engine_state(
        EngineStateChanged("ready", long, loaded(name=long, remote=offer), is_remote=True)
    )
    tips = [each.toolTip() for each in (*actions[4:8:3], header.weights_button)]
    for tip in tips:
        assert tip.startswith("<p ")  # else Qt guesses
        assert "&lt;b&gt;R&amp;D&lt;/b&gt;" in tip


def test_the_loaded_one_is_ticked(header: ChatHeader, desk: FakeDesk) -> None:
    desk.loader.loaded = loaded(path="engine://e1/small", remote=replace_model("small"))
    header.menu.aboutToShow.emit()
    ticked = [each.text() for each in header.menu.actions() if each.isChecked()]
    assert ticked == ["small"]


def replace_model(model_id: str) -> EngineOffer:
    return EngineOffer("e1", "Box & Co", "vllm", "0.11", OFFER.models, model_id=model_id)


def test_what_comes_while_it_is_open_is_exchanged_in_its_place(
    header: ChatHeader, desk: FakeDesk, told: list[Callable[[], None]], qtbot: QtBot
) -> None:
    desk.engines.all = (Standing(BOX, is_asking=True), Standing(LAB, sentence=AWAY))
    header.menu.popup(header.mapToGlobal(header.rect().center()))
    qtbot.waitUntil(header.menu.isVisible)
    assert ("Connecting…", False) in rows(header)
    below = header.menu.actions()[-1]
    many = [RemoteModel(f"m{number}") for number in range(MOST_MODELS + 3)]
    offer = EngineOffer("e1", "Box & Co", "vllm", "0.11", many)
    desk.engines.all = (Standing(BOX, offer=offer), desk.engines.all[1])
    for follower in told:
        follower()
    texts = rows(header)
    assert ("Connecting…", False) not in texts
    at = texts.index(("m0", True))
    assert texts[at + MOST_MODELS] == ("3 more", True)
    assert header.menu.actions()[-1] is below
    asked = replace(desk.engines.all[0], is_asking=True)
    actions = header.menu.actions()
    desk.engines.all = (asked, desk.engines.all[1])
    for follower in told:
        follower()
    assert header.menu.actions() == actions  # nothing looks otherwise
    header.menu.close()


def test_the_header_says_whose_model_it_is(header: ChatHeader, bridge: FakeBridge) -> None:
    name = "small · Box & Co"
    header.set_engine_state(EngineStateChanged("loading", name, is_remote=True))
    assert header.weights_button.text() == "Connecting to small · Box & Co"
    remote = loaded(
        path="engine://e1/small", remote=replace_model("small"), n_ctx=0, n_layer=0, memory=[]
    )
    header.set_engine_state(EngineStateChanged("ready", name, remote, is_remote=True))
    assert header.weights_button.text() == "small · Box & Co"
    tip = header.weights_button.toolTip()
    assert "small on “Box & Co”" in tip
    assert "vLLM 0.11" in tip
    for word in ("layers", "threads", "engine://", "loaded in", "context window 0"):
        assert word not in tip
