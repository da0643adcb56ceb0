"""Controls by chance, and what a cut is called."""

from __future__ import annotations

from app.engine.protocol.cut_messages import Cut
from app.insight.inside.cuts import control_of, label_of

SIZES = {"n_layer": 6, "n_head": 8, "n_kv_head": 2}


def test_a_control_is_of_the_same_kind_and_none_of_the_cuts() -> None:
    cuts = [Cut("head", 2, 1), Cut("head", 2, 5), Cut("kv_head", 1, 0), Cut("ffn", 3)]
    seen = set()
    for seed in range(40):
        control = control_of(cuts, **SIZES, seed=seed)
        assert [cut.kind for cut in control] == [cut.kind for cut in cuts]
        assert [cut.layer for cut in control[:3]] == [2, 2, 1]
        assert control[3].layer != 3
        assert len(set(map(str, control)) | set(map(str, cuts))) == 8
        assert control == control_of(cuts, **SIZES, seed=seed)
        seen.add(str(control))
    assert len(seen) > 10


def test_where_all_is_cut_there_is_no_control() -> None:
    every = [Cut("head", 0, head) for head in range(8)]
    assert control_of(every, **SIZES, seed=1) == []


def test_many_parts_are_counted() -> None:
    every = [Cut("head", 0, head) for head in range(8)]
    assert (
        label_of(every, "mean") == "without head 0 of layer 0, head 1 of layer 0 and 6 more (mean)"
    )
