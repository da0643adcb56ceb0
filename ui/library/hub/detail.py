"""One repository: what the hub says of it, its weights with their fit, and its card.

Fits are rough at first, by size; of the file that is chosen the header is read from the hub, and
the fit is then what a load would take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from app.amounts import bytes_words
from app.chat.events import HubTrouble
from app.hub.projectors import projectors_for
from app.hub.records import pick
from models.records import DownloadState
from ui.library.downloads.words import percent_text
from ui.library.hub.card_view import CardView
from ui.library.hub.files import FilesTable
from ui.library.hub.state import StatePanel
from ui.library.hub.words import (
    NEEDS_TOKEN,
    file_title,
    headers_line,
    repo_facts,
    trouble_title,
)
from ui.library.local.words import one_line
from ui.look.theme import Theme
from ui.shell.dialogs import confirm_link
from ui.widgets.combo import Combo
from ui.widgets.elided import ElidedLabel
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label, push_button

if TYPE_CHECKING:
    from app.chat.desk import Desk
    from app.engine.planning.fit import Fit
    from app.gguf.header import Header
    from app.hub.address import HubAddress
    from app.hub.downloads.progress import DownloadProgress
    from app.hub.records import HubFile, HubRepo, RepoPage

CHOOSE: Final = "Choose a repository to see its files."
CHOOSE_FILE: Final = "Choose a file to see how much memory it needs."
LOOKING: Final = "Reading {name}…"
NO_FILES: Final = (
    "This repository has no GGUF files. Someone may have converted it: search for its name with "
    "“GGUF”."
)
NO_CARD: Final = "*This repository has no model card.*"
READING_CARD: Final = "*Loading the model card…*"
READING_HEADER: Final = "Reading the file's header on the hub…"
GATED: Final = (
    "Gated: accept the terms on its page, then enter a token from your account to download it."
)
JUDGING: Final = "Computing the memory it needs…"
WITH_PROJECTOR: Final = "The file that lets the model see pictures or hear"
WITHOUT: Final = "Without a projector"
NO_PROJECTOR_HERE: Final = "This repository has no projector."
PROJECTOR: Final = "A projector lets its model see pictures or hear. It is never loaded alone."
MISSING: Final = "Parts of this model are missing, so it can't be loaded. Choose another file."


class HubDetail(QStackedWidget):
    """`token_requested`: what is refused needs one. `page_requested` names another page of the
    library; `headers_fit_requested` has the headers of a file, whose fit shall be seen in full, and
    its name."""

    token_requested = Signal()
    back_requested = Signal()
    page_requested = Signal(str)
    headers_fit_requested = Signal(object, str)

    def __init__(self, desk: Desk, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._theme = theme
        self._repo_id = ""
        self._revision = ""
        self._wanted: HubAddress | None = None
        self._projector_for = ""
        self._projectors: tuple[HubFile, ...] = ()
        self._repo: HubRepo | None = None
        self._file: HubFile | None = None
        self._headers: tuple[Header, ...] = ()
        self._has_back = False
        self._downloads: tuple[DownloadProgress, ...] = ()
        self.setObjectName("hub_detail")
        self.panel = StatePanel(theme, "hub_detail_state", self)
        self._make_head()
        self._make_files()
        self.card = CardView(theme, self)
        self._build()
        self.addWidget(self.panel)
        self.addWidget(self.body)
        self.panel.show_state("", CHOOSE)
        self.table.chosen.connect(self._on_file)
        self.table.wanted.connect(lambda _: self._press())
        self.act_button.clicked.connect(self._press)
        self.projector_box.activated.connect(lambda _: self._on_projector())
        self.projector_button.clicked.connect(self._get_projector)
        self.memory_button.clicked.connect(self._ask_for_fit)
        self.open_button.clicked.connect(self._open_page)
        self.token_button.clicked.connect(self.token_requested)
        self.back_button.clicked.connect(self.back_requested)
        self.destroyed.connect(desk.downloads.follow(self._on_downloads))
        theme.changed.connect(self._size_table)
        theme.space(self._column, 6, margins=(8, 0, 0, 0))
        theme.space(self._files_column, 8, margins=0)
        rows = (self._head_row, self._gate_row, self._act_row, self._projector_row, self._words_row)
        for row in rows:
            theme.space(row, 8)
        self._size_table()
        self._show_act()

    # --- building -------------------------------------------------------------------------------

    def _make_head(self) -> None:
        self.name = ElidedLabel("", self)
        self.name.setObjectName("hub_repo_name")
        self.name.setProperty("kind", "title")
        self.back_button = IconButton(self._theme, "caret-left", "Back to the results", parent=self)
        self.back_button.setObjectName("hub_back_button")
        self.back_button.hide()
        self.open_button = push_button(
            "Open page…", self, "open_page_button", spoken="Open page in browser"
        )
        self.facts = self._label("hub_repo_facts", "small")
        self.gate_note = self._label("hub_gate_note", "caution")
        self.token_button = push_button("Token…", self, "gate_token_button", spoken="Enter a token")

    def _make_files(self) -> None:
        self.table = FilesTable(self._theme, self)
        self.no_files = self._label("hub_no_files", "dim")
        self.no_files.setText(NO_FILES)
        self.file_line = ElidedLabel("", self)
        self.file_line.setObjectName("hub_file_line")
        self.file_words = self._label("hub_file_words", "small")
        self.act_button = push_button("Download", self, "download_button", kind="primary")
        self.projector_box = Combo(self._theme, self)
        self.projector_box.setObjectName("hub_projector_box")
        self.projector_box.setAccessibleName("Projector that comes with it")
        self.projector_box.setToolTip(WITH_PROJECTOR)
        self.projector_button = push_button(
            "Get the projector", self, "hub_projector_button", hint=WITH_PROJECTOR
        )
        self.projector_box.hide()
        self.projector_button.hide()
        self.memory_button = push_button(
            "Memory…", self, "hub_memory_button", spoken="Memory needed by this file"
        )

    def _label(self, name: str, kind: str) -> QLabel:
        label = plain_label("", self, kind, name=name, wraps=True)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        return label

    def _build(self) -> None:
        self.body = QWidget(self)
        files = QWidget(self.body)
        self.tabs = QTabBar(self.body)
        self.tabs.setObjectName("hub_detail_tabs")
        self.tabs.setAccessibleName("Files and model card")
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        for title in ("Files", "Model card"):
            self.tabs.addTab(title)
        self.pages = QStackedWidget(self.body)
        self.pages.addWidget(files)
        self.pages.addWidget(self.card)
        self._head_row, self._gate_row, self._act_row = QHBoxLayout(), QHBoxLayout(), QHBoxLayout()
        self._head_row.addWidget(self.back_button)
        self._head_row.addWidget(self.name, 1)
        self._head_row.addWidget(self.open_button)
        self._gate_row.addWidget(self.gate_note, 1)
        self._gate_row.addWidget(self.token_button, 0, Qt.AlignmentFlag.AlignTop)
        self._act_row.addWidget(self.file_line, 1)
        self._act_row.addWidget(self.act_button)
        self._projector_row = QHBoxLayout()
        self._projector_row.addWidget(self.projector_box, 1)
        self._projector_row.addWidget(self.projector_button)
        self._files_column = QVBoxLayout(files)
        self._files_column.addWidget(self.table, 1000)
        self._files_column.addWidget(self.no_files)
        self._files_column.addLayout(self._act_row)
        self._files_column.addLayout(self._projector_row)
        self._words_row = QHBoxLayout()
        self._words_row.addWidget(self.file_words, 1)
        self._words_row.addWidget(self.memory_button, 0, Qt.AlignmentFlag.AlignTop)
        self._files_column.addLayout(self._words_row)
        self._files_column.addStretch(1)
        self._column = QVBoxLayout(self.body)
        self._column.addLayout(self._head_row)
        self._column.addWidget(self.facts)
        self._column.addLayout(self._gate_row)
        self._column.addWidget(self.tabs)
        self._column.addWidget(self.pages, 1)
        self.tabs.currentChanged.connect(self.pages.setCurrentIndex)

    def _size_table(self) -> None:
        n_rows = len(self.table.weights.files)
        self.table.setMinimumHeight(self.table.rows_height(min(n_rows, 1)))
        self.table.setMaximumHeight(self.table.rows_height(max(n_rows, 1)) + 2)

    # --- what is shown --------------------------------------------------------------------------

    def show_nothing(self, words: str = CHOOSE) -> None:
        self._desk.hub.stop("look", "card", "headers")
        self._repo_id, self._repo, self._file = "", None, None
        self.panel.show_state("", words)
        self.setCurrentWidget(self.panel)

    def show_repo(
        self,
        repo_id: str,
        revision: str = "",
        wanted: HubAddress | None = None,
        projector_for: str = "",
    ) -> None:
        """Ask for a repository and its card; `wanted` says which of its files to choose;
        `projector_for`: the projector for the model of this name."""
        self._desk.hub.stop("look", "card", "headers")
        self._repo_id, self._revision, self._wanted = repo_id, revision, wanted
        self._projector_for = projector_for
        self._repo = self._file = None
        self._projectors = ()
        self._show_act()
        self.panel.show_state(
            "", LOOKING.format(name=one_line(repo_id)), button="Stop", act=self.show_nothing
        )
        self.setCurrentWidget(self.panel)
        self._desk.hub.look(repo_id, revision, self._on_looked, self._on_trouble)

    def offer_back(self, *, is_offered: bool) -> None:
        """Whether the results are behind this."""
        self._has_back = is_offered
        self.back_button.setVisible(is_offered)

    def look_again(self) -> None:
        """A token or an address may have changed what may be seen."""
        if self._repo_id:
            self.show_repo(self._repo_id, self._revision, self._wanted, self._projector_for)

    def _on_trouble(self, trouble: HubTrouble) -> None:
        needs_token = trouble.kind in NEEDS_TOKEN
        self.panel.show_state(
            trouble_title(trouble),
            one_line(trouble.sentence),
            button="Try again",
            act=self.look_again,
            again_in_s=trouble.retry_after_s,
            second="Enter a token…" if needs_token else "Back" if self._has_back else "",
            second_act=self.token_requested.emit if needs_token else self.back_requested.emit,
        )
        self.setCurrentWidget(self.panel)

    def _on_looked(self, page: RepoPage) -> None:
        repo = self._repo = page.repo
        self.name.set_text(one_line(repo.id))
        self.facts.setText(repo_facts(repo))
        needs_note = repo.is_gated and self._desk.hub.state.token_where == "none"
        self.gate_note.setText(GATED)
        self.gate_note.setVisible(needs_note)
        self.token_button.setVisible(needs_note)
        self.table.weights.show(page.files)
        self._projectors = tuple(each for each in page.files if each.is_projector)
        self._judge_roughly()
        self.table.setVisible(bool(page.files))
        self.no_files.setVisible(not page.files)
        self._size_table()
        self.tabs.setCurrentIndex(0)
        self.setCurrentWidget(self.body)
        self._choose_first(page.files)
        self._show_act()
        self.card.show_text(READING_CARD)
        self._desk.hub.card(repo.id, self._revision, self._on_card, self._on_no_card)

    def _choose_first(self, files: tuple[HubFile, ...]) -> None:
        """The file that was asked for. Else none: choosing one reads some MB from the hub."""
        if self._projector_for:
            able = projectors_for(self._projector_for, files)
            if able:
                self.table.choose(able[0])
            else:
                self.facts.setText(f"{NO_PROJECTOR_HERE} {self.facts.text()}")
            return
        wanted = self._wanted
        if wanted is not None and (wanted.file_name or wanted.quantisation):
            found = pick(files, name=wanted.file_name, quantisation=wanted.quantisation)
            if found is not None:
                self.table.choose(found)
                return
            what = wanted.quantisation or wanted.file_name
            self.facts.setText(f"No {one_line(what)} here. {self.facts.text()}")

    def _on_card(self, text: str) -> None:
        self.card.show_text(text or NO_CARD)

    def _on_no_card(self, trouble: HubTrouble) -> None:
        self.card.show_text(f"*The model card can't be loaded.* {one_line(trouble.sentence)}")

    # --- a file ---------------------------------------------------------------------------------

    def _on_file(self, file: HubFile) -> None:
        self._file, self._headers = file, ()
        self._desk.hub.stop("headers")
        self._desk.fits.stop(self._on_fit)
        self._offer_projectors(file)
        self._show_act()
        self.file_line.set_text(file_title(file))
        if file.missing:
            self.file_words.setText(MISSING)
        elif file.is_projector:
            self.file_words.setText(PROJECTOR)
        else:
            self.file_words.setText(READING_HEADER)
            self._desk.hub.headers(file, self._on_headers, self._on_no_headers)

    def judge_again(self) -> None:
        """What is free has changed, or how weights would be loaded."""
        self._judge_roughly()
        self._judge_chosen()

    def _judge_roughly(self) -> None:
        """By size, with the projector that would come with each; not what is judged by its header,
        nor projectors, which are never loaded alone."""
        weights = self.table.weights
        for file in weights.files:
            if not file.is_projector and (file is not self._file or not self._headers):
                beside = projectors_for(file.name, self._projectors)[:1]
                size = file.size_bytes + sum(each.size_bytes for each in beside)
                weights.tell_fit(file, self._desk.fits.rough(size))

    def _judge_chosen(self) -> None:
        """With the projector that comes with it."""
        if self._file is not None and self._headers:
            beside = self.projector
            self._desk.fits.headers(
                self._headers,
                self._file.name,
                self._on_fit,
                projector_bytes=beside.size_bytes if beside is not None else 0,
            )

    # --- the projector --------------------------------------------------------------------------

    @property
    def projector(self) -> HubFile | None:
        """The one that comes with the chosen file."""
        found: HubFile | None = self.projector_box.currentData()
        return found

    def _offer_projectors(self, file: HubFile) -> None:
        """Those of the repository, the best first, and none."""
        able = () if file.is_projector else projectors_for(file.name, self._projectors)
        self.projector_box.clear()
        for each in able:
            size = bytes_words(each.size_bytes)
            self.projector_box.addItem(f"With {file_title(each)} · {size}", each)
        if able:
            self.projector_box.addItem(WITHOUT, None)
        self.projector_box.setCurrentIndex(0)

    def _on_projector(self) -> None:
        self._show_act()
        self._judge_chosen()

    def _get_projector(self) -> None:
        if self.projector is None:
            return
        there = self._download_of(self.projector)
        if there is None:
            self._desk.downloads.add(self.projector)
        elif there.state is DownloadState.FAILED:
            self._desk.downloads.resume(there.id)

    def _on_headers(self, headers: tuple[Header, ...]) -> None:
        self._headers = headers
        if self._file is not None:
            self._show_act()
            self.file_line.set_text(headers_line(headers))
            self.file_words.setText(JUDGING)
            self._judge_chosen()

    def _on_no_headers(self, trouble: HubTrouble) -> None:
        fit = self.table.weights.fit_of(self._file) if self._file is not None else None
        rough = f" By its size: {fit.words}." if fit is not None else ""
        self.file_words.setText(f"{one_line(trouble.sentence)}{rough}")

    def _on_fit(self, key: str, fit: Fit) -> None:
        file = self._file
        if file is None or file.name != key:
            return
        self.table.weights.tell_fit(file, fit)
        self.file_words.setText(fit.why)

    def _ask_for_fit(self) -> None:
        if self._file is not None and self._headers:
            self.headers_fit_requested.emit(self._headers, one_line(self._file.name))

    # --- downloading ----------------------------------------------------------------------------

    def _on_downloads(self, downloads: tuple[DownloadProgress, ...]) -> None:
        self._downloads = downloads
        self._show_act()

    def _download_of(self, file: HubFile) -> DownloadProgress | None:
        """Its download, if it is in the queue."""
        for each in reversed(self._downloads):
            if each.is_of(file) and each.state is not DownloadState.CANCELLED:
                return each
        return None

    def _show_act(self) -> None:
        """The one button: download, see how far it is, or load what is here."""
        file = self._file
        has_files = bool(self.table.weights.files)
        self.act_button.setVisible(has_files)
        self.file_line.setVisible(has_files)
        self.file_words.setVisible(has_files)
        self.memory_button.setVisible(file is not None and bool(self._headers))
        self.projector_box.setVisible(file is not None and self.projector_box.count() > 0)
        self.projector_button.hide()
        if file is None:
            self.file_line.set_text("")
            self.file_words.setText(CHOOSE_FILE)
            self.act_button.setText("Download")
            self.act_button.setEnabled(False)
            return
        there = self._download_of(file)
        self.act_button.setEnabled(there is not None or not file.missing)
        beside = self.projector
        its = self._download_of(beside) if beside is not None else None
        if its is not None and its.state is not DownloadState.FAILED:
            beside = None  # it is here, or on its way
        self.projector_button.setVisible(there is not None and beside is not None)
        size = file.size_bytes + (beside.size_bytes if beside is not None else 0)
        whole = ""
        if there is None:
            words = spoken = "Download"
            if beside is not None:
                words, whole = f"Download {bytes_words(size)}", ", with its projector"
        elif there.state is DownloadState.DONE:
            words = spoken = "Show in downloads" if file.is_projector else "Load"
        else:
            words, spoken = f"{percent_text(there)} downloaded…", "Show in downloads"
        self.act_button.setText(words)
        self.act_button.setAccessibleName(f"{spoken}: {file_title(file)}{whole}")
        self.act_button.setToolTip(self.act_button.accessibleName())

    def _press(self) -> None:
        file = self._file
        if file is None or not self.act_button.isEnabled():
            return
        there = self._download_of(file)
        if there is None:
            self._desk.downloads.add(file)
            self._get_projector()
        elif there.state is DownloadState.DONE and not file.is_projector:
            self._desk.loader.load(there.path)
        else:
            self.page_requested.emit("downloads")

    def _open_page(self) -> None:
        if self._repo is not None:
            confirm_link(self, f"{self._desk.hub.state.endpoint}/{self._repo.id}")
