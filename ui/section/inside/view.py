"""What is looked at inside: a token, what the network made of it, and the chosen layer and head.

All cards of the panel stand on one `InsideView`. A token *k* that is chosen in a reply is about the
place before it: the token that was read there, and whose vector became the vote for *k*. What must
hold: place, arrays and sentence always belong together, so they change at once, when the first
answer is here or after `PATIENCE_MS`; layer and head stay while one goes from token to token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from PySide6.QtCore import QObject, Signal

from app.chat.events import EngineStateChanged, ReplyingChanged
from app.chat.inspection.inside import ReadText, Seen
from app.engine.protocol.messages import TokenTrace
from app.insight.inside.votes import Votes, votes
from app.insight.trace.tokens_shown import visible
from ui.section.looking import Looking
from ui.widgets.kit import rest_timer

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk

PATIENCE_MS: Final = 300
"""So long what was looked at before stays on screen."""

CHOOSE: Final = "Click a word in the chat, or a token in the table, to follow it through the model."
FIRST: Final = "Nothing comes before this token, so the model never had to guess it."
CANCELLED: Final = "Cancelled."

IDLE_MS: Final = 500
"""So long the panel is open, and no reply is written, before the graph is learned."""

N_VOTES: Final = 10

FIRST_WANTED: Final = ("embedding", "attn_out", "ffn_out", "residual", "logits", "lens")


class TextSoFar:
    """The text as far as it may be seen: nothing behind the token that looks (the causal mask)."""

    def __init__(self, text: ReadText, place: int, first: int) -> None:
        self._text, self._first, self._end = text, first, place + 1

    def __len__(self) -> int:
        return self._end - self._first

    def pieces(self, first: int, end: int) -> list[bytes]:
        return self._text.pieces(first + self._first, min(end + self._first, self._end))


class InsideView(QObject):
    """`seen_changed`: another place or text, or more of it is known (also: nothing is).
    `layer_changed`, `head_changed`: another one is chosen, or none. `progress_changed`: how far an
    answer is.

    `text`: all tokens of prompt and reply, with their pieces. `place`: of the token that was read;
    its vote is for the token at `place + 1`. `seen`: the arrays, once they are here. `sentence`:
    why there are none. `progress`: (done, total) tokens before it, while they are read. `lacks`:
    what can't be seen of any token of the loaded weights, with the reasons.
    """

    seen_changed = Signal()
    layer_changed = Signal()
    head_changed = Signal()
    progress_changed = Signal()

    def __init__(
        self, looking: Looking, desk: Desk, bridge: Bridge, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._looking = looking
        self._desk = desk
        self._is_awake = False
        self._wants = list(FIRST_WANTED)
        self._key: tuple[object, ...] = ()
        self._votes: Votes | None = None
        self._votes_of: object = None
        self._own: tuple[str, int] | None = None
        self._next: tuple[ReadText, int] | None = None
        self.text: ReadText | None = None
        self.place: int | None = None
        self.seen: Seen | None = None
        self.sentence = CHOOSE
        self.progress: tuple[int, int] | None = None
        self.is_waiting = False
        self.layer: int | None = None
        self.head: int | None = None
        self.lacks: Mapping[str, str] = {}
        self._learned: object = None
        self._late = rest_timer(self, self._on_late, PATIENCE_MS)
        self._idle = rest_timer(self, self._learn, IDLE_MS)
        looking.message_changed.connect(self.follow)
        looking.trace_changed.connect(self.follow)
        looking.token_changed.connect(self.follow)
        looking.words_changed.connect(self.seen_changed)
        bridge.on(EngineStateChanged, self._on_engine)
        bridge.on(ReplyingChanged, self._on_replying)

    # --- words ----------------------------------------------------------------------------------

    def piece(self, place: int) -> str:
        """A token of the text, with nothing invisible."""
        return "" if self.text is None else self.text.words(place)

    def word(self, token_id: int) -> str:
        """What any token of the vocabulary stands for."""
        words = self._looking.words
        return f"ID {token_id}" if words is None else visible(words.piece(token_id))

    @property
    def read_word(self) -> str:
        """The token that was read."""
        return "" if self.place is None else self.piece(self.place)

    @property
    def target(self) -> int | None:
        """The ID of the token that came next; None behind the end of the text."""
        return None if self.text is None or self.place is None else self.text.target(self.place)

    @property
    def index(self) -> int | None:
        """Where the token that came next stands in the reply's trace; None of the prompt's."""
        if self.text is None or self.place is None:
            return None
        index = self.text.index_of(self.place + 1)
        return index if index is not None and index < len(self._looking.traces) else None

    @property
    def drawn(self) -> TokenTrace | None:
        """How the token that came next was drawn; None of the prompt's."""
        index = self.index
        return None if index is None else self._looking.traces[index]

    @property
    def n_layer(self) -> int:
        """As far as arrays are here."""
        arrays = {} if self.seen is None else self.seen.arrays
        of_layers = (
            arrays[name] for name in ("residual", "attn_out", "attention") if name in arrays
        )
        return next((len(each) for each in of_layers), 0)

    @property
    def votes(self) -> Votes | None:
        """The best ten of the vote, and the token that came next; made once for all cards. None
        while the scores are not here."""
        logits = None if self.seen is None else self.seen.arrays.get("logits")
        if logits is None:
            return None
        if self._votes is None or self._votes_of is not logits:
            self._votes = votes(np.asarray(logits, np.float32), N_VOTES, self.target)
            self._votes_of = logits
        return self._votes

    # --- what is chosen -------------------------------------------------------------------------

    def choose_layer(self, layer: int | None) -> None:
        if layer != self.layer:
            self.layer = layer
            self.layer_changed.emit()

    def choose_head(self, layer: int | None, head: int | None) -> None:
        """A head, and with it its layer."""
        is_other = head != self.head or layer != self.layer
        self.head = head
        self.choose_layer(layer)
        if is_other:
            self.head_changed.emit()

    def go_to(self, place: int) -> None:
        """Look at the token that was read at a place of the text, of the prompt too."""
        text = self.text
        if text is None or not 0 <= place < len(text):
            return
        index = text.index_of(place + 1)
        if index is not None and index < len(self._looking.traces):
            self._looking.select(index)
        else:
            self._own = (text.message_id, place)
            self._looking.select_aside(_called(text, place + 1))
            self.follow()

    def step(self, by: int) -> None:
        """To the token after (1) or before (−1), through reply and prompt."""
        at = self._next[1] if self._next is not None else self.place
        if at is None:
            self._looking.step(by)
        elif self.text is not None:
            self.go_to(min(max(at + by, 0), len(self.text) - 1))

    @property
    def is_patient(self) -> bool:
        """Whether an answer may still come before anybody would wonder where it is."""
        return self._late.isActive()

    # --- asking ---------------------------------------------------------------------------------

    def set_awake(self, is_awake: bool) -> None:
        """Whether somebody looks. Asleep it asks nothing."""
        was_awake, self._is_awake = self._is_awake, is_awake
        if is_awake and not was_awake:
            self.follow()
            self._learn_soon()

    def want(self, names: Iterable[str]) -> None:
        """A card needs these arrays from now on (`inside_messages.WANTED`)."""
        new = [name for name in names if name not in self._wants]
        self._wants += new
        if new and self._is_awake and (self.seen is not None or self.is_waiting):
            self._key = ()
            self.follow()

    def cancel(self) -> None:
        """No longer wait for what is asked for."""
        if self.is_waiting:
            self._desk.inside.stop()
            self._fail(CANCELLED)

    def again(self) -> None:
        """Ask once more, behind a failure."""
        self._key = ()
        self.follow()

    def follow(self) -> None:
        """Ask about what is chosen now, unless that is known or asked already."""
        if not self._is_awake:
            return
        looking = self._looking
        message, index = looking.message, looking.index
        if index is not None or message is None or (self._own or ("",))[0] != message.id:
            self._own = None
        loaded = self._desk.loader.loaded
        key = (
            None if message is None else (message.id, message.state),
            "" if len(looking.traces) else looking.sentence,
            index,
            self._own,
            id(loaded),
            self._desk.loader.is_loading,
        )
        if key == self._key:
            return
        self._key = key
        self._desk.inside.stop()
        self._next = None
        if message is None or not len(looking.traces):
            self._fail(looking.sentence or CHOOSE)
            return
        refusal = self._desk.inside.refusal(message)
        if refusal:
            self._fail(refusal)
            return
        if index is None and self._own is None:
            self._fail(CHOOSE)
            return
        self.is_waiting = True
        self._late.start()
        self._desk.inside.read(
            message, looking.traces, self._take_text, self._fail, still=lambda: key == self._key
        )

    def _take_text(self, text: ReadText) -> None:
        index, key = self._looking.index, self._key
        if index is not None:
            place = text.place_of(index) - 1
        else:
            place = -1 if self._own is None else self._own[1]
        if not 0 <= place < len(text):
            self._fail(CHOOSE if index is None else FIRST)
            return
        self._next = (text, place)
        self._desk.inside.look(
            text,
            place,
            tuple(self._wants),
            self._take,
            self._fail,
            self._on_progress,
            still=lambda: key == self._key,
        )

    def _take(self, seen: Seen) -> None:
        assert self._next is not None
        self._show(*self._next, seen)
        if seen.is_whole:
            self._settle()

    def _fail(self, sentence: str) -> None:
        """Nothing is there, for this reason. What came before a failure stays."""
        text, place = self._next or (None, None)
        seen = self.seen if text is self.text and place == self.place else None
        self._settle()
        self.sentence = sentence
        self.text, self.place, self.seen = text, place, seen
        self.seen_changed.emit()

    def _show(self, text: ReadText, place: int, seen: Seen | None) -> None:
        self._late.stop()
        self.sentence = ""
        self.text, self.place, self.seen = text, place, seen
        self.seen_changed.emit()

    def _settle(self) -> None:
        self._late.stop()
        self.is_waiting = False
        self.progress = None
        self.progress_changed.emit()

    def _on_late(self) -> None:
        """What was looked at before has stood there for long enough."""
        if self._next is not None:
            self._show(*self._next, None)
        else:
            self.text = self.place = self.seen = None
            self.sentence = ""
            self.seen_changed.emit()
        self.progress_changed.emit()

    def _on_progress(self, done: int, total: int) -> None:
        self.progress = (done, total)
        self.progress_changed.emit()

    # --- what these weights lack ------------------------------------------------------------------

    def _on_replying(self, _event: ReplyingChanged) -> None:
        self._learn_soon()

    def _on_engine(self, _event: EngineStateChanged) -> None:
        self.follow()
        self._learn_soon()

    def _learn_soon(self) -> None:
        """In an idle moment: the token that is decoded for it reads all of the file."""
        loaded = self._desk.loader.loaded
        if self._learned is not loaded and self.lacks:
            self.lacks = {}
            self.seen_changed.emit()
        if self._is_awake and loaded is not None and self._learned is not loaded:
            self._idle.start()

    def _learn(self) -> None:
        loaded = self._desk.loader.loaded
        if not self._is_awake or loaded is None or self._desk.replies.is_generating:
            return

        def take(lacks: Mapping[str, str]) -> None:
            self._learned, self.lacks = loaded, lacks
            self.seen_changed.emit()

        self._desk.inside.learn(take, still=lambda: self._desk.loader.loaded is loaded)


def _called(text: ReadText, place: int) -> str:
    """A token that is none of the reply's."""
    if place >= len(text):
        return "After the last token"
    return f"{text.words(place)} · token {place + 1:,} of the prompt"
