"""How a chat reads once a template has rendered it, for a file that need not be loaded.

The template and the texts of the special tokens come out of the file; rendering goes the way of
every prompt (`app.engine.prompts.prompt`, in a template process of its own), so what is shown is
what the engine would be given (a test compares both test files). A thread of its own reads and
renders; only the last question is answered, so that typing in a template never queues up.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.chat.settings.settings import Settings
from app.chat.surroundings import Surroundings
from app.engine.prompts.prompt import lay_out_chat
from app.engine.prompts.thinking import inspected, with_thinking
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.template_messages import TemplateFailed
from app.engine.protocol.template_variables import read_variables
from app.engine.templates.client import TemplateClient
from app.engine.templates.layout import Layout

if TYPE_CHECKING:
    from app.gguf.vocabulary import FileVocabulary

_log = logging.getLogger(__name__)

DEADLINE_S: Final = 3.0
MAX_SHOWN: Final = 100_000
"""Characters of a rendered chat that are shown."""
NO_TEMPLATE: Final = "This file has no chat template. Write one here or choose a format."
SAMPLE: Final = (
    ChatMessage("user", "What is the capital of France?"),
    ChatMessage("assistant", "Paris."),
    ChatMessage("user", "And of Italy?"),
)


@dataclass(frozen=True, slots=True)
class PreviewStretch:
    """Characters [start, end) of a preview: what somebody wrote (`kind` is the role), or a control
    token of the scaffold ("control"). What is in no stretch is the scaffold's plain text."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class Preview:
    """`text` is empty where `sentence` says why; `line` is the template's line, or 0. `source` is
    the template that was rendered; `notes` tell in what form it took the messages; `variables` are
    names that it reads besides those of every template."""

    source: str
    text: str = ""
    stretches: tuple[PreviewStretch, ...] = ()
    notes: tuple[str, ...] = ()
    sentence: str = ""
    line: int = 0
    variables: tuple[str, ...] = ()


Then = Callable[[Preview], None]


@dataclass(frozen=True, slots=True)
class _Question:
    path: str
    template: str | None
    system_prompt: str
    then: Then
    settings: Settings


class TemplatePreviews:
    """`ask` never waits; `then` is called on the desk's thread, unless a newer question came."""

    def __init__(self, around: Surroundings, client: TemplateClient | None = None) -> None:
        self._around = around
        self._client = client or TemplateClient(deadline_s=DEADLINE_S)
        self._condition = threading.Condition()
        self._question: _Question | None = None
        self._newest: _Question | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._read: tuple[object, tuple[FileVocabulary, str]] | None = None

    def ask(
        self,
        path: str,
        template: str | None,
        system_prompt: str,
        then: Then,
        settings: Settings | None = None,
    ) -> None:
        """Render a short chat as a prompt is; `template` None: the file's own. `settings` say what
        is chosen about thinking, and the variables. A newer question takes the place of an older
        one."""
        with self._condition:
            if self._is_closed:
                return
            question = _Question(path, template, system_prompt, then, settings or Settings())
            self._question = self._newest = question
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="template-preview", daemon=True
                )
                self._thread.start()
            self._condition.notify()

    def close(self) -> None:
        """End the template process and the thread."""
        with self._condition:
            self._is_closed = True
            self._question = None
            self._condition.notify()
        self._client.abandon()
        if self._thread is not None:
            self._thread.join(DEADLINE_S)

    # --- on the thread --------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while (question := self._next()) is not None:
                self._around.hand_over(
                    partial(question.then, self._answer(question)),
                    partial(self._is_newest, question),
                )
        finally:
            self._client.close()

    def _next(self) -> _Question | None:
        with self._condition:
            while self._question is None and not self._is_closed:
                self._condition.wait()
            question, self._question = self._question, None
            return question

    def _is_newest(self, question: _Question) -> bool:
        return question is self._newest

    def _answer(self, question: _Question) -> Preview:
        from app.gguf.refusal import HeaderRefused

        source = question.template or ""
        try:
            words, own = self._words(question.path)
            source = own if question.template is None else question.template
            if not source.strip():
                return Preview(source, sentence=NO_TEMPLATE)
            return self._rendered(question, words, source)
        except HeaderRefused as refused:
            return Preview(source, sentence=refused.sentence)
        except TemplateFailed as failed:
            return Preview(source, sentence=failed.sentence, line=failed.line)
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            _log.error("the preview of a template: %s", error, exc_info=error)
            return Preview(source, sentence=f"This can't be shown ({type(error).__name__}).")

    def _rendered(self, question: _Question, words: FileVocabulary, source: str) -> Preview:
        messages = list(SAMPLE)
        if question.system_prompt.strip():
            messages.insert(0, ChatMessage("system", question.system_prompt))
        chosen = question.settings
        asked = ChatPrompt(
            messages,
            thinking=chosen.thinking,
            reasoning_budget=chosen.reasoning_budget,
            variables=chosen.template_variables,
            reasoning_tags=chosen.tag_pairs,
        )
        inspect = self._client.inspect
        ready, said = with_thinking(asked, source, words, inspect)
        assert isinstance(ready, ChatPrompt)
        layout, accepted, notes = lay_out_chat(
            ready.messages, words, source, self._client.render, read_variables(ready.variables)
        )
        found = inspected(source, words, inspect, chosen.tag_pairs, chosen.template_variables)
        text = layout.text[:MAX_SHOWN]
        return Preview(
            source,
            text,
            tuple(each for each in _stretches(layout, accepted, words) if each.end <= len(text)),
            tuple(note.sentence for note in (*said, *notes)),
            variables=tuple(found.offer.variables),
        )

    def _words(self, path: str) -> tuple[FileVocabulary, str]:
        from app.gguf.chat_check import read_chat_header
        from app.gguf.vocabulary import read_vocabulary

        stamp: object = path
        try:
            info = Path(path).stat()
            stamp = (path, info.st_size, info.st_mtime_ns)
        except (OSError, ValueError):
            self._read = None  # the reader below says why
        if self._read is None or self._read[0] != stamp:
            header = read_chat_header(path)
            self._read = (stamp, (read_vocabulary(path), header.chat_template or ""))
        return self._read[1]


def _stretches(
    layout: Layout, messages: Sequence[ChatMessage], words: FileVocabulary
) -> list[PreviewStretch]:
    """What was written, and the control tokens between. Text of a message that only looks like a
    control token is text."""
    written = [
        PreviewStretch(span.start, span.end, messages[span.index].role)
        for span in layout.spans
        if span.end > span.start
    ]
    texts = sorted(words.control_texts, key=len, reverse=True)
    if not texts:
        return written
    pattern = re.compile("|".join(map(re.escape, texts)))
    taken = [(each.start, each.end) for each in written]
    taken += layout.ordinary
    controls = [
        PreviewStretch(found.start(), found.end(), "control")
        for found in pattern.finditer(layout.text)
        if not any(start < found.end() and found.start() < end for start, end in taken)
    ]
    return sorted((*written, *controls), key=lambda each: each.start)
