"""`main.py export`: chats into files without the window. It reads, and writes nothing else.

    main.py export chats.jsonl
    main.py export primes.html --chat "Prime numbers" --branches
    main.py export folder --format docx

What a file is follows from its name, or from `--format`. PDFs are made by the window alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, get_args

from app.chat.conversations.folder import default_data_dir
from app.chat.exchange.choices import SUFFIXES, TOGETHER, Choices, Form, Shape
from app.chat.exchange.exporting import Export
from app.chat.surroundings import now
from app.command_line.run import SentenceParser, argument_text, run_to_the_end
from app.paths import typed_path
from app.refusal import Refusal, bad_setting
from models.store.errors import StoreError
from models.store.store import Store

if TYPE_CHECKING:
    from models.records import Conversation

FORMS: Final[dict[str, Form]] = {
    suffix.removeprefix("."): form for form, suffix in SUFFIXES.items() if form != "pdf"
}


def main(argv: Sequence[str]) -> int:
    """Export, and return the exit code."""
    return run_to_the_end(lambda: _run(_parse(argv)))


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = SentenceParser(prog="main.py export", description="Export chats into files.")
    add = parser.add_argument
    add("target", metavar="FILE", help="file to write; a folder or a .zip for several chats")
    add("--format", choices=sorted(FORMS), help="default: what the file is called")
    add("--chat", action="append", metavar="TITLE", help="only this chat; may be repeated")
    add("--data-dir", metavar="DIR", help="data folder (default: the usual one)")
    add("--branches", action="store_true", help="all versions, not only those shown last")
    add("--no-reasoning", action="store_true", help="leave reasoning out")
    add("--no-system", action="store_true", help="leave system prompts out (jsonl)")
    add("--tints", action="store_true", help="replies as tokens with probabilities (html)")
    add("--shape", choices=get_args(Shape), default="messages", help="of each line (jsonl)")
    return parser.parse_args([argument_text(each) for each in argv])


def _run(options: argparse.Namespace) -> int:
    target = typed_path(options.target)
    name = options.format or target.suffix.removeprefix(".").lower()
    if name not in FORMS:
        known = ", ".join(sorted(FORMS))
        raise bad_setting(f"Say which format with --format: {known}.")
    choices = Choices(
        FORMS[name],
        branches=options.branches,
        reasoning=not options.no_reasoning,
        system=not options.no_system,
        tints=options.tints,
        shape=cast(Shape, options.shape),
    )
    folder = typed_path(options.data_dir) if options.data_dir else default_data_dir()
    if not folder.is_dir():
        raise bad_setting(f"There is no data folder “{folder}”. Choose one with --data-dir.")
    store = Store.open(folder, read_only=True, backup_after_s=None)
    try:
        ids = _chosen(store.list_conversations().result(), options.chat)
        if choices.form not in TOGETHER and target.suffix.lower() in SUFFIXES.values():
            _check_one(ids, target)
        is_whole_store = options.chat is None and len(ids) != 1
        count = Export(
            store, None if is_whole_store else ids, Path(target), now(), lambda: None, choices
        ).run()
    except StoreError as error:
        raise Refusal("not_exported", str(error)) from error
    finally:
        store.close()
    chats = "1 chat was" if count == 1 else f"{count:,} chats were"
    sys.stderr.write(f"{chats} exported to “{target.name}”.\n")
    return 0


def _check_one(ids: Sequence[str], target: Path) -> None:
    if len(ids) > 1 and not target.is_dir():
        raise bad_setting(
            f"Each of the {len(ids):,} chats is a file of its own. Name a folder or a .zip file "
            "for them, or choose one chat with --chat."
        )


def _chosen(listed: Sequence[Conversation], titles: Sequence[str] | None) -> tuple[str, ...]:
    if titles is None:
        return tuple(each.id for each in listed)
    found: list[str] = []
    for title in titles:
        fitting = [each.id for each in listed if each.title.casefold() == title.casefold()]
        if not fitting:
            raise bad_setting(f"No chat is called “{title}”.")
        found += fitting
    return tuple(dict.fromkeys(found))
