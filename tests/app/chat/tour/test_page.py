"""A page is asked for, made and written: about the token that was followed then, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from read_page import Element, check_alone, pictures, read_page

from app.chat.events import Noticed, PageProgressed, PageSaved, TraceRead
from app.chat.exchange.exchange import BUSY
from app.chat.inspection.inside import NOTHING_LOADED
from app.chat.tour.page import STEPS
from app.chat.tour.wish import Wish
from app.engine.protocol.messages import TokenTrace
from app.insight.tour.facts import Fact
from models.records import Message

SCRIPT: dict[str, Any] = {
    "load": {"ms": 5},
    "replies": [{"text": "It is Paris."}, {"text": "It is Rome."}],
}
SLOW = {**SCRIPT, "inside": {"ms": 60_000, "chunks": 2}}
PARIS = 2


def traces_of(room: Any, message: Message) -> Sequence[TokenTrace]:
    traces = room.desk.growing.trace_of(message.id)
    if traces is None:
        room.desk.growing.read_trace(message.id)
        room.until(lambda: any(e.message_id == message.id for e in room.of(TraceRead)), "trace")
        traces = room.of(TraceRead)[-1].tokens
    return traces


def wish_of(room: Any, question: str = "Which city?", **fields: Any) -> Wish:
    reply = room.ask(question)
    return Wish(reply, traces_of(room, reply), PARIS, question, **fields)


def saved(room: Any, wish: Wish, path: Path) -> Element:
    room.desk.pages.save(wish, str(path))
    room.until(lambda: room.of(PageSaved), "the page")
    page = read_page(path.read_text("utf-8"))
    check_alone(page)
    return page


def progress(room: Any) -> list[PageProgressed]:
    return room.of(PageProgressed)


@pytest.fixture
def room(make_room: Any) -> Any:
    return make_room(SCRIPT).start_ready()


def test_everything_that_the_engine_tells_is_on_the_page(room: Any, tmp_path: Path) -> None:
    wish = wish_of(room, known={"step_with": Fact(1.0, "1.00 ms"), "token": Fact("no", "no")})
    page = saved(room, wish, tmp_path / "page.html")
    found = pictures(page)
    assert page.all("h1")[0].text == "Follow one token: “·Paris”"
    assert page.all("blockquote")[0].text == "Which city?"
    for name in (
        *("The prompt", "Tokens and their IDs", "All heads", "What each layer adds", "The lens"),
        *("Memory", "Where the time went"),
    ):
        assert name in found
    assert found["The next token"].rows == [["with the KV cache", "1.00 ms"]]
    chips = page.all("ol", "chips")[0].all("li", "now")
    assert [chip.all("b")[0].text for chip in chips] == ["·Paris"]
    token = wish.traces[PARIS]
    assert chips[0].all("small")[0].text == str(token.token_id)
    assert "“·Paris” is ID" in page.text
    assert page.all("dt")
    assert list(tmp_path.glob("*.part")) == []


def test_it_says_how_far_it_is(room: Any, tmp_path: Path) -> None:
    saved(room, wish_of(room), tmp_path / "page.html")
    told = progress(room)
    assert [each.done for each in told] == [*range(len(STEPS)), len(STEPS)]
    assert [each.is_over for each in told] == [False] * len(STEPS) + [True]


def test_what_is_looked_at_meanwhile_changes_nothing(room: Any, tmp_path: Path) -> None:
    """Nor does whoever looks wait for the page, or the page for him."""
    wish = wish_of(room)
    seen: list[Any] = []
    desk = room.desk
    desk.inside.read(wish.message, wish.traces, seen.append, pytest.fail, still=lambda: True)
    text = room.until(lambda: seen and seen[0], "the text")
    desk.pages.save(wish, str(tmp_path / "page.html"))
    looks: list[Any] = []
    desk.inside.look(text, 1, ("residual",), looks.append, pytest.fail, still=lambda: True)
    room.until(lambda: looks and looks[-1].is_whole, "the look")
    room.until(lambda: room.of(PageSaved), "the page")
    page = read_page((tmp_path / "page.html").read_text("utf-8"))
    assert page.all("ol", "chips")[0].all("li", "now")[0].all("b")[0].text == "·Paris"
    assert "The lens" in pictures(page)


def test_without_the_model_it_is_made_of_the_record(room: Any, tmp_path: Path) -> None:
    wish = wish_of(room)
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.loaded is None, "unloaded")
    page = saved(room, wish, tmp_path / "page.html")
    assert NOTHING_LOADED in page.text
    assert set(pictures(page)) >= {"Tokens and their IDs", "Where the time went"}
    assert "The lens" not in pictures(page)


def test_a_model_that_goes_meanwhile_is_told(make_room: Any, tmp_path: Path) -> None:
    room = make_room(SLOW).start_ready()
    wish = wish_of(room)
    room.desk.pages.save(wish, str(tmp_path / "page.html"))
    room.until(lambda: any(each.done >= STEPS.index("inside") for each in progress(room)), "asked")
    room.desk.loader.unload()
    room.until(lambda: room.of(PageSaved), "the page")
    page = read_page((tmp_path / "page.html").read_text("utf-8"))
    assert "The prompt" in pictures(page)
    assert "The lens" not in pictures(page)


def test_a_question_that_nobody_answers_any_more_holds_nothing_up(
    room: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked of a model that goes may be dropped by whoever was asked."""
    wish = wish_of(room)
    asked: list[Any] = []
    monkeypatch.setattr(
        room.desk.machine, "read", lambda then, _failed, *, still: asked.append((then, still))
    )
    room.desk.pages.save(wish, str(tmp_path / "page.html"))
    room.until(lambda: asked, "the question")
    room.desk.loader.unload()
    room.until(lambda: room.of(PageSaved), "the page")
    ((_then, still),) = asked
    assert not still()
    page = read_page((tmp_path / "page.html").read_text("utf-8"))
    assert "The lens" in pictures(page)


