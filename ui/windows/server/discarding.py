"""Asks before what somebody wrote in the chat of a request is gone."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget


def ask_to_discard(parent: QWidget, act: Callable[[], None]) -> None:
    box = QMessageBox(parent.window())
    box.setObjectName("discard_request_dialog")
    box.setWindowTitle("Server request")
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setText("Discard what you wrote in the open request?")
    box.setInformativeText("It was never saved. To keep it, save the request as a chat first.")
    discard = box.addButton("Discard", QMessageBox.ButtonRole.DestructiveRole)
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(cancel)
    box.setEscapeButton(cancel)
    discard.clicked.connect(act)
    box.open()
