"""What the window asks a hub: beside it, the newest alone, and nothing while it may not."""

from __future__ import annotations

import queue
import threading
import time

import keyring
import pytest
from fake_hub.acts import Act
from fake_hub.hub import FakeAccount
from fake_hub.repos import FakeFile, FakeRepo
from gguf_writer import tiny_llama
from keyring.backend import KeyringBackend
from keyring.backends import fail

from app.chat.alarms import Alarms
from app.chat.events import HubTrouble, Noticed
from app.chat.hub.hub_questions import HubQuestions
from app.chat.settings.settings import Settings, changed
from app.chat.surroundings import Surroundings
from app.hub.address import origin_of
from app.hub.gate import Call, CalledOff
from app.hub.records import SearchWish
from app.hub.transport import READ_TIMEOUT_S

REPO = "ana/tiny-GGUF"


class Owner:
    """The desk's thread, by hand: what is posted runs in `wait`."""

    def __init__(self, *, offline: bool = False) -> None:
        self.posted: queue.SimpleQueue = queue.SimpleQueue()
        self.events: list[object] = []
        self.around = Surroundings(
            post=self.posted.put,
            emit=self.events.append,
            alarms=Alarms(self.posted.put),
            settings=Settings(),
        )
        self.questions = HubQuestions(self.around, self.set_setting, offline=offline)
        self.answers: list[object] = []

    def set_setting(self, name: str, value: object) -> None:
        self.around.settings = changed(self.around.settings, name, value)
        self.questions.take_settings(frozenset({name}))

    def take(self, answer: object) -> None:
        self.answers.append(answer)

    def wait(self, n: int = 1, timeout_s: float = 10.0) -> list[object]:
        """Run what is posted until so many answers have come; take them."""
        ends_at = time.monotonic() + timeout_s
        while len(self.answers) < n:
            self.posted.get(timeout=max(0.01, ends_at - time.monotonic()))()
        answers, self.answers = self.answers, []
        return answers

    def settle(self) -> None:
        while not self.posted.empty():
            self.posted.get()()

    def close(self) -> None:
        self.around.is_closing = True
        self.questions.close()
        self.around.alarms.close()


@pytest.fixture
def fake(fake_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", fake_hub.endpoint)
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())
    tiny_llama(tmp_path / "tiny.gguf")
    weights = [FakeFile("tiny-F32.gguf", (tmp_path / "tiny.gguf").read_bytes())]
    fake_hub.add(
        FakeRepo(REPO, weights, card="# Tiny"),
        FakeRepo("cleo/private", weights, private=True),
    )
    fake_hub.accounts["hf_good"] = FakeAccount("cleo", frozenset({"cleo/private"}))
    yield fake_hub
    keyring.set_keyring(before)


@pytest.fixture
def owner(fake):
    made = Owner()
    made.questions.take_stored_settings()
    yield made
    made.close()


def test_questions_are_answered_once_on_the_owners_thread(owner):
    questions = owner.questions
    questions.search(SearchWish("tiny"), owner.take, owner.take)
    (page,) = owner.wait()
    assert [repo.id for repo in page.repos] == [REPO]
    questions.look(REPO, "", owner.take, owner.take)
    (found,) = owner.wait()
    questions.card(REPO, "", owner.take, owner.take)
    assert owner.wait() == ["# Tiny"]
    questions.headers(found.files[0], owner.take, owner.take)
    ((header,),) = owner.wait()
    assert header.architecture == "llama"
    owner.settle()
    assert owner.answers == []


def test_the_newest_question_alone_is_answered(owner, fake):
    hold = threading.Event()
    fake.script(Act(hold=hold), path="/api/models")
    first, second = [], []
    owner.questions.search(SearchWish("old"), first.append, first.append)
    fake.wait_for(1, "/api/models")
    owner.questions.search(SearchWish("tiny"), owner.take, owner.take)
    (page,) = owner.wait()
    hold.set()  # the first one was not waited for
    assert [repo.id for repo in page.repos] == [REPO]
    owner.settle()
    assert first == []
    owner.questions.look(REPO, "", second.append, second.append)
    owner.questions.stop("look")
    owner.questions.card(REPO, "", owner.take, owner.take)
    owner.wait()
    owner.settle()
    assert second == []


