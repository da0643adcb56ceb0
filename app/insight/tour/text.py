"""The facts of the text that was read: which token stands where, and what its prompt is made of.

text    <bos>  The  capital  of  France  is │ Paris     place = 5, the token that was read
place     0     1      2     3     4     5  │   6       what came next is the one followed
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from app.insight.prompt.parts import PromptTokens, counts
from app.insight.tour.facts import Fact, Facts, count, said
from app.insight.trace.tokens_shown import hexadecimal, visible

_OF_READER: Final = ("user", "text")
"""Origins of what a person wrote; text: where there is no template."""
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Thai, Lao, Burmese, Khmer, kana, Chinese: no spaces tell their words apart."""


class Text(Protocol):
    """All tokens of prompt and reply (`ReadText`)."""

    def __len__(self) -> int: ...
    def piece(self, place: int) -> bytes: ...
    def target(self, place: int) -> int | None: ...


def place_facts(text: Text, place: int) -> Facts:
    """Of the token that was read at `place`, and of the one behind it, which no record tells of
    where it is one of the prompt."""
    found = {
        "read": said(visible(text.piece(place))),
        "position": count(place),
        "n_before": count(place, "tokens"),
    }
    token_id = text.target(place)
    if token_id is not None:
        piece = text.piece(place + 1)
        found["token"] = said(visible(piece))
        found["id"] = Fact(token_id, str(token_id))
        found["n_bytes"] = count(len(piece))
        found["token_bytes"] = said(hexadecimal(piece))
    return found


def prompt_facts(prompt: PromptTokens) -> Facts:
    """How much of it is the template's, and how long the message is that is answered: the last part
    of a person's. With an attachment behind it that part isn't all of the message."""
    found = dict[str, Fact]()
    of_origin = {each.origin: each.n_tokens for each in counts(prompt)}
    if of_origin.get("scaffold"):
        found["n_template"] = count(of_origin["scaffold"])
    own = [part for part in prompt.parts if part.origin in _OF_READER and part.end > part.start]
    attached = [part for part in prompt.parts if part.origin in ("attachment", "passage")]
    if own and not any(part.start >= own[-1].end for part in attached):
        start, end = own[-1].start, own[-1].end
        text = b"".join(prompt.pieces(start, end)).decode("utf-8", "replace")
        found["n_message_tokens"] = count(end - start, "tokens")
        if not _UNSPACED.search(text):
            found["n_message_words"] = count(len(text.split()), "words")
    return found
