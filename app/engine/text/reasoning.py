"""Reasoning that stands between tags: which tags there are, and a splitter that follows them.

Families of weights write their reasoning differently. `KNOWN` are the tags in use (as llama.cpp,
vLLM and Open WebUI know them); a prompt may name further ones, which go before them. Replies in
channels, where each part has a header, are told apart in `channels.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from app.engine.protocol.tool_messages import Part
from app.engine.text.text import Piece, overlap


@dataclass(frozen=True, slots=True)
class Tags:
    """What stands before and after reasoning. `name`: a word behind the opening tag that says what
    follows (Gemma 4 writes `<|channel>thought`, a line break, and its thoughts). `is_phrase`: these
    are words that anybody may say, so they are tags only where the prompt speaks of them.
    `answer`: what has to open the answer behind them."""

    opening: str
    closing: str
    name: str = ""
    is_phrase: bool = False
    answer: str = ""

    @property
    def start(self) -> str:
        """All that opens reasoning, but for a line break behind it."""
        return self.opening + self.name


KNOWN: Final = (
    Tags("<think>", "</think>"),  # DeepSeek, Qwen, GLM, Hunyuan, most others
    Tags("<thinking>", "</thinking>"),
    Tags("<thought>", "</thought>"),  # EXAONE Deep
    Tags("<Thought>", "</Thought>"),
    Tags("<reason>", "</reason>"),
    Tags("<reasoning>", "</reasoning>"),  # Reka
    Tags("[THINK]", "[/THINK]"),  # Magistral
    Tags("<|channel>", "<channel|>", name="thought"),  # Gemma 4
    Tags("<seed:think>", "</seed:think>"),  # Seed-OSS
    Tags("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A, Command R7B
    Tags("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    Tags("<|begin_of_thought|>", "<|end_of_thought|>"),  # Sky-T1, OpenThinker
    Tags("◁think▷", "◁/think▷"),  # Kimi-VL
    Tags(
        "<|open|>think<|sep|>", "<|close|>think<|sep|>", answer="<|open|>response<|sep|>"
    ),  # Kimi K3
    Tags("Here is my thought process:", "Here is my response:", is_phrase=True),  # Granite 3.2
    Tags("Here's my thought process:", "Here's my response:", is_phrase=True),
)
"""Of a prompt that names no tags the first are the usual ones."""

_ANSWERS: Final = (
    ("<answer>", "</answer>"),  # Hunyuan
    ("<response>", "</response>"),  # Granite 3.3
    ("<|begin_of_solution|>", "<|end_of_solution|>"),  # with <|begin_of_thought|>
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),  # with <|START_THINKING|>
)
"""Tags around the answer behind reasoning. People ask for `<answer>` as well, so they are taken
away only where the template itself speaks of them."""

_SECTION: Final = (
    "<|open|>response<|sep|>",
    "<|close|>response<|sep|><|close|>message<|sep|>",
)
"""Of Kimi K3, whose every reply is in sections, with reasoning and without."""

_PHRASE: Final = "Here is my thought process:"


def used_tags(
    given: Iterable[tuple[str, str]] = (), rendered: str = "", template: str = ""
) -> tuple[Tags, ...]:
    """The tags that count for a reply: those that were given for it, then the known ones."""
    own = [Tags(opening, closing) for opening, closing in given if opening and closing]
    speaks_of_phrases = _PHRASE in template or _PHRASE in rendered
    return (*own, *(tags for tags in KNOWN if speaks_of_phrases or not tags.is_phrase))


SECTIONS: Final = [(tags.opening, tags.closing) for tags in KNOWN if tags.answer]
"""Known tags that are put together of several control tokens."""

USUAL: Final = used_tags()
"""Those that count where nothing else is known."""


def answer_tags(template: str) -> tuple[tuple[str, str], ...]:
    """The tags around an answer that this template speaks of."""
    found = tuple(pair for pair in _ANSWERS if pair[0] in template)
    # Kimi K3's template puts its tags together: the words are not in it.
    return (*found, _SECTION) if "<|open|>" in template and "<|sep|>" in template else found


def opened_section(text: str, answers: Sequence[tuple[str, str]]) -> str:
    """What closes the answer that `text` (a rendered prompt, and what a reply begins with) is
    inside of; empty where it is in none. `answers`: `answer_tags` of its template.

    >>> opened_section("<|open|>response<|sep|>So", [_SECTION])[:21]
    '<|close|>response<|se'
    """
    if _SECTION not in answers:  # anybody may write the words in another chat
        return ""
    opening, closing = _SECTION
    at = text.rfind(opening)
    return closing if at >= 0 and closing[:9] not in text[at:] else ""


class ReasoningSplitter:
    """Tells reasoning from content by the tags that reasoning weights write.

    A tag opens reasoning only at the very start of a reply (white space may come before it), so
    a `<think>` in a code block stays text. Templates that write the opening tag themselves
    start the splitter `inside`. The first closing tag ends reasoning for good; line breaks
    beside the tags belong to neither part. Without a closing tag all that came is reasoning
    and `unclosed` says so; a closing tag that nothing opened is ordinary text, except as the
    first thing of a reply, where it closes reasoning that the template opened and closed.
    `answers`: tags around the answer, which are no part of it either.

    >>> splitter = ReasoningSplitter()
    >>> splitter.feed("\\n<thi"), splitter.feed("nk>2+2</think>\\n\\n4")
    ([], [('reasoning', '2+2'), ('content', '4')])
    """

    def __init__(
        self,
        tags: Sequence[Tags] = USUAL,
        *,
        inside: Tags | None = None,
        is_named: bool = True,
        keep_breaks: bool = False,
        answers: Sequence[tuple[str, str]] = (),
        section: str = "",
    ) -> None:
        """`is_named`: the name of the tags that it starts inside of has been written. `section`: it
        starts inside the answer that this closes."""
        self._tags = tags
        self._answers = answers
        self._state: Literal["start", "name", "reasoning", "answer", "content", "wrapped"]
        self._state = "start"
        self._open = tags[0]
        self._closing = section
        self._held = ""
        self._skip_breaks = False
        if section:
            self._state = "wrapped"
        if inside is not None:
            self._open = inside
            self._state = "reasoning" if is_named else "name"
            self._skip_breaks = is_named and not keep_breaks

    @property
    def tag_texts(self) -> list[str]:
        """The texts of all tags that it follows."""
        return [text for tags in self._tags for text in (tags.opening, tags.closing)]

    @property
    def unclosed(self) -> bool:
        return self._state in ("name", "reasoning")

    @property
    def closing(self) -> str:
        """What would end the reasoning that it is inside of; nothing where it is in none."""
        return closing_of(self._open) if self._state == "reasoning" else ""

    @property
    def is_at_a_tag(self) -> bool:
        """Whether what came last may become the closing tag."""
        return self._state == "reasoning" and bool(self._held.strip("\n"))

    def feed(self, text: str) -> list[Piece]:
        out: list[Piece] = []
        text = self._held + text
        self._held = ""
        while text:
            text = self._step(text, out)
        return out

    def flush(self) -> list[Piece]:
        """The end of the stream: what was held back for a possible tag is text. The beginning of a
        name, and the tag that closes an answer, are none."""
        held, self._held = self._held, ""
        if self._state == "wrapped":
            bare = held.rstrip()
            if bare.endswith(self._closing):
                held = bare.removesuffix(self._closing).rstrip("\n")
        if not held or self._state == "name":
            return []
        part: Part = "reasoning" if self._state == "reasoning" else "content"
        return [(part, held)]

    def _step(self, text: str, out: list[Piece]) -> str:
        """Consume a part of `text`; return the rest, or "" when all is consumed or held."""
        if self._skip_breaks:
            text = text.lstrip("\n")
            self._skip_breaks = not text
        if not text:
            return ""
        if self._state == "start":
            return self._step_start(text)
        if self._state == "name":
            return self._step_name(text)
        if self._state == "reasoning":
            return self._step_reasoning(text, out)
        if self._state == "answer":
            return self._step_answer(text)
        if self._state == "wrapped":
            return self._step_wrapped(text, out)
        out.append(("content", text))
        return ""

    def _step_start(self, text: str) -> str:
        bare = text.lstrip()
        for tags in self._tags:
            if bare.startswith(tags.opening):
                self._open, self._state = tags, "name" if tags.name else "reasoning"
                self._skip_breaks = not tags.name
                return bare[len(tags.opening) :]
            if bare.startswith(tags.closing):
                self._state, self._skip_breaks = "answer", True
                return bare[len(tags.closing) :]
        if not bare or any(tag.startswith(bare) for tag in self.tag_texts):
            self._held = text
            return ""
        if any(tag.startswith(bare) or bare.startswith(tag) for tag, _ in self._answers):
            self._state = "answer"
            return bare
        self._state = "content"
        return text

    def _step_name(self, text: str) -> str:
        """Pass over the name, if that is what a line break or the closing tag follows."""
        name, closing = self._open.name, self._open.closing
        rest = text.removeprefix(name)
        may_be_named = name.startswith(text) or (text.startswith(name) and closing.startswith(rest))
        if may_be_named and rest != closing:
            self._held = text
            return ""
        self._state, self._skip_breaks = "reasoning", True
        is_named = text.startswith(name) and rest.startswith(("\n", closing))
        return rest if is_named else text

    def _step_reasoning(self, text: str, out: list[Piece]) -> str:
        """Up to the closing tag; line breaks before a possible tag wait with it."""
        closing = self._open.closing
        at = text.find(closing)
        if at >= 0:
            inner = text[:at].rstrip("\n")
            if inner:
                out.append(("reasoning", inner))
            self._state, self._skip_breaks = "answer", True
            return text[at + len(closing) :]
        self._hold_end(text, overlap(text, closing), "reasoning", out)
        return ""

    def _step_answer(self, text: str) -> str:
        """The answer begins, perhaps with a tag around it."""
        for opening, closing in self._answers:
            if text.startswith(opening):
                self._state, self._closing, self._skip_breaks = "wrapped", closing, True
                return text[len(opening) :]
        if any(opening.startswith(text) for opening, _ in self._answers):
            self._held = text
            return ""
        self._state = "content"
        return text

    def _step_wrapped(self, text: str, out: list[Piece]) -> str:
        """A closing tag that ends the reply is no text; one in the middle of it is."""
        bare = text.rstrip()
        if bare.endswith(self._closing):
            keep = len(text) - len(bare) + len(self._closing)
        else:
            keep = overlap(text, self._closing)
        self._hold_end(text, keep, "content", out)
        return ""

    def _hold_end(self, text: str, n_kept: int, part: Part, out: list[Piece]) -> None:
        """Let go of all but the last characters, and of the line breaks before those."""
        shown = text[: len(text) - n_kept].rstrip("\n")
        self._held = text[len(shown) :]
        if shown:
            out.append((part, shown))


def closing_of(tags: Tags) -> str:
    """How these tags end reasoning that is cut off."""
    return f"{tags.closing}{tags.answer}" if tags.answer else f"\n{tags.closing}\n\n"


def opened_reasoning(text: str, tags: Sequence[Tags] = USUAL) -> tuple[Tags, bool] | None:
    """The tags that `text` (the end of a rendered prompt) has opened, if it has, and whether their
    name is written, too.

    >>> opened_reasoning("<|im_start|>assistant\\n<think>\\n")[0].closing
    '</think>'
    """
    bare = text.rstrip()
    for one in tags:
        if bare.endswith(one.start):
            return one, True
        if bare.endswith(one.opening):
            return one, False
    return None


def last_opened(text: str, tags: Sequence[Tags] = USUAL) -> Tags:
    """The tags of the last opening tag in a prompt.

    >>> last_opened("<think>old</think> so [THINK] we were").closing
    '[/THINK]'
    """
    return max(tags, key=lambda one: text.rfind(one.opening))


def tags_in_prompt(template: str, given: Iterable[tuple[str, str]] = ()) -> Tags:
    """The tags to write into a prompt: those given, else those that a chat template speaks of,
    else the most common ones.

    >>> tags_in_prompt("{{ '[THINK]' + m.reasoning_content + '[/THINK]' }}").opening
    '[THINK]'
    """
    tags = used_tags(given, template=template)
    if tags[0] not in KNOWN:
        return tags[0]
    named = (one for one in tags if one.opening in template or one.closing in template)
    return next(named, tags[0])


def unclosed_reasoning(text: str, tags: Sequence[Tags] = USUAL) -> Tags | None:
    """The tags that a reply to be continued is inside of: it starts with an open one."""
    bare = text.lstrip()
    for one in tags:
        if bare.startswith(one.opening) and one.closing not in bare:
            return one
    return None
