"""Creating the tables, and bringing older databases to the present form.

Alembic is imported only inside `upgrade` and `is_known`: a database of the present form
never needs it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite import dialect
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement

from models.search.index import create_search_index
from models.store.connecting import close, connect_for_writing, raw_of
from models.store.errors import StoreError
from models.store.plain import HEAD_REVISION
from models.tables import Base

MIGRATIONS = Path(__file__).parent

if TYPE_CHECKING:
    from alembic.config import Config


def create_tables(connection: Connection) -> None:
    """All tables, indexes and triggers at once, stamped as the newest revision."""
    raw = raw_of(connection)
    for statement in _statements():
        raw.execute(statement)
    create_search_index(connection)
    raw.execute(
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
        "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    raw.execute("INSERT INTO alembic_version VALUES (?)", (HEAD_REVISION,))


@cache
def _statements() -> tuple[str, ...]:
    """The SQL of all tables and their indexes: to write it takes longer than to run it."""
    tables = Base.metadata.sorted_tables
    indexes = sorted((i for table in tables for i in table.indexes), key=lambda i: str(i.name))
    made: list[DDLElement] = [*map(CreateTable, tables), *map(CreateIndex, indexes)]
    return tuple(str(each.compile(dialect=dialect())) for each in made)


def is_known(revision: str) -> bool:
    """Whether this version has a migration of that name; if not, a newer one has."""
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    try:
        return ScriptDirectory.from_config(_config()).get_revision(revision) is not None
    except CommandError:
        return False


def upgrade(path: Path, revision: str = "head", *, busy_timeout_s: float = 3.0) -> None:
    """Run the migrations, all in one transaction: it is either done or as it was.

    Foreign keys are off meanwhile, because changing a table means building it anew, and
    checked before the commit.
    """
    from alembic import command

    connection = connect_for_writing(path, busy_timeout_s=busy_timeout_s, foreign_keys=False)
    try:
        with connection.begin():
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
            if connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
                raise StoreError("After the migration some messages would have lost their place.")
    finally:
        close(connection)


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config
