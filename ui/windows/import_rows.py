"""The chats that an import would bring, as rows to tick: any number of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt, Signal

from app.chat.events import ChatLooked
from app.local_time import here
from models.records import Whereabouts
from ui.widgets.any_index import AnyIndex
from ui.widgets.elided import tip_text
from ui.widgets.table_model import TableModel

_Role = Qt.ItemDataRole
_State = Qt.CheckState
_FLAGS: Final = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
_TICKED_FLAGS: Final = _FLAGS | Qt.ItemFlag.ItemIsUserCheckable
TITLE, MESSAGES, DATE, RESULT = range(4)

_HAPPENS: Final = {
    Whereabouts.NEW: "Added",
    Whereabouts.OTHER: "Added next to yours",
    Whereabouts.MORE: "New messages",
    Whereabouts.THERE: "Already here",
}
IN_TRASH: Final = "Copy added"
"""Of a chat out of another app that came before, and lies in the trash here."""

TRASH_HINT: Final = "An earlier import of it is in your trash."


def happens(chat: ChatLooked) -> str:
    if chat.app and chat.whereabouts is Whereabouts.OTHER:
        return IN_TRASH
    return _HAPPENS[chat.whereabouts]


class ImportRows(TableModel):
    """`narrow` shows those whose titles hold a text. What was thrown away here before isn't ticked
    at first; what is here already can't be."""

    columns = ("Chat", "Messages", "Last change", "Result")
    numbers = frozenset({MESSAGES})
    ticked = Signal()

    def __init__(self, chats: tuple[ChatLooked, ...]) -> None:
        super().__init__()
        self._chats = chats
        self._titles = [" ".join(chat.title.split()) or "Chat" for chat in chats]
        self._shown = list(range(len(chats)))
        self._can = {n for n, c in enumerate(chats) if c.whereabouts is not Whereabouts.THERE}
        self._presets = {n for n, chat in enumerate(chats) if chat.is_preset}
        self._ticked = {n for n in self._can if happens(chats[n]) != IN_TRASH}
        self._typed = ""

    # --- what is chosen -------------------------------------------------------------------------

    @property
    def n_ticked(self) -> tuple[int, int]:
        """Chats, and presets."""
        n_presets = len(self._ticked & self._presets)
        return len(self._ticked) - n_presets, n_presets

    @property
    def chosen(self) -> frozenset[str] | None:
        """Ids of the chats that are ticked; None: all that can be."""
        if self._ticked == self._can:
            return None
        return frozenset(self._chats[number].id for number in self._ticked)

    @property
    def state(self) -> Qt.CheckState:
        """Of those that are shown and can be ticked."""
        can = [number for number in self._shown if number in self._can]
        n_ticked = sum(number in self._ticked for number in can)
        if not n_ticked:
            return _State.Unchecked
        return _State.Checked if n_ticked == len(can) else _State.PartiallyChecked

    def tick_shown(self, is_on: bool) -> None:
        some = {number for number in self._shown if number in self._can}
        self._ticked = self._ticked | some if is_on else self._ticked - some
        if self._shown:
            last = self.index(len(self._shown) - 1, TITLE)
            self.dataChanged.emit(self.index(0, TITLE), last, [_Role.CheckStateRole])
        self.ticked.emit()

    # --- which are shown, in which order --------------------------------------------------------

    def narrow(self, text: str) -> None:
        wanted = " ".join(text.casefold().split())
        self.beginResetModel()
        self._shown = [n for n, title in enumerate(self._titles) if wanted in title.casefold()]
        self.endResetModel()
        self.ticked.emit()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        chats = self._chats
        keys: tuple[Callable[[int], Any], ...] = (
            lambda n: self._titles[n].casefold(),
            lambda n: chats[n].n_messages,
            lambda n: chats[n].updated_at,
            lambda n: happens(chats[n]),
        )
        is_down = order is Qt.SortOrder.DescendingOrder
        self.layoutAboutToBeChanged.emit()
        # Without a column, in the file's order.
        self._shown.sort(key=keys[column] if column >= 0 else None, reverse=is_down)
        self.layoutChanged.emit()

    # --- Qt -------------------------------------------------------------------------------------

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._shown)

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        if index.isValid() and self._shown[index.row()] not in self._can:
            return Qt.ItemFlag.NoItemFlags
        return _TICKED_FLAGS if index.column() == TITLE else _FLAGS

    def data(self, index: AnyIndex, role: int = _Role.DisplayRole) -> Any:
        number = self._shown[index.row()]
        chat, column = self._chats[number], index.column()
        match role:
            case _Role.DisplayRole:
                return (
                    self._titles[number],
                    "Preset" if chat.is_preset else f"{chat.n_messages:,}",
                    f"{here(chat.updated_at):%Y-%m-%d}",
                    happens(chat),
                )[column]
            case _Role.CheckStateRole if column == TITLE:
                return _State.Checked if number in self._ticked else _State.Unchecked
            case _Role.TextAlignmentRole:
                return self.alignment(column)
            case _Role.ToolTipRole:
                when = f"{here(chat.updated_at):%Y-%m-%d %H:%M}"
                source = f"{chat.app}, {chat.file}" if chat.app else chat.file
                trash = f"\n{TRASH_HINT}" if happens(chat) == IN_TRASH else ""
                return tip_text(f"{self._titles[number]}\n{when}, from {source}{trash}")
        return None

    def setData(
        self,
        index: QModelIndex | QPersistentModelIndex,
        value: Any,
        role: int = _Role.EditRole,
    ) -> bool:
        if role != _Role.CheckStateRole or not self.flags(index) & Qt.ItemFlag.ItemIsEnabled:
            return False
        number = self._shown[index.row()]
        if _State(value) is _State.Checked:
            self._ticked.add(number)
        else:
            self._ticked.discard(number)
        self.dataChanged.emit(index, index, [role])
        self.ticked.emit()
        return True
