"""The window of a fit: devices by part, other settings, what is kept of them, what was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QAccessible, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, loaded

from app.amounts import bytes_words
from app.chat.events import EngineStateChanged, MemoryChanged
from app.engine.planning.fit import DeviceNeed, Fit, Verdict, fit
from app.engine.planning.load_plan import Machine
from app.engine.planning.placement import GIB, DeviceMemory
from app.engine.planning.sizes import MIB, Outline
from app.engine.protocol.loading_messages import LoadOptions, MemoryPart
from ui.library.fit import view as fit_view
from ui.library.fit.memory_bars import MemoryBar, segments_of
from ui.library.fit.view import FitView
from ui.library.fit.wish import FitWish, context_stops
from ui.library.local.measured_table import compared
from ui.look.theme import Theme
from ui.widgets.flow import FlowLayout

PATH = "/weights/made-up.gguf"
HOST = DeviceMemory("CPU", "a processor", "cpu", 16 * GIB, 32 * GIB)
GPU = DeviceMemory("CUDA0", "Made-up RTX", "gpu", 4 * GIB, 24 * GIB)


def outline(n_layer: int = 32) -> Outline:
    return Outline(
        file_name="made-up.gguf",
        layer_bytes=(128 * MIB,) * n_layer,
        expert_bytes=(0,) * n_layer,
        matrices=({},) * (n_layer + 1),
        cache_widths=((1024, 1024),) * n_layer,
        input_bytes=256 * MIB,
        output_bytes=400 * MIB,
        tied_bytes=0,
        n_embd=4096,
        n_vocab=128_256,
        n_ctx_train=131_072,
        head_widths=(128, 128),
        is_latent=False,
    )


class JudgingDesk(FakeDesk):
    """Judges by the real arithmetic; answers when the test says so."""

    def __init__(self, bridge: FakeBridge) -> None:
        super().__init__(bridge)
        self.fits.machine = lambda: Machine(tuple(self.devices_now))
        self.fits.file = self._judge_file
        self.fits.headers = self._judge_headers
        self.fits.stop = lambda then: self.asked.clear()
        self.loader.name_of = lambda path: "Made up"
        self.loader.options_of = lambda path: self.kept
        self.defaults.change = self._change
        self.kept = LoadOptions()
        self.devices_now = [HOST]
        self.asked: list[tuple[str, Callable[[str, Fit], None], LoadOptions]] = []
        self.refusal = ""

    def _judge_file(
        self, path: str, then: Callable[[str, Fit], None], options: LoadOptions
    ) -> None:
        self.record("fits.file", path, options)
        self.asked = [(path, then, options)]

    def _judge_headers(
        self, headers: Any, key: str, then: Callable[[str, Fit], None], options: LoadOptions
    ) -> None:
        self.asked = [(key, then, options)]

    def _change(self, path: str, name: str, value: Any) -> str:
        self.record("defaults.change", path, name, value)
        if not self.refusal:
            automatic = {"n_ctx": 0, "n_gpu_layers": -1}
            value = None if value == automatic.get(name, ...) else value
            self.kept = msgspec.structs.replace(self.kept, **{name.removeprefix("load."): value})
        return self.refusal

    def answer(self) -> Fit:
        (key, then, options), self.asked = self.asked[0], []
        found = fit(outline(), options, self.devices_now)
        then(key, found)
        return found


@pytest.fixture
def judging(bridge: FakeBridge) -> JudgingDesk:
    return JudgingDesk(bridge)


@pytest.fixture
def view(qtbot: QtBot, judging: JudgingDesk, bridge: FakeBridge, theme: Theme) -> FitView:
    made = FitView(judging, bridge, theme)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    return made


def words(widget: QWidget) -> str:
    return " | ".join(label.text() for label in widget.findChildren(QLabel) if label.isVisible())


# --- what is shown ------------------------------------------------------------------------------


def test_a_file_is_judged_as_it_would_be_loaded(view: FitView, judging: JudgingDesk) -> None:
    judging.kept = LoadOptions(n_ctx=4096)
    view.show_file(PATH)
    assert view.isVisible()
    assert view.title.text() == "Made up"
    assert view.why.text() == fit_view.JUDGING
    assert judging.asked[0][2].n_ctx == 4096
    assert not view.load_button.isEnabled()
    found = judging.answer()
    assert view.fit is found
    assert view.badge.fit is found
    assert view.why.text() == found.why
    assert view.load_button.isEnabled()
    assert "KV cache 537 MB" in words(view)
    assert not view.wish.layers.isVisible()  # no graphics device


def test_what_looking_inside_takes_is_said_before(view: FitView, judging: JudgingDesk) -> None:
    judging.kept = LoadOptions(n_ctx=8192)
    view.show_file(PATH)
    found = judging.answer()
    size = bytes_words(found.looking_bytes)
    assert fit_view.LOOKING.format(size=size) in words(view)
    need, free = found.need_bytes + found.looking_bytes, HOST.free_bytes
    judging.devices_now = [replace(HOST, free_bytes=need - MIB)]
    view._judge()
    tight = judging.answer()
    assert tight.verdict is Verdict.FITS
    assert fit_view.NO_ROOM_TO_LOOK.format(size=size) in words(view)
    judging.devices_now = [replace(HOST, free_bytes=free // 16)]  # too little for the load itself
    view._judge()
    judging.answer()
    assert "which isn't free" not in words(view)


def test_devices_are_rows_and_layers_can_be_chosen(view: FitView, judging: JudgingDesk) -> None:
    judging.devices_now = [HOST, GPU]
    view.show_file(PATH)
    found = judging.answer()
    assert "GPU 0 · Made-up RTX" in words(view)
    assert view.wish.layers.placeholderText() == f"Automatic: {found.n_gpu_layers}"
    view.wish.layers_slider.setValue(5)
    assert judging.asked[0][2].n_gpu_layers == 5
    assert judging.answer().n_gpu_layers == 5
    judging.devices_now = [HOST]
    view._judge()
    judging.answer()
    assert "GPU 0" not in words(view)


def test_another_context_and_cache_type_are_tried(view: FitView, judging: JudgingDesk) -> None:
    view.show_file(PATH)
    judging.answer()
    slider = view.wish.context_slider
    slider.setFocus()
    QTest.keyClick(slider, Qt.Key.Key_End)
    assert judging.asked[0][2].n_ctx == 131_072
    assert slider.accessibleDescription() == "131,072 tokens"
    assert view.wish.context.text().replace(",", "") == "131072"
    found = judging.answer()
    assert view.badge.text() == found.words
    view.wish.context.setFocus()
    view.wish.context.setText("5000")
    QTest.keyClick(view.wish.context, Qt.Key.Key_Return)
    assert judging.asked[0][2].n_ctx == 5000
    judging.answer()
    view.wish.context.setText("")
    QTest.keyClick(view.wish.context, Qt.Key.Key_Return)
    assert judging.asked[0][2].n_ctx is None
    view.wish.cache.setCurrentIndex(view.wish.cache.findData("q4_0"))
    view.wish.cache.activated.emit(view.wish.cache.currentIndex())
    assert (judging.asked[0][2].type_k, judging.asked[0][2].type_v) == ("q4_0", "q4_0")


def test_an_answer_about_other_weights_is_not_shown(view: FitView, judging: JudgingDesk) -> None:
    view.show_file(PATH)
    _key, then, options = judging.asked[0]
    view.show_file("/weights/other.gguf")
    then(PATH, fit(outline(), options, [HOST]))
    assert view.fit is None


def test_nothing_of_other_weights_stays_while_these_are_judged(
    view: FitView, judging: JudgingDesk
) -> None:
    judging.devices_now = [DeviceMemory("CPU", "a processor", "cpu", 8 * GIB, 32 * GIB)]
    judging.kept = LoadOptions(n_ctx=131_072)
    view.show_file(PATH)
    judging.answer()
    assert view.suggestions.isVisible()
    assert view.findChild(MemoryBar).isVisible()
    view.show_file("/weights/on-a-disk-that-sleeps.gguf")
    assert not view.suggestions.isVisible()
    assert not view.findChild(MemoryBar).isVisible()
    judging.answer()
    assert view.suggestions.isVisible()
    assert view.findChild(MemoryBar).isVisible()


def test_weights_elsewhere_have_no_settings_to_keep(view: FitView, judging: JudgingDesk) -> None:
    judging.devices_now = [DeviceMemory("CPU", "", "cpu", 8 * GIB, 8 * GIB)]
    view.show_headers([object()], "owner/name Q4_K_M")  # type: ignore[list-item]
    view.wish.context_slider.setValue(view.wish.context_slider.maximum())
    judging.answer()
    view.wish.context_slider.setValue(view.wish.context_slider.maximum())
    found = judging.answer()
    assert found.verdict is Verdict.FITS_LESS
    assert view.use_button.isHidden()
    assert view.load_button.isHidden()
    assert view.status.text() == fit_view.ELSEWHERE
    assert not view.findChild(QPushButton, "fit_suggestion_0").isVisible()


# --- acts ---------------------------------------------------------------------------------------


def test_a_suggestion_becomes_the_settings_of_these_weights(
    view: FitView, judging: JudgingDesk
) -> None:
    judging.kept = LoadOptions(n_ctx=131_072)
    view.show_file(PATH)
    found = judging.answer()
    button = view.findChild(QPushButton, "fit_suggestion_0")
    assert button.accessibleName() == f"Use these settings: {found.suggestions[0].words}"
    button.click()
    assert judging.called("defaults.change") == [
        (PATH, "type_k", "q8_0"),
        (PATH, "type_v", "q8_0"),
    ]
    assert view.wish.options == judging.kept
    assert view.status.text() == fit_view.KEPT
    judging.answer()
    assert view.status.text() == fit_view.KEPT
    assert not view.use_button.isEnabled()
    view.load_button.click()
    assert judging.called("loader.load") == [(PATH,)]


def test_what_is_chosen_is_kept_or_loaded_at_once(view: FitView, judging: JudgingDesk) -> None:
    judging.devices_now = [HOST, GPU]
    view.show_file(PATH)
    judging.answer()
    assert (view.status.text(), view.use_button.isEnabled()) == (fit_view.AS_KEPT, False)
    view.wish.layers_slider.setValue(5)
    assert (view.status.text(), view.use_button.isEnabled()) == ("", True)
    view.use_button.click()
    assert judging.called("defaults.change") == [(PATH, "n_gpu_layers", 5)]
    judging.answer()
    view.wish.layers.setText("")
    QTest.keyClick(view.wish.layers, Qt.Key.Key_Return)
    view.load_button.click()
    assert judging.called("defaults.change")[-1] == (PATH, "n_gpu_layers", -1)
    assert judging.called("loader.load") == [(PATH,)]


def test_what_no_setting_of_the_app_is_for_is_kept_with_the_weights(
    view: FitView, judging: JudgingDesk
) -> None:
    judging.kept = LoadOptions(devices=["CUDA7"])
    view.show_file(PATH)
    judging.answer()
    view._use(LoadOptions(cpu_moe_layers=3))
    assert judging.called("defaults.change") == [
        (PATH, "load.devices", None),
        (PATH, "load.cpu_moe_layers", 3),
    ]


def test_a_refusal_is_said(view: FitView, judging: JudgingDesk) -> None:
    view.show_file(PATH)
    judging.answer()
    view.wish.context_slider.setValue(1)
    judging.refusal = "This can't be saved: the data folder is read-only."
    view.use_button.click()
    assert view.status.text() == judging.refusal


# --- following ----------------------------------------------------------------------------------


def test_it_follows_the_free_memory_while_it_is_open(
    view: FitView, judging: JudgingDesk, bridge: FakeBridge, qtbot: QtBot
) -> None:
    view.show_file(PATH)
    qtbot.waitUntil(view.isActiveWindow)
    judging.answer()
    assert judging.called("fits.look")
    assert view._timer.isActive()
    judging.devices_now = [DeviceMemory("CPU", "", "cpu", GIB, 32 * GIB)]
    bridge.emit_event(MemoryChanged())
    assert judging.answer().verdict is Verdict.FITS_NOT
    assert "too much" in words(view)
    QTest.keySequence(view, "Esc")
    assert view.isHidden()
    assert not view._timer.isActive()
    bridge.emit_event(MemoryChanged())
    assert judging.asked == []


def test_what_was_measured_stands_beside_what_was_estimated(
    view: FitView, judging: JudgingDesk, bridge: FakeBridge
) -> None:
    judging.loader.path = PATH
    judging.devices_now = [HOST, GPU]
    view.show_loaded()
    judging.answer()
    assert not view.measured.isVisible()
    now = msgspec.structs.replace(
        loaded(),
        memory=[
            MemoryPart("CPU_Mapped", "weights", 100 * MIB),
            MemoryPart("CUDA0", "weights", 99 * MIB),
            MemoryPart("CUDA0", "kv", 51 * MIB),
            MemoryPart("CUDA0", "compute", 20 * MIB),
            MemoryPart("CUDA_Host", "output", 10 * MIB),
        ],
        estimate=[
            MemoryPart("CPU", "weights", 100 * MIB),
            MemoryPart("CUDA0", "weights", 100 * MIB),
            MemoryPart("CUDA0", "kv", 50 * MIB),
            MemoryPart("CUDA0", "compute", 40 * MIB),
            MemoryPart("CPU", "compute", 40 * MIB),
        ],
    )
    judging.loader.state = EngineStateChanged("ready", "Made up", now)
    bridge.emit_event(judging.loader.state)
    rows = [(row.what, row.device, row.deviation) for row in view.measured.rows]
    assert rows == [
        ("weights", "", "0.0%"),
        ("weights", "CUDA0", "−1.0%"),
        ("kv", "CUDA0", "+2.0%"),
        ("compute", "", "25% used"),
        ("compute", "CUDA0", "50% used"),
    ]
    assert "KV cache on CUDA0" in words(view.measured)
    assert "+2.0%" in words(view.measured)
    assert view.load_button.text() == "Reload"
    view.show_file("/weights/other.gguf")
    assert not view.measured.isVisible()


def test_without_an_estimate_only_what_was_measured_is_there() -> None:
    rows = compared(msgspec.structs.replace(loaded(), estimate=[]), [HOST])
    assert [(row.what, row.estimated_bytes, row.deviation) for row in rows] == [
        ("weights", 0, "–"),
        ("kv", 0, "–"),
        ("compute", 0, "–"),
    ]


# --- parts --------------------------------------------------------------------------------------


def need(need_gib: float, free_gib: float, total_gib: float = 16) -> DeviceNeed:
    parts = (
        MemoryPart("CPU", "weights", int(need_gib * GIB)),  # with a copy in another order
        MemoryPart("CPU", "kv", int(need_gib * GIB / 4)),
    )
    sizes = (int(size * GIB) for size in (need_gib, free_gib, total_gib))
    return DeviceNeed("CPU", "main memory", "", *sizes, 0, parts, need_gib <= free_gib)


def test_segments_fill_the_device() -> None:
    found = {segment.what: segment.size_bytes for segment in segments_of(need(4, 6))}
    assert found == {"others": 10 * GIB, "weights": 3 * GIB, "kv": GIB, "free": 2 * GIB}
    assert "free" not in {segment.what for segment in segments_of(need(8, 6))}


def test_the_bar_shows_shares_and_says_them(qtbot: QtBot, theme: Theme) -> None:
    bar = MemoryBar(theme)
    qtbot.addWidget(bar)
    bar.resize(160, 16)
    bar.show_need(need(8, 12))
    assert bar.accessibleName().startswith("main memory: needs 8.59 GB of 12.9 GB free")
    assert "KV cache 2.15 GB" in bar.accessibleDescription()
    image = QImage(bar.size(), QImage.Format.Format_RGB32)
    bar.render(image)
    at = [image.pixelColor(x, 8).name() for x in (60, 110, 150)]  # weights, cache, free
    assert at == [theme.colors.accent, theme.colors.from_attachment, theme.colors.hover]
    bar.show_need(need(8, 6))
    over = QImage(bar.size(), QImage.Format.Format_RGB32)
    bar.render(over)
    end = round(16 / 18 * 160)
    assert over.pixelColor(end, 8).name() == theme.colors.error


def test_stops_of_the_context() -> None:
    stops = context_stops(131_072)
    assert (stops[0], stops[-1]) == (512, 131_072)
    assert stops == sorted(set(stops))
    assert all(stop % 256 == 0 for stop in stops)
    assert 20 < len(stops) < 40
    assert context_stops(100) == [100]


def test_different_types_of_keys_and_values_are_shown(qtbot: QtBot, theme: Theme) -> None:
    wish = FitWish(theme)
    qtbot.addWidget(wish)
    wish.show_options(LoadOptions(type_k="q8_0", type_v="f16"))
    assert wish.cache.currentText() == "q8_0 and f16"
    wish.show_options(LoadOptions())
    assert wish.cache.currentText() == "f16"
    assert wish.cache.findText("q8_0 and f16") == -1


def test_what_cannot_be_a_number_is_put_back(qtbot: QtBot, theme: Theme) -> None:
    wish = FitWish(theme)
    qtbot.addWidget(wish)
    wish.show_options(LoadOptions(n_ctx=4096))
    told: list[LoadOptions] = []
    wish.changed.connect(told.append)
    wish.context.setText("many")
    QTest.keyClick(wish.context, Qt.Key.Key_Return)
    assert told == []
    assert wish.context.text() == "4096"


def test_hidden_widgets_leave_no_gap_in_a_line(qtbot: QtBot) -> None:
    inside = QWidget()
    qtbot.addWidget(inside)
    flow = FlowLayout(inside)
    flow.setSpacing(10)
    labels = [QLabel(text, inside) for text in ("one", "two", "three")]
    for label in labels:
        flow.addWidget(label)
    labels[1].hide()
    inside.resize(400, 40)
    inside.show()
    first, _, third = (QRectF(label.geometry()) for label in labels)
    assert third.left() == first.right() + 10


@pytest.mark.parametrize("percent", [100, 200])
def test_nothing_is_cut_where_the_window_is_as_designed(
    view: FitView, judging: JudgingDesk, theme: Theme, percent: int
) -> None:
    theme.set_zoom(percent)
    judging.devices_now = [HOST, GPU]
    judging.kept = LoadOptions(n_ctx=131_072)
    view.show_file(PATH)
    judging.answer()
    view.resize(600 * percent // 100, 660 * percent // 100)
    for field in (view.wish.context, view.wish.layers):
        text = field.text() or field.placeholderText()
        assert field.fontMetrics().horizontalAdvance(text) < field.width() - theme.px(18)
    for button in (view.use_button, view.load_button):
        assert button.width() >= button.sizeHint().width()


def test_everything_has_room_at_the_largest_zoom(
    view: FitView, judging: JudgingDesk, theme: Theme
) -> None:
    """No wider than the third of 900 px: what stands beside something else goes below it."""
    theme.set_zoom(300)
    judging.loader.path = PATH
    judging.devices_now = [HOST, GPU]
    judging.kept = LoadOptions(n_ctx=131_072)
    judging.loader.state = EngineStateChanged("ready", "Made up", loaded())
    view.show_loaded()
    judging.answer()
    view.resize(900, 600)
    QApplication.processEvents()
    assert view.width() == 900
    body = view._area.widget()
    assert body.width() <= view._area.viewport().width()
    assert view.measured.isVisible()


def test_tab_goes_as_the_eye_does(view: FitView, judging: JudgingDesk) -> None:
    judging.devices_now = [HOST, GPU]
    judging.kept = LoadOptions(n_ctx=131_072)
    for _ in range(2):  # suggestions are built anew
        view.show_file(PATH)
        judging.answer()
        judging.kept = LoadOptions(n_ctx=120_000)
    view.wish.layers_slider.setValue(3)
    judging.answer()
    QApplication.processEvents()
    seen, each = [], view.wish.context_slider
    for _ in range(40):
        if each.focusPolicy() & Qt.FocusPolicy.TabFocus and each.isVisible():
            seen.append(each.objectName())
            interface = QAccessible.queryAccessibleInterface(each)
            assert interface.text(QAccessible.Text.Name), each
        each = each.nextInFocusChain()
        if each is view.wish.context_slider:
            break
    named = [name for name in seen if name.startswith("fit_")]
    assert named == [
        *("fit_context_slider", "fit_context", "fit_cache", "fit_layers_slider", "fit_layers"),
        *(f"fit_suggestion_{number}" for number in range(len(view.fit.suggestions))),  # type: ignore[union-attr]
        *("fit_use_button", "fit_load_button"),
    ]
