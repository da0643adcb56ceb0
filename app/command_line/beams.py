"""`ask --beams N`: the best continuations of the prompt in place of one answer."""

from __future__ import annotations

import argparse
from typing import Final

import msgspec

from app.command_line.output import AskOutput
from app.command_line.talk import Talk
from app.engine.protocol.beam_messages import (
    MAX_LENGTH,
    MAX_WIDTH,
    STOPS_NOTHING,
    BeamsFound,
    SearchBeams,
    check_beams,
)
from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import PromptShown, ReadPrompt
from app.refusal import bad_setting

USUAL: Final = SearchBeams(0, [])


def add_beam_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--beams",
        type=int,
        metavar="N",
        help=f"search the N most probable answers (1 to {MAX_WIDTH}) instead of drawing one",
    )
    add(
        "--beam-length",
        type=int,
        metavar="N",
        help=f"their length in tokens, 1 to {MAX_LENGTH} (--max-tokens, else {USUAL.length})",
    )
    add(
        "--length-penalty",
        type=float,
        metavar="A",
        help=f"score = sum of log p / length^A (0: the sum; default: {USUAL.length_penalty})",
    )


def beams_asked(options: argparse.Namespace, request: Generate) -> SearchBeams | None:
    """The search without its text, or None where none is wanted. Raises Refusal."""
    if options.beams is None:
        if options.beam_length is not None or options.length_penalty is not None:
            raise bad_setting("--beam-length and --length-penalty need --beams.")
        return None
    if options.score_prompt:
        raise bad_setting("--beams scores no prompt. Remove --score-prompt.")
    asked = SearchBeams(
        0,
        [],
        width=options.beams,
        length=_length(options),
        length_penalty=(
            USUAL.length_penalty if options.length_penalty is None else options.length_penalty
        ),
        sampling=request.sampling,
        end_ids=request.stop_ids,
        adapters=request.adapters,
    )
    check_beams(asked.width, asked.length, asked.length_penalty)
    return asked


def _length(options: argparse.Namespace) -> int:
    """In tokens: --beam-length, else --max-tokens (0 there: the usual one)."""
    if options.beam_length is not None:
        return int(options.beam_length)
    return int(options.max_tokens or USUAL.length)


def search(talk: Talk, asked: SearchBeams, request: Generate, output: AskOutput) -> int:
    """Search behind what `request` would read, and print; the exit code. Raises RequestError."""
    shown = talk.ask(ReadPrompt(0, request.prompt, request.context_policy), PromptShown)
    ids = shown.token_ids.numbers().tolist()
    command = msgspec.structs.replace(asked, token_ids=ids, n_prompt=len(ids))
    found = talk.ask(command, BeamsFound)
    if request.stop:
        found = msgspec.structs.replace(found, notes=[*found.notes, STOPS_NOTHING])
    output.tree.end(found)
    output.beams(found)
    return 0
