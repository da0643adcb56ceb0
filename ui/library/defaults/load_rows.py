"""The controls of how single weights are loaded, beyond what the app has settings for.

Names are those of `app.chat.weights.weights_defaults`: `load.` and an option of the engine.
"""

from __future__ import annotations

from typing import Any

from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QWidget

from ui.look.theme import Theme
from ui.settings.fields import ChoiceField, Field, ListField, NumberField, SwitchField

MB = 1_000_000
NO_DEVICES = "none"
LoadRow = tuple[str, str, str, Field]
"""Name, label, what it does, control."""


class MemoryField(NumberField):
    """Bytes, written in MB."""

    def show_value(self, value: object) -> None:
        super().show_value(value // MB if isinstance(value, int) else value)

    def _tell(self) -> None:
        """What is typed is MB; what is told are bytes."""
        self._timer.stop()
        if self.text() != self._told:
            self._told = self.text()
            value = self.value()
            self.changed_by_user.emit(value * MB if isinstance(value, int) else value)


class LineField(NumberField):
    """A short list in one line, with commas between; empty stands for none set."""

    def __init__(self, placeholder: str, parent: QWidget | None = None) -> None:
        super().__init__(is_whole=False, automatic=None, placeholder=placeholder, parent=parent)

    def show_value(self, value: object) -> None:
        text = self.as_text(value)
        if self._timer.isActive() or (self.hasFocus() and self._parsed(self.text()) == value):
            return
        self._told = text
        if self.text() != text:
            self.setText(text)

    def as_text(self, value: Any) -> str:
        raise NotImplementedError

    def keyPressEvent(self, event: QKeyEvent) -> None:
        QLineEdit.keyPressEvent(self, event)  # nothing to step here


class DevicesField(LineField):
    """Names of devices; `none`: the processor alone."""

    def as_text(self, value: Any) -> str:
        if value is None:
            return ""
        return ", ".join(value) or NO_DEVICES

    def _parsed(self, text: str) -> object:
        names = [name for part in text.split(",") if (name := part.strip())]
        if not names:
            return None
        return [] if [name.lower() for name in names] == [NO_DEVICES] else names


class SharesField(LineField):
    """Numbers, one for each device."""

    def as_text(self, value: Any) -> str:
        return "" if value is None else ", ".join(f"{share:g}" for share in value)

    def _parsed(self, text: str) -> object:
        parts = [part.strip() for part in text.replace(";", ",").split(",") if part.strip()]
        if not parts:
            return None
        try:
            return [float(part) for part in parts]
        except ValueError:
            return parts


def load_rows(theme: Theme, parent: QWidget) -> list[list[LoadRow]]:
    """In cards. What an option of 0 or nothing means is said by its placeholder."""
    return [
        _batches(theme, parent),
        _devices(theme, parent),
        _positions(theme, parent),
    ]


def _batches(theme: Theme, parent: QWidget) -> list[LoadRow]:
    def whole(placeholder: str = "Automatic", step: int = 1) -> NumberField:
        return NumberField(is_whole=True, automatic=None, placeholder=placeholder, step=step)

    parked = MemoryField(is_whole=True, automatic=None, placeholder="Automatic", step=64)
    return [
        ("load.n_ubatch", "Prefill batch", "Prompt tokens processed at once.", whole(step=64)),
        (
            "load.n_slots",
            "Replies at once",
            ("Number of replies that share the context window."),
            whole(),
        ),
        (
            "load.parked_bytes",
            "Memory for parked chats",
            "MB for the cache of chats that aren't on screen. 0: keep nothing.",
            parked,
        ),
        (
            "load.governor",
            "Adjust threads",
            "Use fewer threads while other programs are busy.",
            SwitchField(theme, parent),
        ),
        (
            "load.use_mmap",
            "Memory-map the file",
            "Reads parts of the file as needed. Off: reads it whole.",
            SwitchField(theme, parent),
        ),
        (
            "load.use_mlock",
            "Keep in memory",
            "Prevents the system from swapping out the model.",
            SwitchField(theme, parent),
        ),
    ]


def _devices(theme: Theme, parent: QWidget) -> list[LoadRow]:
    modes = [("layer", "Layers"), ("row", "Rows"), ("none", "One")]
    return [
        (
            "load.devices",
            "Devices",
            f"In order, separated by commas. “{NO_DEVICES}”: CPU only.",
            DevicesField("All", parent),
        ),
        (
            "load.split_mode",
            "Split over devices",
            "By layer, by rows of each tensor, or on one device.",
            ChoiceField(theme, modes, parent),
        ),
        (
            "load.tensor_split",
            "Shares",
            "Share of each device, such as 3, 1.",
            SharesField("By free memory", parent),
        ),
        (
            "load.main_device",
            "Main device",
            "Device number, for one device or rows.",
            NumberField(is_whole=True, automatic=0, placeholder="The first"),
        ),
        (
            "load.cpu_moe_layers",
            "Experts in main memory",
            "In the first n layers. −1: all.",
            NumberField(is_whole=True, automatic=0, placeholder="None"),
        ),
    ]


def _positions(theme: Theme, parent: QWidget) -> list[LoadRow]:
    kinds = [
        ("file", "As in the file"),
        ("none", "None"),
        ("linear", "Linear"),
        ("yarn", "YaRN"),
        ("longrope", "LongRoPE"),
    ]

    def number(automatic: object = 0.0, placeholder: str = "From the file") -> NumberField:
        return NumberField(is_whole=False, automatic=automatic, placeholder=placeholder, step=0.1)

    def factor() -> NumberField:
        return number(None, "Default")

    return [
        (
            "load.rope.kind",
            "RoPE scaling",
            "How positions beyond the trained context window are encoded.",
            ListField(theme, kinds, parent),
        ),
        ("load.rope.freq_base", "Frequency base", "", number()),
        (
            "load.rope.freq_scale",
            "Frequency scale",
            "0.5 doubles the context window (linear).",
            number(),
        ),
        (
            "load.rope.yarn_orig_ctx",
            "YaRN: trained context",
            "Context length the model was trained with.",
            NumberField(is_whole=True, automatic=0, placeholder="From the file", step=1024),
        ),
        ("load.rope.yarn_ext_factor", "YaRN: extrapolation", "", factor()),
        ("load.rope.yarn_attn_factor", "YaRN: attention factor", "", factor()),
        ("load.rope.yarn_beta_fast", "YaRN: fast beta", "", factor()),
        ("load.rope.yarn_beta_slow", "YaRN: slow beta", "", factor()),
    ]
