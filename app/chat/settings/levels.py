"""What the levels set: reading, changing and resetting them, for the open chat.

The app's level are the settings themselves, the weights' stand with what is known of the file,
the chat's with the conversation (its system prompt in a column of its own), a message's with
the one request that they are for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from app.chat.conversations.shelf import Shelf
from app.chat.events import LevelsChanged, Noticed
from app.chat.settings.resolved import APP, LOADING, SHAPING, Resolved, resolve
from app.chat.settings.settings import Settings, as_stored, checked
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.remote_messages import EngineOffer
from app.engine.protocol.tool_messages import AUTO
from app.refusal import Refusal
from app.tools.servers import TOOLS_OFF
from models.records import Conversation

NEXT: Final = "next_reply"
"""What is for the next reply alone stands with a chat's settings, and is none of them."""
BESIDE: Final = (NEXT, TOOLS_OFF)
"""So does which tools are off there."""
NO_WEIGHTS: Final = "Load a model first: these settings belong to a model."


class Levels:
    """`set_app` changes a setting of the app; `on_changed` is told when another value counts."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        loader: Loader,
        set_app: Callable[[str, Any], None],
        on_changed: Callable[[], None],
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._set_app = set_app
        self._on_changed = on_changed

    # --- reading --------------------------------------------------------------------------------

    def resolved(self, message: Mapping[str, Any] | None = None) -> Resolved:
        """What the next reply of the open chat is made with, and whence each value comes.
        `message`: what is set for that reply alone."""
        return resolved_for(self._around, self._loader, self._shelf.open, message)

    @property
    def remote(self) -> EngineOffer | None:
        """What the server can whose model is loaded; None where it is this machine."""
        return self._loader.remote

    def if_chat_set(self, values: Mapping[str, Any]) -> Resolved:
        """What would count if the open chat set just these values."""
        weights = self._loader.settings_of_weights()
        return resolve(self._around.settings, weights, values)

    def own(self, level: str) -> dict[str, Any]:
        """What a level sets otherwise; of the app, what differs from the defaults."""
        if level == APP:
            usual, now = Settings(), self._around.settings
            return {
                name: as_stored(getattr(now, name))
                for name in (*SHAPING, *LOADING)
                if getattr(now, name) != getattr(usual, name)
            }
        if level == "weights":
            return dict(self._loader.settings_of_weights())
        return of_chat(self._shelf.open)

    # --- changing -------------------------------------------------------------------------------

    def change(self, level: str, name: str, value: Any) -> None:
        """Set a value at a level. One that does not fit is refused in words."""
        try:
            value = as_stored(checked(name, value))
        except Refusal as refused:
            self._around.emit(Noticed("error", refused.sentence))
            return
        if level == APP:
            self._set_app(name, value)
        else:
            self.put(level, {**self.own(level), name: value})

    def change_where_it_counts(self, name: str, value: Any) -> None:
        """Set a value at the level whose value the open chat has now: set below, it would change
        nothing."""
        self.change(self.resolved().level_of(name), name, value)

    def reset(self, level: str, name: str) -> None:
        """Let the level below speak; at the app's level, the default."""
        if level == APP:
            self._set_app(name, getattr(Settings(), name))
            return
        values = self.own(level)
        if name in values:
            del values[name]  # which may be None: a seed that is drawn anew
            self.put(level, values)

    def put(self, level: str, values: Mapping[str, Any], **fields: Any) -> None:
        """Set all values of the weights' or the chat's level; `fields` are others of the
        conversation that change along with it."""
        if level == "weights":
            if not self._loader.change_settings(values):
                self._around.emit(Noticed("warning", NO_WEIGHTS))
                return
        elif not self._around.may_write():
            return
        else:
            self._put_chat(values, fields)
        self._around.emit(LevelsChanged(level))
        self._on_changed()

    def put_with_undo(
        self, values: Mapping[str, Any], names: Collection[str], sentence: str
    ) -> None:
        """Set all values of the open chat. What it set of `names` can be had back: `sentence` says
        what was done."""
        shelf, chat = self._shelf, self._shelf.open
        before = {name: value for name, value in chat.settings.items() if name in names}
        self.put("chat", values)
        if shelf.open.settings == chat.settings:
            return

        def bring_back() -> None:
            now = shelf.conversation(chat.id)
            if now is None:
                return
            others = {name: value for name, value in now.settings.items() if name not in names}
            shelf.change(chat.id, settings={**others, **before})
            self._around.emit(LevelsChanged("chat"))
            self._on_changed()

        shelf.offer_undo(f"settings {chat.id}", sentence, bring_back)

    def _put_chat(self, values: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
        self._shelf.ensure_stored()
        values = dict(values)
        prompt = values.get("system_prompt")
        if prompt:  # an empty one is said outright: this chat has none
            del values["system_prompt"]
        beside = {key: each for key, each in self._shelf.open.settings.items() if key in BESIDE}
        values |= beside
        self._shelf.change(
            self._shelf.open.id, settings=values, system_prompt=prompt or "", **fields
        )


def of_chat(conversation: Conversation) -> dict[str, Any]:
    """What a conversation sets otherwise."""
    values = {name: value for name, value in conversation.settings.items() if name not in BESIDE}
    if conversation.system_prompt:
        values["system_prompt"] = conversation.system_prompt
    return values


def resolved_for(
    around: Surroundings,
    loader: Loader,
    conversation: Conversation,
    message: Mapping[str, Any] | None = None,
) -> Resolved:
    """What a reply in that conversation is made with; `message`: what is set for it alone."""
    weights = loader.settings_of_weights()
    resolved = resolve(around.settings, weights, of_chat(conversation), message)
    given = (message or {}).get("tools")
    tools = around.tools_of(conversation) if given is None else checked("tools", given)
    choice = checked("tool_choice", (message or {}).get("tool_choice", AUTO)) if tools else AUTO
    if (tools, choice) == (resolved.settings.tools, resolved.settings.tool_choice):
        return resolved
    settings = dataclasses.replace(resolved.settings, tools=tools, tool_choice=choice)
    return dataclasses.replace(resolved, settings=settings)
