"""The tour in its window: its actions, what it begins with, and the menu of a panel's "?".

All of it is built when it is first wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt
from PySide6.QtWidgets import QApplication, QMenu, QWidget
from shiboken6 import isValid

from app.chat.events import ConversationOpened, EngineStateChanged, ReplyingChanged, SettingsChanged
from models.records import ConversationKind
from ui.look.theme import Theme
from ui.shell.actions import Action, Actions
from ui.shell.keys import TOUR_KEY

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.chat.chat_column import ChatColumn
    from ui.chat.text_mode_following import TextFollowing
    from ui.section.looking import Looking
    from ui.shell.section_acts import SectionActs
    from ui.tour.start_card import StartCard
    from ui.tour.tour import Tour

GROUP: Final = "Help"
GLOSSARY: Final = "glossary"
PAGE: Final = "tour_page"
"""Actions that others may add."""
MOST_TOKENS: Final = 40
"""So long the model goes on with a sentence that is given here."""
NO_MODEL: Final = "No model is loaded. Load one to see this live."
LOADING: Final = "The model is loading."

Go = Callable[["Tour"], None]


class TourActs(QObject):
    """It is the tour's `Stage`."""

    def __init__(
        self,
        desk: Desk,
        bridge: Bridge,
        theme: Theme,
        window: QWidget,
        chat: ChatColumn,
        section: SectionActs,
        text: TextFollowing,
        find_model: Callable[[], object],
    ) -> None:
        super().__init__(window)
        self._desk = desk
        self._bridge = bridge
        self._theme = theme
        self._window = window
        self._chat = chat
        self._section = section
        self._text = text
        self._find_model = find_model
        self._looking: Looking | None = None
        self._tour: Tour | None = None
        self._start: StartCard | None = None
        self._goal: Go | None = None
        self._is_writing = False
        self._lacks_token = False
        self._kept = ("", 0)
        self._focus_before: QWidget | None = None
        self._actions: Actions | None = None
        self._section.help_requested.connect(self._show_menu)
        self._chat.empty.tour_requested.connect(self.start)
        bridge.on(SettingsChanged, self._on_settings)
        bridge.on(ConversationOpened, self._on_other)
        bridge.on(EngineStateChanged, self._on_other)
        bridge.on(ReplyingChanged, self._decide)
        self._offer()

    def add_actions(self, actions: Actions) -> None:
        self._actions = actions
        for name, title, key, run in (
            ("tour", "Follow one token: the tour", TOUR_KEY, self.start),
            ("tour_again", "Tour: start again", f"Ctrl+Shift+{TOUR_KEY}", partial(self.go, 0)),
        ):
            actions.add(Action(name, title, key, run, group=GROUP))
        actions.add_later(self._chapter_actions)

    def _chapter_actions(self) -> Iterator[Action]:
        from app.chat.tour.chapters import chapters

        for at, chapter in enumerate(chapters()):
            yield Action(
                f"tour_{at + 1}", f"Tour: {chapter.title}", "", partial(self.go, at), group=GROUP
            )

    # --- beginning ------------------------------------------------------------------------------

    def start(self) -> None:
        """Where it was left; where it is on screen, the keyboard goes to it."""
        if self._tour is not None and self._tour.place is not None:
            self._tour.card.raise_()
            self._tour.card.next_button.setFocus(Qt.FocusReason.ShortcutFocusReason)
        else:
            self._begin(lambda tour: tour.start(self._desk.settings.now.tour_at))

    def go(self, chapter: int) -> None:
        self._begin(lambda tour: tour.go(chapter, 0))

    def tour(self) -> Tour:
        if self._tour is None:
            from app.chat.tour.chapters import chapters
            from ui.tour.acts import Acts
            from ui.tour.live_facts import LiveFacts
            from ui.tour.spots import Spots
            from ui.tour.tour import Tour

            window, looking = self._window, self._look()
            facts = LiveFacts(looking, self._desk, self._bridge, self)
            facts.follow(self._section.section())
            self._tour = Tour(
                window,
                self._theme,
                chapters(),
                Spots(window, self._section),
                facts,
                Acts(window, looking, self._desk, self._bridge),
                self,
            )
            self._tour.moved.connect(self._on_moved)
            actions = self._actions
            if actions is not None and PAGE in actions:
                self._tour.card.has_page = True
                self._tour.card.page_wanted.connect(partial(actions.run, PAGE))
        return self._tour

    def _look(self) -> Looking:
        if self._looking is None:
            self._looking = self._section.looking()
            self._looking.message_changed.connect(self._decide)
            self._looking.trace_changed.connect(self._decide)
        return self._looking

    def _begin(self, go: Go) -> None:
        looking = self._look()
        if self._goal is None:
            self._focus_before = QApplication.focusWidget()
        self._goal = go
        self._is_writing = False
        looking.set_awake(True, "tour_acts")
        self._decide()

    def _decide(self, _event: object = None) -> None:
        """Whether there is a token to follow by now."""
        from ui.section.looking import READING

        if self._goal is None and not self._lacks_token:
            return
        looking = self._look()
        if self._lacks_token and len(looking.traces):
            self.follow_token()
        if self._goal is None:
            return
        if len(looking.traces):
            go, self._goal = self._goal, None
            self._hide_start()
            go(self.tour())
        elif not looking.is_growing and looking.sentence != READING and not self._is_awaited:
            self._ask()

    @property
    def _is_awaited(self) -> bool:
        """Whether the model goes on with the sentence that was given."""
        replies = self._desk.replies
        return self._is_writing and (replies.is_generating or replies.is_waiting)

    def _ask(self) -> None:
        """For a sentence."""
        from ui.tour.start_card import LOADING as BEGINS, NOTHING

        start = self._start_card()
        was_shown = start.isVisible()
        state = self._desk.loader.state
        is_loading = state.state in ("starting", "loading")
        has_model = state.loaded is not None or is_loading or bool(self._desk.loader.path)
        has_model = has_model or bool(self._desk.loader.known_weights())
        note = NOTHING if self._is_writing else BEGINS if is_loading else ""
        self._is_writing = False
        start.offer(has_model=has_model, note=note)
        start.show()
        start.raise_()
        self._place_start()
        if not was_shown or note == NOTHING:
            start.take_keyboard()

    def _start_card(self) -> StartCard:
        if self._start is None:
            from ui.tour.start_card import StartCard

            self._start = StartCard(self._theme, self._window)
            self._start.begin_wanted.connect(self._write)
            self._start.leave_wanted.connect(self._leave_start)
            self._start.model_wanted.connect(self._on_model_wanted)
            self._window.installEventFilter(self)
            self._theme.changed.connect(self._place_start)
        return self._start

    def _write(self, sentence: str) -> None:
        from ui.tour.start_card import LOADING as BEGINS, WRITING

        self._text.begin_with(sentence, MOST_TOKENS)
        if self._goal is not None:  # the first token isn't here yet
            is_ready = self._desk.loader.state.loaded is not None
            self._start_card().wait(WRITING if is_ready else BEGINS)
            self._is_writing = True
            self._decide()

    def _on_model_wanted(self) -> None:
        self._leave_start()
        self._find_model()

    def _leave_start(self) -> None:
        self._goal = None
        self._look().set_awake(False, "tour_acts")
        self._hide_start()
        before, self._focus_before = self._focus_before, None
        if before is not None and isValid(before) and before.isVisible():
            before.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self.take_keyboard()

    def _hide_start(self) -> None:
        if self._start is not None:
            self._start.hide()

    def _place_start(self) -> None:
        from ui.tour.placing import place

        if self._start is not None and self._start.isVisible():
            margin = self._theme.px(8)
            window = self._window.rect().adjusted(margin, margin, -margin, -margin)
            size, corner = self._start.wanted_size(), self.corner().intersected(window)
            has_room = corner.width() >= size.width() and corner.height() >= size.height()
            self._start.setGeometry(place(size, QRect(), corner if has_room else window, 0))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            self._place_start()
        return False

    # --- the stage ------------------------------------------------------------------------------

    @property
    def is_text(self) -> bool:
        return self._desk.shelf.open.kind is ConversationKind.TEXT

    def follow_token(self) -> None:
        """The one that is chosen, else the one before, else the first, once it is there."""
        looking = self._look()
        self._lacks_token = not len(looking.traces)
        if looking.index is None:
            self.return_token()

    def keep_token(self) -> None:
        looking = self._look()
        if looking.message is not None and looking.index is not None:
            self._kept = (looking.message.id, looking.index)

    def return_token(self) -> None:
        looking = self._look()
        if looking.message is None or not len(looking.traces):
            return
        message_id, index = self._kept
        is_same = looking.message.id == message_id and index < len(looking.traces)
        looking.select(index if is_same else 0)

    def lack(self) -> str:
        state = self._desk.loader.state
        if state.loaded is not None:
            return ""
        return LOADING if state.state in ("starting", "loading") else NO_MODEL

    def corner(self) -> QRect:
        body = self._chat.body
        if not body.isVisible():
            return QRect()
        margin = self._theme.px(8)
        whole = QRect(body.mapTo(self._window, QPoint()), body.size())
        return whole.adjusted(margin, margin, -margin, -margin)

    def remember(self, place: str) -> None:
        self._desk.settings.set("tour_at", place)

    def take_keyboard(self) -> None:
        if self._chat.isVisible():
            self._chat.focus_writing()

    # --- following ------------------------------------------------------------------------------

    def _on_moved(self) -> None:
        is_on = self._tour is not None and self._tour.place is not None
        self._look().set_awake(is_on, "tour_acts")
        if not is_on:
            self._lacks_token = False

    def _on_other(self, _event: object) -> None:
        if self._tour is not None:
            self._tour.follow()
        if self._goal is not None:
            self._decide()

    def _on_settings(self, event: SettingsChanged) -> None:
        if "tour_at" in event.names:
            self._offer()

    def _offer(self) -> None:
        self._chat.empty.offer_tour(not self._desk.settings.now.tour_at)

    # --- "?" ------------------------------------------------------------------------------------

    def _show_menu(self) -> None:
        """The chapters that are about the panel on screen."""
        from app.chat.tour.chapters import chapters

        section, actions = self._section.section(), self._actions
        panel = section.panel()
        if actions is None or panel is None:
            return
        about = [
            f"tour_{at + 1}"
            for at, chapter in enumerate(chapters())
            if any(step.at.panel == panel.title for step in chapter.steps)
        ]
        others = ["", GLOSSARY] if GLOSSARY in actions else []
        menu = QMenu(section.help_button)
        menu.setObjectName("section_help_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        actions.fill_menu(menu, *about, *others)
        button = section.help_button
        menu.popup(button.mapToGlobal(button.rect().bottomLeft()))
