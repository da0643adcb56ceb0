"""`main.py inside`: the numbers of one token on its way through the network, without a window.

It asks the engine what the panel Inside asks (`inside_messages.py`), of a text that is read for
this. docs/inside.md describes the file that it writes; `run.py` says how it ends. What must hold:
the token IDs are those that `ask` would read; a file is written whole or not at all.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from app.command_line.media_files import add_media_options, projector_path
from app.command_line.run import (
    SentenceParser,
    add_common_options,
    add_file_options,
    argument_text,
    run_to_the_end,
    stdin_text,
    weights_path,
)
from app.command_line.seen import FILE_ARRAYS, SAVED, ReadingLine, Seen, as_json, as_text
from app.command_line.settings import AskSettings
from app.command_line.talk import Talk
from app.engine.protocol.frames import MAX_FRAME_BYTES
from app.engine.protocol.inside_messages import OF_EXPERTS, Inside, LookInside
from app.engine.protocol.loading_messages import Loaded, LoadOptions
from app.engine.protocol.prompt_messages import Prompt, PromptShown, ReadPrompt, TextPrompt
from app.insight.inside.arrays import arrays_of
from app.paths import typed_path
from app.refusal import Refusal, bad_setting

Values = np.ndarray[Any, Any]

BY_LAYER: Final = ("attn_out", "ffn_out", "residual", "q_before", "q_after", "k_after")
ROOM_BYTES: Final = MAX_FRAME_BYTES // 2
"""Of one answer. An array must not come near the limit, since a head's width is only guessed."""

MOST_EXPERTS: Final = 64
"""That a token passes in a layer, as far as is reckoned with."""

WIDEST_HEAD: Final = 576
"""Numbers per head that are reckoned with: DeepSeek's, the widest known."""

_TOO_LONG: Final = (
    "One layer's attention to {n_tok:,} tokens is too large to be sent. Choose an earlier token."
)
_TEXTS_ONLY: Final = (
    "Only texts can be looked inside: the cells of a picture hold no tokens. "
    "Remove --image and --audio, or use “ask”."
)
_NOT_OFFERED: Final = "This architecture doesn't offer it."


def main(argv: Sequence[str]) -> int:
    """Look, print, and return the exit code."""
    return run_to_the_end(lambda: _run(_parse(argv)))


def _run(options: argparse.Namespace) -> int:
    if options.image or options.audio:
        raise bad_setting(_TEXTS_ONLY)
    prompt = _prompt(options)
    load_options = _load_options(options)
    out = None if options.out is None else _target(options.out)
    weights = weights_path(options)
    projector = projector_path(options, is_needed=False)
    reading = ReadingLine(sys.stderr)
    talk = Talk(options, reading.event)
    try:
        loaded = talk.load(weights, load_options, projector)
        shown = talk.ask(ReadPrompt(0, prompt), PromptShown)
        ids = shown.token_ids.numbers().tolist()
        token = _position(options.token, len(ids))
        found = _look(talk, loaded, ids, token)
        pieces = talk.read_pieces()
    finally:
        talk.close()
        reading.clear()
    notes = [*shown.notes, *found.notes]
    seen = Seen(weights, loaded, ids, token, pieces, found.arrays, found.missing, notes)
    if out is not None:
        save(out, {name: found.arrays[name] for name in SAVED if name in found.arrays})
    sys.stdout.write(as_json(seen, out, sys.stdout) if options.json else as_text(seen, out))
    sys.stdout.flush()
    return 0


# --- arguments --------------------------------------------------------------------------------


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = SentenceParser(
        prog="main.py inside",
        description="Show what the network makes of one token of a text. docs/inside.md has more.",
    )
    add = parser.add_argument
    add("text", help="the message; - reads it from stdin")
    add_file_options(parser)
    add_media_options(parser)
    add("--raw", action="store_true", help="take the text as it is, without a chat template")
    add(
        "--token",
        type=int,
        metavar="N",
        help="position of the token, from 0; from the end: -1, -2, … (default: the last)",
    )
    add("--out", metavar="FILE.npz", help="save all arrays for numpy")
    add("--json", action="store_true", help="print one JSON object in place of the summary")
    add_common_options(parser, "inside")
    options = parser.parse_args(argv)
    options.text = argument_text(options.text)
    return options


def _prompt(options: argparse.Namespace) -> Prompt:
    """What `ask` would read: the same template, with the beginning of a reply. Raises Refusal."""
    text = stdin_text() if options.text == "-" else options.text
    if not (text if options.raw else text.strip()):
        raise bad_setting("The text is empty. Write some text.")
    return TextPrompt(text) if options.raw else AskSettings().chat_prompt(text)


def _load_options(options: argparse.Namespace) -> LoadOptions:
    settings = AskSettings()
    settings.take_load_options(options)
    return settings.load_options()


def _target(name: str) -> Path:
    """Where the file goes, links followed. Raises Refusal before anything is computed for it."""
    if not name:
        raise bad_setting("--out needs a file name.")
    path = typed_path(name)
    try:
        if path.exists() and not path.is_file():
            sentence = f"“{path}” isn't a file. Choose another name for --out."
            raise Refusal("not_writable", sentence)
        path = path.resolve()
        if path.parent.is_dir():
            return path
    except OSError as error:
        raise _not_saved(error) from error
    sentence = f"Folder not found: “{path.parent}”. Check the path given with --out."
    raise Refusal("missing_file", sentence)


