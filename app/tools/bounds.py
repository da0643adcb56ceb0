"""How much a tool server may say, ask and take, and the sentences for one that does not keep to it.

Everything is generous for servers as they are, and far below what would hurt the window.
"""

from __future__ import annotations

from typing import Final

START_S: Final = 60.0
"""From the start to the list of its tools. `npx` and `uvx` fetch a package at the first time."""
CALL_S: Final = 120.0
"""For the answer to a call, from its beginning or from the last sign of progress."""
CALL_IN_ALL_S: Final = 1_800.0
ASK_S: Final = 30.0
"""For lists, a resource, a prompt."""
END_S: Final = 1.0
"""For an orderly end, after its input was closed."""

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""Of one message. A picture of 10 MB is one, in base64."""
MAX_EVENT_BYTES: Final = MAX_LINE_BYTES
MAX_RESULT_CHARACTERS: Final = 32_000
"""Of a result, in the chat and in the prompt; what is longer is attached."""
MAX_ATTACHED_CHARACTERS: Final = 4_000_000
MAX_BLOCKS: Final = 200
MAX_TOOLS: Final = 200
MAX_RESOURCES: Final = 1_000
MAX_PROMPTS: Final = 500
MAX_PAGES: Final = 50
MAX_DESCRIPTION: Final = 4_000
MAX_SCHEMA_CHARACTERS: Final = 32_000
MAX_SCHEMA_DEPTH: Final = 24
MAX_NAME: Final = 200
MAX_SENTENCE: Final = 500
"""Of a server's own words in a sentence of ours."""

PER_S: Final = 50
"""What a server sends by itself beyond is dropped."""
MAX_MESSAGES: Final = 5_000
"""A server that sends so many faster than that, of whatever kind, is ended."""
MAX_NONSENSE: Final = 100
"""Lines that are no message of the protocol. Some programs greet; none goes on like that."""
STDERR_LINES: Final = 400
STDERR_LINE_CHARACTERS: Final = 2_000
LISTS_AGAIN_S: Final = 2.0
"""Between two readings of the lists of a server that says they changed."""


OFFLINE: Final = "Cutaway is offline, so it doesn't connect to this address."


class ServerBroken(Exception):  # noqa: N818
    """The server cannot be worked with any more; the sentence says why."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


def its_words(text: object) -> str:
    """A server's own words for a sentence of ours: one line, bounded, printable."""
    line = " ".join(str(text).split())
    line = "".join(character if character.isprintable() else "\ufffd" for character in line)
    return line if len(line) <= MAX_SENTENCE else f"{line[: MAX_SENTENCE - 1]}…"
