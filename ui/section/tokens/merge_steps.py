"""The merges of a text, one step at a time: the parts as chips, and what the step did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.insight.tokenizer.merges import Part, Replay, Step
from app.insight.trace.tokens_shown import hexadecimal, visible
from ui.look.theme import Theme
from ui.section.card import Card, set_alone, small_label
from ui.section.chips import Chip, ChipView
from ui.section.tokens.vocabulary_model import score_text
from ui.widgets.icon_button import IconButton
from ui.widgets.slider import Slider

MAX_CHIPS: Final = 300
"""So many parts are drawn, around the one that the step made."""
BEFORE: Final = 100

_BUTTONS: Final = (
    ("first", "caret-double-left", "To the beginning (no merges)"),
    ("back", "caret-left", "Previous merge"),
    ("next", "caret-right", "Next merge"),
    ("last", "caret-double-right", "To the end (final tokens)"),
)


class MergeSteps(Card):
    """`show_replay` begins at the end, where the tokens are; the slider has the keys: arrows, Home
    and End. Without steps and without a sentence about them it is not there."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Merges, one by one", parent)
        self.setObjectName("merge_steps")
        self._replay: Replay | None = None
        self.figure.setObjectName("merge_figure")
        self.parts = ChipView(theme, "Parts of the text after this step", self)
        self.parts.setObjectName("merge_parts")
        self.sentence = small_label("", self, name="merge_sentence")
        self.slider = Slider(Qt.Orientation.Horizontal, self)
        self.slider.setObjectName("merge_slider")
        self.slider.setAccessibleName("Step of the merges")
        self.slider.setToolTip("Arrow keys move one step, Home and End go to either end")
        self.caption = small_label("", self, name="merge_caption")
        self._row = QHBoxLayout()
        self.buttons: dict[str, IconButton] = {}
        for name, picture, spoken in _BUTTONS:
            button = self.buttons[name] = IconButton(theme, picture, spoken, parent=self)
            button.setObjectName(f"merge_{name}_button")
            self._row.addWidget(button)
        self._row.addWidget(self.slider, 1)
        self.body.addWidget(self.parts, 1)
        self.body.addWidget(self.sentence)
        self.body.addLayout(self._row)
        self.body.addWidget(self.caption)
        self.slider.valueChanged.connect(self._draw)
        self.buttons["first"].clicked.connect(lambda: self.go_to(0))
        self.buttons["back"].clicked.connect(lambda: self.go_to(self.step - 1))
        self.buttons["next"].clicked.connect(lambda: self.go_to(self.step + 1))
        self.buttons["last"].clicked.connect(lambda: self.go_to(self.slider.maximum()))
        theme.space(self._row, 4)
        theme.at_least(self.parts, height=44)
        theme.at_least(self.slider, height=20)
        self.say("")

    @property
    def step(self) -> int:
        """How many merges are made."""
        return self.slider.value()

    def say(self, sentence: str) -> None:
        """Instead of steps: why there are none."""
        self._replay = None
        self.parts.show_chips(())
        self.figure.set_text("")
        self.caption.setText("")
        self.sentence.setText(sentence)
        self._offer(False)
        self.setVisible(bool(sentence))

    def show_replay(self, replay: Replay) -> None:
        """The text has other merges now; their end is shown, as the chips above are."""
        self._replay = replay
        self.caption.setText(_caption(replay))
        self._offer(True)
        self.show()
        self.slider.blockSignals(True)
        self.slider.setMaximum(len(replay.steps))
        self.slider.setValue(len(replay.steps))
        self.slider.blockSignals(False)
        self._draw()

    def go_to(self, step: int) -> None:
        self.slider.setValue(step)

    def _offer(self, is_offered: bool) -> None:
        for widget in (self.parts, self.slider, self.caption, *self.buttons.values()):
            widget.setVisible(is_offered)
        set_alone(self.body, self.sentence, not is_offered)

    def _draw(self) -> None:
        replay = self._replay
        if replay is None:
            return
        count, n_steps = self.step, len(replay.steps)
        parts = replay.parts_after(count)
        last = replay.steps[count - 1] if count else None
        self.figure.set_text(f"{count:,} of {n_steps:,} steps · {len(parts):,} parts")
        made = range(last.at, last.at + len(last.into)) if last is not None else range(0)
        first = min(max(made.start - BEFORE, 0), max(len(parts) - MAX_CHIPS, 0))
        chips = _chips(parts, made, first)
        self.parts.show_chips(chips)
        at = next((row for row, chip in enumerate(chips) if chip.is_new), None)
        if at is not None:
            self.parts.scrollTo(self.parts.chips.index(at))
        before = replay.parts_after(count - 1) if last is not None else parts
        self.sentence.setText(_sentence(replay, last, before, is_end=count == n_steps))
        for name, is_there in (
            *(("first", count > 0), ("back", count > 0)),
            *(("next", count < n_steps), ("last", count < n_steps)),
        ):
            self.buttons[name].setEnabled(is_there)


