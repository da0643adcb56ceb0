"""A beam search in the open chat: where it begins, how its tree grows, a text of it as a reply.

It begins at a token of a reply, or where the next reply would: at the last question, or at the
caret of a text. Nothing of the chat changes until a text is taken; then that is an ordinary
version, whose tokens are given to the engine and measured as any others are (`beam_versions.py`).

What must hold: one search at a time, a newer one ends an older one; what arrives for an older one
is dropped; the tree of a search that was stopped or failed stays as far as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from app.chat.conversations.shelf import Shelf
from app.chat.documents.text_document import place_of
from app.chat.documents.text_mode import TextMode
from app.chat.events import BeamsChanged, Noticed
from app.chat.inspection.prompt_reading import PromptOf, PromptReading
from app.chat.inspection.questions import NO_WEIGHTS, UNREADABLE, Newest, Questions
from app.chat.replies.beam_versions import BEAMS, UNBOUND, BeamVersion, as_recorded, beams_of
from app.chat.replies.branch_at import NO_IDS, BranchAt, n_untraced
from app.chat.replies.replies import Replies
from app.chat.replies.reply import Branch
from app.chat.settings.levels import resolved_for
from app.chat.settings.settings import Settings, as_stored
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.beam_messages import (
    STOPS_NOTHING,
    BeamsFound,
    BeamsGrew,
    SearchBeams,
    check_beams,
)
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.frames import ProtocolError
from app.insight.beams.tree import BeamTree
from app.insight.trace.message_tokens import n_taken_over
from models.records import Message, Role

State = Literal["none", "reading", "searching", "found", "stopped", "failed"]

NOTHING_YET: Final = "Write a message first; beams continue the chat from there."
NO_TEXT_YET: Final = "Write some text first; beams continue it from the cursor."
NOT_HERE: Final = "Open the chat that was searched to use this text as a reply."
CHANGED: Final = "The text before the cursor has changed since. Search again."
MOVED_ON: Final = "The chat has changed since. Search again."
OTHER_WEIGHTS: Final = "Another model is loaded since, which has different tokens. Search again."
STOPPED: Final = "Stopped. Any text so far can be used."

USUAL: Final = SearchBeams(0, [])

_OF_THE_PROMPT: Final = (
    "system_prompt",
    "chat_format",
    "chat_template",
    "context_policy",
    "thinking",
    "template_variables",
)
_OF_THE_WEIGHTS: Final = ("loras", "control_vectors")


@dataclass(frozen=True, slots=True)
class BeamOptions:
    width: int = USUAL.width
    length: int = USUAL.length
    length_penalty: float = USUAL.length_penalty


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a search begins. `message_id`: of a reply, from which of its `index` tokens on; of a
    question, whose reply is searched; none in a text, where it is `caret`. `before`: the text that
    stands before it there. `shaping`: what made the prompt and changed the weights.
    `weights_hash`: whose tokens these are."""

    conversation_id: str
    message_id: str = ""
    index: int | None = None
    caret: int = 0
    before: str = ""
    shaping: Mapping[str, Any] | None = None
    weights_hash: str = ""

    @property
    def is_reply(self) -> bool:
        return self.index is not None