def test_one_that_is_cancelled_is_not_written(make_room: Any, tmp_path: Path) -> None:
    room = make_room(SLOW).start_ready()
    room.desk.pages.save(wish_of(room), str(tmp_path / "page.html"))
    room.until(lambda: any(each.done >= STEPS.index("inside") for each in progress(room)), "asked")
    room.desk.pages.cancel()
    assert progress(room)[-1].is_over
    reply = room.ask("And of Italy?")  # what comes late finds nobody
    assert reply.content == "It is Rome."
    assert room.of(PageSaved) == []
    assert not (tmp_path / "page.html").exists()


def test_one_that_is_cancelled_while_it_is_made_is_not_written(
    room: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.chat.tour import page_made

    goes_on, begun = threading.Event(), threading.Event()
    make = page_made.html_of

    def slow(*args: Any) -> str:
        begun.set()
        goes_on.wait(20)
        return make(*args)

    monkeypatch.setattr(page_made, "html_of", slow)
    room.desk.pages.save(wish_of(room), str(tmp_path / "page.html"))
    room.until(begun.is_set, "begun")
    room.desk.pages.cancel()
    goes_on.set()
    room.desk.exchange._thread.join(20)
    room.pump()
    assert room.of(PageSaved) == []
    assert not (tmp_path / "page.html").exists()


def test_a_newer_page_takes_the_place_of_an_older_one(make_room: Any, tmp_path: Path) -> None:
    room = make_room({**SCRIPT, "inside": {"ms": 50, "chunks": 2}}).start_ready()
    wish = wish_of(room)
    room.desk.pages.save(wish, str(tmp_path / "old.html"))
    page = saved(room, wish, tmp_path / "new.html")
    assert "The lens" in pictures(page)
    assert not (tmp_path / "old.html").exists()
    assert [each.path for each in room.of(PageSaved)] == [str(tmp_path / "new.html")]


def test_what_cannot_be_written_is_said(room: Any, tmp_path: Path) -> None:
    target = tmp_path / "folder.html"
    target.mkdir()
    room.desk.pages.save(wish_of(room), str(target))
    room.until(lambda: progress(room) and progress(room)[-1].is_over, "the end")
    assert "“folder.html” isn't a file that can be written" in room.of(Noticed)[-1].sentence
    assert room.of(PageSaved) == []


def test_beside_another_export_it_waits_for_nobody(room: Any, tmp_path: Path) -> None:
    wish = wish_of(room)
    goes_on = threading.Event()
    room.desk.exchange.write_text(
        str(tmp_path / "other"), lambda: str(goes_on.wait(20)), lambda _done: None, pytest.fail
    )
    room.desk.pages.save(wish, str(tmp_path / "page.html"))
    room.until(lambda: progress(room)[-1].is_over, "the end")
    goes_on.set()
    assert room.of(Noticed)[-1].sentence == BUSY
    room.until(lambda: (tmp_path / "other").exists(), "the other")
    assert (tmp_path / "other").read_text("utf-8") == "True"
    room.pump()
