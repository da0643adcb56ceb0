"""Keys of engines: in the keyring, bound to the address that they were entered for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from keyring_ring import Ring, in_use, no_ring

from app.hub.engine_keys import SERVICE, EngineKeys, checked_key, name_of
from app.refusal import Refusal

HERE, THERE = "http://box.example.org:8000/v1", "http://other.example.org:8000/v1"
NAME = name_of("e1", HERE)


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring()
    with in_use(ring):
        yield ring


def test_a_key_is_kept_in_the_keyring_and_found_in_the_next_run(ring: Ring) -> None:
    assert EngineKeys().keep(NAME, " sk-one\n") == "keyring"
    assert ring.kept == {(SERVICE, NAME): "sk-one"}
    later = EngineKeys()
    assert not later.has_for_now(NAME)
    assert later.key("e1", HERE, NAME) == "sk-one"
    n_reads = ring.n_reads
    assert later.key("e1", HERE, NAME) == "sk-one"
    assert ring.n_reads == n_reads
    assert later.forget(NAME, is_in_keyring=True)
    assert ring.kept == {}
    assert later.key("e1", HERE, "") is None


def test_another_address_gets_no_key_whatever_the_settings_say(ring: Ring) -> None:
    keys = EngineKeys()
    keys.keep(NAME, "sk-one")
    assert keys.key("e1", THERE, NAME) is None
    assert EngineKeys().key("e1", THERE, NAME) is None
    assert EngineKeys().key("e2", HERE, NAME) is None
    assert keys.key("e1", f"{HERE}/", NAME) == "sk-one"  # another path of the same place


def test_the_keyring_is_not_opened_where_no_key_was_kept(ring: Ring) -> None:
    assert EngineKeys().key("e1", HERE, "") is None
    assert ring.n_reads == 0


def test_without_a_keyring_it_is_kept_for_this_run() -> None:
    with in_use(no_ring()):
        keys = EngineKeys()
        assert keys.keep(NAME, "sk-one") == "this run"
        assert keys.has_for_now(NAME)
        assert keys.key("e1", HERE, "") == "sk-one"
        assert EngineKeys().key("e1", HERE, NAME) is None


def test_a_keyring_that_refuses_keeps_no_secret_in_the_log(
    ring: Ring, caplog: pytest.LogCaptureFixture
) -> None:
    ring.refuses = True
    keys = EngineKeys()
    assert keys.keep(NAME, "sk-one") == "this run"
    assert not keys.forget(NAME, is_in_keyring=True)
    assert "sk-one" not in caplog.text
    assert "sk-one" not in repr(keys)


@pytest.mark.parametrize("text", ["", "  ", "two words", "with\nline", "ключ", "x" * 5_000])
def test_what_can_be_no_key_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        checked_key(text)
    assert text.strip() == "" or text not in refused.value.sentence