class Beams:
    """No method waits. `BeamsChanged` says that there is more to show."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        loader: Loader,
        questions: Questions,
        reading: PromptReading,
        replies: Replies,
        branches: BranchAt,
        text: TextMode,
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._questions = questions
        self._reading = reading
        self._replies = replies
        self._branches = branches
        self._text = text
        self._newest = Newest(questions)
        self.options = BeamOptions()
        self.origin: Origin | None = None
        self.state: State = "none"
        self.sentence = ""
        self.tree = BeamTree()
        self.read: tuple[int, int] = (0, 0)
        """Tokens of the text that have been read, of how many."""
        self._is_in_text = False
        """Whether a text of this search was taken into the document."""

    @property
    def is_running(self) -> bool:
        return self.state in ("reading", "searching")

    # --- where it begins ------------------------------------------------------------------------

    def origin_here(self) -> Origin | None:
        """Behind the last question, or at the caret of a text; None: there is nothing yet."""
        if self._text.is_open:
            before = self._text.text[: self._text.caret]
            return self._made(caret=self._text.caret, before=before) if before else None
        path = self._shelf.path
        if path and path[-1].role is Role.ASSISTANT:
            path = self._shelf.path_to(path[-1].parent_id)
        return self._made(message_id=path[-1].id) if path else None

    def origin_at(self, message_id: str, index: int) -> Origin:
        """Before a token of a reply, by its place in the trace."""
        return self._made(message_id=message_id, index=index)

    def why_not(self) -> str:
        """What to do before anything can be searched here; empty: nothing."""
        if self._loader.loaded is None:
            return NO_WEIGHTS
        if self._loader.remote is not None:
            return self._loader.remote.why_not("beams")
        if self.origin_here() is None:
            return NO_TEXT_YET if self._text.is_open else NOTHING_YET
        return ""

    def _made(self, **fields: Any) -> Origin:
        settings = self._settings()
        names = (*_OF_THE_PROMPT, *_OF_THE_WEIGHTS)
        shaping = {name: as_stored(getattr(settings, name)) for name in names}
        return Origin(
            self._shelf.open.id,
            shaping=shaping,
            weights_hash=self._loader.weights_hash,
            **fields,
        )

    def _settings(self) -> Settings:
        return resolved_for(self._around, self._loader, self._shelf.open).settings

    # --- searching ------------------------------------------------------------------------------

    def search(self, origin: Origin, options: BeamOptions) -> None:
        """Begin; a search that runs ends. What cannot be searched leaves the last tree as it is."""
        still = self._newest.begin()
        try:
            check_beams(options.width, options.length, options.length_penalty)
        except BadSetting as refused:
            self._end("failed", refused.sentence)
            return
        if origin.conversation_id != self._shelf.open.id:
            self._end("failed", NOT_HERE)
            return
        if self._loader.remote is not None:
            self._end("failed", self._loader.remote.why_not("beams"))
            return
        self.origin, self.options, self.tree, self.read = origin, options, BeamTree(), (0, 0)
        self._is_in_text = False
        self._tell("reading")
        settings = self._settings()
        if origin.is_reply:
            message = self._shelf.message(origin.message_id)
            if message is None:
                self._end("failed", MOVED_ON)
                return
            self._reading.read(
                message.id, lambda found: self._read_reply(message, found, settings), still=still
            )
        else:
            path = self._shelf.path_to(origin.message_id) if origin.message_id else None
            self._reading.read_next(
                lambda found: self._ask(found, lambda ids: (ids, len(ids)), settings),
                still=still,
                path=path,
            )

    def _read_reply(self, message: Message, found: PromptOf, settings: Settings) -> None:
        """What was read ends with the tokens that the reply was given: those in no trace, then
        those of the version that it was branched from. Its own follow."""
        assert self.origin is not None
        index = self.origin.index or 0
        if message.token_ids is None:
            self._end("failed", NO_IDS)
            return
        n_taken, written = n_taken_over(message), message.token_ids
        n_given = n_untraced(message) + n_taken
        if n_given + index - n_taken > len(written):
            self._end("failed", MOVED_ON)
            return

        def before(ids: list[int]) -> tuple[list[int], int]:
            whole = [*ids, *written[n_given:]]
            return whole[: len(ids) - n_taken + index], max(len(ids) - n_given, 0)

        self._ask(found, before, settings)

    def _ask(
        self,
        found: PromptOf,
        before: Callable[[list[int]], tuple[list[int], int]],
        settings: Settings,
    ) -> None:
        """`before`: what was read → the tokens to search from, and how many are the prompt."""
        if found.shown is None:
            self._end("failed", found.sentence)
            return
        token_ids, n_prompt = before(found.shown.token_ids.numbers().tolist())
        asked = self._newest.request_id = self._questions.ask(
            SearchBeams(
                0,
                token_ids,
                n_prompt=n_prompt,
                width=self.options.width,
                length=self.options.length,
                length_penalty=self.options.length_penalty,
                sampling=settings.sampling(),
                adapters=settings.adapters,
            ),
            BeamsFound,
            lambda found: self._take_found(found, has_stops=bool(settings.stop_strings)),
            self._take_failure,
            still=lambda: True,
            progress=self._take_progress,
        )
        if asked is not None:
            self._tell("reading")

    def stop(self) -> None:
        """End the search that runs. Its tree stays."""
        if not self.is_running:
            return
        self._newest.begin()
        self._end("stopped", STOPPED if self.tree.leaves else "Stopped.")

    def forget(self, conversation_id: str) -> None:
        """A temporary chat is gone, and what was searched in it."""
        if self.origin is not None and self.origin.conversation_id == conversation_id:
            self._newest.begin()
            self.origin, self.tree = None, BeamTree()
            self._end("none", "")

    # --- what the engine says -------------------------------------------------------------------

    def take(self, event: BeamsGrew) -> None:
        """A step of the search that runs; of another one nothing is wanted."""
        if event.id != self._newest.request_id or not self.is_running:
            return
        try:
            self.tree.take(event)
        except ProtocolError:
            self._newest.begin()
            self._end("failed", UNREADABLE)
        else:
            self._tell("searching")

    def _take_progress(self, done: int, total: int) -> None:
        self.read = (done, total)
        self._tell("reading")

    def _take_found(self, found: BeamsFound, *, has_stops: bool) -> None:
        try:
            self.tree.end(found)
        except ProtocolError:
            self._end("failed", UNREADABLE)
        else:
            self._end("found", " ".join([*found.notes, *([STOPS_NOTHING] if has_stops else [])]))

    def _take_failure(self, sentence: str) -> None:
        self._end("failed", sentence)

    def _end(self, state: State, sentence: str) -> None:
        self._newest.request_id = None
        self.sentence = sentence
        self._tell(state)

    def _tell(self, state: State) -> None:
        if state in ("reading", "searching"):
            self.sentence = ""
        self.state = state
        self._around.emit(BeamsChanged())

    # --- taking a text --------------------------------------------------------------------------

    def use(self, number: int) -> None:
        """The text that ends with this node as another version of the reply. What stands against
        it is said in words."""
        origin = self.origin
        if origin is None or number not in self.tree.grown:
            return
        ids = tuple(self.tree.ids(number))
        if self._is_refused(origin):
            return
        wanted = {**UNBOUND, "max_tokens": len(ids), **(origin.shaping or {})}
        if origin.is_reply:  # its prompt is the reply's own
            wanted = {name: wanted[name] for name in wanted if name not in _OF_THE_PROMPT}
        now = self._settings()
        own = {name: v for name, v in wanted.items() if v != as_stored(getattr(now, name))}
        own[BEAMS] = as_recorded(self._version(number))
        if origin.is_reply:
            self._branches.at(origin.message_id, origin.index or 0, *ids, settings=own)
            return
        branch = Branch("", "", (), None, chosen_ids=ids, weights_hash=origin.weights_hash)
        if not self._text.is_open:
            self._replies.answer(origin.message_id, (own,), branch)
        elif self._stands_in_text(origin):
            self._text.retry(branch, (own,))
        else:
            text = self._text.text
            self._is_in_text = self._text.go_on(text, origin.caret, branch, (own,))

    def _stands_in_text(self, origin: Origin) -> bool:
        """Whether a text of this search was the last continuation: another one is a version."""
        last = self._text.continuation
        if not self._is_in_text or last is None or beams_of(last.settings) is None:
            return False
        return place_of(last, len(self._text.text)) == (origin.caret, origin.caret)

    def _is_refused(self, origin: Origin) -> bool:
        """Whether the text would stand behind another one than was searched from; says so."""
        sentence = ""
        if origin.conversation_id != self._shelf.open.id:
            sentence = NOT_HERE
        elif origin.weights_hash != self._loader.weights_hash:
            sentence = OTHER_WEIGHTS
        elif not origin.is_reply and self._text.is_open:
            if self._text.text[: origin.caret] != origin.before:
                sentence = CHANGED
        elif self._shelf.message(origin.message_id) is None:
            sentence = MOVED_ON
        if sentence:
            self._around.emit(Noticed("warning", sentence))
        return bool(sentence)

    def _version(self, number: int) -> BeamVersion:
        node, leaves = self.tree.grown[number].node, self.tree.leaves
        return BeamVersion(
            self.options.width,
            self.options.length,
            self.options.length_penalty,
            leaves.index(number) + 1 if number in leaves else 0,
            len(leaves),
            node.total,
            node.score,
            node.is_greedy,
        )
