"""What a file's graph lacks is greyed out in the panel *Inside* before any token is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recurrent_gguf import tiny_jamba, tiny_mamba

from ui.section.inside import view
from ui.section.inside.card import NOT_HERE
from ui.section.inside.panel import InsidePanel


@pytest.fixture(autouse=True)
def soon_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "IDLE_MS", 20)


@pytest.mark.weights
@pytest.mark.parametrize(
    ("make", "names"),
    [(tiny_mamba, {"attention"}), (tiny_jamba, set())],  # of Jamba some layers have it
    ids=["mamba", "jamba"],
)
def test_it_is_greyed_out_with_its_reason(
    open_window: Any, tmp_path: Path, make: Any, names: set[str]
) -> None:
    make(tmp_path / "strange.gguf")
    person = open_window(None, "--gguf", str(tmp_path / "strange.gguf"))
    person.wait_ready()
    person.window.action_registry.run("panel_inside")
    panel = person.find(InsidePanel, "panel_inside")
    person.wait(lambda: panel.view.lacks)
    assert panel.view.seen is None
    grey = {each.name: each for each in panel.cards if not each.title.isEnabled()}
    assert grey.keys() == names
    for each in grey.values():
        assert each.isVisible()
        assert each.figure.text() == NOT_HERE
        each.set_open(True)
        assert each.reason.text().startswith("This architecture")
        assert each.reason.isVisible()


def test_a_graph_without_scores_has_little_to_show(open_window: Any) -> None:
    """As that of an embedding model, which is never loaded to chat."""
    missing = dict.fromkeys(("residual", "lens", "logits"), "This architecture has none.")
    person = open_window({"load": {"ms": 5}, "replies": [], "inside": {"missing": missing}})
    person.wait_ready()
    person.window.action_registry.run("panel_inside")
    panel = person.find(InsidePanel, "panel_inside")
    person.wait(lambda: panel.view.lacks)
    grey = {each.name for each in panel.cards if not each.title.isEnabled() and each.isVisible()}
    assert grey == {"way", "lens", "lens_map", "logits", "probabilities", "wrote", "cut"}
