"""The part of the desk for whoever looks into a reply: traces and the vocabulary.

It only delegates; `app.chat.desk` tells what holds for every method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.chat.inspection.questions import Questions
from app.chat.inspection.words import Words
from app.chat.replies.replies import Replies
from app.engine.protocol.messages import Tokenize, Tokens, TokenTrace
from app.engine.protocol.pieces import Pieces


class LookingDoor:
    """Mixed into `Desk`, which makes what is declared here."""

    _replies: Replies
    _words: Words
    _questions: Questions

    def read_trace(self, message_id: str) -> None:
        """Ask what was recorded about each token of a reply; TraceRead answers."""
        self._replies.growing.read_trace(message_id)

    def growing_trace(self, message_id: str) -> Sequence[TokenTrace] | None:
        """The trace of a reply that grows, which grows too; None if it does not."""
        return self._replies.growing.trace_of(message_id)

    def read_vocabulary(self) -> None:
        """Have the words of the loaded weights read; VocabularyRead says when they are here."""
        self._words.read()

    def words_of(self, weights_hash: str | None) -> Pieces | None:
        """The vocabulary of the weights that wrote a reply, if it is here."""
        return self._words.of(weights_hash)

    def tokenize(
        self,
        text: str,
        then: Callable[[Tokens], None],
        failed: Callable[[str], None],
        *,
        special: bool = False,
        inside: bool = False,
    ) -> None:
        """How the loaded vocabulary cuts a text, without a BOS. `special`: the text of a control
        token becomes that token. `inside`: as it stands behind another text."""
        self._questions.ask(Tokenize(0, text, special, inside=inside), Tokens, then, failed)
