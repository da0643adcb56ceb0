"""*Hub*: search for weights on a hub, compare what a repository has, and download.

Nothing is asked before somebody types or presses: Cutaway connects to nothing by itself. Typing
searches a moment later; a pasted address goes straight to its repository. Every ending (nothing
found, offline, refused, no network) is a sentence with a way on.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QKeySequence, QResizeEvent, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QSplitter,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import HubState, HubTrouble, MemoryChanged
from app.hub.address import HubAddress, read_address
from app.hub.records import HubRepo, HubSearchPage
from app.refusal import Refusal
from ui.library.hub.detail import HubDetail
from ui.library.hub.dialog import HubDialog
from ui.library.hub.filters import HubFilters
from ui.library.hub.results import REPO_ROLE, ResultsView
from ui.library.hub.state import StatePanel
from ui.library.hub.words import NEEDS_ADDRESS, NEEDS_TOKEN, state_text, trouble_title
from ui.library.local.words import one_line
from ui.look.theme import Theme
from ui.shell.notices import announce
from ui.sidebar.search_field import SearchField
from ui.widgets.elided import ElidedLabel
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label, push_button, rest_timer

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk

SEARCH_AFTER_MS: Final = 400
SEARCHING_AFTER_MS: Final = 200
CHOOSE_AFTER_MS: Final = 150
NARROW_PX: Final = 560
LEAST_PX: Final = 340
HINT: Final = "Search, or paste an address like owner/name:Q4_K_M"
BEGIN: Final = "Find a model"
BEGIN_WORDS: Final = (
    "Type a name, or paste the address of a page on {host}, of a file, or owner/name:Q4_K_M. "
    "Nothing is sent until you search."
)
SEARCHING: Final = "Searching…"
STOPPED: Final = "Stopped"
NOTHING: Final = "No results"
NOTHING_WORDS: Final = "Try fewer or different words."
NOTHING_FILTERED: Final = "Try fewer or different words, or fewer filters."
NONE_YET: Final = "None of the first {count} match your filters."
LOOKED_AT: Final = 200
"""So many a hub is asked for before it is said that none fits (`client.MAX_LOOKED_AT`)."""
NO_MORE: Final = "Can't list more. {sentence}"


class HubPage(QWidget):
    """`page_requested` names another page of the library; `headers_fit_requested` has the headers
    of a file whose fit shall be seen in full, and its name."""

    page_requested = Signal(str)
    headers_fit_requested = Signal(object, str)

    def __init__(self, desk: Desk, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._theme = theme
        self._state = desk.hub.state
        self._dialog: HubDialog | None = None
        self._is_begun = False
        self._is_narrow: bool | None = None
        self._is_in_detail = False
        self._is_asking_more = False
        self._has_more = False
        self._n_pages = 0
        self.setObjectName("hub_page")
        self.setAccessibleName("Models on the hub")
        self._typing = rest_timer(self, self.search_now, SEARCH_AFTER_MS)
        # What was found before stays in view until it is clear that this takes a while.
        self._waiting = rest_timer(self, self._show_searching, SEARCHING_AFTER_MS)
        self._choosing = rest_timer(self, self._look_at_chosen, CHOOSE_AFTER_MS)
        self._chosen = ""
        self._make_top()
        self._make_middle()
        self._make_foot()
        self._build()
        self._connect()
        self._order_tabs()
        theme.space(self._column, 8)
        theme.space(self._top_row, 8)
        theme.space(self._foot_row, 8)
        theme.at_least(self._left, 160)
        theme.at_least(self.detail, 240)
        # What is in there scrolls by itself; only below this the page scrolls for it.
        theme.at_least(self.body, height=LEAST_PX)
        self._arrange()
        self.setFocusProxy(self.search)
        self._show_begin()
        self._show_hub(self._state)

    # --- building -------------------------------------------------------------------------------

    def _make_top(self) -> None:
        self.search = SearchField(self._theme, self)
        self.search.setObjectName("library_search")
        self.search.setAccessibleName("Search the hub")
        self.search.setAccessibleDescription(HINT)
        self.search.setPlaceholderText(HINT)
        self.search.setToolTip(HINT)
        self.search.setMaxLength(2_000)
        self.filters = HubFilters(self._theme, self)
        self.filter_button = IconButton(
            self._theme, "funnel-simple", "Sort and filters", parent=self
        )
        self.filter_button.setObjectName("hub_filter_button")
        self.filter_button.setCheckable(True)

    def _make_middle(self) -> None:
        self.results = ResultsView(self._theme, self)
        self.panel = StatePanel(self._theme, "hub_state", self)
        self.more = plain_label("", self, "small", name="hub_more", wraps=True)
        self.more.hide()
        self.more_button = push_button("Show more", self, "hub_more_button")
        self.more_button.hide()
        self.detail = HubDetail(self._desk, self._theme, self)

    def _make_foot(self) -> None:
        self.hub_label = ElidedLabel("", self)
        self.hub_label.setObjectName("hub_label")
        self.hub_label.setProperty("kind", "small")
        self.hub_button = push_button(
            "Token and address…", self, "hub_settings_button", spoken="Hub token and address"
        )
        self.again_button = IconButton(
            self._theme, "arrow-clockwise", "Search again", hint="Search again (F5)", parent=self
        )
        self.again_button.setObjectName("search_again_button")

    def _build(self) -> None:
        left = QWidget(self)
        found = QVBoxLayout(left)
        found.setContentsMargins(0, 0, 0, 0)
        found.addWidget(self.results, 1)
        found.addWidget(self.more)
        found.addWidget(self.more_button)
        self.split = QSplitter(Qt.Orientation.Horizontal, self)
        self.split.setObjectName("hub_split")
        self.split.setChildrenCollapsible(False)
        self.split.addWidget(left)
        self.split.addWidget(self.detail)
        self.split.setStretchFactor(0, 2)
        self.split.setStretchFactor(1, 3)
        self.body = QStackedWidget(self)
        self.body.addWidget(self.panel)
        self.body.addWidget(self.split)
        self._left = left
        self._top_row, self._foot_row = QHBoxLayout(), QHBoxLayout()
        self._top_row.addWidget(self.search, 1)
        self._top_row.addWidget(self.filter_button)
        self._top_row.addWidget(self.again_button)
        self._foot_row.addWidget(self.hub_label, 1)
        self._foot_row.addWidget(self.hub_button)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(self._top_row)
        self._column.addWidget(self.filters)
        self._column.addWidget(self.body, 1)
        self._column.addLayout(self._foot_row)

    def _connect(self) -> None:
        self.search.textEdited.connect(lambda _: self._typing.start())
        self.search.textChanged.connect(self._on_text)
        self.search.returnPressed.connect(self.search_now)
        self.search.entered_list.connect(self._enter_list)
        self.filter_button.toggled.connect(self.filters.setVisible)
        self.filters.changed.connect(self._on_filters)
        self.results.chosen.connect(self._on_chosen)
        self.results.clicked.connect(self._on_pressed)
        self.results.activated.connect(self._on_pressed)
        self.results.end_reached.connect(self._on_end)
        self.results.left_upwards.connect(self.search.setFocus)
        self.more_button.clicked.connect(self._on_end)
        self.again_button.clicked.connect(self.search_now)
        self.hub_button.clicked.connect(self.open_dialog)
        self.detail.token_requested.connect(self.open_dialog)
        self.detail.page_requested.connect(self.page_requested)
        self.detail.headers_fit_requested.connect(self.headers_fit_requested)
        self.detail.back_requested.connect(self._go_back)
        QShortcut(QKeySequence("F5"), self, self.search_now)
        self.destroyed.connect(self._desk.hub.follow(self._show_hub))
        self._theme.changed.connect(self._arrange)

    def follow(self, bridge: Bridge) -> None:
        """Memory that is free now is told by the desk."""
        bridge.on(MemoryChanged, self.detail.judge_again)

    def _order_tabs(self) -> None:
        """From the top to the foot, as they stand."""
        filters, detail = self.filters, self.detail
        order = (
            self.search, self.filter_button, self.again_button, filters.sort, filters.language,
            filters.licence, filters.age, filters.author, filters.gguf_only, filters.fitting,
            self.panel.button, self.panel.second, self.results, self.more_button,
            detail.panel.button,
            detail.panel.second, detail.back_button, detail.open_button, detail.token_button,
            detail.tabs, detail.table, detail.act_button, detail.memory_button, detail.card,
            self.hub_button,
        )  # fmt: skip
        for first, second in pairwise(order):
            QWidget.setTabOrder(first, second)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Results and a repository stand side by side where there is room, else in turn."""
        px = self._theme.px
        is_narrow = self.width() < px(NARROW_PX)
        if is_narrow != self._is_narrow:
            self._is_narrow = is_narrow
            self.filter_button.setChecked(not is_narrow)
            self.filters.setVisible(self.filter_button.isChecked())
        has_results = bool(self.results.results.repos)
        is_detail_alone = not has_results or (is_narrow and self._is_in_detail)
        self._left.setVisible(not is_detail_alone)
        self.detail.setVisible(is_detail_alone or not is_narrow)
        self.detail.offer_back(is_offered=is_detail_alone and has_results)

    def _go_back(self) -> None:
        self._is_in_detail = False
        self.results.setCurrentIndex(QModelIndex())
        self._arrange()
        self.results.setFocus(Qt.FocusReason.OtherFocusReason)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._desk.hub.prepare()
        self._desk.fits.look()

    # --- searching ------------------------------------------------------------------------------

    def _on_text(self, text: str) -> None:
        if not text.strip():
            self._typing.stop()
            self._show_begin()

    def _on_filters(self) -> None:
        if self._is_begun or self.search.text().strip():
            self.search_now()

    def search_now(self) -> None:
        """Search for what is typed; of an address, show its repository."""
        self._typing.stop()
        self._is_begun = True
        try:
            address = read_address(self.search.text(), self._state.endpoint)
        except Refusal as refused:
            self._stop()
            self._show_panel(
                "Not an address on this hub",
                refused.sentence,
                "Token and address…",
                self.open_dialog,
            )
            return
        if address is not None and not address.is_plain:
            self._show_address(address)
            return
        self._search()

    def find_projector(self, repo_id: str, name: str) -> None:
        """Look into a repository for the projector of a model of this name; where none is known,
        search for the name."""
        self._typing.stop()
        self._is_begun = True
        self.search.setText(repo_id or name)
        self._typing.stop()  # what is written there is no search
        if not repo_id:
            self.search_now()
            return
        self._stop()
        self.results.results.show(())
        self._is_in_detail = True
        self._arrange()
        self.body.setCurrentWidget(self.split)
        self.detail.show_repo(repo_id, projector_for=name)

    def _search(self) -> None:
        self._stop()
        self._waiting.start()
        free = sum(device.free_bytes for device in self._desk.fits.machine().devices)
        wish = self.filters.wish(self.search.text(), free)
        self._desk.hub.search(wish, self._on_found, self._on_trouble)

    def _show_address(self, address: HubAddress) -> None:
        self._stop()
        self.results.results.show(())
        self._is_in_detail = True
        self._arrange()
        self.body.setCurrentWidget(self.split)
        self.detail.show_repo(address.repo_id, address.revision, address)

    def _show_searching(self) -> None:
        self._show_panel(SEARCHING, "", "Stop", self._show_stopped)

    def _show_stopped(self) -> None:
        self._stop()
        self._show_panel(STOPPED, "", "Search", self.search_now)

    def _stop(self) -> None:
        self.panel.stop()
        self._waiting.stop()
        self._choosing.stop()
        self._is_asking_more = self._has_more = False
        self.more.setText("")
        self._settle_more()
        self._desk.hub.stop("search")
        self.detail.show_nothing()

    def _on_found(self, page: HubSearchPage) -> None:
        self._waiting.stop()
        text = self.search.text().strip()
        self._n_pages = 1
        self._has_more = page.has_more
        self.results.results.show(page.repos)
        self._is_in_detail = False
        self._arrange()
        if not page.repos:
            self._on_none(text)
            return
        self.results.scrollToTop()
        self.body.setCurrentWidget(self.split)
        self._settle_more()
        announce(
            self.results,
            (f"{len(page.repos)} repositor{'y' if len(page.repos) == 1 else 'ies'} found"),
        )
        exact = [row for row, repo in enumerate(page.repos) if repo.id.lower() == text.lower()]
        if exact:
            self.results.choose(exact[0])

    def _on_none(self, text: str) -> None:
        """Of what was looked through so far."""
        if self._has_more:
            words = NONE_YET.format(count=f"{self._n_pages * LOOKED_AT:,}")
            self._show_panel("No matches yet", words, "Search further", self._on_end)
        else:
            self._on_nothing(text)

    def _on_nothing(self, text: str) -> None:
        """A private repository is in no listing, so what may be one is looked for by its name."""
        try:
            address = read_address(text, self._state.endpoint)
        except Refusal:
            address = None
        if address is not None and address.is_plain:
            self._show_address(address)
        elif self.filters.are_usual:
            self._show_panel(NOTHING, NOTHING_WORDS)
        else:
            self._show_panel(NOTHING, NOTHING_FILTERED, "Clear filters", self.filters.reset)

    def _on_trouble(self, trouble: HubTrouble) -> None:
        self._waiting.stop()
        button, act = "Try again", self.search_now
        second, second_act = "", None
        if trouble.kind == "offline":
            button, act = (
                ("", self.search_now) if self._desk.offline else ("Go online", self._go_online)
            )
        elif trouble.kind in NEEDS_TOKEN or trouble.kind in NEEDS_ADDRESS:
            second, second_act = "Token and address…", self.open_dialog
        self.panel.show_state(
            trouble_title(trouble),
            one_line(trouble.sentence),
            button=button,
            act=act,
            again_in_s=trouble.retry_after_s,
            second=second,
            second_act=second_act,
        )
        self.body.setCurrentWidget(self.panel)

    def _go_online(self) -> None:
        self._desk.settings.set("offline", False)
        self.search_now()

    def _on_end(self) -> None:
        if self._has_more and not self._is_asking_more:
            self._is_asking_more = True
            self.more.setText("Loading more…")
            self._settle_more()
            if not self.results.results.repos:
                self._show_searching()
            self._desk.hub.more(self._on_more, self._on_no_more)

    def _on_more(self, page: HubSearchPage) -> None:
        self._is_asking_more = False
        self._n_pages += 1
        self._has_more = page.has_more
        self.more.setText("")
        self.results.results.add(page.repos)
        self._arrange()
        self._settle_more()
        if self.results.results.repos:
            self.body.setCurrentWidget(self.split)
        else:
            self._on_none(self.search.text().strip())

    def _on_no_more(self, trouble: HubTrouble) -> None:
        self._is_asking_more = False
        if not self.results.results.repos:
            self._on_trouble(trouble)
            return
        self.more.setText(NO_MORE.format(sentence=one_line(trouble.sentence)))
        self._settle_more()

    def _settle_more(self) -> None:
        """Below the list: what goes on there, and the button for those who cannot scroll on."""
        self.more.setVisible(bool(self.more.text()))
        self.more_button.setVisible(self._has_more and not self._is_asking_more)

    def _on_chosen(self, repo: HubRepo) -> None:
        """Whoever walks through the list with the keys asks for the one that they stop at. Alone
        in view, the list stays until one is pressed."""
        self._chosen = repo.id
        if not self._is_narrow:
            self._choosing.start()

    def _on_pressed(self, index: QModelIndex) -> None:
        self._chosen = index.data(REPO_ROLE).id
        if self._is_narrow:
            self._look_at_chosen()

    def _look_at_chosen(self) -> None:
        self.detail.show_repo(self._chosen)
        if self._is_narrow:
            self._is_in_detail = True
            self._arrange()

    def _enter_list(self) -> None:
        if self._left.isVisible() and self.results.results.repos:
            if not self.results.currentIndex().isValid():
                self.results.choose(0)
            self.results.setFocus(Qt.FocusReason.TabFocusReason)

    # --- states ---------------------------------------------------------------------------------

    def _show_begin(self) -> None:
        self._stop()
        self._is_begun = False
        if self._state.why_offline:
            self._on_trouble(HubTrouble("offline", self._state.why_offline))
            return
        self._show_panel(
            BEGIN,
            BEGIN_WORDS.format(host=self._state.host),
            "Show the most downloaded",
            self.search_now,
        )

    def _show_panel(self, title: str, words: str, button: str = "", act: object = None) -> None:
        self.panel.show_state(
            title, one_line(words), button=button, act=act if callable(act) else None
        )
        self.body.setCurrentWidget(self.panel)

    def _show_hub(self, state: HubState) -> None:
        was, self._state = self._state, state
        self.hub_label.set_text(state_text(state))
        if was.endpoint != state.endpoint or bool(was.why_offline) != bool(state.why_offline):
            if self.search.text().strip() and not state.why_offline:
                self.search_now()
            elif not self.search.text().strip():
                self._show_begin()

    def _on_token_changed(self) -> None:
        """What was refused may be open now."""
        if self._is_begun and self.body.currentWidget() is self.panel:
            self.search_now()
        else:
            self.detail.look_again()

    def open_dialog(self) -> None:
        """The token and the address."""
        if self._dialog is None:
            self._dialog = HubDialog(self._desk, self._theme, self)
            self._dialog.token_changed.connect(self._on_token_changed)
        self._dialog.open()
        self._dialog.token.setFocus()
