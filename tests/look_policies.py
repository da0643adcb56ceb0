"""Makes the pictures of the context policies: `docs/policies/*.png`, light and dark, at 100 % and
200 %.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_policies.py

The scripted engine plays a chat that outgrows its window, so that any machine makes the same
pictures. Look at them before they are committed. No test: nothing here asserts.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tour import offscreen  # noqa: E402

os.environ["QT_QPA_PLATFORM"] = offscreen()

from screenshots import settle, wait_for  # noqa: E402

from app.chat.replies import summaries  # noqa: E402
from app.chat.replies.summary_nodes import stands_of  # noqa: E402

if TYPE_CHECKING:
    from main import App

OUT = ROOT / "docs" / "policies"
SIZES = {100: (1280, 860), 200: (1900, 1400)}
N_CTX = 310
TALK = {
    "We have four days in Lisbon in May. Where should we stay?": (
        "Alfama is quiet and old; Baixa is flat and close to everything. With small children I "
        "would take Baixa."
    ),
    "Two children, five and eight. What would they like?": (
        "The Oceanarium, tram 28 early in the morning, and the beach at Cascais, 40 minutes by "
        "train."
    ),
    "One of us doesn't eat fish. Is that a problem?": (
        "No. Most places have pork, chicken or vegetable dishes, and every bakery has custard "
        "tarts."
    ),
    "How do we get in from the airport?": (
        "The red metro line takes 25 minutes. With luggage, a taxi is about 15 euros."
    ),
    "And what should we book ahead?": (
        "The Oceanarium online, and the palace of Sintra with a time slot. The rest can wait."
    ),
    "Is it warm enough to swim?": (
        "The air is, at 22 to 25 degrees. The Atlantic is not: 16 degrees in May. Children play in "
        "the sand anyway."
    ),
    "Do we need a car?": (
        "No. Trains go to Cascais and Sintra, and in the city a car only stands in the way."
    ),
    "What if it rains?": (
        "The Oceanarium again, the science museum next to it, or the carriages in Belém. It rarely "
        "rains all day."
    ),
}
LAST = "Make a plan for the second day, please."
PLAN = (
    "Morning: the Oceanarium at ten, before it fills up. Lunch at the food court by the river, "
    "where everybody finds something. Afternoon: the cable car along the water, then the "
    "playground in the park. Back to Baixa by the red line, and ice cream on the way. "
)
SUMMARY = (
    "Four days in Lisbon in May with two children (5 and 8); staying in Baixa. One person doesn't "
    "eat fish. Ideas so far: Oceanarium, tram 28, Cascais beach."
)


def script() -> dict[str, Any]:
    return {
        "load": {"ms": 5, "loaded": {"n_ctx": N_CTX, "kv_bytes_per_token": 23040}},
        "replies": [
            {"match": "Summarize this conversation", "text": SUMMARY},
            {"match": LAST, "text": PLAN * 2},
            *({"match": question, "text": answer} for question, answer in TALK.items()),
        ],
    }


def talk(app: App) -> None:
    for question in TALK:
        send(app, question)


def send(app: App, text: str) -> None:
    n_before = len(app.desk.shelf.path)
    app.desk.replies.send(text)
    wait_for(
        app,
        lambda: len(app.desk.shelf.path) >= n_before + 2 and not app.desk.replies.is_generating,
    )
    settle(app)


def pictures(app: App, scene: str, top: str, panel: str = "") -> None:
    """`top`: the message that stands at the top."""
    for zoom, size in SIZES.items():
        for theme in ("light", "dark"):
            app.desk.settings.set("theme", theme)
            app.desk.settings.set("zoom_percent", zoom)
            app.window.resize(*size)
            settle(app)
            app.window.chat.transcript.show_message(top)
            if panel:
                area = app.window.section_acts.section().panel().area
                bar = area.verticalScrollBar()
                settle(app)
                bar.setValue(bar.maximum() if panel == "end" else 0)
            settle(app)
            app.window.grab().save(str(OUT / f"{scene}-{theme}-{zoom}.png"))


def main() -> None:
    from main import build

    summaries.IDLE_S = 3600.0  # type: ignore[misc]  # what is shown is asked for here
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        played = Path(folder) / "Lisbon.json"
        played.write_text(json.dumps(script()))
        app = build(["--data-dir", f"{folder}/data", "--offline", "--scripted", str(played)])
        try:
            desk = app.desk
            wait_for(app, lambda: desk.loader.state.state == "ready")
            desk.settings.set("context_policy", "keep_ends")
            desk.settings.set("system_prompt", "You plan journeys.")
            talk(app)
            app.window.action_registry.run("toggle_section")
            app.window.section_acts.section().show_panel("Cache")
            desk.shelf.save_draft(LAST)
            wait_for(app, lambda: desk.meter.last is not None and desk.meter.last.n_cut > 0)
            settle(app)
            pictures(app, "gap", desk.shelf.path[0].id, "end")
            desk.settings.set("context_policy", "summarize")
            send(app, LAST)
            node = next(m for m in desk.shelf.path if stands_of(m) is not None)
            above = desk.shelf.path[desk.shelf.path.index(node) - 3]
            pictures(app, "summary", above.id, "begin")
        finally:
            app.close()


if __name__ == "__main__":
    main()
