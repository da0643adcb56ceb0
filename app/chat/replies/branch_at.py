"""Branch by choosing: another token in the place of one that was drawn, and the reply goes on.

The new version begins with the old one's tokens before that place, by their IDs and whatever they
spell, so it may begin in the middle of a character or of the reasoning; only a text that somebody
types is tokenised, and it alone. What must hold:

* The old version stays as it is; the new one stands beside it.
* The prompt above is the one that the old version was written after: the same path, system prompt,
  format and policy. How tokens are drawn is as the settings are now.
* The trace of the new version has the old tokens as they were recorded, then what was chosen,
  measured as any other token is, then what was drawn.
* IDs mean something to the weights that wrote them, and to no others.

Where a server writes, the new version goes on from the *text* before that place and the bytes of
what was chosen: a server takes no IDs back. Its other tokens are the old ones as they were told,
and the chosen one as it stood among the candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from app.chat.conversations.shelf import Shelf
from app.chat.documents.text_document import document, place_of
from app.chat.documents.text_mode import TextMode
from app.chat.events import Noticed
from app.chat.inspection.questions import Questions
from app.chat.replies.recorded import hash_of
from app.chat.replies.replies import Replies
from app.chat.replies.reply import Beginning, Branch, TextBranch
from app.chat.replies.traces import MAX_TOKENS, Traces
from app.chat.replies.written_by import writer_of
from app.chat.settings.levels import resolved_for
from app.chat.settings.sampler_links import chains_before
from app.chat.settings.settings import as_stored
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.messages import Tokens
from app.engine.protocol.remote_messages import EngineOffer, model_name
from app.insight.trace.alternatives import alternatives_of
from app.insight.trace.message_tokens import n_given, of_reply
from app.insight.trace.table import TraceTable
from app.insight.trace.text_places import TextPlaces
from models.records import Message, Role

NOT_A_REPLY: Final = "Only replies can be branched at a token. Choose a token of a reply."
OTHER_WEIGHTS: Final = (
    "This reply was written by “{name}”, which has different tokens. Load that model to branch it."
)
UNKNOWN_WEIGHTS: Final = (
    "The model that wrote this reply is unknown. Regenerate it and branch the new version."
)
NO_IDS: Final = (
    "The token IDs of this reply are unknown because its text was edited, typed or imported. "
    "Regenerate it and branch the new version."
)
NO_TRACE: Final = (
    "The tokens of this reply weren't recorded. Regenerate it and branch the new version."
)
NO_SUCH_TOKEN: Final = "Only {count:,} tokens of this reply were recorded. Choose one of them."
NOT_ITS_TRACE: Final = (
    "The record of this reply doesn't match its tokens. Regenerate it and branch the new version."
)
OTHER_ENGINE: Final = (
    "This reply was written by “{model}” on {engine}. Choose that model at the top to branch it."
)
NOT_IN_TEXT: Final = (
    "This token isn't part of the text that is shown, so a server can't continue from there."
)
NO_SUCH_CANDIDATE: Final = "This candidate's text isn't known, so a server can't continue from it."
NOT_A_CHARACTER: Final = (
    "This token is only a part of a character, so a server can't continue from its text. Choose "
    "another one."
)
BUSY: Final = "Another reply is being generated in this chat. Wait or stop it, then branch."
NO_TEXT: Final = "Type replacement text."
OTHER_PROMPT: Final = "The system prompt has changed since. Restore it to branch this reply."
OTHER_TEMPLATE: Final = "The chat template has changed since. Restore it to branch this reply."


class BranchAt:
    """`at` and `at_text` never wait; what stands against a branch is said in words."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        loader: Loader,
        replies: Replies,
        questions: Questions,
        text_mode: TextMode,
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._replies = replies
        self._questions = questions
        self._text_mode = text_mode
        self._traces = Traces(around)

    def at(
        self,
        message_id: str,
        index: int,
        *chosen_ids: int,
        settings: Mapping[str, Any] | Sequence[Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        """Another version of a reply of the open chat: what it says before the token at this place
        of its trace, then this one (or these) instead, then the engine writes on. A reply that
        grows is stopped first. `settings`: of this version alone, over those of the chat; a list
        has as many versions written, which begin alike."""
        own = (settings,) if isinstance(settings, Mapping) else tuple(settings)
        message = self._source(message_id)
        if message is None or not self._is_known(message):
            return
        if self._remote is not None:
            self._say(NO_SUCH_CANDIDATE)  # a view that knows the text asks by it
            return
        growing = self._replies.growing
        traces = growing.trace_of(message_id)
        if traces is None:
            self._traces.read_head(
                message_id,
                index,
                lambda head, count, sentence: self._go(
                    message_id, index, chosen_ids, head, count, own, sentence
                ),
                still=lambda: self._shelf.is_on_path(message_id),
            )
            return
        count = len(traces)
        if not 0 <= index < count:
            self._say(NO_SUCH_TOKEN.format(count=count))
            return
        head = traces.head(index)
        growing.stop_then(
            message_id, lambda: self._go(message_id, index, chosen_ids, head, count, own)
        )

    def at_text(self, message_id: str, index: int, text: str) -> None:
        """As `at`, with a text in that place. It is tokenised by itself."""
        if not text:
            self._say(NO_TEXT)
            return
        if self._remote is not None:
            self.at_piece(message_id, index, text.encode("utf-8", "replace"))
            return

        def take(tokens: Tokens) -> None:
            self.at(message_id, index, *tokens.token_ids)

        if (message := self._source(message_id)) is not None and self._is_known(message):
            self._questions.tokenize(
                text,
                take,
                self._say,
                inside=True,
                still=lambda: self._shelf.is_on_path(message_id),
            )

    def at_piece(self, message_id: str, index: int, piece: bytes) -> None:
        """As `at`, with these bytes in that place, which a server goes on from."""
        message = self._source(message_id)
        if message is None or not self._is_known(message):
            return

        def go(traces: TraceTable, _count: int, sentence: str = "") -> None:
            self._go_by_text(message_id, index, piece, traces, sentence)

        growing = self._replies.growing
        traces = growing.trace_of(message_id)
        if traces is None:
            self._traces.read_head(
                message_id, MAX_TOKENS, go, still=lambda: self._shelf.is_on_path(message_id)
            )
        else:
            growing.stop_then(message_id, lambda: go(traces, len(traces)))

    def _go_by_text(
        self,
        message_id: str,
        index: int,
        piece: bytes,
        traces: TraceTable,
        sentence: str,
    ) -> None:
        """`traces`: of all tokens of the old version."""
        message = self._shelf.message(message_id)
        if message is None or not self._is_known(message):
            return
        changes = self._changes(message)
        if not 0 <= index < len(traces):
            self._say(sentence or NO_SUCH_TOKEN.format(count=len(traces)))
        elif self._replies.is_busy(message.conversation_id):
            self._say(BUSY)
        elif changes is not None:
            found = text_branch(message, index, piece, traces, self._loader.path)
            if isinstance(found, str):
                self._say(found)
            else:
                self._replies.answer(message_id, (changes,), found)

    # --- what stands against it -----------------------------------------------------------------

    @property
    def _remote(self) -> EngineOffer | None:
        """What the server can that would go on; the one of before, where it was unloaded."""
        loaded = self._loader.loaded or self._loader.last_loaded
        return None if loaded is None else loaded.remote

    def _say(self, sentence: str) -> None:
        self._around.emit(Noticed("warning", sentence))

    def _source(self, message_id: str) -> Message | None:
        message = self._shelf.message(message_id)
        if message is None or message.role is not Role.ASSISTANT:
            self._say(NOT_A_REPLY)
            return None
        return message

    def _is_known(self, message: Message) -> bool:
        """Whether the weights that wrote it are those that would go on. Says why not."""
        remote, writer = self._remote, writer_of(message.settings)
        if writer is not None:
            if remote is None or message.weights_hash != self._loader.weights_hash:
                model = model_name(writer.model)
                self._say(OTHER_ENGINE.format(model=model, engine=writer.words))
            elif why := remote.why_not("continue"):
                self._say(why)
            else:
                return True
        elif remote is not None:
            self._say(OTHER_WEIGHTS.format(name=message.weights_name or "another model"))
        elif not message.weights_hash:
            self._say(UNKNOWN_WEIGHTS)
        elif message.weights_hash != self._loader.weights_hash:
            self._say(OTHER_WEIGHTS.format(name=message.weights_name or "another model"))
        else:
            return True
        return False

    # --- how it is done -------------------------------------------------------------------------

    def _go(
        self,
        message_id: str,
        index: int,
        chosen_ids: tuple[int, ...],
        head: TraceTable,
        count: int,
        own: tuple[Mapping[str, Any], ...],
        sentence: str = "",
    ) -> None:
        """The old tokens are here. The chat on screen may be another one by now."""
        message = self._shelf.message(message_id)
        if message is None or not self._is_known(message):
            return
        before = self._ids_before(message, index, head, count)
        changes = self._changes(message)
        if before is None or changes is None:
            if count == 0 and sentence:
                self._around.emit(Noticed("info", sentence))
            return
        if self._replies.is_busy(message.conversation_id):
            self._say(BUSY)
            return
        place = None
        if self._text_mode.is_open:
            if not self._text_mode.is_whole:
                return
            self._text_mode.settle()
            above = self._shelf.path_to(message.parent_id)
            place = place_of(message, len(document(above)))
        branch = Branch(
            "",
            "",
            before,
            message.id,
            head=head,
            chosen_ids=chosen_ids,
            weights_hash=message.weights_hash or "",
            drawn_with=tuple(chains_before(message.settings, index)),
        )
        answers = tuple({**each, **changes} for each in own)
        self._replies.answer(message_id, answers, branch, place)

    def _ids_before(
        self, message: Message, index: int, head: TraceTable, count: int
    ) -> tuple[int, ...] | None:
        """The IDs before the token, from the reply's first one on. Says why there are none."""
        if message.token_ids is None:
            self._say(NO_IDS)
        elif not count:
            self._say(NO_TRACE)
        elif not 0 <= index < count:
            self._say(NO_SUCH_TOKEN.format(count=count))
        else:
            first = n_untraced(message)
            if tuple(head.column("token_id")) == message.token_ids[first : first + index]:
                return message.token_ids[: first + index]
            self._say(NOT_ITS_TRACE)
        return None

    def _changes(self, message: Message) -> dict[str, Any] | None:
        """The settings that made its prompt, where those of now would make another one."""
        conversation = self._shelf.conversation(message.conversation_id)
        if conversation is None:
            return None
        now = resolved_for(self._around, self._loader, conversation).settings
        recorded: Mapping[str, Any] = message.settings
        for name, sentence in (("system_prompt", OTHER_PROMPT), ("chat_template", OTHER_TEMPLATE)):
            if recorded.get(f"{name}_hash") not in (None, hash_of(getattr(now, name))):
                self._say(sentence)
                return None
        was = {
            "system_prompt": recorded.get("system_prompt", now.system_prompt),
            "chat_format": recorded.get("chat_format", ""),
            "chat_template": recorded.get("chat_template", now.chat_template),
            "context_policy": recorded.get("context_policy", now.policy),
        }
        return {
            name: value for name, value in was.items() if value != as_stored(getattr(now, name))
        }


def text_branch(
    message: Message, index: int, piece: bytes, traces: TraceTable, path: str
) -> TextBranch | Beginning | str:
    """What a server goes on from: the text before a token, and these bytes. A sentence where that
    cannot be told. Where the bytes are none of the recorded candidates, nothing is known of them,
    and the beginning stands without figures.
    """
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return NOT_A_CHARACTER
    tokens = of_reply(message, traces, None)
    place = (
        None
        if tokens is None
        else TextPlaces(tokens, message.reasoning, message.content).part_of(
            len(tokens.before) + index
        )
    )
    if place is None:
        return NOT_IN_TEXT
    in_reasoning = place.part == "reasoning"
    reasoning, content = message.reasoning, message.content
    if in_reasoning:
        reasoning, content = reasoning[: place.start] + text, ""
    else:
        content = content[: place.start] + text
    replaced = traces[index]
    chosen = next((each for each in alternatives_of(replaced) if each.piece == piece), None)
    if chosen is None:
        return Beginning(content, reasoning, None, message.id)
    before = traces.head(index)
    before.append(
        msgspec.structs.replace(
            replaced,
            token_id=chosen.token_id,
            piece=piece,
            logprob=chosen.logprob,
            rank=None,
            chosen=True,
            ms=0.0,
        )
    )
    return TextBranch(content, reasoning, None, message.id, before, is_chosen=True, path=path)


def n_untraced(message: Message) -> int:
    """How many of a reply's first tokens were given to it and are in no trace."""
    return n_given(message) or 0
