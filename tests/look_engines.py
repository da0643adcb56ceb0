"""Makes the pictures of servers in the engine's place: `docs/engines/*.png`.

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_engines.py

A real llama-server on loopback has the included model; the chat is begun here and continued there.
For what a server takes less of, one plays Ollama.
What is done is what a user does. Look at the pictures before they are committed. No test: nothing
here asserts.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tour import offscreen  # noqa: E402

os.environ["QT_QPA_PLATFORM"] = offscreen()

from llama_server import llama_server  # noqa: E402
from screenshots import settle, wait_for  # noqa: E402
from scripted_servers import ScriptedServer, ollama  # noqa: E402

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from main import App

OUT = ROOT / "docs" / "engines"
SIZE = (1120, 720)
SETTINGS = {"theme": "light", "temperature": 0.7, "max_tokens": 40}
QUESTIONS = ("What is the capital of France?", "And what is it known for?")
NOBODY = "http://127.0.0.1:9"


def save(app: App, widget: QWidget, name: str) -> None:
    settle(app)
    settle(app)
    widget.grab().save(str(OUT / f"{name}.png"))


def ask(app: App, question: str) -> None:
    desk = app.desk
    n_before = len(desk.shelf.path)
    desk.replies.send(question)
    wait_for(app, lambda: len(desk.shelf.path) > n_before + 1 and not desk.replies.is_generating)


def add(app: App, name: str, url: str) -> None:
    engines = app.desk.engines
    engines.add(name, url, "", lambda sentence: print(sentence, end=""))
    wait_for(app, lambda: all(each.offer or each.sentence for each in engines.all))


def settings(app: App) -> None:
    window = app.window
    window.show_settings("engine")
    shown = window.settings_window()
    shown.resize(720, 620)
    row = next(iter(shown.engines.rows.values()))
    row.more_button.click()
    for theme in ("light", "dark"):
        app.desk.settings.set("theme", theme)
        save(app, shown, f"settings-{theme}")
    app.desk.settings.set("theme", "light")
    shown.close()


def menu(app: App) -> None:
    header = app.window.chat.header
    header.menu.popup(header.mapToGlobal(header.rect().bottomLeft()))
    wait_for(app, lambda: not any(each.is_asking for each in app.desk.engines.all))
    save(app, header.menu, "menu")
    header.menu.close()


def reply(app: App) -> None:
    desk, window = app.desk, app.window
    ask(app, QUESTIONS[1])
    desk.settings.set("token_view", True)
    window.section_acts.go_to("Tokens", "This reply")
    looking = window.section_acts.looking()
    looking.look_at(desk.shelf.path[-1].id)
    wait_for(app, lambda: len(looking.traces) > 3)
    looking.look_at(desk.shelf.path[-1].id, 3)
    save(app, window, "reply")
    window.section_acts.go_to("Inside", "")
    save(app, window, "reason")


def chain(app: App) -> None:
    """Of a server that takes less of it."""
    loader, window = app.desk.loader, app.window
    loader.load(app.desk.engines.all[1].models()[0].path)
    wait_for(app, lambda: loader.is_ready and "Laptop" in loader.weights_name)
    window.section_acts.go_to("Sampling", "Chain")
    save(app, window.section_acts.section(), "chain")


def main() -> None:
    from app.gguf import starter
    from main import build

    OUT.mkdir(parents=True, exist_ok=True)
    found = starter.find()
    if found is None:
        sys.exit("The included model isn't installed: run make test first.")
    laptop = ScriptedServer(ollama())
    with tempfile.TemporaryDirectory() as folder, llama_server(found.path) as url, laptop:
        app = build(["--data-dir", folder])
        try:
            app.window.resize(*SIZE)
            wait_for(app, lambda: app.desk.loader.state.state == "ready")
            for name, value in SETTINGS.items():
                app.desk.settings.set(name, value)
            ask(app, QUESTIONS[0])
            add(app, "Workstation", url)
            add(app, "Laptop", laptop.url)
            add(app, "Lab", NOBODY)
            settings(app)
            menu(app)
            app.desk.loader.load(app.desk.engines.all[0].models()[0].path)
            wait_for(app, lambda: app.desk.loader.remote is not None and app.desk.loader.is_ready)
            reply(app)
            chain(app)
        finally:
            app.close()


if __name__ == "__main__":
    main()
