"""Draws again, as a script has them: every token stays what it was."""

from __future__ import annotations

from app.engine.protocol.replay_messages import DrawsReplayed, ReplayDraws, ReplayedDraw

BEHIND: str = "Behind the last token nothing was drawn."


def scripted_draws(command: ReplayDraws) -> DrawsReplayed:
    """
    >>> from app.engine.protocol.replay_messages import AskedDraw
    >>> from app.engine.protocol.stages import Sampling
    >>> asked = ReplayDraws(1, [5, 6, 7], 1, Sampling(), [AskedDraw(2)])
    >>> scripted_draws(asked).draws[0].token_id
    7
    """
    ids = command.token_ids
    return DrawsReplayed(
        [
            ReplayedDraw(asked.position, ids[asked.position], 1.0, 1)
            if 0 <= asked.position < len(ids)
            else ReplayedDraw(asked.position, -1, reason=BEHIND)
            for asked in command.asked
        ]
    )
