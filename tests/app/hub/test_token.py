"""The token: in the keyring where there is one, and nowhere else."""

from __future__ import annotations

import logging

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail

from app.hub.token import SERVICE, AccessTokens, checked_token
from app.refusal import Refusal

HERE, THERE = "https://hub.example.org:443", "https://mirror.example.org:443"


class Ring(KeyringBackend):
    """Keeps what it is given; may refuse, or only pretend."""

    priority = 1.0

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.refuses = False
        self.pretends = False
        self.n_reads = 0

    def get_password(self, service, username):
        self.n_reads += 1
        if self.refuses:
            raise RuntimeError("locked; hf_one")
        return self.kept.get((service, username))

    def set_password(self, service, username, password):
        if self.refuses:
            raise RuntimeError(f"cannot keep {password}")
        if not self.pretends:
            self.kept[service, username] = password

    def delete_password(self, service, username):
        if self.refuses:
            raise RuntimeError("locked")
        del self.kept[service, username]


@pytest.fixture
def ring():
    before = keyring.get_keyring()
    made = Ring()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


def test_it_is_kept_in_the_keyring_and_found_again(ring):
    tokens = AccessTokens(HERE)
    assert (tokens.token, tokens.where) == (None, "none")
    tokens.keep("  hf_one\n", HERE)
    assert (tokens.token, tokens.where) == ("hf_one", "keyring")
    assert ring.kept == {(SERVICE, HERE): "hf_one"}
    later = AccessTokens(HERE)
    later.read()
    assert (later.token, later.where) == ("hf_one", "keyring")
    assert later.forget()
    assert (later.token, later.where, ring.kept) == (None, "none", {})


def test_each_hub_has_its_own(ring):
    tokens = AccessTokens(HERE)
    tokens.keep("hf_one", HERE)
    tokens.turn_to(THERE)
    tokens.read()
    assert tokens.token is None
    tokens.keep("hf_two", THERE)
    tokens.turn_to(HERE)
    assert tokens.token == "hf_one"


def test_one_that_is_kept_late_goes_to_the_hub_that_took_it_and_to_no_other(ring):
    tokens = AccessTokens(HERE)
    tokens.turn_to(THERE)  # another address was chosen while the hub was asked whose it is
    tokens.keep("hf_one", HERE)
    assert (tokens.token, tokens.where) == (None, "none")
    assert ring.kept == {(SERVICE, HERE): "hf_one"}
    tokens.turn_to(HERE)
    tokens.read()
    assert tokens.token == "hf_one"


def test_without_a_keyring_it_lives_for_this_run(ring):
    keyring.set_keyring(fail.Keyring())
    tokens = AccessTokens(HERE)
    tokens.keep("hf_one", HERE)
    assert (tokens.token, tokens.where) == ("hf_one", "this run")
    assert tokens.forget()
    tokens.keep("hf_one", HERE)
    later = AccessTokens(HERE)
    later.read()
    assert later.token is None


@pytest.mark.parametrize("fault", ["refuses", "pretends"])
def test_a_keyring_that_fails_is_none(ring, fault, caplog):
    caplog.set_level(logging.DEBUG)
    setattr(ring, fault, True)
    tokens = AccessTokens(HERE)
    tokens.read()
    tokens.keep("hf_one", HERE)
    assert (tokens.token, tokens.where) == ("hf_one", "this run")
    assert "hf_one" not in caplog.text


def test_one_that_does_not_let_go_is_told(ring):
    tokens = AccessTokens(HERE)
    tokens.keep("hf_one", HERE)
    ring.refuses = True
    assert not tokens.forget()
    assert tokens.token is None


def test_a_refused_one_is_not_sent_again(ring):
    tokens = AccessTokens(HERE)
    tokens.keep("hf_one", HERE)
    tokens.refuse("hf_one")
    assert (tokens.token, tokens.is_refused, tokens.where) == (None, True, "keyring")
    tokens.keep("hf_two", HERE)
    assert (tokens.token, tokens.is_refused) == ("hf_two", False)


def test_what_the_keyring_holds_is_looked_at(ring):
    ring.kept[SERVICE, HERE] = "hf_one\r\nX-Injected: 1"
    tokens = AccessTokens(HERE)
    tokens.read()
    assert tokens.token is None


@pytest.mark.parametrize(
    "text", ["", "  ", "two words", "hf_é", "hf_\x00", "hf_a\r\nHost: x", "x" * 600]
)
def test_what_cannot_be_a_token_is_refused_without_repeating_it(text):
    with pytest.raises(Refusal) as caught:
        checked_token(text)
    assert str(caught.value).endswith(".")
    assert not text.strip() or text.strip() not in str(caught.value)


def test_it_is_not_shown(ring):
    tokens = AccessTokens(HERE)
    tokens.keep("hf_one", HERE)
    assert "hf_one" not in repr(tokens)
