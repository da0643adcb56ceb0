"""The chain as it is edited: nothing typed is lost, and what counts is what was shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st

from app.chat.settings.resolved import Resolved, resolve
from app.chat.settings.sampler_links import (
    OFF,
    Link,
    Links,
    added,
    chains_before,
    links_of,
    moved,
    neutralised,
    removed,
    stages_at,
    stages_of_reply,
    switched,
    values_of_links,
    with_stage,
)
from app.chat.settings.settings import Settings, as_stored
from app.engine.protocol.stages import (
    Dist,
    Greedy,
    LogitBias,
    MinP,
    Mirostat,
    Penalties,
    Sampling,
    Stage,
    Temperature,
    TokenBias,
    TopK,
    TopP,
    Typical,
    Xtc,
)

APP = Settings(temperature=0.3)


class Chat:
    """A chat's own level over the app's and the weights'."""

    def __init__(self, own: Mapping[str, Any] = {}, weights: Mapping[str, Any] = {}) -> None:
        self.own, self.weights = dict(own), dict(weights)

    def resolved(self, own: Mapping[str, Any] | None = None) -> Resolved:
        return resolve(APP, self.weights, self.own if own is None else own)

    @property
    def links(self) -> Links:
        return links_of(self.resolved(), self.own)

    def put(self, links: Links) -> Chat:
        self.own = values_of_links(links, self.own, self.resolved)
        return self

    def asked(self) -> list[Stage]:
        """What the engine is asked for."""
        sampling = self.resolved().settings.sampling()
        return [*sampling.filters, sampling.select]


def at(links: Links, kind: type[Stage]) -> int:
    return next(n for n, link in enumerate(links) if isinstance(link.stage, kind))


def shown(links: Links) -> list[tuple[Stage, bool]]:
    return [(link.stage, link.is_on) for link in links]


def test_the_usual_chain_is_shown_with_the_levels_of_its_values() -> None:
    chat = Chat({"temperature": 0.9}, {"top_k": 5})
    links = chat.links
    assert [type(link.stage) for link in links] == [
        Penalties, TopK, TopP, MinP, Temperature, Dist,
    ]  # fmt: skip
    assert links[1].levels["k"] == "weights"
    assert links[4].levels["t"] == "chat"
    assert links[2].levels == {"p": "app", "min_keep": "app"}


def test_a_number_alone_leaves_the_rest_to_the_levels_below() -> None:
    chat = Chat()
    links = chat.links
    chat.put(with_stage(links, at(links, Temperature), Temperature(0.9)))
    assert chat.own == {"temperature": 0.9}
    links = chat.links
    chat.put(with_stage(links, at(links, Temperature), Temperature(0.3)))
    assert chat.own == {}


def test_temperature_0_keeps_its_place_and_its_neighbours() -> None:
    chat = Chat()
    links = chat.links
    chat.put(with_stage(links, at(links, Temperature), Temperature(0.0)))
    assert [type(s) for s in chat.asked()] == [Penalties, TopK, TopP, MinP, Temperature, Dist]


def test_a_stage_that_is_off_is_not_asked_for_and_keeps_place_and_values() -> None:
    chat = Chat({"top_p": 0.7})
    before = chat.links
    place = at(before, TopP)
    chat.put(switched(before, place, is_on=False))
    assert TopP not in map(type, chat.asked())
    assert shown(chat.links)[place] == (TopP(0.7), False)
    chat.put(switched(chat.links, place, is_on=True))
    assert shown(chat.links) == shown(before)
    assert chat.own == {"top_p": 0.7}


def test_neutral_is_a_plain_draw_and_loses_no_value() -> None:
    chat = Chat({"top_k": 7})
    before = chat.links
    chat.put(neutralised(before))
    assert chat.asked() == [Dist()]
    assert [link.stage for link in chat.links] == [link.stage for link in before]


def test_order_is_the_users_and_the_draw_stays_last() -> None:
    chat = Chat()
    links = chat.links
    chat.put(moved(links, at(links, Temperature), 0))
    assert [type(s) for s in chat.asked()][:2] == [Temperature, Penalties]
    assert moved(chat.links, 1, 99)[-2].stage == chat.links[1].stage
    assert moved(chat.links, 5, 0) == chat.links


