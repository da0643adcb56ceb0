"""What a step asks to be tried, by the names that texts use, and what tells that it was done.

A switch that is on already counts as done. What the program does by itself (a reply that grows, a
token that follows from another message) is nobody's act.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from PySide6.QtCore import QObject, Signal, SignalInstance
from PySide6.QtWidgets import QAbstractButton, QLineEdit, QSlider, QWidget
from shiboken6 import isValid

from app.chat.documents.text_document import PLACE
from app.chat.events import AnswersBegan, MessageChanged, PathChanged, SettingsChanged, TokenHeld
from app.chat.replies.again import AGAIN
from app.chat.replies.cut_versions import cuts_of
from app.insight.trace.message_tokens import first_chosen
from models.records import Message, MessageState, Role
from ui.section.looking import Looking

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk

ACTS: Final[dict[str, str]] = {
    "token_chosen": "Looking.token_changed, to another token of the same reply or its prompt",
    "prompt_token_chosen": "PromptText.chosen of prompt_text, not −1",
    "merges_replayed": "QSlider.valueChanged of merge_slider",
    "sum_asked": "inside_nearest_example clicked, or a text in inside_nearest_b or _c",
    "words_swapped": "WordSwap.answered",
    "sink_hidden": "Switch.toggled of inside_attention_sink, on",
    "head_chosen": "InsideView.head_changed, to a head",
    "layer_chosen": "InsideView.layer_changed, to a layer",
    "part_tested": "WhoCard.tested",
    "temperature_moved": "Slider.valueChanged of live_slider_temperature in live_card",
    "token_held": "TokenHeld, of the chat that is open",
    "cache_measured": "StepCard.measured",
    "what_if_asked": "WhatIfCard.answered",
    "several_begun": "AnswersBegan, of the chat that is open",
    "text_rewritten": "PathChanged: another version of the continuation grows in the open text",
    "flash_compared": "MachineCard.measured",
    "block_opened": "MachineDrawing.opened of inside_machine_drawing",
    "reply_rerun": "MessageChanged: a reply of the open chat is compared with the one it repeats",
    "token_view_on": "SettingsChanged with token_view, which is then on",
}

Widget = TypeVar("Widget", bound=QObject)


class Acts(QObject):
    """Recognises one act at a time. `done`: its name.

    acts.hear("layer_chosen")   once its panel is built; "": none
    """

    done = Signal(str)

    def __init__(self, window: QWidget, looking: Looking, desk: Desk, bridge: Bridge) -> None:
        super().__init__(window)
        self._window = window
        self._looking = looking
        self._desk = desk
        self._act = ""
        self._heard: list[tuple[QObject, SignalInstance, Callable[..., object]]] = []
        self._token: tuple[object, ...] = ()
        self._way: dict[str, Callable[[], None]] = {
            "token_chosen": self._hear_token,
            "prompt_token_chosen": self._hear_prompt_token,
            "merges_replayed": lambda: self._hear_name("merge_slider", QSlider, "valueChanged"),
            "sum_asked": self._hear_sum,
            "words_swapped": self._hear_swap,
            "sink_hidden": self._hear_sink,
            "head_chosen": self._hear_head,
            "layer_chosen": self._hear_layer,
            "part_tested": self._hear_test,
            "temperature_moved": self._hear_temperature,
            "cache_measured": self._hear_measure,
            "what_if_asked": self._hear_what_if,
            "flash_compared": self._hear_flash,
            "block_opened": self._hear_block,
            "token_view_on": self._on_settings,
        }
        bridge.on(TokenHeld, self._on_held)
        bridge.on(AnswersBegan, self._on_answers)
        bridge.on(PathChanged, self._on_path)
        bridge.on(MessageChanged, self._on_changed)
        bridge.on(SettingsChanged, self._on_settings)

    def hear(self, act: str) -> None:
        for owner, signal, slot in self._heard:
            if isValid(owner):
                signal.disconnect(slot)
        self._heard.clear()
        self._act = act
        if act in self._way:
            self._way[act]()

    def _tell(self, act: str) -> None:
        if act == self._act:
            self.done.emit(act)

    # --- widgets --------------------------------------------------------------------------------

    def _on(self, owner: QObject, name: str, slot: Callable[..., object]) -> None:
        """`name`: of its signal."""
        signal: SignalInstance = getattr(owner, name)
        signal.connect(slot)
        self._heard.append((owner, signal, slot))

    def _find(self, kind: type[Widget], name: str = "") -> Widget | None:
        return self._window.findChild(kind, name) if name else self._window.findChild(kind)

    def _done(self, *_told: object) -> None:
        self._tell(self._act)

    def _hear_name(self, widget: str, kind: type[QObject], signal: str) -> None:
        found = self._find(kind, widget)
        if found is not None:
            self._on(found, signal, self._done)

    def _hear_kind(self, kind: type[QObject], signal: str) -> None:
        found = self._find(kind)
        if found is not None:
            self._on(found, signal, self._done)

    def _hear_prompt_token(self) -> None:
        from ui.section.prompt.text import PromptText

        text = self._find(PromptText, "prompt_text")
        if text is not None:
            self._on(text, "chosen", lambda token: self._done() if token >= 0 else None)

    def _hear_sum(self) -> None:
        self._hear_name("inside_nearest_example", QAbstractButton, "clicked")
        for letter in "bc":
            field = self._find(QLineEdit, f"inside_nearest_{letter}")
            if field is not None:
                self._on(field, "textEdited", lambda text: self._done() if text else None)

    def _hear_swap(self) -> None:
        from ui.section.inside.vectors.word_swap import WordSwap

        self._hear_kind(WordSwap, "answered")

    def _hear_sink(self) -> None:
        switch = self._find(QAbstractButton, "inside_attention_sink")
        if switch is not None:
            self._on(switch, "toggled", lambda is_on: self._done() if is_on else None)
            if switch.isChecked():
                self._done()

    def _hear_head(self) -> None:
        from ui.section.inside.panel import InsidePanel

        panel = self._find(InsidePanel)
        if panel is not None:
            view = panel.view
            self._on(view, "head_changed", lambda: self._done() if view.head is not None else None)

    def _hear_layer(self) -> None:
        from ui.section.inside.panel import InsidePanel

        panel = self._find(InsidePanel)
        if panel is not None:
            view = panel.view
            self._on(
                view, "layer_changed", lambda: self._done() if view.layer is not None else None
            )

    def _hear_test(self) -> None:
        from ui.section.inside.layers.who_card import WhoCard

        self._hear_kind(WhoCard, "tested")

    def _hear_temperature(self) -> None:
        from ui.section.sampling.live_card import LiveCard

        card = self._find(LiveCard)
        if card is not None:
            self._on(card.values.sliders["temperature"], "valueChanged", self._done)

    def _hear_measure(self) -> None:
        from ui.section.cache.cards import StepCard

        self._hear_kind(StepCard, "measured")

    def _hear_what_if(self) -> None:
        from ui.section.sampling.what_if_card import WhatIfCard

        self._hear_kind(WhatIfCard, "answered")

    def _hear_flash(self) -> None:
        from ui.section.inside.machine.card import MachineCard

        self._hear_kind(MachineCard, "measured")

    def _hear_block(self) -> None:
        from ui.section.inside.machine.drawing import MachineDrawing

        self._hear_kind(MachineDrawing, "opened")

    # --- the token that is looked at ------------------------------------------------------------

    def _hear_token(self) -> None:
        self._token = self._now()
        self._on(self._looking, "token_changed", self._on_token)

    def _now(self) -> tuple[object, ...]:
        looking = self._looking
        message_id = None if looking.message is None else looking.message.id
        return message_id, looking.index, looking.aside

    def _on_token(self) -> None:
        before, now = self._token, self._now()
        self._token = now
        message, index = self._looking.message, self._looking.index
        is_same_text = message is not None and before[0] == now[0]
        has_any = index is not None or bool(self._looking.aside)
        # Another version begins at the token in which it differs: nobody has chosen that.
        is_given = before[1:] == (None, "") and message is not None and index in _parts(message)
        if is_same_text and has_any and now != before and not is_given:
            self._tell("token_chosen")

    # --- what the desk tells --------------------------------------------------------------------

    def _is_open(self, conversation_id: str) -> bool:
        return conversation_id == self._desk.shelf.open.id

    def _on_held(self, event: TokenHeld) -> None:
        if self._is_open(event.conversation_id):
            self._tell("token_held")

    def _on_answers(self, event: AnswersBegan) -> None:
        if self._is_open(event.conversation_id):
            self._tell("several_begun")

    def _on_path(self, event: PathChanged) -> None:
        """One that is only flipped to has been written before."""
        last = event.messages[-1] if event.messages else None
        is_new = last is not None and last.state is MessageState.STREAMING
        if last is None or not is_new or not self._is_open(event.conversation_id):
            return
        if last.role is Role.ASSISTANT and last.sibling_index > 0 and PLACE in last.settings:
            self._tell("text_rewritten")

    def _on_changed(self, event: MessageChanged) -> None:
        is_compared = isinstance(event.message.settings.get(AGAIN), dict)
        if is_compared and self._is_open(event.message.conversation_id):
            self._tell("reply_rerun")

    def _on_settings(self, event: SettingsChanged | None = None) -> None:
        """Also once at the beginning."""
        is_about = event is None or "token_view" in event.names
        if is_about and self._desk.settings.now.token_view:
            self._tell("token_view_on")


def _parts(message: Message) -> tuple[int | None, ...]:
    """Where a version goes another way than another."""
    cut = cuts_of(message.settings)
    return (first_chosen(message), None if cut is None else cut.index)