def _chips(parts: Sequence[Part], made: range, first: int) -> list[Chip]:
    found = [
        Chip(
            text=visible(part.data),
            below="" if part.token_id is None else str(part.token_id),
            hint=_hint(part),
            is_second=bool(part.word % 2),
            is_new=at in made,
        )
        for at, part in enumerate(parts[first : first + MAX_CHIPS], first)
    ]
    behind = len(parts) - first - len(found)
    if first:
        found.insert(0, Chip("…", f"{first:,} before"))
    if behind > 0:
        found.append(Chip("…", f"{behind:,} more"))
    return found


def _hint(part: Part) -> str:
    if part.is_whole:
        return "Found in the text as a whole, before any merge"
    if part.token_id is None:
        return "Not a token on its own"
    return f"Token {part.token_id}, bytes {hexadecimal(part.data)}"


def _sentence(replay: Replay, step: Step | None, before: Sequence[Part], *, is_end: bool) -> str:
    """What the last step did; at either end what stands there."""
    if step is None:
        if not replay.steps:
            return "Nothing to merge: each part is already a token."
        what = "bytes" if replay.words_from == "rule" else "characters"
        n_words = len({part.word for part in replay.start})
        words = f" in {n_words:,} words, in two tones" if n_words > 1 else ""
        return f"Before any merge: {len(replay.start):,} {what}{words}. Merges stay within a word."
    taken = [visible(part.data) for part in before[step.at : step.at + step.taken]]
    if step.taken == 1:
        spelled = hexadecimal(before[step.at].data)
        said = f"“{taken[0]}” isn't a token: spelled in bytes, {spelled} (byte fallback)"
    else:
        why = _why(step)
        new = step.into[0]
        name = "" if new.token_id is None else f", ID {new.token_id}"
        said = f"{' + '.join(f'“{each}”' for each in taken)} → “{visible(new.data)}” ({why}{name})"
    return f"{said}. These are the final tokens." if is_end else said


def _why(step: Step) -> str:
    if step.rank is not None:
        return f"rank {step.rank:,}"
    return "unknown" if step.score is None else f"score {score_text(step.score)}"


_COMPARED: Final = " Verified: same IDs as llama.cpp."


def _caption(replay: Replay) -> str:
    """How it was had."""
    if replay.words_from == "text":
        return (
            "Replayed from the scores in the file: among neighbours that form a token, the pair "
            "with the best score is joined first." + _COMPARED
        )
    if replay.words_from == "sum":
        return (
            "Unigram: the split of the text with the best total of the scores in the file. Each "
            "step is one of its tokens." + _COMPARED
        )
    rule = replay.rule or "no name"
    if replay.words_from == "rule":
        return (
            "Replayed from the file's list of merges, lowest rank first, within words as split "
            f"by the rule “{rule}”." + _COMPARED
        )
    return (
        f"The word rule “{rule}” isn't supported here, so each token is replayed on its own. The "
        "merges are the same." + _COMPARED
    )
