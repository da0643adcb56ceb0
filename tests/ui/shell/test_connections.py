"""What outlives a widget must not call it: the bridge and signals of the theme call
bound methods, which Qt forgets with the widget, and never to functions that hold it. And what
is asked for is answered once."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QMetaMethod, QObject

from ui.shell.window import MainWindow

UI = Path(__file__).resolve().parents[3] / "ui"
CONNECTS = re.compile(r"\.\s*(connect|on)\s*\(")
LIVES_ON = ("bridge", "_bridge", "theme", "_theme", "looking", "_looking")


def held_connections(source: str) -> list[int]:
    """The lines where a signal that outlives the widget gets a lambda or a local function."""
    if not CONNECTS.search(source):
        return []
    text, lines = source.splitlines(), []
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        if not CONNECTS.search("\n".join(text[function.lineno - 1 : function.end_lineno])):
            continue
        nodes = list(ast.walk(function))
        local = {each.name for each in function.body if isinstance(each, ast.FunctionDef)}
        loops = {
            target.id
            for loop in nodes
            if isinstance(loop, ast.For) and outlives(loop.iter)
            for target in ast.walk(loop.target)
            if isinstance(target, ast.Name)
        }
        for call in nodes:
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            if call.func.attr not in ("connect", "on") or not call.args:
                continue
            signal, slot = call.func.value, call.args[-1]
            named = isinstance(signal, ast.Name) and signal.id in loops
            holds = isinstance(slot, ast.Lambda) or (
                isinstance(slot, ast.Name) and slot.id in local
            )
            if holds and (named or outlives(call.func)):
                lines.append(call.lineno)
    return sorted(set(lines))


def outlives(node: ast.AST) -> bool:
    """Whether somewhere in it a signal of one of `LIVES_ON` is named."""
    return any(
        isinstance(each, ast.Attribute)
        and (
            (isinstance(each.value, ast.Name) and each.value.id in LIVES_ON)
            or (isinstance(each.value, ast.Attribute) and each.value.attr in LIVES_ON)
        )
        for each in ast.walk(node)
    )


def test_it_finds_what_it_looks_for() -> None:
    bad = """
def make(theme, bridge):
    def fit():
        pass
    theme.changed.connect(fit)
    self._bridge.on((Noticed, LevelsChanged), lambda _: fit())
    for signal in (theme.a, theme.b):
        signal.connect(lambda _: None)
    self._theme.changed.connect(self._fit)
    button.clicked.connect(lambda: fit())
"""
    assert held_connections(bad) == [5, 6, 8]


def test_signals_that_outlive_a_widget_are_connected_to_bound_methods() -> None:
    found = {
        path.relative_to(UI).as_posix(): lines
        for path in sorted(UI.rglob("*.py"))
        if (lines := held_connections(path.read_text("utf-8")))
    }
    assert found == {}


def test_each_request_of_a_widget_has_one_that_answers(
    open_window: Callable[..., MainWindow],
) -> None:
    """With two, a dialog opens twice; with none, a button does nothing. `act_requested` carries
    the name of an act, and each that listens takes its own."""
    window = open_window()
    window.section_acts.section()
    answered = {}
    for each in (window, *window.findChildren(QObject)):
        kind = each.metaObject()
        for method in map(kind.method, range(kind.methodCount())):
            signature = bytes(method.methodSignature().data()).decode()
            is_signal = method.methodType() == QMetaMethod.MethodType.Signal
            asks = signature.partition("(")[0]
            if is_signal and asks.endswith("_requested") and asks != "act_requested":
                name = f"{type(each).__name__}.{signature}"
                answered[name] = each.receivers(f"2{signature}")
    assert len(answered) > 30
    assert {name: count for name, count in answered.items() if count != 1} == {}