def test_nothing_is_asked_before_the_settings_are_known(fake):
    owner = Owner()
    owner.questions.look(REPO, "", owner.take, owner.take)
    (trouble,) = owner.answers
    assert trouble.kind == "offline"
    owner.set_setting("offline", True)
    owner.set_setting("offline", False)  # somebody is faster than the database
    assert owner.questions.state.why_offline != ""
    owner.questions.settings_failed()
    assert "stays offline" in owner.questions.state.why_offline
    owner.close()
    assert fake.n_connections == 0


def test_offline_is_a_switch(owner, fake):
    told = []
    stop = owner.questions.follow(told.append)
    owner.set_setting("offline", True)
    assert "Turn off Offline" in told[-1].why_offline
    for ask in (
        lambda: owner.questions.search(SearchWish(), owner.take, owner.take),
        lambda: owner.questions.look(REPO, "", owner.take, owner.take),
        lambda: owner.questions.card(REPO, "", owner.take, owner.take),
        lambda: owner.questions.set_token("hf_good", owner.take, owner.take),
        lambda: owner.questions.set_endpoint("https://hub.example.org", owner.take, owner.take),
    ):
        ask()
    assert [each.kind for each in owner.answers] == ["offline"] * 5
    assert fake.n_connections == 0
    owner.answers.clear()
    owner.set_setting("offline", False)
    assert told[-1].why_offline == ""
    owner.questions.look(REPO, "", owner.take, owner.take)
    owner.wait()
    stop()
    owner.set_setting("offline", True)
    assert told[-1].why_offline == ""


def test_offline_by_argument_stays(fake):
    owner = Owner(offline=True)
    owner.questions.take_stored_settings()
    owner.set_setting("offline", True)
    owner.set_setting("offline", False)
    assert "started with --offline" in owner.questions.state.why_offline
    owner.close()
    assert fake.n_connections == 0


def test_going_offline_ends_what_is_asked(owner, fake):
    fake.script(Act(stall_after=10), path="/api/models")
    owner.questions.search(SearchWish(), owner.take, owner.take)
    fake.wait_for(1)
    owner.set_setting("offline", True)
    (trouble,) = owner.wait()
    assert trouble.kind == "offline"


def test_a_token_is_tried_then_kept_for_this_run(owner, fake):
    questions = owner.questions
    questions.set_token("two words", owner.take, owner.take)
    questions.set_token("hf_wrong", owner.take, owner.take)
    assert [each.kind for each in owner.wait(2)] == ["token_bad", "token_bad"]
    assert questions.state.token_where == "none"
    questions.set_token(" hf_good ", owner.take, owner.take)
    (sentence,) = owner.wait()
    assert "“cleo”" in sentence
    assert "until Cutaway closes" in sentence
    assert questions.state.token_where == "this run"
    assert owner.around.settings.hub_tokens_kept == ()
    questions.look("cleo/private", "", owner.take, owner.take)
    assert owner.wait()[0].repo.is_private
    questions.forget_token(owner.take)
    assert owner.wait() == [True]
    questions.look("cleo/private", "", owner.take, owner.take)
    assert owner.wait()[0].kind == "private_or_missing"
    assert "hf_good" not in repr(owner.around.settings)


def test_a_token_is_sent_to_no_other_hub_than_the_one_it_was_entered_for(owner, fake):
    """Another address is chosen just as the thread that asks begins."""
    questions, made = owner.questions, owner.questions.hub

    def hub_elsewhere():
        questions._endpoint = fake.endpoint.replace("127.0.0.1", "localhost")
        return made()

    questions.hub = hub_elsewhere
    questions.set_token("hf_good", owner.take, owner.take)
    questions._pool.close()
    owner.settle()
    assert owner.answers == []
    assert questions._tokens.token is None
    assert fake.requests == []


