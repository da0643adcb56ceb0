"""The two palettes.

What must hold: every pair of a text colour and a plane that it stands on reaches a contrast of
4.5:1 in both (a test computes it).
"""

from __future__ import annotations

from typing import NamedTuple


class Colors(NamedTuple):
    """One palette, as #rrggbb. A tuple: it is made before the first paint, in a fifth of the time.

    `chat`, `side` and `card` are the three planes; `bubble` lies under what the user wrote,
    `code` under code, `hover` under the pointer. `ink`, `dim`, `accent`, `error` and `warning`
    may be written on any plane, `on_accent` on `accent` only. `ink` may be written on every tint
    between `tint_low` and `tint_high`, which lie behind tokens. The colours that begin with `from_`
    say where a token comes from (`ui.tokens.origins`); nothing is written on them.
    """

    is_dark: bool
    chat: str
    side: str
    card: str
    bubble: str
    code: str
    hover: str
    line: str
    ink: str
    dim: str
    accent: str
    accent_hover: str
    accent_tone: str
    on_accent: str
    selection: str
    second: str
    found: str
    found_now: str
    tint_low: str
    tint_middle: str
    tint_high: str
    from_template: str
    from_system: str
    from_you: str
    from_attachment: str
    from_reply: str
    from_tool: str
    error: str
    error_tone: str
    warning: str
    code_comment: str
    code_keyword: str
    code_string: str
    code_number: str
    code_name: str
    code_type: str
    code_builtin: str


LIGHT = Colors(
    is_dark=False,
    chat="#faf9f7",
    side="#f2f0ec",
    card="#ffffff",
    bubble="#f2f0ec",
    code="#f4f2ee",
    hover="#eae7e1",
    line="#e4e0d9",
    ink="#1d1c1a",
    dim="#65615a",
    accent="#0f6e84",
    accent_hover="#0c5f72",
    accent_tone="#d8ecef",
    on_accent="#ffffff",
    selection="#bfe0e6",
    second="#c8a24a",
    found="#ffe9a3",
    found_now="#ffc14d",
    tint_low="#e3ebf2",
    tint_middle="#d5d6b4",
    tint_high="#d6a92c",
    from_template="#a39e92",
    from_system="#7d95b0",
    from_you="#0f6e84",
    from_attachment="#c8a24a",
    from_reply="#57a385",
    from_tool="#a77fb0",
    error="#a8231c",
    error_tone="#f9e9e6",
    warning="#7a5408",
    code_comment="#65615a",
    code_keyword="#8a3b7a",
    code_string="#2a6b3c",
    code_number="#9a4a12",
    code_name="#2457a6",
    code_type="#0f6e84",
    code_builtin="#7a4fa8",
)

DARK = Colors(
    is_dark=True,
    chat="#17181a",
    side="#1e1f22",
    card="#222427",
    bubble="#222427",
    code="#1e1f22",
    hover="#2a2c30",
    line="#303236",
    ink="#e9e7e3",
    dim="#a9a69f",
    accent="#5cc0d3",
    accent_hover="#7bd0e0",
    accent_tone="#1d3a41",
    on_accent="#0d1a1d",
    selection="#24525d",
    second="#c8a24a",
    found="#3d3410",
    found_now="#6b4a08",
    tint_low="#202b38",
    tint_middle="#3f4a3c",
    tint_high="#73600f",
    from_template="#85827b",
    from_system="#7f97b4",
    from_you="#3fa3b8",
    from_attachment="#c8a24a",
    from_reply="#63ad8f",
    from_tool="#b08abb",
    error="#f2a29b",
    error_tone="#3a2323",
    warning="#e0b968",
    code_comment="#a9a69f",
    code_keyword="#d69ac9",
    code_string="#93c99e",
    code_number="#e0a878",
    code_name="#8fb4ee",
    code_type="#5cc0d3",
    code_builtin="#c3a6ea",
)
