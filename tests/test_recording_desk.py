"""The desk that tests record with takes what the real one takes, and nothing else."""

from __future__ import annotations

import pytest
from recording_desk import FakeBridge, FakeDesk, real_parts


@pytest.fixture
def desk(qapp: object) -> FakeDesk:
    return FakeDesk(FakeBridge())


def test_it_has_the_parts_of_the_real_one(desk: FakeDesk) -> None:
    assert {"shelf", "replies", "tree", "cache", "hub", "folders"} <= real_parts().keys()
    assert all(hasattr(desk, name) for name in real_parts())


def test_a_call_is_recorded_under_its_part(desk: FakeDesk) -> None:
    desk.loader.load("/x.gguf")
    desk.tree.trash("m1", only_this=True)
    assert desk.calls == [("loader.load", "/x.gguf"), ("tree.trash", "m1", {"only_this": True})]
    assert desk.called("loader.load") == [("/x.gguf",)]


def test_what_the_real_parts_have_not_is_refused(desk: FakeDesk) -> None:
    with pytest.raises(AttributeError, match="no_such_part"):
        desk.no_such_part.edit()
    with pytest.raises(AttributeError, match=r"tree has no no_such_thing"):
        desk.tree.no_such_thing()
    with pytest.raises(AttributeError, match=r"tree has no no_such_thing"):
        desk.tree.no_such_thing = 1
    with pytest.raises(AttributeError, match=r"desk\.tree is a part"):
        desk.tree = None
    with pytest.raises(AttributeError, match=r"tree has no no_such_thing"):
        desk.called("tree.no_such_thing")
    with pytest.raises(TypeError):
        desk.loader.load()
    with pytest.raises(TypeError):
        desk.loader.load("/x.gguf", loudly=True)
    with pytest.raises(TypeError):
        desk.tree.edit("m1", "text", saved=lambda: None, colour="red")
    assert desk.calls == []


def test_what_is_read_is_given_by_the_test(desk: FakeDesk) -> None:
    with pytest.raises(AttributeError, match=r"Set desk\.hub\.state"):
        _ = desk.hub.state
    desk.hub.state = "x"
    assert desk.hub.state == "x"


def test_an_answer_of_the_test_gets_only_arguments_that_fit_the_real_method(
    desk: FakeDesk,
) -> None:
    desk.fits.rough = lambda *args, **named: (args, named)
    assert desk.fits.rough(7) == ((7,), {})
    with pytest.raises(TypeError):
        desk.fits.rough(7, 8)
    assert desk.calls == []
