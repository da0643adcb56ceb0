"""Modules of ours that need SQLAlchemy, imported when a database thread first uses them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class AtFirstUse(ModuleType):
    """Stands for the module of that name."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)