def test_the_keyring_is_opened_only_for_a_hub_that_has_a_token(owner, fake):
    class Ring(KeyringBackend):
        priority = 1.0
        n_reads = 0

        def get_password(self, service, username):
            self.n_reads += 1
            return "hf_good"

        def set_password(self, service, username, password): ...

        def delete_password(self, service, username): ...

    ring, questions = Ring(), owner.questions
    keyring.set_keyring(ring)
    questions.prepare()
    questions.card(REPO, "", owner.take, owner.take)
    owner.wait()
    assert (ring.n_reads, questions.state.token_where) == (0, "none")
    owner.close()
    later = Owner()
    later.around.settings = changed(Settings(), "hub_tokens_kept", (origin_of(fake.endpoint),))
    later.questions.take_stored_settings()
    told = []
    later.questions.follow(lambda state: told.append(state.token_where))
    later.questions.prepare()
    later.questions.look("cleo/private", "", later.take, later.take)
    assert later.wait()[0].repo.is_private
    later.settle()
    assert told[-1] == "keyring"
    later.questions.forget_token(later.take)
    assert later.wait() == [True]
    assert later.around.settings.hub_tokens_kept == ()
    later.close()


def test_a_token_that_has_run_out_is_said_and_left_out(owner, fake):
    owner.questions.set_token("hf_good", owner.take, owner.take)
    owner.wait()
    del fake.accounts["hf_good"]
    owner.questions.look(REPO, "", owner.take, owner.take)
    assert owner.wait()[0].repo.id == REPO
    owner.settle()
    (notice,) = [each for each in owner.events if isinstance(each, Noticed)]
    assert "continues without it" in notice.sentence
    assert owner.questions.state.is_token_refused
    fake.forget()
    owner.questions.card(REPO, "", owner.take, owner.take)
    owner.wait()
    assert [each.token for each in fake.requests] == [None]


def test_another_hub_is_checked_before_it_is_used(owner, fake):
    questions = owner.questions
    questions.set_token("hf_good", owner.take, owner.take)
    owner.wait()
    fake.script(Act(body=b"<html></html>", headers={"Content-Type": "text/html"}), server="cdn")
    questions.set_endpoint("not an address", owner.take, owner.take)
    questions.set_endpoint(fake.cdn, owner.take, owner.take)
    assert [each.kind for each in owner.wait(2)] == ["not_hub", "not_hub"]
    assert owner.around.settings.hub_endpoint == ""
    mirror = fake.endpoint.replace("127.0.0.1", "localhost")
    questions.set_endpoint(f"{mirror}/", owner.take, owner.take)
    owner.wait()
    assert owner.around.settings.hub_endpoint == mirror
    assert questions.state.endpoint == mirror
    assert questions.state.token_where == "none"
    fake.forget()
    questions.look("cleo/private", "", owner.take, owner.take)
    assert isinstance(owner.wait()[0], HubTrouble)
    assert {each.token for each in fake.requests} == {None}  # it belongs to the other address
    questions.set_endpoint("", owner.take, owner.take)
    owner.wait()
    assert (questions.state.endpoint, questions.state.token_where) == (fake.endpoint, "this run")


def test_pages_follow_until_the_end(owner, fake):
    fake.add(*(FakeRepo(f"dora/n{n:02}", [FakeFile("x.gguf", b"x")]) for n in range(25)))
    owner.questions.search(SearchWish(author="dora"), owner.take, owner.take)
    assert owner.wait()[0].has_more
    owner.questions.more(owner.take, owner.take)
    owner.questions.more(owner.take, owner.take)
    (page,) = owner.wait()
    assert (len(page.repos), page.has_more) == (5, False)
    owner.settle()
    assert owner.answers == []


def test_closing_is_quick_whatever_is_asked(fake):
    owner = Owner()
    owner.questions.take_stored_settings()
    fake.script(Act(stall_after=0), for_ever=True)
    owner.questions.search(SearchWish(), owner.take, owner.take)
    owner.questions.look(REPO, "", owner.take, owner.take)
    owner.questions.card(REPO, "", owner.take, owner.take)
    fake.wait_for(3)
    began = time.monotonic()
    owner.close()
    assert time.monotonic() - began < READ_TIMEOUT_S / 2
    owner.settle()
    assert owner.answers == []


def test_a_call_can_be_called_off_before_it_runs():
    call = Call()
    call.cancel()
    with pytest.raises(CalledOff), call.running():
        raise AssertionError
