"""The part of the desk for "same dice, other settings".

It only delegates; `app.chat.desk` tells what holds for every method.
"""

from __future__ import annotations

from collections.abc import Callable

from app.chat.inspection.what_if import Question, WhatIfs
from app.insight.sampling.what_if import WhatIf


class WhatIfDoor:
    """Mixed into `Desk`, which makes what is declared here."""

    _what_ifs: WhatIfs

    def what_if(self, question: Question, then: Callable[[WhatIf], None]) -> None:
        """Which token would have been another one first, as far as the record says it."""
        self._what_ifs.ask(question, then)

    def what_if_of_engine(
        self,
        question: Question,
        found: WhatIf,
        then: Callable[[WhatIf], None],
        failed: Callable[[str], None],
    ) -> None:
        """The same, where the engine draws again what the record left unsure. `then` or `failed`
        (with a sentence) is called once."""
        self._what_ifs.ask_engine(question, found, then, failed)

    def stop_what_if(self) -> None:
        """No answer is wanted any more: nobody is called."""
        self._what_ifs.stop()
