"""Questions to the user. None of them blocks: each answers by calling back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialogButtonBox, QFileDialog, QMessageBox, QWidget

from ui.look.theme import Theme

SAFE_SCHEMES = frozenset({"http", "https", "mailto"})


def choose_gguf(parent: QWidget, folder: Path, chosen: Callable[[str], None]) -> QFileDialog:
    """Ask for a GGUF file."""
    dialog = QFileDialog(parent, "Open a GGUF file", str(folder))
    dialog.setObjectName("gguf_dialog")
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.setNameFilters(["GGUF files (*.gguf)", "All files (*)"])
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.fileSelected.connect(chosen)
    dialog.open()
    return dialog


def space_buttons(theme: Theme, buttons: QDialogButtonBox) -> None:
    """Qt's own spacing does not follow the zoom."""
    row = buttons.layout()
    assert row is not None
    theme.space(row, 8)


def may_open(address: str) -> bool:
    """Whether a link of a reply may be offered to the system: the web and mail, no files."""
    url = QUrl(address)
    return url.isValid() and url.scheme().lower() in SAFE_SCHEMES


def confirm_link(parent: QWidget, address: str) -> QMessageBox:
    """Show where a link leads; open it in the browser only if the user says so."""
    box = QMessageBox(parent)
    box.setObjectName("link_dialog")
    box.setWindowTitle("Open link")
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    if not may_open(address):
        box.setText("This link can't be opened: only web and mail links are supported.")
        box.setInformativeText(address)
        box.setStandardButtons(QMessageBox.StandardButton.Close)
    else:
        box.setText("Open this address in your browser?")
        box.setInformativeText(address)
        open_button = box.addButton("Open", QMessageBox.ButtonRole.AcceptRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(QMessageBox.StandardButton.Cancel)
        open_button.clicked.connect(lambda: open_outside(parent, QUrl(address)))
    box.open()
    return box


def show_folder(parent: QWidget, folder: Path | str) -> None:
    """Show a folder in the system's file manager, or say where it is."""
    words = "No file manager was found. The folder is here:"
    _open(parent, QUrl.fromLocalFile(str(folder)), "Show folder", words, str(folder))


def open_file(parent: QWidget, path: Path | str) -> None:
    """Open a file in the program that the system has for it, or say where it is."""
    words = "No app is set up to open this file. It is here:"
    _open(parent, QUrl.fromLocalFile(str(path)), "Open file", words, str(path))


def open_outside(parent: QWidget, url: QUrl) -> None:
    """Give an address to the program that the system has for it; without one, show it."""
    words = "No app is set up to open this link. The address is:"
    _open(parent, url, "Open link", words, url.toString())


def _open(parent: QWidget, url: QUrl, title: str, words: str, address: str) -> None:
    if QDesktopServices.openUrl(url):
        return
    box = QMessageBox(parent)
    box.setObjectName("not_opened_dialog")
    box.setWindowTitle(title)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse
        | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    box.setText(words)
    box.setInformativeText(address)
    box.setStandardButtons(QMessageBox.StandardButton.Close)
    box.open()
