"""`main.py ask`: one answer on stdout, without a window.

It uses the same client, supervisor and engine as the window, takes no lock and writes
nothing. `run.py` says how it ends.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, get_args

from app.command_line.attached_files import add_attach_option, attached_to, with_attached
from app.command_line.beams import add_beam_options, beams_asked, search
from app.command_line.media_files import (
    add_media_options,
    check_taken,
    media_of,
    projector_path,
    with_media,
)
from app.command_line.output import AskOutput, JsonLines, PlainText
from app.command_line.run import (
    INTERRUPTED,
    SentenceParser,
    add_common_options,
    add_file_options,
    argument_text,
    named_file,
    run_to_the_end,
    stdin_text,
    weights_path,
)
from app.command_line.settings import AskSettings, read_settings_file, resolved
from app.command_line.several import (
    Several,
    add_several_options,
    requests_of,
    settings_of_each,
)
from app.command_line.summary import all_summarized, summarized
from app.command_line.talk import RequestError, Talk
from app.engine.protocol.media_messages import Media
from app.engine.protocol.messages import Failed, Generate, Stopped, Summary
from app.engine.protocol.prompt_messages import ContextPolicy, Prompt, TextPrompt
from app.engine.protocol.request_rules import check_request
from app.refusal import Refusal, bad_setting
from models.records import Attachment


def main(argv: Sequence[str]) -> int:
    """Answer and return the exit code."""
    return run_to_the_end(lambda: _run(_parse(argv)))


# --- arguments --------------------------------------------------------------------------------


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = SentenceParser(prog="main.py ask", description="Answer one message, without a window.")
    add = parser.add_argument
    add("text", help="the message; - reads it from stdin")
    add_file_options(parser)
    add("--system", metavar="S", help="system prompt")
    add("--seed", type=int, metavar="N", help="random seed, for reproducible answers")
    add("--temperature", "--temp", type=float, metavar="T", help="0: always the best token")
    add("--top-k", type=int, metavar="K", help="keep the K best candidates (0: all)")
    add(
        "--top-p",
        type=float,
        metavar="P",
        help="keep the smallest set with total probability P (1: off)",
    )
    add(
        "--min-p",
        type=float,
        metavar="P",
        help="keep tokens with at least P times the best probability (0: off)",
    )
    add("--repeat-penalty", type=float, metavar="R", help="1: off")
    add("--max-tokens", type=int, metavar="N", help="0: until the context is full")
    add("--stop", action="append", metavar="S", help="end before this text (may be repeated)")
    add(
        "--stop-in-reasoning",
        action="store_const",
        const=True,
        help="apply --stop to the reasoning, too",
    )
    add(
        "--reasoning-tags",
        action="append",
        metavar="TAGS",
        help="additional reasoning tags, like '<think>…</think>' (may be repeated)",
    )
    add(
        "--thinking",
        metavar="MODE",
        help="on, off, auto, or an effort that the chat template names, like low or high",
    )
    add("--reasoning-budget", type=int, metavar="N", help="close the reasoning after N tokens")
    add("--reasoning-start", metavar="TEXT", help="text that the reasoning starts with")
    add(
        "--template-variables",
        metavar="JSON",
        help="more variables for the chat template, like '{\"name\": true}'",
    )
    add(
        "--stop-id",
        action="append",
        type=int,
        metavar="N",
        help="end at this token, by its ID (may be repeated)",
    )
    add("--lora", action="append", metavar="FILE[:SCALE]", help="adapter (may be repeated)")
    add(
        "--control-vector",
        action="append",
        metavar="FILE[:SCALE[:FROM-TO]]",
        help="steer the model in these layers (may be repeated)",
    )
    add("--policy", choices=get_args(ContextPolicy), help="if the context window is full")
    add("--grammar-file", metavar="FILE", help="GBNF grammar for the answer")
    add("--json-schema", metavar="FILE", help="JSON schema for the answer")
    add("--ban", action="append", metavar="S", help="text that never appears (may be repeated)")
    add("--min-tokens", type=int, metavar="N", help="minimum number of tokens in the answer")
    add("--template", metavar="FILE", help="chat template (Jinja) in place of the file's own")
    add("--template-name", metavar="NAME", help="one of the file's own chat templates")
    add(
        "--repeatable",
        action="store_true",
        help="same settings and seed give the same answer to the last bit",
    )
    add("--drafts", metavar="KIND", help="speculative decoding: off, lookup or model")
    add("--draft-model", metavar="FILE", help="smaller model with the same vocabulary, to draft")
    add("--draft-tokens", type=int, metavar="N", help="tokens proposed at once, 1 to 15")
    add("--score-prompt", action="store_true", help="with --json: score the tokens of the prompt")
    add_attach_option(parser)
    add_media_options(parser)
    add_beam_options(parser)
    add_several_options(parser)
    add("--raw", action="store_true", help="continue the text as it is, without a chat template")
    add("--settings", metavar="FILE", help="JSON object of settings, see docs/settings.md")
    add("--json", action="store_true", help="one JSON object per line, with every token")
    add_common_options(parser, "ask")
    options = parser.parse_args(argv)
    options.text = argument_text(options.text)
    options.system = None if options.system is None else argument_text(options.system)
    for single in ("reasoning_start", "template_variables"):
        text = getattr(options, single)
        setattr(options, single, None if text is None else argument_text(text))
    for several in ("stop", "ban", "reasoning_tags"):
        texts = getattr(options, several)
        setattr(options, several, None if texts is None else [argument_text(s) for s in texts])
    return options


def _settings(options: argparse.Namespace) -> AskSettings:
    """The defaults, then the settings file, then the options."""
    return resolved(options, _file(options))


def _file(options: argparse.Namespace) -> dict[str, Any] | None:
    """What the settings file says."""
    if options.settings is None:
        return None
    path = Path(named_file(options.settings, "--settings"))
    try:
        return read_settings_file(path)
    except OSError as error:
        sentence = f"The settings file {path} can't be read: {error.strerror}."
        raise Refusal("not_readable", sentence) from error


_OF_CHATS: Final = ("thinking", "reasoning_budget", "template_variables")
"""What a text without a chat template has no place for."""


def _prompt(
    options: argparse.Namespace,
    settings: AskSettings,
    attached: Sequence[Attachment],
    media: list[Media],
) -> Prompt:
    text = stdin_text() if options.text == "-" else options.text
    if options.raw:
        if options.system:
            raise bad_setting("--raw takes no system prompt. Remove --system.")
        starts = settings.reply_start or settings.reasoning_start
        if settings.messages or starts or settings.prompt_fields:
            raise bad_setting("--raw takes no messages and no template.")
        for name in _OF_CHATS:
            if getattr(options, name) is not None:
                raise bad_setting(f"--raw takes no --{name.replace('_', '-')}. Remove it.")
        if not text:
            raise bad_setting("No text to continue.")
        return TextPrompt(text)
    if not (text.strip() or attached or media):
        raise bad_setting("The message is empty. Write some text.")
    return with_media(settings.chat_prompt(with_attached(text, list(attached))), media)


# --- the run ----------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
    file = _file(options)
    several = settings_of_each(options, file)
    if several is not None:
        return _answer_several(options, several)
    settings = resolved(options, file)
    media = media_of(options)
    prompt = _prompt(options, settings, attached_to(options), media)
    request = settings.generate(prompt, with_trace=options.json)
    check_request(request)  # before the weights load for it
    beams = beams_asked(options, request)
    weights = weights_path(options)
    projector = projector_path(options, is_needed=bool(media))
    output: AskOutput = JsonLines(sys.stdout) if options.json else PlainText(sys.stdout, sys.stderr)
    talk = Talk(options, output.event, output.flush)
    try:
        loaded = talk.load(weights, settings.load_options(), projector)
        output.loaded(loaded)
        check_taken(loaded, media)
        if options.json:
            output.pieces = talk.read_pieces()
        if beams is not None:
            return search(talk, beams, request, output)
        return _answer(talk, summarized(talk, request, loaded, output), output)
    except RequestError as error:
        output.failed(error.failed)
        raise
    finally:
        talk.close()


def _answer_several(options: argparse.Namespace, each: list[AskSettings]) -> int:
    if options.text == "-":
        options.text = stdin_text()  # once
    media = media_of(options)
    attached = attached_to(options)
    prompts = [_prompt(options, settings, attached, media) for settings in each]
    requests = requests_of(each, prompts, with_trace=options.json)
    for request in requests:
        check_request(request)
        if beams_asked(options, request) is not None:
            raise bad_setting("Use either --answers or a beam search, not both.")
    weights = weights_path(options)
    projector = projector_path(options, is_needed=bool(media))
    output: AskOutput = JsonLines(sys.stdout) if options.json else PlainText(sys.stdout, sys.stderr)
    talk = Talk(options, output.event, output.flush)
    try:
        loaded = talk.load(weights, each[0].load_options(), projector)
        output.loaded(loaded)
        check_taken(loaded, media)
        if options.json:
            output.pieces = talk.read_pieces()
        requests = all_summarized(talk, requests, loaded, output)
        return Several(output, requests).run(talk, loaded)
    finally:
        talk.close()


def _answer(talk: Talk, request: Generate, output: AskOutput) -> int:
    """Stream the reply; return the exit code. Raises RequestError."""
    ending = talk.ending_of(request)
    summary = ending.partial if isinstance(ending, Failed) else ending.result
    if isinstance(summary, Summary):
        output.summary(summary)
    if isinstance(ending, Failed):
        raise RequestError(ending)
    return INTERRUPTED if isinstance(ending, Stopped) else 0
