"""What the parts of the desk have in common; `app.chat.desk` puts them together."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Door(ABC):
    """A part of `Desk`. It declares what it delegates to, and `Desk` makes that."""

    @abstractmethod
    def _may_write(self) -> bool:
        """Whether changes can be stored; says why not."""
