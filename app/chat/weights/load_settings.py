"""How weights are loaded beyond what the app has settings for: batches, devices, RoPE.

These stand with the weights that they are for, as `settings["load"]`: an object of `LoadOptions`'
own names, `rope` as an object too. What a stored one says is untrusted: a value that cannot be
taken is left out, and the engine then decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from app.chat.settings.resolved import LOADING
from app.chat.settings.settings import Settings, as_stored
from app.engine.planning.load_checks import check_options
from app.engine.protocol.loading_messages import LoadOptions, RopeScaling
from app.refusal import Refusal, bad_setting
from app.strict_reading import field_types, read_fields

LOAD: Final = "load"
_OF_REPLIES: Final = "loras"
"""A setting of replies, too (`app.chat.settings.resolved`). It once stood among these."""
DRAFT: Final = "draft"
"""The path of the draft model, which stands beside `load`."""
PROJECTOR: Final = "projector"
"""Which projector is loaded with it: nothing for the best that is found, NO_PROJECTOR, a path."""
NO_PROJECTOR: Final = "none"
BEYOND: Final = tuple(
    name for name in LoadOptions.__struct_fields__ if name not in (*LOADING, _OF_REPLIES, DRAFT)
)
"""The options that no setting of the app is for."""
ROPE: Final = "rope."
"""`rope.kind` and the like: one part of the RoPE scaling."""
_USUAL: Final = LoadOptions()


def load_value(stored: object, name: str) -> Any:
    """What counts for a name: what is stored, as far as it can be taken, else the usual."""
    options = load_options(Settings(), stored)
    if name.startswith(ROPE):
        return getattr(options.rope, name.removeprefix(ROPE))
    return getattr(options, name)


def with_loras_in_place(stored: Mapping[str, Any]) -> dict[str, Any]:
    """What is stored for weights, with the LoRA adapters that an older version kept among the load
    options where they stand now."""
    settings, load = dict(stored), stored.get(LOAD)
    if isinstance(load, Mapping) and _OF_REPLIES in load:
        settings[LOAD] = {name: load[name] for name in load if name != _OF_REPLIES}
        settings.setdefault(_OF_REPLIES, load[_OF_REPLIES])
    return settings


def load_options(settings: Settings, stored: object) -> LoadOptions:
    """How to load: as the settings say, and as is stored for these weights beyond that."""
    options = settings.load_options()
    for name, value in stored.items() if isinstance(stored, Mapping) else ():
        if name in BEYOND:
            try:
                taken = msgspec.structs.replace(options, **{name: _read(name, value)})
                check_options(_alone(name, taken))
            except Refusal:
                continue
            options = taken
    return options


def changed_load(stored: object, name: str, value: object) -> dict[str, Any]:
    """What is stored, with one value changed; None, or the usual one, takes it away. Raises
    Refusal."""
    values = dict(stored) if isinstance(stored, Mapping) else {}
    if name.startswith(ROPE):
        rope = values.get("rope")
        parts = dict(rope) if isinstance(rope, Mapping) else {}
        parts[name.removeprefix(ROPE)] = value
        name, value = "rope", parts
    if name not in BEYOND:
        raise bad_setting(f"Unknown load setting “{name}”.")
    usual = getattr(_USUAL, name)
    taken = usual if value is None else _read(name, value)
    check_options(_alone(name, msgspec.structs.replace(_USUAL, **{name: taken})))
    if taken == usual:
        values.pop(name, None)
    else:
        values[name] = as_stored(taken)
    return values


def usual_load(name: str) -> Any:
    """What a name is where nothing is set."""
    return load_value({}, name)


def _alone(name: str, options: LoadOptions) -> LoadOptions:
    """Only this option, so that it is judged by itself; how it goes with the others is judged when
    all of them are known."""
    return msgspec.structs.replace(_USUAL, **{name: getattr(options, name)})


def _read(name: str, value: object) -> Any:
    if name == "rope":
        if not isinstance(value, Mapping):
            raise bad_setting("The RoPE scaling must be an object.")
        return RopeScaling(**read_fields(dict(value), field_types(RopeScaling), "this model"))
    return read_fields({name: value}, field_types(LoadOptions), "this model")[name]
