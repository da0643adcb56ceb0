"""What SQLite's errors mean: trouble that passes, damage, or a mistake of ours.

A write that meets passing trouble is kept and tried again; the sentence says so to the user.
"""

from __future__ import annotations

import sqlite3

from models.store.errors import DamagedError, RefusedError, StoreError

_KEPT = "Recent changes are in memory and will be saved as soon as possible."

_PASSING = {
    sqlite3.SQLITE_BUSY: "Another program is using the database. " + _KEPT,
    sqlite3.SQLITE_LOCKED: "Another program is using the database. " + _KEPT,
    sqlite3.SQLITE_FULL: "The disk is full: free some space. " + _KEPT,
    sqlite3.SQLITE_IOERR: "The data folder's disk reports errors: check it. " + _KEPT,
    sqlite3.SQLITE_CANTOPEN: "The data folder can't be reached: check its disk. " + _KEPT,
    sqlite3.SQLITE_READONLY: "The data folder can no longer be written to. " + _KEPT,
    sqlite3.SQLITE_NOMEM: "The computer is short of memory: close other programs. " + _KEPT,
}

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def code_of(error: BaseException | None) -> int:
    """SQLite's primary result code of an error, also of one that SQLAlchemy wrapped; or 0."""
    driver_error = getattr(error, "orig", None) or error
    code = getattr(driver_error, "sqlite_errorcode", 0)
    return code & 0xFF if isinstance(code, int) else 0


def words_of(error: BaseException) -> str:
    """SQLite's own words, without the statement and the address that SQLAlchemy adds."""
    return str(getattr(error, "orig", None) or error)


def passing_trouble(error: BaseException) -> str | None:
    """The sentence for an error that may go away by itself; None for another."""
    return _PASSING.get(code_of(error))


def is_lock(error: BaseException) -> bool:
    return code_of(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def is_damage(error: BaseException) -> bool:
    return code_of(error) in _DAMAGE


def is_interrupt(error: BaseException) -> bool:
    return code_of(error) == sqlite3.SQLITE_INTERRUPT


def as_store_error(error: Exception) -> StoreError:
    """The error to leave this package with; the original is its cause."""
    if isinstance(error, StoreError):
        return error
    found: StoreError
    if is_damage(error):
        found = DamagedError(
            "The database is damaged. Restart Cutaway to recover what can be read."
        )
    elif (sentence := passing_trouble(error)) is not None:
        found = StoreError(sentence)
    else:
        found = RefusedError(f"Database error: {words_of(error)}")
    found.__cause__ = error
    return found
