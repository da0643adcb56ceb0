"""What views ask the engine beside replies: how a text is tokenised, what the cache holds.

Each question is one command that ends once. Its answer goes to whoever asked, and a failure is a
sentence for the same reader; nothing of it touches a conversation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from app.chat.surroundings import Still
from app.chat.weights.loading import Loader
from app.engine.protocol.frames import clean_text
from app.engine.protocol.messages import (
    CheckGrammar,
    Command,
    Failed,
    Finished,
    GrammarChecked,
    Progress,
    Result,
    Stopped,
    Tokenize,
    Tokens,
)

R = TypeVar("R", bound=Result)
A = TypeVar("A")

NO_WEIGHTS: Final = "This needs a loaded model. Load one first."
UNREADABLE: Final = "The engine sent an invalid response. Reload the model."
ENDED: Final = "The engine stopped before it could respond. Try again."


class _Asked(NamedTuple):
    kind: type[Any]
    then: Callable[[Any], None]
    failed: Callable[[str], None]
    still: Still
    progress: Callable[[int, int], None]
    too_long: Callable[[str], None]


class Questions:
    """`ask` never waits. Answers come on the desk's thread, each once, unless what it was asked for
    is so no longer (`still`), and are about the weights that were loaded when it was asked: while
    others are loading nothing is asked."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._asked: dict[int, _Asked] = {}

    def ask(
        self,
        command: Command,
        kind: type[R],
        then: Callable[[R], None],
        failed: Callable[[str], None],
        *,
        still: Still,
        progress: Callable[[int, int], None] = lambda done, total: None,
        too_long: Callable[[str], None] | None = None,
    ) -> int | None:
        """Send a command (its id is filled in) that is answered by a `kind`. `failed` gets a
        sentence for the user, at once where no weights are loaded. `progress`: how much is done, of
        how much. `too_long`: called instead of `failed` where the prompt does not fit. Returns the
        id, for `stop`."""
        if self._loader.loaded is None or self._loader.is_loading:
            failed(NO_WEIGHTS)
            return None
        request_id = self._loader.engine.request(command)
        self._asked[request_id] = _Asked(kind, then, failed, still, progress, too_long or failed)
        return request_id

    def tokenize(
        self,
        text: str,
        then: Callable[[Tokens], None],
        failed: Callable[[str], None],
        *,
        still: Still,
        special: bool = False,
        inside: bool = False,
    ) -> None:
        """How the loaded vocabulary cuts a text, without a BOS. `special`: the text of a control
        token becomes that token. `inside`: as it stands behind another text."""
        self.ask(Tokenize(0, text, special, inside=inside), Tokens, then, failed, still=still)

    def check_grammar(
        self,
        grammar: str,
        json_schema: str,
        then: Callable[[GrammarChecked], None],
        failed: Callable[[str], None],
        *,
        still: Still,
    ) -> None:
        """Whether a reply could be bound by a grammar or a schema."""
        command = CheckGrammar(0, clean_text(grammar), clean_text(json_schema))
        self.ask(command, GrammarChecked, then, failed, still=still)

    def stop(self, request_id: int) -> None:
        """The answer is not wanted any more: nobody is called."""
        if self._asked.pop(request_id, None) is not None:
            self._loader.engine.stop(request_id)

    def break_off(self, request_id: int) -> None:
        """End it early; its answer still comes, as a failure."""
        if request_id in self._asked:
            self._loader.engine.stop(request_id)

    def is_asked(self, request_id: int) -> bool:
        return request_id in self._asked

    def take_progress(self, event: Progress) -> None:
        asked = self._asked[event.id]
        if asked.still():
            asked.progress(event.done, event.total)

    def take_ending(self, event: Finished | Stopped | Failed) -> None:
        asked = self._asked.pop(event.id)
        if not asked.still():
            return
        if isinstance(event, Failed) and event.kind == "prompt_too_long":
            asked.too_long(event.sentence)
        elif not isinstance(event, Finished):
            asked.failed(event.sentence if isinstance(event, Failed) else ENDED)
        elif isinstance(event.result, asked.kind):  # what comes from the engine is untrusted
            asked.then(event.result)
        else:
            asked.failed(UNREADABLE)


class Newest:
    """The newest question of a kind: another one ends it. `request_id`: what the engine is asked
    for it."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._number = 0
        self.request_id: int | None = None

    def begin(self) -> Still:
        """Another question, or none: whether this is still the newest one."""
        self._number = number = self._number + 1
        if self.request_id is not None:
            self._questions.stop(self.request_id)
            self.request_id = None
        return lambda: number == self._number


class Kept(Generic[A]):
    """Answers about the loaded weights, by what was asked, as long as these are loaded."""

    def __init__(self, loader: Loader, size_bytes: Callable[[A], int]) -> None:
        self._loader = loader
        self._size_bytes = size_bytes
        self._answers: OrderedDict[Hashable, A] = OrderedDict()
        self._for: object = None

    def __len__(self) -> int:
        return len(self._answers)

    def forget_former(self) -> bool:
        """Whether others were loaded or unloaded since; nothing is kept then. Whatever is loaded
        anew may compute otherwise: with another cache type, say."""
        if self._for is self._loader.loaded:
            return False
        self._answers.clear()
        self._for = self._loader.loaded
        return True

    def get(self, key: Hashable) -> A | None:
        self.forget_former()
        if key in self._answers:
            self._answers.move_to_end(key)
        return self._answers.get(key)

    def put(self, key: Hashable, answer: A, most_bytes: int) -> None:
        """The longest unused go where all of them are larger than `most_bytes`; this one stays."""
        self._answers[key] = answer
        self._answers.move_to_end(key)
        size_bytes = sum(map(self._size_bytes, self._answers.values()))
        while size_bytes > most_bytes and len(self._answers) > 1:
            size_bytes -= self._size_bytes(self._answers.popitem(last=False)[1])
