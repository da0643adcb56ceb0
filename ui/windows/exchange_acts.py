"""Export and import by the user's hand: which chats, what file, and what an import would bring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QStandardPaths, Qt
from PySide6.QtWidgets import QFileDialog, QWidget

from app.chat.events import ExportProgressed, ImportLooked, ImportPreviewed, ImportProgressed
from app.chat.exchange.choices import SUFFIXES, TOGETHER, ZIP, Choices
from models.records import Conversation
from ui.look.theme import Theme
from ui.shell.actions import Action, Actions
from ui.widgets.kit import rest_timer

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.sidebar.sidebar import Sidebar
    from ui.windows.progress import Progress, Work

EXPORT_KEY = "Ctrl+Shift+S"
IMPORT_KEY = "Ctrl+Shift+O"
IMPORT_FOLDER_KEY = "Ctrl+Alt+Shift+I"
FILTERS = {
    ".json": "Cutaway chats (*.json)",
    ".md": "Markdown (*.md)",
    ".html": "Web page (*.html)",
    ".pdf": "PDF (*.pdf)",
    ".docx": "Word document (*.docx)",
    ".jsonl": "Training data (*.jsonl)",
    ".csv": "Table (*.csv)",
    ZIP: "ZIP archive (*.zip)",
}
PATIENCE_MS = 500
"""An export that ends sooner tells nothing of its way."""
PICTURE_SUFFIX = ".png"
PAGE_FILTER, PAGE_SUFFIX = "Web page (*.html)", ".html"


class ExchangeActs(QObject):
    """Its dialogs are made over `window` when they are asked for; none of them blocks."""

    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, sidebar: Sidebar, window: QWidget
    ) -> None:
        super().__init__(window)
        self._window = window
        self._sidebar = sidebar
        self._desk = desk
        self._theme = theme
        self._folder = ""
        self._choices = Choices()
        self._progress: dict[str, Progress] = {}
        self._export_progress: Progress | None = None
        self._exported: ExportProgressed | None = None
        self._late = rest_timer(self, self._show_export, PATIENCE_MS)
        bridge.on(ExportProgressed, self._on_export_progressed)
        bridge.on(ImportPreviewed, self._on_import_previewed)
        bridge.on(ImportLooked, self._on_import_looked)
        bridge.on(ImportProgressed, self._on_import_progressed)
        sidebar.export_requested.connect(self.export)
        sidebar.folder_export_requested.connect(
            lambda folder_id: self.export(self._chats_in(folder_id))
        )

    def add_actions(self, actions: Actions) -> None:
        desk, sidebar = self._desk, self._sidebar
        for action in (
            Action(
                "export_chats",
                "Export chats…",
                EXPORT_KEY,
                lambda: self.export(sidebar.chosen()),
                lambda: bool(desk.shelf.conversations),
            ),
            Action("import_chats", "Import chats…", IMPORT_KEY, self.choose_import),
            Action(
                "import_folder",
                "Import a folder of chats…",
                IMPORT_FOLDER_KEY,
                self.choose_folder,
            ),
        ):
            actions.add(action)

    # --- export -------------------------------------------------------------------------

    def export(self, ids: Sequence[str] = ()) -> None:
        """Ask what to export; `ids` are chats that were chosen for it."""
        from ui.windows.export_dialog import ExportDialog

        listed = {each.id: each for each in self._desk.shelf.conversations}
        if not listed:
            return
        shown = listed.get(self._desk.shelf.open.id)
        ExportDialog(
            self._theme,
            shown,
            [listed[each] for each in ids if each in listed],
            len(listed),
            self._ask_where,
            self._window,
            folder=self._folder_of(shown),
            before=self._choices,
        ).open()

    def _folder_of(self, shown: Conversation | None) -> tuple[str, list[str]]:
        """The name of the folder around a chat, and what is in it."""
        folders = {each.id: each for each in self._desk.folders.all}
        if shown is None or shown.folder_id not in folders:
            return "", []
        return folders[shown.folder_id].name, self._chats_in(shown.folder_id)

    def _chats_in(self, folder_id: str) -> list[str]:
        """In a folder and in those below it."""
        inside, found = {folder_id}, 0
        while found < len(inside):
            found = len(inside)
            inside |= {each.id for each in self._desk.folders.all if each.parent_id in inside}
        return [c.id for c in self._desk.shelf.conversations if c.folder_id in inside]

    def _ask_where(self, ids: Sequence[str] | None, choices: Choices, as_zip: bool) -> None:
        self._choices = choices
        if choices.form == "pdf" and self._desk.exchange.press is None:
            from ui.paper.pages import PdfPress

            self._desk.exchange.press = PdfPress(self._theme, self)
        names = {each.id: each for each in self._desk.shelf.conversations}
        is_several = (ids is None or len(ids) > 1) and choices.form not in TOGETHER
        is_folder = is_several and not as_zip
        suffix = ZIP if is_several else SUFFIXES[choices.form]
        dialog = QFileDialog(self._window, "Export to a folder" if is_folder else "Export")
        dialog.setObjectName("export_file_dialog")
        if is_folder:
            dialog.setFileMode(QFileDialog.FileMode.Directory)
            dialog.setOption(QFileDialog.Option.ShowDirsOnly)
            dialog.setLabelText(QFileDialog.DialogLabel.Accept, "Export")
        else:
            _to_save(dialog, FILTERS[suffix], suffix)
        dialog.setDirectory(self._usual_folder())
        if not is_folder:
            dialog.selectFile(_file_name(ids, names, suffix))
        self._open(dialog, lambda files: self._desk.exchange.export(ids, files[0], choices))

    def ask_where_page(self, title: str, chosen: Callable[[str], object]) -> None:
        """Where a page goes that is called so."""
        from app.chat.exchange.exporting import file_name

        dialog = QFileDialog(self._window, "Save as a page")
        dialog.setObjectName("page_file_dialog")
        _to_save(dialog, PAGE_FILTER, PAGE_SUFFIX)
        dialog.setDirectory(self._usual_folder())
        dialog.selectFile(file_name(title, PAGE_SUFFIX))
        self._open(dialog, lambda files: chosen(files[0]))

    def _on_export_progressed(self, event: ExportProgressed) -> None:
        if event.is_over:
            self._late.stop()
            self._exported = None
            progress, self._export_progress = self._export_progress, None
            if progress is not None:
                progress.close()
                progress.deleteLater()
            return
        if self._exported is None:
            self._late.start()
        self._exported = event
        if self._export_progress is not None:
            self._export_progress.show_progress(event.done, event.total)

    def _show_export(self) -> None:
        from ui.windows.progress import EXPORTS, Progress

        if self._exported is None:
            return
        self._export_progress = Progress(self._theme, EXPORTS[self._exported.unit], self._window)
        self._export_progress.cancelled.connect(self._desk.exchange.cancel)
        self._export_progress.show_progress(self._exported.done, self._exported.total)
        self._export_progress.show()

    def ask_where_picture(
        self, title: str, filters: Sequence[str], chosen: Callable[[str, str], object]
    ) -> None:
        """Where a picture goes that is called so, and as which kind of it."""
        from app.chat.exchange.exporting import file_name

        dialog = QFileDialog(self._window, "Save as a picture")
        dialog.setObjectName("picture_file_dialog")
        _to_save(dialog, filters[0], PICTURE_SUFFIX)
        dialog.setNameFilters(list(filters))
        dialog.setDirectory(self._usual_folder())
        dialog.selectFile(file_name(title, PICTURE_SUFFIX))
        self._open(dialog, lambda files: chosen(files[0], dialog.selectedNameFilter()))

    # --- import -------------------------------------------------------------------------

    def choose_import(self) -> None:
        from app.chat.exchange.recognising import SUFFIXES as IMPORTED

        dialog = QFileDialog(self._window, "Import chats")
        dialog.setObjectName("import_file_dialog")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        suffixes = " ".join(f"*{each}" for each in (*IMPORTED, ".md", ".markdown", ".txt"))
        dialog.setNameFilters([f"Chats and presets ({suffixes})", "All files (*)"])
        dialog.setDirectory(self._usual_folder())
        self._open(dialog, self._desk.exchange.preview)

    def choose_folder(self) -> None:
        """Some apps keep a file for each chat."""
        dialog = QFileDialog(self._window, "Import a folder of chats")
        dialog.setObjectName("import_folder_dialog")
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.setLabelText(QFileDialog.DialogLabel.Accept, "Import")
        dialog.setDirectory(self._usual_folder())
        self._open(dialog, self._desk.exchange.preview)

    def _on_import_previewed(self, event: ImportPreviewed) -> None:
        from ui.windows.import_dialog import ImportDialog

        ImportDialog(
            self._theme,
            event,
            lambda chosen: self._desk.exchange.import_previewed(chosen, event.number),
            lambda: self._desk.exchange.forget_preview(event.number),
            self._window,
        ).open()

    def _on_import_looked(self, event: ImportLooked) -> None:
        from ui.windows.progress import LOOK

        self._show_far(LOOK, event.n_chats, 0, event.is_over)

    def _on_import_progressed(self, event: ImportProgressed) -> None:
        from ui.windows.progress import IMPORT

        self._show_far(IMPORT, event.done, event.total, event.is_over)

    def _show_far(self, work: Work, done: int, total: int, is_over: bool) -> None:
        """How far a work is, while it goes on."""
        from ui.windows.progress import Progress

        shown = self._progress.get(work.name)
        if is_over:
            if shown is not None:
                del self._progress[work.name]
                shown.close()
                shown.deleteLater()
            return
        if shown is None:
            shown = self._progress[work.name] = Progress(self._theme, work, self._window)
            shown.cancelled.connect(self._desk.exchange.cancel)
            shown.show()
        shown.show_progress(done, total)

    # --- files --------------------------------------------------------------------------

    def _open(self, dialog: QFileDialog, chosen: Callable[[list[str]], object]) -> None:
        def take(files: list[str]) -> None:
            self._folder = dialog.directory().absolutePath()
            if files:
                chosen(files)

        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.filesSelected.connect(take)
        dialog.open()

    def _usual_folder(self) -> str:
        """The last one; at first where documents lie."""
        documents = QStandardPaths.StandardLocation.DocumentsLocation
        usual = self._folder or QStandardPaths.writableLocation(documents)
        return usual if Path(usual).is_dir() else str(Path.home())


def _to_save(dialog: QFileDialog, name_filter: str, suffix: str) -> None:
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setNameFilter(name_filter)
    dialog.setDefaultSuffix(suffix.removeprefix("."))


def _file_name(ids: Sequence[str] | None, listed: dict[str, Conversation], suffix: str) -> str:
    from app.chat.exchange.exporting import file_name

    if ids is not None and len(ids) == 1 and ids[0] in listed:
        return file_name(listed[ids[0]].title, suffix)
    return f"Cutaway chats{suffix}"
