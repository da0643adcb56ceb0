"""Weights that were used: what is known of them, and what is set for them alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from models.mapping import clean, object_value, path_value, to_us, weights_from
from models.records import Weights
from models.tables import WeightsRow

_LISTED: Final = select(*WeightsRow.__table__.columns).order_by(
    WeightsRow.last_used_us.desc().nulls_last(), WeightsRow.name, WeightsRow.path
)
_NEW: Final = upsert(WeightsRow)
_KEEP: Final = _NEW.on_conflict_do_update(
    index_elements=["path"],
    set_={each.name: each for each in _NEW.excluded if each.name != "path"},
)


def list_weights(connection: Connection) -> tuple[Weights, ...]:
    """All known weights, the last used first, then by name."""
    return tuple(weights_from(row) for row in connection.execute(_LISTED))


def last_used_weights(connection: Connection) -> Weights | None:
    return next((w for w in list_weights(connection) if w.last_used_at is not None), None)


def upsert_weights(connection: Connection, weights: Weights) -> Weights:
    """Add or update by path. A None keeps what is known, unless the size has changed. Settings stay
    where none are given; `set_weights_settings` takes them away."""
    known = next((w for w in list_weights(connection) if w.path == weights.path), None)
    if known is not None and known.size_bytes == weights.size_bytes:
        weights = Weights(
            path=weights.path,
            name=weights.name,
            size_bytes=weights.size_bytes,
            last_used_at=weights.last_used_at or known.last_used_at,
            fast_hash=weights.fast_hash or known.fast_hash,
            sha256=weights.sha256 or known.sha256,
        )
    if known is not None and not weights.settings:
        weights = replace(weights, settings=known.settings)
    used = weights.last_used_at
    values = {
        "name": clean(weights.name),
        "size_bytes": weights.size_bytes,
        "last_used_us": None if used is None else to_us(used),
        "fast_hash": weights.fast_hash,
        "sha256": weights.sha256,
        "settings": object_value(weights.settings),
    }
    connection.execute(_KEEP, values | {"path": path_value(weights.path)})
    return weights


def set_weights_settings(connection: Connection, path: str, settings: Mapping[str, Any]) -> None:
    """What is set otherwise for these weights, in place of what was."""
    connection.execute(
        update(WeightsRow)
        .where(WeightsRow.path == path_value(path))
        .values(settings=object_value(settings))
    )
