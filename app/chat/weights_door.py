"""The part of the desk for what is set otherwise for single weights, loaded or not.

It only delegates; `app.chat.desk` tells what holds for every method. A path is that of the file (of
its first part).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from app.chat.settings.resolved import Resolved
from app.chat.settings.template_preview import Preview, TemplatePreviews
from app.chat.weights.draft_partners import DraftCandidate, DraftPartners, Partners
from app.chat.weights.loading import Loader
from app.chat.weights.local_weights import LocalWeights
from app.chat.weights.weights_defaults import WeightsDefaults
from app.engine.protocol.loading_messages import Device
from models.records import Weights


class WeightsDoor:
    """Mixed into `Desk`, which makes what is declared here."""

    _loader: Loader
    _local: LocalWeights
    _defaults: WeightsDefaults
    _previews: TemplatePreviews
    _partners: DraftPartners

    # --- what there is ----------------------------------------------------------------------

    def known_weights(self) -> list[Weights]:
        """The included ones and those used before, the last used first."""
        return self._loader.known_weights()

    def log_lines(self) -> list[tuple[str, str]]:
        return self._loader.log_lines()

    @property
    def devices(self) -> tuple[Device, ...]:
        """What the engine can compute on; nothing before it has started."""
        return self._loader.devices

    def cancel_load(self) -> None:
        self._loader.cancel()

    def _draft_candidates(self) -> list[DraftCandidate]:
        """Weights of this machine, each once, that may write drafts for others."""
        known = [
            DraftCandidate(each.path, each.name, each.size_bytes) for each in self.known_weights()
        ]
        found = [
            DraftCandidate(str(each.path), each.name, each.size_bytes)
            for each in self._local.found()
            if each.can_load
        ]
        return list({each.path: each for each in (*known, *found)}.values())

    @property
    def weights_path(self) -> str:
        """The file that is loaded, or being loaded; empty where there is none."""
        return self._loader.path

    def weights_name(self, path: str) -> str:
        """What people know a file by."""
        return self._loader.name_of(path)

    # --- what is set for them ---------------------------------------------------------------

    def weights_values(self, path: str) -> dict[str, Any]:
        """What is set otherwise for these weights, by the names that `set_for_weights` takes."""
        return self._defaults.own(path)

    def weights_value(self, path: str, name: str) -> Any:
        """What counts for `load.…`, `notes` or `draft`."""
        return self._defaults.value(path, name)

    def weights_resolved(self, path: str) -> Resolved:
        """What counts for replies of these weights before a chat says otherwise."""
        return self._defaults.resolved(path)

    def set_for_weights(self, path: str, name: str, value: object) -> str:
        """Set a value for these weights; returns why it is refused, or nothing."""
        return self._defaults.change(path, name, value)

    def reset_for_weights(self, path: str, names: Collection[str]) -> None:
        """Let the app speak for these names."""
        self._defaults.reset(path, names)

    def reset_weights(self, path: str) -> None:
        """Take away all that is set for these weights but their notes, with an undo."""
        self._defaults.reset_all(path)

    def awaiting_load(self, path: str) -> tuple[str, ...]:
        """What was changed for the loaded weights and counts only once they are loaded again."""
        return self._defaults.awaiting_load(path)

    def preview_template(
        self, path: str, template: str | None, system_prompt: str, then: Callable[[Preview], None]
    ) -> None:
        """Render a short chat as a prompt is; `template` None: the file's own. A newer question
        takes the place of an older one."""
        self._previews.ask(path, template, system_prompt, then)

    def find_draft_partners(self, path: str, then: Callable[[Partners], None]) -> None:
        """Smaller weights of this machine with the same vocabulary."""
        self._partners.find(path, then)
