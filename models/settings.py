"""Settings, and presets of them.

A name that begins with `store.` is a note of the store's own, and no setting.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, select
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.exc import IntegrityError

from models.mapping import columns_for, fields_of, preset_from
from models.records import Preset
from models.rows import add_once, change
from models.store.errors import NotFoundError, RefusedError
from models.tables import PresetRow, SettingRow

_NEW: Final = upsert(SettingRow)
_SET: Final = _NEW.on_conflict_do_update(
    index_elements=["name"], set_={"value": _NEW.excluded.value}
)
_ONE: Final = select(SettingRow.value).where(SettingRow.name == bindparam("name"))
_ALL: Final = (
    select(SettingRow.name, SettingRow.value)
    .where(SettingRow.name.not_like("store.%"))
    .order_by(SettingRow.name)
)
_PRESETS: Final = select(*PresetRow.__table__.columns).order_by(
    PresetRow.position, PresetRow.row_id
)


def get_setting(connection: Connection, name: str, default: Any = None) -> Any:
    return _read(connection.scalar(_ONE, {"name": name}), default)


def _read(value: Any, default: Any) -> Any:
    if value is None:
        return default
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return default


def all_settings(connection: Connection) -> dict[str, Any]:
    """Every setting that can be read."""
    nothing = object()
    values = {name: _read(value, nothing) for name, value in connection.execute(_ALL)}
    return {name: value for name, value in values.items() if value is not nothing}


def set_setting(connection: Connection, name: str, text: str) -> None:
    """text: the value as JSON."""
    connection.execute(_SET, {"name": name, "value": text})


# --- presets ------------------------------------------------------------------------------------


def list_presets(connection: Connection) -> tuple[Preset, ...]:
    """All presets by position, then by age."""
    return tuple(preset_from(row) for row in connection.execute(_PRESETS))


def create_preset(connection: Connection, preset: Preset) -> Preset:
    with _name_is_free(preset.name):
        add_once(connection, PresetRow, preset.id, columns_for(fields_of(preset)))
    return _preset(connection, preset.id)


def update_preset(connection: Connection, /, preset_id: str, **changes: Any) -> Preset:
    with _name_is_free(str(changes.get("name", ""))):
        change(connection, PresetRow, preset_id, columns_for(changes))
    return _preset(connection, preset_id)


def delete_preset(connection: Connection, preset_id: str) -> None:
    connection.execute(delete(PresetRow).where(PresetRow.id == preset_id))


def _preset(connection: Connection, preset_id: str) -> Preset:
    found = next((p for p in list_presets(connection) if p.id == preset_id), None)
    if found is None:
        raise NotFoundError("This preset is not in the database.")
    return found


@contextmanager
def _name_is_free(name: str) -> Iterator[None]:
    """Says in words that it is not."""
    try:
        yield
    except IntegrityError as error:
        raise RefusedError(
            f"A preset named “{name}” already exists. Choose another name."
        ) from error
