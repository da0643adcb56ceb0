"""What Qt hands to the methods of an item model: an index of either kind."""

from PySide6.QtCore import QModelIndex, QPersistentModelIndex

AnyIndex = QModelIndex | QPersistentModelIndex
