"""*Prompt*: what the engine was really given for a reply, token by token, and what it would be
given next.

The tone behind a token says where it comes from; on request how surprising it was, or what changed
since the turn before. Everything is asked of the desk when the panel is on screen, one question at
a time, and an answer that comes too late is dropped.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from PySide6.QtGui import QColor, QGuiApplication, QImage
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import (
    ContextCounted,
    ConversationOpened,
    EngineStateChanged,
    MessageAdded,
    MessageChanged,
    PathChanged,
)
from app.chat.inspection.prompt_reading import PromptOf
from app.chat.replies.adapters import adapters_of
from app.chat.surroundings import ALWAYS
from app.engine.protocol.adapter_messages import Adapters
from app.engine.protocol.messages import PromptScores
from app.insight.prompt.media import block_words
from app.insight.prompt.parts import (
    PromptTokens,
    Surprise,
    difference,
)
from models.records import Message, MessageCounts, Role
from ui.chat.document_words import parts_text
from ui.look.theme import Theme
from ui.look.tints import N_LEVELS, tint_colors
from ui.section.looking import GROWN_MS
from ui.section.panel import Panel, Tools
from ui.section.prompt.card import PromptCard, small_words
from ui.section.prompt.strips import ChangedStrip, WordStrip
from ui.section.prompt.text import Block, Look, PromptText
from ui.section.prompt.words import (
    NO_NAMES,
    REPLAYED,
    difference_words,
    mean_words,
    passage_words,
    reading_words,
    token_words,
)
from ui.section.term_label import PartsTermLabel
from ui.tokens.origins import origin_tone
from ui.tokens.token_bar import Legend
from ui.widgets.elided import PartsLabel
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import push_button, rest_timer

if TYPE_CHECKING:
    from ui.pictures.thumbnails import Thumbnails

OF_REPLY: Final = "Prompt of the reply"
OF_NEXT: Final = "Prompt of the next message"
NO_SCORES: Final = "The engine returned no scores for this prompt."
ASKING: Final = "Asking the engine…"
NO_TURN_BEFORE: Final = "There is no earlier reply to compare with."
NO_TOKENS_BEFORE: Final = "The tokens of the previous prompt are unknown: {why}"
NO_WORDS: Final = "The vocabulary is still loading. Try again in a moment."
GONE: Final = "It was here in the previous turn."
POINT_AT_A_TOKEN: Final = "Hover over a token or use the arrow keys."
MOST_BITS: Final = 10.0
_CHIP_PX: Final = 28


class PromptPanel(Panel):
    title = "Prompt"
    follows_token = False

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, parent)
        self.setObjectName("panel_prompt")
        self._is_waiting = False
        self._is_stale = False
        self._shown_key: tuple[object, ...] = ()
        self._of = PromptOf(None, "")
        self._surprise: Surprise | None = None
        self._changed: ChangedStrip | None = None
        self._way = 0
        self._thumbnails: Thumbnails | None = None
        self._numbers: dict[str, int] = {}
        self._passages: dict[int, str] = {}
        self._scores_timer = rest_timer(self, self._say_scores, GROWN_MS)
        self._make_widgets()
        self._build()
        self._connect()
        self._theme.changed.connect(self._refresh_look)
        self._theme.space(self._column, 8)
        self._theme.space(self._lines, 2)
        for row in (self._top, self._ways):
            self._theme.space(row, 6)
        self._theme.line(self.token, Theme.font_mono, 12)
        for line in (self.whence, self.bytes):
            self._theme.line(line, Theme.font_small)
        self._theme.font(self.tint, Theme.font_small)
        self._theme.at_least(self.text, height=96)
        for button in (
            self.reply_button,
            self.next_button,
            self.surprise_button,
            self.difference_button,
        ):
            self._theme.font(button, Theme.font_small)
            self._theme.pill(button, _CHIP_PX)
        self._refresh_look()
        self._show(self._of)

    # --- its widgets ----------------------------------------------------------------------------

    def _make_widgets(self) -> None:
        theme = self._theme
        self.reply_button = self._button("This reply", "prompt_of_reply", OF_REPLY)
        self.next_button = self._button("Next", "prompt_of_next", OF_NEXT)
        self._which = QButtonGroup(self)
        for button in (self.reply_button, self.next_button):
            self._which.addButton(button)
        self.reply_button.setChecked(True)
        self.copy_text_button = IconButton(theme, "copy", "Copy the prompt’s text", parent=self)
        self.copy_text_button.setObjectName("copy_prompt_text")
        self.copy_ids_button = IconButton(theme, "hash", "Copy the token IDs", parent=self)
        self.copy_ids_button.setObjectName("copy_prompt_ids")
        self.card = PromptCard(theme, self)
        self.surprise_button = self._button(
            "Surprise",
            "prompt_surprise",
            "Surprise of each token (processes the prompt once more)",
        )
        self.difference_button = self._button(
            "Difference",
            "prompt_difference",
            "Show what changed since the previous prompt and its reply",
        )
        self.tint = Legend(theme, self)
        self.tint.setObjectName("prompt_tint")
        self.tint.show_ends("0 bits", f"{MOST_BITS:.0f} bit and more", REPLAYED)
        self.note = small_words("prompt_note", self)
        self.paper = QFrame(self)
        self.paper.setProperty("plane", "card")
        self.text = PromptText(theme, self.paper)
        self.text.setObjectName("prompt_text")
        self.text.setAccessibleName("The prompt, token by token")
        self.whence = self._line("prompt_whence")
        self.token = self._line("prompt_token")
        self.bytes = self._line("prompt_bytes")

    def _button(self, words: str, name: str, hint: str) -> QPushButton:
        button = push_button(words, self, name, kind="chip", spoken=hint, hint=hint)
        button.setCheckable(True)
        return button

    def _line(self, name: str) -> PartsLabel:
        label = PartsTermLabel("", self)
        label.setObjectName(name)
        label.setProperty("kind", "small")
        return label

    def _build(self) -> None:
        self._top = QHBoxLayout()
        self._top.addWidget(self.reply_button)
        self._top.addWidget(self.next_button)
        self._top.addStretch(1)
        self._top.addWidget(self.copy_text_button)
        self._top.addWidget(self.copy_ids_button)
        self._ways = QHBoxLayout()
        self._ways.addWidget(self.surprise_button)
        self._ways.addWidget(self.difference_button)
        self._ways.addStretch(1)
        paper = QVBoxLayout(self.paper)
        paper.setContentsMargins(0, 0, 0, 0)
        paper.addWidget(self.text)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(self._top)
        self._column.addWidget(self.card)
        self._column.addLayout(self._ways)
        self._column.addWidget(self.tint)
        self._column.addWidget(self.note)
        self._column.addWidget(self.paper, 1)
        self._lines = QVBoxLayout()
        for line in (self.whence, self.token, self.bytes):
            self._lines.addWidget(line)
        self._column.addLayout(self._lines)
        self._column.addStretch()  # takes the room where there is no text

    def _connect(self) -> None:
        self._which.buttonClicked.connect(lambda _button: self._on_which())
        self.copy_text_button.clicked.connect(self.copy_text)
        self.copy_ids_button.clicked.connect(self.copy_ids)
        self.surprise_button.clicked.connect(self._on_surprise)
        self.difference_button.clicked.connect(self._on_difference)
        self.text.hovered.connect(lambda _token: self._say_token())
        self.text.chosen.connect(lambda _token: self._say_token())
        self.card.bar.part_chosen.connect(self._on_part)
        bridge = self._tools.bridge
        bridge.on((ContextCounted, PathChanged, ConversationOpened, MessageAdded), self._on_news)
        bridge.on(MessageChanged, self._on_changed)
        bridge.on(EngineStateChanged, self._on_engine)

    # --- following ------------------------------------------------------------------------------

    @property
    def is_next(self) -> bool:
        """Whether what would be sent next is shown, and not the reply that is looked at."""
        return self.next_button.isChecked()

    def _refresh_message(self) -> None:
        self._read_if_other()

    def _refresh_trace(self) -> None:
        self._read_if_other()

    def _on_which(self) -> None:
        self._shown_key = ()
        self._read_if_other()

    def _on_news(self) -> None:
        """Something was sent or typed, or another path is shown."""
        if self._is_active and self.is_next:
            self._read()

    def _on_changed(self, event: Any) -> None:
        message = self._looking.message
        if self._is_active and message is not None and event.message.id == message.id:
            self._read_if_other()

    def _on_engine(self) -> None:
        """Weights that come or go change what can be shown."""
        if self._is_active:
            self._read_if_other()

    def _key(self) -> tuple[object, ...]:
        """What the answer depends on."""
        message, loaded = self._looking.message, self._tools.desk.loader.state.loaded
        weights = (loaded.fast_hash, loaded.n_ctx) if loaded is not None else None
        if self.is_next:
            return ("next", weights)
        if message is None:
            return ("reply", weights)
        asked = "sampling" in message.settings
        return ("reply", message.id, message.state, asked, weights)

    def _read_if_other(self) -> None:
        if self._key() != self._shown_key:
            self._read()

    def _read(self) -> None:
        """Ask for the prompt, one question at a time."""
        if self._is_waiting:
            self._is_stale = True
            return
        self._shown_key = self._key()
        self._is_waiting, self._is_stale = True, False
        message, desk = self._looking.message, self._tools.desk
        if self.is_next:
            desk.prompts.read_next(self._take, still=ALWAYS)  # asked again where it is stale
        elif message is None:
            self._take(PromptOf(None, self._looking.sentence))
        else:
            desk.prompts.read(message.id, self._take, still=ALWAYS)

    def _take(self, of: PromptOf) -> None:
        self._is_waiting = False
        if self._is_stale:
            self._read()
        elif not self._is_same(of):
            self._show(of)

    def _is_same(self, of: PromptOf) -> bool:
        """Whether all of it is on screen already: where somebody looks is kept then."""
        one, other = self._of.tokens, of.tokens
        return (
            one is not None
            and other is not None
            and (self._of.message_id, self._of.sentence) == (of.message_id, of.sentence)
            and (one.ids, one.parts) == (other.ids, other.parts)
        )

    # --- showing --------------------------------------------------------------------------------

    def _show(self, of: PromptOf) -> None:
        self._of = of
        self._leave_ways()
        tokens = of.tokens
        self._numbers = {m.id: n for n, m in enumerate(self._tools.desk.shelf.path, 1)}
        heading = OF_NEXT if self.is_next else OF_REPLY
        self._passages = passage_words(tokens.parts, self._sent()) if tokens is not None else {}
        self.card.show_prompt(heading, of, self._figures(), self._numbers, self._passages)
        has_text = tokens is not None or bool(of.text)
        self.copy_text_button.setEnabled(has_text)
        self.copy_ids_button.setEnabled(tokens is not None)
        self.surprise_button.setEnabled(tokens is not None)
        self.difference_button.setEnabled(tokens is not None)
        self.paper.setVisible(has_text)
        self._column.setStretch(self._column.count() - 1, 0 if has_text else 1)
        self._show_tokens()
        self._say_token()

    def _show_tokens(self) -> None:
        tokens = self._of.tokens
        if tokens is None:
            self.text.show_tokens(WordStrip(self._of.text), Look(has_borders=False))
        else:
            self.text.show_tokens(tokens, self._look())

    def _figures(self) -> MessageCounts | None:
        message = self._looking.message
        is_of_it = message is not None and self._of.message_id == message.id
        return message.counts if message is not None and is_of_it and self._of.tokens else None

    def _look(self) -> Look:
        """What tones mean now."""
        tokens, colors = self._of.tokens, self._theme.colors
        if tokens is None:
            return Look(has_borders=False)
        if self._changed is not None:
            return self._changed_look(tokens, self._changed)
        if self._surprise is not None:
            surprise, tints = self._surprise, tint_colors(colors)

            def tint(place: int) -> QColor | None:
                bits = surprise.bits(place)
                if bits is None:
                    return None
                return tints[round(min(bits / MOST_BITS, 1.0) * (N_LEVELS - 1))]

            return Look(tint, tokens.is_control)
        tones = {part.origin: origin_tone(colors, part.origin) for part in tokens.parts}
        return Look(
            lambda place: tones[tokens.part(place).origin],
            tokens.is_control,
            blocks=self._blocks(tokens),
            picture=self._picture,
        )

    def _blocks(self, tokens: PromptTokens) -> tuple[Block, ...]:
        """The cells of pictures, which are looked at in one or several pieces."""
        names = self._names
        return tuple(
            Block(
                span.start,
                span.start + span.count,
                span.media_id if span.kind == "image" else "",
                block_words(span, names),
            )
            for span in tokens.media
        )

    @property
    def _names(self) -> dict[str, str]:
        """Of pictures and sounds, by their ids."""
        desk = self._tools.desk
        sent = (each for message in desk.shelf.path for each in message.attachments)
        return {each.id: each.name for each in (*sent, *desk.attachments.of_open)}

    def _picture(self, media_id: str, width: float, height: float) -> QImage | None:
        if self._thumbnails is None:
            from ui.pictures.thumbnails import Thumbnails

            self._thumbnails = Thumbnails(self._tools.desk.media.draw, self)
            self._thumbnails.arrived.connect(self.text.viewport().update)
        return self._thumbnails.find(media_id, width, height)

    def _changed_look(self, tokens: PromptTokens, changed: ChangedStrip) -> Look:
        same, new = QColor(self._theme.colors.hover), QColor(self._theme.colors.accent_tone)

        def tone(number: int) -> QColor | None:
            if changed.is_gone(number):
                return None
            return same if number < changed.common else new

        def is_control(number: int) -> bool:
            place = changed.place(number)
            return place is not None and tokens.is_control(place)

        return Look(tone, is_control, changed.is_gone)

    def _sent(self) -> dict[str | None, list[str]]:
        """The parts of documents that went in with each message, and would with the next."""
        desk = self._tools.desk
        found: dict[str | None, list[str]] = {
            message.id: parts_text(message.attachments)
            for message in desk.shelf.path
            if message.attachments
        }
        going = (*desk.attachments.of_open, *desk.draft_parts.of_earlier())
        return found | {None: parts_text(going)}

    def _refresh_look(self) -> None:
        self.text.set_look(self._look())

    # --- one token ------------------------------------------------------------------------------

    def _say_token(self) -> None:
        tokens = self._of.tokens
        number = self.text.pointed
        said = ("", "", "")
        if tokens is not None and number < 0:
            said = (POINT_AT_A_TOKEN, "", "")
        elif tokens is not None:
            place = self._changed.place(number) if self._changed is not None else number
            if place is None:
                said = (GONE, "", "")
            else:
                names = self._names if tokens.media else NO_NAMES
                said = token_words(
                    tokens, place, self._numbers, self._surprise, names, self._passages
                )
        for label, words in zip((self.whence, self.token, self.bytes), said, strict=True):
            label.set_text(words)
            label.setVisible(tokens is not None)
        self.text.setAccessibleDescription(" · ".join(words for words in said if words))

    def _on_part(self, token: int) -> None:
        if self._changed is None:
            self.text.choose(token)
            self.text.scroll_to(token)

    def copy_text(self) -> None:
        QGuiApplication.clipboard().setText(self._of.text)

    def copy_ids(self) -> None:
        """As a list, as other programs read it."""
        if self._of.tokens is not None:
            QGuiApplication.clipboard().setText(str(list(self._of.tokens.ids)))

    # --- surprise -------------------------------------------------------------------------------

    def _leave_ways(self) -> None:
        """Back to where tokens come from."""
        self._tools.desk.scoring.stop()
        self._scores_timer.stop()
        self._way += 1
        self._surprise = self._changed = None
        self.surprise_button.setChecked(False)
        self.difference_button.setChecked(False)
        self._say_note("")

    def _say_note(self, words: str, *, has_tint: bool = False) -> None:
        self.note.setText(words)
        self.note.setVisible(bool(words))
        self.tint.setVisible(has_tint)

    def _on_surprise(self, is_on: bool) -> None:
        was_changed = self._changed is not None
        self._leave_ways()
        tokens = self._of.tokens
        if was_changed:
            self._show_tokens()
        if is_on and tokens is not None:
            self.surprise_button.setChecked(True)
            self._surprise = Surprise(len(tokens))
            self._say_note(reading_words(self._surprise), has_tint=True)
            self._tools.desk.scoring.ask(
                tokens.ids,
                self._on_scores,
                self._on_scored,
                self._on_not_scored,
                self._adapters(),
            )
        self._refresh_look()
        self._say_token()

    def _adapters(self) -> Adapters:
        """Those of the reply that it was given for, or of the one that is still to come."""
        message = self._looking.message
        if message is None or self._of.message_id != message.id:
            return self._tools.desk.levels.resolved().settings.adapters
        return adapters_of(message.settings)

    def _on_scores(self, event: PromptScores) -> None:
        surprise = self._surprise
        if surprise is not None:
            surprise.take(event)
            if not self._scores_timer.isActive():
                self._scores_timer.start()

    def _say_scores(self) -> None:
        if self._surprise is not None:
            self._say_note(reading_words(self._surprise), has_tint=True)
            self._say_token()
            self.text.viewport().update()

    def _on_scored(self) -> None:
        surprise, tokens = self._surprise, self._of.tokens
        if surprise is not None and tokens is not None:
            self._scores_timer.stop()
            means = mean_words(tokens, surprise)
            self._say_note(f"{means}\n{REPLAYED}" if means else NO_SCORES, has_tint=bool(means))
            self._refresh_look()
            self._say_token()

    def _on_not_scored(self, sentence: str) -> None:
        if self._surprise is not None:
            self._leave_ways()
            self._say_note(sentence)
            self._refresh_look()
            self._say_token()

    # --- difference -----------------------------------------------------------------------------

    def _on_difference(self, is_on: bool) -> None:
        was_changed = self._changed is not None
        self._leave_ways()
        if was_changed:
            self._show_tokens()
        self._refresh_look()
        if not is_on or self._of.tokens is None:
            self._say_token()
            return
        before = self._reply_before()
        if before is None:
            self._say_note(NO_TURN_BEFORE)
            return
        self._say_note(ASKING)
        self.difference_button.setChecked(True)
        way = self._way
        self._tools.desk.prompts.read(
            before.id, partial(self._compare, before), still=lambda: way == self._way
        )

    def _reply_before(self) -> Message | None:
        """The last reply above the one that is shown; of what comes next the last of all."""
        path = self._tools.desk.shelf.path
        if not self.is_next:
            ids = [message.id for message in path]
            shown = self._of.message_id
            path = path[: ids.index(shown)] if shown in ids else ()
        replies = (m for m in reversed(path) if m.role is Role.ASSISTANT)
        return next(replies, None)

    def _compare(self, before: Message, of: PromptOf) -> None:
        tokens = self._of.tokens
        assert tokens is not None
        if of.tokens is None:
            self._end_compare(NO_TOKENS_BEFORE.format(why=of.sentence))
            return
        ids = [*of.tokens.ids, *(before.token_ids or ())]
        found = difference(ids, tokens.ids)
        gone = self._pieces(of.tokens, before, found.common)
        if gone is None:
            self._end_compare(NO_WORDS)
            return
        self._changed = ChangedStrip(tokens, gone, found.common)
        self._say_note(difference_words(found, self._figures()))
        self.text.show_tokens(self._changed, self._look())
        self.text.scroll_to(found.common)
        self._say_token()

    def _end_compare(self, sentence: str) -> None:
        self._leave_ways()
        self._say_note(sentence)

    def _pieces(self, prompt: PromptTokens, reply: Message, first: int) -> list[bytes] | None:
        """The pieces behind the first ones, of a prompt and its reply; None: not known yet."""
        found = prompt.pieces(first, len(prompt)) if first < len(prompt) else []
        ids = (reply.token_ids or ())[max(first - len(prompt), 0) :]
        words = self._tools.desk.words.of(reply.weights_hash)
        if ids and words is None:
            return None
        return found + [words.piece(token_id) for token_id in ids] if words else found
