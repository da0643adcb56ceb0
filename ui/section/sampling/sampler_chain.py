"""The sampling chain as cards in their order, which the user changes by mouse and by keys.

It shows links and says what the user wants them to be; what counts comes back through
`show_links`. Cards are kept as long as their kind of stage is there, so that the keyboard stays
where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app.chat.settings.not_taken import NotTaken
from app.chat.settings.sampler_links import Link, Links, moved, removed, switched, with_stage
from app.engine.protocol.pieces import Pieces
from app.engine.protocol.stages import Stage, Xtc
from app.insight.sampling.stage_evidence import Evidence, StageEvidence
from ui.look.theme import Theme
from ui.section.sampling.bias_editor import Tokenize
from ui.section.sampling.evidence_view import removes
from ui.section.sampling.select_card import SelectCard
from ui.section.sampling.stage_card import StageCard


class SamplerChain(QWidget):
    """`links_changed`: the chain as the user wants it; `removed`: one without a stage, and a
    sentence that says so. `card_moved`: it shall be seen.
    `cards_changed`: there are others, or in another order. `dragged_over`: the height at which a
    card is being dragged."""

    links_changed = Signal(object)
    removed = Signal(object, str)
    seed_changed = Signal(object)
    card_moved = Signal(object)
    cards_changed = Signal()
    dragged_over = Signal(int)

    def __init__(
        self,
        theme: Theme,
        tokenize: Tokenize,
        *,
        is_editable: bool = True,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._tokenize = tokenize
        self._is_editable = is_editable
        self._links: Links = ()
        self.cards: list[StageCard] = []
        self.setObjectName("sampler_chain" if is_editable else "reply_chain")
        self.setAccessibleName(
            "Sampling chain for the next reply" if is_editable else "Sampling chain of this reply"
        )
        self._line = QFrame(self)
        self._line.hide()
        self._target: int | None = None
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        theme.space(self._column, 8)
        theme.sheet(self._line, lambda theme: f"background: {theme.colors.accent};")

    @property
    def links(self) -> Links:
        return self._links

    # --- showing --------------------------------------------------------------------------------

    def show_links(
        self,
        links: Sequence[Link],
        idle: Mapping[int, str],
        n_vocab: int | None = None,
        away: Mapping[int, NotTaken] = MappingProxyType({}),
    ) -> None:
        """`idle`: why the stage at a place has no effect; `away`: what of it is not taken."""
        self._links = tuple(links)
        if [type(link.stage) for link in links] != [type(c.link.stage) for c in self.cards]:
            self._arrange()
        for at, (link, card) in enumerate(zip(links, self.cards, strict=True)):
            card.show_link(link, n_vocab)
            card.show_away(away.get(at))
            card.show_idle("" if at in away and away[at].stage else idle.get(at, ""))

    def _arrange(self) -> None:
        """A card for each link, in their order; those that were there stay."""
        free = list(self.cards)
        self.cards = []
        for link in self._links:
            card = next((each for each in free if type(each.link.stage) is type(link.stage)), None)
            if card is None:
                card = self._new_card(link)
            else:
                free.remove(card)
            self.cards.append(card)
        for card in free:
            self._column.removeWidget(card)
            card.hide()
            card.deleteLater()
        for at, card in enumerate(self.cards):
            if self._column.indexOf(card) != at:
                self._column.removeWidget(card)
                self._column.insertWidget(at, card)
            if card.isHidden():
                card.show()
        self.cards_changed.emit()

    def _new_card(self, link: Link) -> StageCard:
        make = SelectCard if link.selects else StageCard
        card = make(self._theme, link, self._tokenize, is_editable=self._is_editable, parent=self)
        card.changed.connect(partial(self._on_stage, card))
        card.switched.connect(partial(self._on_switched, card))
        card.move_requested.connect(partial(self._on_move, card))
        card.remove_requested.connect(partial(self._on_remove, card))
        card.handle.dragged.connect(partial(self._on_dragged, card))
        card.handle.dropped.connect(partial(self._on_dropped, card))
        if isinstance(card, SelectCard):
            card.seed_changed.connect(self.seed_changed)
        return card

    def show_pieces(self, pieces: Pieces | None) -> None:
        """What IDs stand for in the loaded vocabulary."""
        for card in self.cards:
            if card.bias is not None:
                card.bias.show_pieces(pieces)

    def show_seed(self, seed: int | None, level: str, reply_seed: int | None) -> None:
        last = self.cards[-1] if self.cards else None
        if isinstance(last, SelectCard):
            last.show_seed(seed, level, reply_seed)

    def show_evidence(
        self, told: Evidence | None, words: Pieces | None, seed: int | None = None
    ) -> None:
        """What each stage that is on did to a token; the evidence is of this very chain."""
        on = [card for card in self.cards if card.link.is_on]
        rows = {} if told is None else {row.position: row for row in told.stages}
        for position, card in enumerate(on):
            row = rows.get(position)
            if row is None:
                card.evidence.clear()
            else:
                is_last = position == len(on) - 1
                card.evidence.show_stage(
                    row,
                    card.title.text(),
                    words,
                    decided=_decided(card.link.stage, row),
                    draw=told.draw if told is not None and is_last else None,
                    seed=seed,
                )
        for card in self.cards:
            if not card.link.is_on:
                card.evidence.clear()

    # --- what the user wants --------------------------------------------------------------------

    def _want(self, links: Links) -> None:
        if links != self._links:
            self.links_changed.emit(links)

    def _on_stage(self, card: StageCard, stage: Stage) -> None:
        self._want(with_stage(self._links, self.cards.index(card), stage))

    def _on_switched(self, card: StageCard, is_on: bool) -> None:
        self._want(switched(self._links, self.cards.index(card), is_on=is_on))

    def _on_remove(self, card: StageCard) -> None:
        """Its own card goes, not another one of its kind; the keyboard goes to the next one."""
        at = self.cards.index(card)
        links = removed(self._links, at)
        if links == self._links:
            return
        following = self.cards[at + 1]
        self.cards.append(self.cards.pop(at))
        self.removed.emit(links, f"{card.title.text()} removed.")
        if following in self.cards and (stops := following.stops()):
            stops[0].setFocus(Qt.FocusReason.TabFocusReason)

    def _on_move(self, card: StageCard, by: int) -> None:
        at = self.cards.index(card)
        self._move(card, at + by)

    def _move(self, card: StageCard, to: int) -> None:
        at = self.cards.index(card)
        # The same kinds may change places: then the cards do, with the keyboard in one of them.
        wanted = moved(self._links, at, to)
        if wanted != self._links:
            to = min(max(to, 0), len(self.cards) - 2)
            self.cards.insert(to, self.cards.pop(at))
            for place, each in enumerate(self.cards):
                self._column.removeWidget(each)
                self._column.insertWidget(place, each)
            self.cards_changed.emit()
            self._want(wanted)
            self.card_moved.emit(card)

    # --- dragging -------------------------------------------------------------------------------

    def _on_dragged(self, card: StageCard, at: QPoint) -> None:
        y = self.mapFromGlobal(at).y()
        place = self.cards.index(card)
        movable = self.cards[:-1]
        before = sum(each.geometry().center().y() < y for each in movable)
        self._target = before - (before > place)
        top = (
            movable[before].geometry().top()
            if before < len(movable)
            else movable[-1].geometry().bottom() + self._column.spacing()
        )
        self._line.setGeometry(
            0, top - self._column.spacing() // 2 - 1, self.width(), self._theme.px(2)
        )
        self._line.raise_()
        self._line.show()
        self.dragged_over.emit(y)

    def _on_dropped(self, card: StageCard) -> None:
        self._line.hide()
        target, self._target = self._target, None
        if target is not None:
            self._move(card, target)


def _decided(stage: Stage, row: StageEvidence) -> str:
    """Whether XTC acted, and why."""
    if not isinstance(stage, Xtc) or row.uniform is None:
        return ""
    drew = f"Drew {row.uniform:.4f}"
    if row.uniform > stage.probability:
        return f"{drew}, above its probability of {stage.probability:g}: skipped this time."
    acts = f"{drew}, within its probability of {stage.probability:g}"
    if removes(row):
        return f"{acts}: applied."
    return f"{acts}, but fewer than two tokens reach its threshold."
