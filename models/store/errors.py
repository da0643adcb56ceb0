"""What can go wrong in the store, by type. Messages are sentences for the user.

StoreError
├── ReadOnlyError     something was to be written, but the store is open read-only
├── NotFoundError     there is no such conversation or message
├── RefusedError      the database refuses what was asked: a mistake of ours
├── DamagedError      SQLite finds the file damaged; the next start repairs it
├── SupersededError   a search was given up for a newer one
└── ClosedError       the store was closed before this could be done

A database that is locked, full or out of reach is no error: the write waits in memory and
is tried again (`models.store.threads`).
"""

from __future__ import annotations


class StoreError(Exception):
    """Base of everything that a store's futures raise."""


class ReadOnlyError(StoreError):
    pass


class NotFoundError(StoreError):
    pass


class RefusedError(StoreError):
    pass


class DamagedError(StoreError):
    pass


class SupersededError(StoreError):
    pass


class ClosedError(StoreError):
    pass
