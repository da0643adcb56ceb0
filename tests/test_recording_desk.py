"""The desk that tests record with takes what the real one takes, and nothing else."""

from __future__ import annotations

import inspect

import pytest
from recording_desk import FakeBridge, FakeDesk

from app.chat.desk import Desk

OWN = {"called", "show_downloads"}
"""What tests ask of it."""


@pytest.fixture
def desk(qapp: object) -> FakeDesk:
    return FakeDesk(FakeBridge())


def test_a_call_is_recorded(desk: FakeDesk) -> None:
    desk.load_weights("/x.gguf")
    assert desk.called("load_weights") == [("/x.gguf",)]


def test_what_the_real_desk_has_not_is_refused(desk: FakeDesk) -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        desk.no_such_thing()
    with pytest.raises(TypeError):
        desk.load_weights()
    with pytest.raises(TypeError):
        desk.load_weights("/x.gguf", loudly=True)
    with pytest.raises(TypeError):
        desk.edit_message("m1", "text", saved=lambda: None, colour="red")
    assert desk.calls == []


def test_what_it_does_itself_has_the_real_names_and_arguments() -> None:
    for name, value in vars(FakeDesk).items():
        if name.startswith("_") or name in OWN or not inspect.isfunction(value):
            continue
        real = inspect.signature(getattr(Desk, name))
        assert list(inspect.signature(value).parameters) == list(real.parameters), name