@pytest.mark.parametrize(
    ("stage", "behind"), [(Xtc(), MinP), (LogitBias(), None), (Typical(), TopK), (TopK(3), TopK)]
)
def test_a_stage_is_added_where_llama_cpp_has_it(stage: Stage, behind: type[Stage] | None) -> None:
    links, place = added(Chat().links, stage)
    assert links[place].stage == stage
    assert place == 0 if behind is None else isinstance(links[place - 1].stage, behind)
    assert removed(links, place) == Chat().links


def test_the_selecting_stage_can_be_another_but_not_gone() -> None:
    chat = Chat()
    last = len(chat.links) - 1
    chat.put(with_stage(chat.links, last, Mirostat(3.0)))
    assert chat.asked()[-1] == Mirostat(3.0)
    assert removed(chat.links, last) == switched(chat.links, last, is_on=False) == chat.links


def test_what_the_chat_says_beside_the_chain_stays() -> None:
    chat = Chat({"seed": 7, "grammar": "root ::= [a]", "unknown": 1})
    chat.put(neutralised(chat.links))
    assert {"seed": 7, "grammar": "root ::= [a]", "unknown": 1}.items() <= chat.own.items()


@pytest.mark.parametrize("kept", [5, [3], [[0]], [["x", {}]], [[0, {"stage": "dist"}]], [[0, 4]]])
def test_what_is_kept_of_stages_off_is_untrusted(kept: object) -> None:
    assert shown(Chat({OFF: kept}).links) == shown(Chat().links)


stages = st.sampled_from(
    [
        TopK(3), TopP(0.4), TopP(0.4, 2), MinP(0.2), Temperature(0.8), Temperature(0.0), Xtc(),
        Penalties(64, 1.2), Penalties(8, 1.0, 0.5), LogitBias([TokenBias(text="a", bias=2.0)]),
    ]
)  # fmt: skip
links = st.builds(Link, stages, st.booleans())


@given(
    st.lists(links, max_size=7),
    st.sampled_from([Dist(), Greedy(), Mirostat()]),
    st.sampled_from(
        [{}, {"temperature": 0.9}, {"chain": [{"stage": "min_p"}, {"stage": "greedy"}]}]
    ),
    st.sampled_from([{}, {"top_k": 3}, {"chain": [{"stage": "top_k"}, {"stage": "dist"}]}]),
)
def test_what_is_asked_for_is_what_is_shown(
    filters: list[Link], select: Stage, own: dict[str, Any], weights: dict[str, Any]
) -> None:
    chat = Chat(own, weights).put((*filters, Link(select)))
    assert shown(chat.links) == [*((f.stage, f.is_on) for f in filters), (select, True)]
    assert chat.asked() == [*(f.stage for f in filters if f.is_on), select]


def test_a_reply_tells_its_own_stages() -> None:
    chat = Chat({"chain": [{"stage": "top_k", "k": 3}, {"stage": "greedy"}]})
    recorded = {"sampling": as_stored(chat.resolved().settings.sampling())}
    assert stages_of_reply(recorded) == (TopK(3), Greedy())


@pytest.mark.parametrize(
    "given",
    [
        {"traced": 2},
        {"traced": 2, "drawn_with": 7},
        {"traced": 2, "drawn_with": [[2, None]]},
        {"traced": 2, "drawn_with": [[2, {"filters": [1], "select": None}]]},
    ],
)
def test_of_a_branch_without_the_old_chain_only_its_own_tokens_have_one(given: Any) -> None:
    own = as_stored(Sampling([TopK(3)], Greedy()))
    recorded = {"sampling": own, "given": given}
    assert [stages_at(recorded, at) for at in range(4)] == [(), (), *[(TopK(3), Greedy())] * 2]
    assert [end for end, _ in chains_before(recorded, 5)] == [2, 5]
    assert chains_before(recorded, 0) == []


@pytest.mark.parametrize("given", [None, 7, {}, {"tokens": 3}, {"traced": "x", "drawn_with": [[]]}])
def test_of_a_reply_that_was_not_branched_all_have_its_own(given: Any) -> None:
    recorded = {"sampling": as_stored(Sampling([TopK(3)], Greedy())), "given": given}
    assert stages_at(recorded, 0) == (TopK(3), Greedy())


@pytest.mark.parametrize(
    "recorded", [{}, {"sampling": 3}, {"sampling": {"filters": []}}, {"sampling": {"filters": [1]}}]
)
def test_a_reply_that_was_not_recorded_so_tells_none(recorded: dict[str, Any]) -> None:
    assert stages_of_reply(recorded) == ()
