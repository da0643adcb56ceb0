"""What cannot be done as it was asked, with the sentence that says so."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 - an outcome with a sentence for the user
    """`kind`: a short stable word, in the engine one of `protocol.Failed`'s; `sentence` is for the
    user and says what to do next; `evidence` is for us. A class of its own has only what somebody
    catches by itself."""

    def __init__(self, kind: str, sentence: str, evidence: str = "") -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence
        self.evidence = evidence


def bad_setting(sentence: str) -> Refusal:
    """A value that cannot be used, whoever gave it: a person, a file, the database."""
    return Refusal("bad_setting", sentence)
