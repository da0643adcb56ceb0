"""The part of the desk for who looks into a reply and has it go another way.

It only delegates; `app.chat.desk` tells what holds for every method.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.chat.events import TokenHeld
from app.chat.replies.branch_at import BranchAt
from app.chat.replies.step_mode import StepMode


class BranchDoor:
    """Mixed into `Desk`, which makes `_branch_at` and `_step`."""

    _branch_at: BranchAt
    _step: StepMode

    def branch_at(
        self,
        message_id: str,
        index: int,
        token_id: int,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Another version of a reply of the open chat: what it says before the token at this place
        of its trace, then this token instead, then the engine writes on. A reply that grows is
        stopped first. `settings`: of this version alone, over those of the chat."""
        self._branch_at.at(message_id, index, token_id, settings)

    def branch_at_text(self, message_id: str, index: int, text: str) -> None:
        """The same with a text in that place. It is tokenised by itself."""
        self._branch_at.at_text(message_id, index, text)

    # --- step mode ------------------------------------------------------------------------------

    @property
    def is_stepping(self) -> bool:
        """Whether replies wait at each token."""
        return self._step.is_on

    @property
    def held_token(self) -> TokenHeld | None:
        """Where a reply of the open chat waits."""
        return self._step.held_token

    def step_begin(self) -> None:
        """From now on replies wait at each token; one that grows in the open chat does, too."""
        self._step.begin()

    def step_end(self) -> None:
        """Replies wait no more; one that waits in the open chat runs on."""
        self._step.run_on()

    def step_take(self) -> None:
        """The drawn token becomes part of the reply, which waits at the next one."""
        self._step.take()

    def step_choose(self, token_id: int) -> None:
        """Another token takes its place."""
        self._step.choose(token_id)

    def step_run_on(self) -> None:
        """Take the drawn token and run on to the end."""
        self._step.run_on()

    def step_stop(self) -> None:
        """The reply ends here, without the token that it waits at."""
        self._step.stop()