def _position(asked: int | None, n_tok: int) -> int:
    """Of the token, from 0. Raises Refusal."""
    if not n_tok:
        raise bad_setting("The text has no tokens. Write some text.")
    token = n_tok - 1 if asked is None else asked
    if -n_tok <= token < n_tok:
        return token % n_tok
    raise bad_setting(
        f"There is no token {asked}. This text has {n_tok:,}: choose 0 to {n_tok - 1}, or "
        f"-{n_tok} to -1 from the end."
    )


# --- what is asked ----------------------------------------------------------------------------


@dataclass
class _Found:
    """What has come so far. `missing`: array → why it isn't there, or not of each layer."""

    arrays: dict[str, Values]
    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def _look(talk: Talk, loaded: Loaded, ids: list[int], token: int) -> _Found:
    """Everything about the token at a position of the text."""
    found = _Found({"token_ids": np.asarray(ids, np.int32)})
    n_tok = token + 1
    for names, layers in questions(loaded, n_tok):
        told = talk.ask(
            LookInside(0, ids[:n_tok], names, layers=layers, only_layers=layers is not None), Inside
        )
        arrays = arrays_of(told)
        if "attention" in arrays:
            _add_attention(found, arrays.pop("attention"), layers, len(ids), loaded.n_layer)
        found.arrays |= arrays
        found.notes = told.notes
        for each in told.missing:
            found.missing[each.name] = each.sentence or _NOT_OFFERED
    if not fits(loaded, n_tok):
        found.missing["attention"] = _TOO_LONG.format(n_tok=n_tok)
    if (why := found.missing.pop("lens", None)) is not None:
        found.missing |= {"lens_ids": why, "lens_logits": why}
    found.missing = {name: found.missing[name] for name in FILE_ARRAYS if name in found.missing}
    return found


def _add_attention(
    found: _Found, rows: Values, layers: list[int] | None, n_tok: int, n_layer: int
) -> None:
    """`rows` [n_layer, n_head, token + 1], or of the layers alone that were asked for. What stands
    behind the token it can't have seen: 0, up to the end of the text."""
    n_seen = rows.shape[2]
    whole = found.arrays.get("attention")
    if whole is None:
        height = len(rows) if layers is None else n_layer
        shape = (height, rows.shape[1], n_tok)
        whole = found.arrays["attention"] = np.full(shape, np.nan, np.float32)
    chosen = np.arange(len(whole)) if layers is None else np.asarray(layers)
    has = ~np.isnan(rows).all(axis=(1, 2))
    whole[chosen[has], :, n_seen:] = 0
    whole[chosen[has], :, :n_seen] = rows[has]


def questions(loaded: Loaded, n_tok: int) -> Iterator[tuple[list[str], list[int] | None]]:
    """What to ask, so that no answer outgrows a frame: names, and of which layers the attention is
    asked for (None: of all). The token is replayed for each, so they are as few as can be.

    For SmolLM2 and a page of text that is one. For a file of 126 layers × 128 heads behind 8,000
    tokens attention alone has 516 MB, 4 MB in each layer; it comes by eight layers.
    """
    a_layer = _attention_bytes(loaded, n_tok)
    wide = max(loaded.n_embd, loaded.n_head * WIDEST_HEAD)
    sizes = {"embedding": loaded.n_embd, "lens": 64 * loaded.n_layer, "logits": loaded.n_vocab}
    sizes |= dict.fromkeys(BY_LAYER[:3], loaded.n_layer * loaded.n_embd)
    sizes |= dict.fromkeys(BY_LAYER[3:], loaded.n_layer * wide)
    sizes |= dict.fromkeys(OF_EXPERTS, loaded.n_layer * MOST_EXPERTS)
    if 4 * sum(sizes.values()) + loaded.n_layer * a_layer <= ROOM_BYTES:
        yield [*sizes, "attention"], None
        return
    names: list[str] = []
    for name, size in sizes.items():
        if names and 4 * (sum(sizes[each] for each in names) + size) > ROOM_BYTES:
            yield names, None
            names = []
        names.append(name)
    yield names, None
    if fits(loaded, n_tok):
        at_once = max(1, ROOM_BYTES // max(a_layer, 1))
        for first in range(0, loaded.n_layer, at_once):
            yield ["attention"], [*range(first, min(first + at_once, loaded.n_layer))]


def fits(loaded: Loaded, n_tok: int) -> bool:
    """Whether a frame holds the attention of a layer; some room is left for what is around it."""
    return _attention_bytes(loaded, n_tok) <= MAX_FRAME_BYTES - 2**20


def _attention_bytes(loaded: Loaded, n_tok: int) -> int:
    return 4 * loaded.n_head * n_tok


# --- the file ---------------------------------------------------------------------------------


def save(path: Path, arrays: Mapping[str, Values]) -> None:
    """Write the file beside its place, then move it there. Raises Refusal."""
    beside = path.with_name(f".inside-{secrets.token_hex(6)}")
    try:
        try:
            with beside.open("xb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]  # it has a flag of its own, too
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise _not_saved(error) from error


def _not_saved(error: OSError) -> Refusal:
    why = error.strerror or error
    sentence = f"The file can't be saved ({why}). Check the path given with --out."
    return Refusal("not_writable", sentence)
