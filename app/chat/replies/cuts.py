"""A reply once more with parts of the network cut, beside one without cuts and one with a control.

All begin with the same tokens, from which on they are cut, and are drawn by the same chain with the
same seed: so each draw meets the same number, and where they part, the cut made the difference. The
one with nothing cut is written anew as well, since the first one's draws began elsewhere. They are
ordinary versions; which is which stands in their settings (`cut_versions.py`).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final

from app.chat.conversations.shelf import Shelf, new_id
from app.chat.events import Noticed
from app.chat.replies.again import NO_SEED, NOTHING_TO_COMPARE
from app.chat.replies.branch_at import BranchAt
from app.chat.replies.cut_versions import CUTS, as_recorded, versions_of
from app.chat.replies.recorded import settings_of
from app.chat.settings.levels import resolved_for
from app.chat.settings.resolved import IN_CHAIN, SHAPING
from app.chat.settings.settings import as_stored
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from app.engine.planning.estimate import cut_bytes
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.cut_messages import Cut, CutMode, check_cuts
from app.insight.inside.cuts import control_of
from models.records import Message

NOTHING_CUT: Final = "Choose at least one head or block to cut."
NOT_LOADED: Final = "Load the model that wrote this reply first."


class Cuts:
    def __init__(
        self, around: Surroundings, shelf: Shelf, loader: Loader, branch_at: BranchAt
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._branch_at = branch_at

    def run(
        self,
        message_id: str,
        index: int,
        cuts: Sequence[Cut],
        mode: CutMode = "mean",
        seed: int | None = None,
    ) -> None:
        """Write a reply of the open chat again from the token at this place of its trace on: with
        nothing cut, with `cuts`, and with as many other parts, chosen by `seed` (by chance where it
        is None). What stands against it is said in words."""
        refusal, answers = self._answers(message_id, index, cuts, mode, seed)
        if refusal:
            self._around.emit(Noticed("warning", refusal))
        else:
            self._branch_at.at(message_id, index, settings=answers)

    def takes_bytes(self, message_id: str, n_before: int) -> int:
        """What such a reply takes at most, beside what is loaded, going on from so many tokens of
        prompt and reply; 0 where nobody can tell."""
        message, loaded = self._shelf.message(message_id), self._loader.loaded
        if message is None or loaded is None:
            return 0
        refusal, shaping = self._shaping(message)
        return 0 if refusal else cut_bytes(loaded, n_before, shaping["max_tokens"])

    def _answers(
        self, message_id: str, index: int, cuts: Sequence[Cut], mode: CutMode, seed: int | None
    ) -> tuple[str, list[dict[str, Any]]]:
        message, loaded = self._shelf.message(message_id), self._loader.loaded
        if message is None:
            return NOTHING_TO_COMPARE, []
        if loaded is None:
            return NOT_LOADED, []
        if loaded.remote is not None:
            return loaded.remote.why_not("cuts"), []
        if not cuts:
            return NOTHING_CUT, []
        try:
            check_cuts(cuts, loaded.n_layer, loaded.n_head, loaded.n_head_kv)
        except BadSetting as refused:
            return refused.sentence, []
        refusal, shaping = self._shaping(message)
        if refusal:
            return refusal, []
        seed = secrets.randbelow(1 << 31) if seed is None else seed
        control = control_of(
            cuts,
            n_layer=loaded.n_layer,
            n_head=loaded.n_head,
            n_kv_head=loaded.n_head_kv,
            seed=seed,
        )
        versions = versions_of(
            cuts, control, mode, seed=seed, of=message_id, index=index, group=new_id()
        )
        return "", [{**shaping, CUTS: as_recorded(version)} for version in versions]

    def _shaping(self, message: Message) -> tuple[str, dict[str, Any]]:
        """The settings and the seed that the reply was written with, or why they are unknown."""
        conversation = self._shelf.conversation(message.conversation_id)
        if not (message.content or message.reasoning) or conversation is None:
            return NOTHING_TO_COMPARE, {}
        if message.seed is None:
            return NO_SEED, {}
        present = resolved_for(self._around, self._loader, conversation).settings
        settings, refusal = settings_of(message.settings, present)
        numbers = IN_CHAIN if settings.chain else ()
        shaping = {
            name: as_stored(getattr(settings, name)) for name in SHAPING if name not in numbers
        }
        return refusal, {**shaping, "seed": message.seed}
