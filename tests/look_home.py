"""Makes the pictures of tags, backups and the voice: `docs/home/*.png`.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_home.py

The scripted engine answers and a program that says nothing speaks, so that any machine makes the
same pictures, but for the dates. Look at them before they are committed. No test.
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
from store_records import a_conversation, a_message  # noqa: E402

from models.records import Role  # noqa: E402

if TYPE_CHECKING:
    from main import App

OUT = ROOT / "docs" / "home"
SIZES = {100: (1000, 680), 200: (1800, 1200)}
CHATS = (
    ("Tax return 2026", ("taxes", "work")),
    ("Holiday in Lisbon", ("travel",)),
    ("Borrow checking in Rust", ("rust", "work")),
    ("A slow SQL query", ("work",)),
    ("Sourdough that does not rise", ("kitchen",)),
    ("北京的春天", ("中文", "travel")),
)
REPLY = (
    "It rains in **Paris**. Take an umbrella, or stay at home.\n\n- Rain until noon\n- Sun later"
)
SCRIPT: dict[str, Any] = {"replies": [{"text": REPLY}]}


def fill(app: App) -> None:
    store = app.desk.around.store
    assert store is not None
    for title, tags in CHATS:
        chat = store.create_conversation(a_conversation(title=title, tags=tags)).result()
        question = a_message(chat, content=f"About: {title}")
        store.append_message(question).result()
        answer = a_message(chat, question, content="So it is.", role=Role.ASSISTANT)
        store.append_message(answer).result()
    app.desk.shelf.show_list(store.list_conversations().result())
    settle(app)


def look(app: App, theme: str, zoom: int) -> str:
    app.desk.settings.set("theme", theme)
    app.desk.settings.set("zoom_percent", zoom)
    app.window.resize(*SIZES[zoom])
    settle(app)
    return f"{theme}-{zoom}"


def take_tags(app: App, theme: str, zoom: int) -> None:
    name = look(app, theme, zoom)
    app.window.sidebar.tag_bar.choose({"work"})
    settle(app)
    app.window.grab().save(str(OUT / f"tags-{name}.png"))
    chats = app.desk.shelf.conversations
    dialog = app.window.sidebar.tag_chats((chats[2].id, chats[3].id))
    assert dialog is not None
    settle(app)
    dialog.grab().save(str(OUT / f"tag-dialog-{name}.png"))
    dialog.reject()
    app.window.sidebar.tag_bar.choose(())


def take_aloud(app: App, theme: str, zoom: int) -> None:
    from app.chat.aloud.speakers import Speaker

    name = look(app, theme, zoom)
    aloud = app.desk.aloud
    waits = Speaker("none", ("/bin/sh", "-c", "cat > /dev/null; exec sleep 60"))
    aloud._find = lambda *_: waits
    aloud.read(app.desk.shelf.path[-1].id)
    bar = app.window.aloud_acts.bar()
    wait_for(app, lambda: bar.sentence.text() == "It rains in Paris.")
    settle(app)
    app.window.grab().save(str(OUT / f"aloud-{name}.png"))
    aloud.stop()


def take_backups(app: App, theme: str, zoom: int) -> None:
    name = look(app, theme, zoom)
    app.window.show_settings("backups")
    page = app.window.settings_window().backup_page
    wait_for(app, lambda: bool(page.chats.topLevelItemCount()))
    page.chats.setCurrentItem(page.chats.topLevelItem(1))
    app.window.settings_window().resize(*(side * zoom // 100 for side in (740, 760)))
    settle(app)
    app.window.settings_window().grab().save(str(OUT / f"backups-{name}.png"))
    app.window.settings_window().close()


def main() -> None:
    from main import build

    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        script.write_text(json.dumps(SCRIPT))
        app = build(["--data-dir", f"{folder}/data", "--offline", "--scripted", str(script)])
        try:
            wait_for(app, lambda: app.desk.loader.state.state == "ready")
            app.desk.settings.set("write_titles", False)
            fill(app)
            app.desk.replies.send("How is the weather in Paris today?")
            wait_for(app, lambda: len(app.desk.shelf.path) == 2)
            wait_for(app, lambda: not app.desk.replies.is_generating)
            assert app.desk.around.store is not None
            app.desk.around.store.back_up(by_hand=True).result()
            for theme, zoom in (("light", 100), ("dark", 200)):
                take_tags(app, theme, zoom)
                take_aloud(app, theme, zoom)
                take_backups(app, theme, zoom)
        finally:
            app.close()


if __name__ == "__main__":
    main()
