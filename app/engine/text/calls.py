"""Reads the calls of tools out of a reply while it streams.

    text  ──trigger──▶  opening  ──▶  call  ──▶  behind it  ──another opening──▶ …
      ▲                    │            │            │
      └──── it was none ───┴────────────┴── its end ─┘

What is a call comes out as the part "call", all else as content. What must hold for any way to cut
the stream: the same calls are found; every character comes out; a call that cannot be read is named
in a sentence (`Bad`) and its text comes out as content, from its first character on, though it may
have come out as a call before. Sizes, depth and number are bounded. White space between marks is
not looked at: weights write more or less of it than their template.

A trigger that is a word which nobody writes by chance counts anywhere; any other one (`{`, `[`)
only as the first thing of an answer, and only once the name of a tool that is offered follows:
until then it may be an answer in JSON.
"""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from app.engine.protocol.tool_messages import MAX_CALLS, Part, ToolCall
from app.engine.text.call_form import ID, KNOWN, CallForm, Pairs, as_json, words_of
from app.engine.text.json_scan import JsonScan, TooDeepError, members
from app.engine.text.text import Piece, Splitter, overlap

MAX_CHARACTERS: Final = 256 * 1024
"""Of one call."""
MAX_NAME: Final = 256
_MAX_TRIES: Final = 512
"""How often the end of a call without brackets is looked for."""


@dataclass(frozen=True, slots=True)
class Bad:
    """Something began like a call and is none: why, for the person who reads the reply."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool that may be called, and which of its arguments are texts (others may be anything)."""

    name: str
    texts: frozenset[str] = frozenset()


class _NoCallError(Exception):
    """`sentence` as in Bad; empty: it was only an answer that looks like one."""

    def __init__(self, sentence: str = "") -> None:
        self.sentence = sentence


class _UnfinishedError(Exception):
    """More may come."""


CUT_OFF: Final = "The reply ended in the middle of a tool call, so that call wasn't made."
NOT_JSON: Final = "A tool call isn't valid JSON, so it wasn't made."
NO_OBJECT: Final = "The arguments of a tool call aren't a JSON object, so it wasn't made."
NO_NAME: Final = "A tool call doesn't name a tool, so it wasn't made."
NO_FORM: Final = "A tool call isn't written in a known format, so it wasn't made."
TOO_LONG: Final = "A tool call was too long, so it wasn't made."
TOO_DEEP: Final = "The arguments of a tool call are nested too deeply, so it wasn't made."
TOO_MANY: Final = f"The reply called more than {MAX_CALLS} tools. The rest wasn't made."
ONLY_ONE: Final = "The reply called more than one tool, but only one is allowed at a time."
_UNKNOWN: Final = "The model called “{}”, which isn't one of the tools on offer."


def unknown_tool(name: str) -> str:
    return _UNKNOWN.format(name if len(name) <= 60 else name[:60] + "…")


class CallReader:
    """`tools`: those that may be called. `form`: how this family writes; others are read as well.
    `is_many`: more than one in a reply. `new_id`: the id of a call that brings none, by its number.

    >>> from app.engine.text.call_form import OWN
    >>> reader = CallReader(OWN, [Offered("clock")], new_id=lambda number: f"c{number}")
    >>> reader.feed('Wait. <tool_call>{"name": "clock", "arguments": {}}</tool_call>')
    [('content', 'Wait. '), ('call', '<tool_call>{"name": "clock", "arguments": {}}</tool_call>')]
    >>> reader.take()
    [ToolCall(id='c0', name='clock', arguments='{}')]
    """

    def __init__(
        self,
        form: CallForm,
        tools: Sequence[Offered],
        *,
        is_many: bool = True,
        new_id: Callable[[int], str],
    ) -> None:
        forms = [form, *(known for known in KNOWN if known.is_marked)]
        self._forms = [one for one in forms if one.kind != "channel"]
        self._tools: Mapping[str, Offered] = {tool.name: tool for tool in tools}
        self._is_many = is_many
        self._new_id = new_id
        self._state: Literal["text", "opening", "call", "behind"] = "text"
        self._held = ""
        self._is_start = True
        # Of the call that is being read:
        self._candidates: list[CallForm] = []
        self._buffer = ""
        self._told = 0
        self._at = 0
        self._form = form
        self._scan: JsonScan | None = None
        self._tries = 0
        self._is_sure = False
        self._in_list = False
        self._n_calls = 0
        self._n_given = 0
        self._found: tuple[ToolCall | Bad, ...] = ()
        self.n_begun = 0
        """How many times a call has begun, those that were none included."""

    @property
    def begun(self) -> str | None:
        """What has come of the call that it is inside of; None outside of one."""
        is_inside = self._state in ("opening", "call") and self._is_sure
        return self._buffer if is_inside else None

    @property
    def form(self) -> CallForm:
        """The form of the call that it is inside of."""
        return self._candidates[0] if self._candidates else self._form

    def take(self) -> list[ToolCall | Bad]:
        """What has been found since the last time."""
        found, self._found = self._found, ()
        return list(found)

    def go_on_from(self, text: str) -> None:
        """The reply goes on behind this text: where that ends within a call, so does the call."""
        ahead = copy.copy(self)
        ahead.feed(text)
        if ahead.begun is not None and not ahead.take():
            self.feed(text)
            self._n_given = len(self._buffer)
        self._is_start = self._is_start and not text.strip()

    def feed(self, text: str) -> list[Piece]:
        out: list[Piece] = []
        if self._state == "text":
            self._held += text
        else:
            self._buffer += text
        self._go_on(out, is_end=False)
        return _joined(out)

    def flush(self) -> list[Piece]:
        """The end of the stream."""
        out: list[Piece] = []
        self._go_on(out, is_end=True)
        if self._state == "behind":
            out += [("call", self._buffer[self._told :])]
        elif self._state != "text":
            self._give_up(out, CUT_OFF if self._is_sure else "", again=False)
        out += [("content", self._held)]
        self._state, self._held, self._buffer, self._told = "text", "", "", 0
        return _joined(out)

    # --- the states -----------------------------------------------------------------------------

    def _go_on(self, out: list[Piece], *, is_end: bool) -> None:
        while True:
            try:
                if self._state == "text":
                    if not self._look_for_trigger(out):
                        return
                elif self._state == "opening":
                    self._read_opening(is_end=is_end)
                elif self._state == "call":
                    self._read_call(is_end=is_end)
                else:
                    self._read_behind(out, is_end=is_end)
            except _UnfinishedError:
                if len(self._buffer) > MAX_CHARACTERS:
                    self._give_up(out, TOO_LONG)
                    continue
                if self._is_sure and self._state != "behind":
                    out.append(("call", self._buffer[self._told :]))
                    self._told = len(self._buffer)
                return
            except _NoCallError as error:
                self._give_up(out, error.sentence)

    def _give_up(self, out: list[Piece], sentence: str, *, again: bool = True) -> None:
        """It was none. Its first word is text, and what follows is looked at anew."""
        if sentence:
            self._found = (*self._found, Bad(sentence))
        text, self._buffer, self._told = self._buffer, "", 0
        if self._n_given:  # its beginning is a text that was there before
            text, again, self._n_given = text[self._n_given :], False, 0
        word = _first_word(text) if again else len(text)
        self._state, self._is_start = "text", False
        out.append(("content", text[:word]))
        self._held = text[word:]

    def _look_for_trigger(self, out: list[Piece]) -> bool:
        """Whether a call begins; what stands before it is content."""
        text = self._held
        if self._is_start:
            bare = text.lstrip()
            if not bare:
                return False
            start = len(text) - len(bare)
            unmarked = [form for form in self._forms if not form.is_marked]
            fitting = [form for form in unmarked if bare.startswith(_bare_trigger(form))]
            if fitting:
                return self._begin(start, fitting, out, is_sure=False)
            if any(_bare_trigger(form).startswith(bare) for form in unmarked):
                return False
        marked = {form.trigger for form in self._forms if form.is_marked}
        found = [(at, -len(word), word) for word in marked if (at := text.find(word)) >= 0]
        if found:
            at, _, word = min(found)
            # "<function=" begins like "<function_call>": a longer one may still come.
            longer = [w for w in marked if w.startswith(word) and w != word]
            if any(w.startswith(text[at:]) for w in longer):
                self._let_go(at, out)
                return False
            forms = [form for form in self._forms if form.trigger == word]
            return self._begin(at, forms, out, is_sure=True)
        keep = max(overlap(text, word) for word in marked)
        self._let_go(len(text) - keep, out)
        return False

    def _let_go(self, n_characters: int, out: list[Piece]) -> None:
        shown, self._held = self._held[:n_characters], self._held[n_characters:]
        if shown:
            self._is_start = self._is_start and not shown.strip()
            out.append(("content", shown))

    def _begin(self, at: int, forms: list[CallForm], out: list[Piece], *, is_sure: bool) -> bool:
        self._let_go(at, out)
        self._buffer, self._held, self._told, self._at = self._held, "", 0, 0
        self._candidates, self._is_sure, self._in_list = forms, is_sure, False
        self._state, self._is_start = "opening", False
        self.n_begun += is_sure
        return True

    def _read_opening(self, *, is_end: bool) -> None:
        """Which of the forms it is: the one that what follows fits best."""
        fits: list[tuple[int, int, CallForm, int, bool]] = []
        for rank, form in enumerate(self._candidates):
            words = words_of(form.begin + form.opening)
            at, n_words = _behind_words(self._buffer, self._at, words, is_end=is_end)
            in_list = False
            if form.kind == "object":
                at = _space(self._buffer, at)
                if self._buffer.startswith("[", at):
                    at, in_list = _space(self._buffer, at + 1), True
                if at == len(self._buffer) and not is_end:
                    raise _UnfinishedError
                if not self._buffer.startswith("{", at):
                    continue
            elif n_words < len(words) or not self._is_named(form, at, is_end=is_end):
                continue
            fits.append((-n_words, rank, form, at, in_list))
        if not fits:
            raise _NoCallError(NO_FORM if self._is_sure else "")
        _, _, self._form, self._at, in_list = min(fits, key=lambda fit: fit[:2])
        self._in_list = in_list or (self._form.begin + self._form.opening).rstrip().endswith("[")
        self._begin_call()

    def _begin_call(self) -> None:
        self._state, self._scan, self._tries = "call", None, 0

    def _is_named(self, form: CallForm, at: int, *, is_end: bool) -> bool:
        """Whether a name stands here, and what follows it in this form."""
        named = _named_at(self._buffer, at, form, is_end=is_end)
        if named is None:
            return False
        if not self._is_sure:
            if named.name not in self._tools:
                return False
            self._is_sure = True
            self.n_begun += 1
        start = _space(self._buffer, named.end)
        if start == len(self._buffer) and not is_end:
            raise _UnfinishedError
        if form.kind == "named":
            return self._buffer.startswith("{", start)
        assert form.pairs is not None
        follows = [
            words for words in (words_of(form.pairs.opening), words_of(form.closing)) if words
        ]
        ends = [_words_at(self._buffer, start, words)[1] for words in follows]
        if min(ends) < 0 and not is_end:
            raise _UnfinishedError
        return not form.pairs.opening or max(ends) > 0

    def _read_call(self, *, is_end: bool) -> None:
        if self._form.kind == "object":
            self._read_object()
        elif self._form.kind == "named":
            self._read_named()
        else:
            self._read_pairs(is_end=is_end)

    def _read_object(self) -> None:
        if not self._is_sure:
            self._become_sure()
        end = self._json_end(self._at)
        name, arguments, call_id = _parts_of(self._buffer[self._at : end], self._form.keys)
        self._call(name, arguments, call_id, end)

    def _become_sure(self) -> None:
        """A bare object is a call where it names a tool on offer."""
        first = _FIRST_KEY.match(self._buffer, self._at)
        if first is None:
            raise _UnfinishedError if len(self._buffer) - self._at < 4 * MAX_NAME else _NoCallError
        if first[1] not in {*self._form.keys, *_USUAL_KEYS}:
            raise _NoCallError
        named = _NAME.search(self._buffer, self._at)
        if named is None:
            self._json_end(self._at)  # until it ends, the name may still come
            raise _NoCallError
        if named[1] not in self._tools:
            raise _NoCallError
        self._is_sure = True
        self.n_begun += 1

    def _read_named(self) -> None:
        named = _named_at(self._buffer, self._at, self._form, is_end=False)
        if named is None:
            raise _NoCallError(NO_NAME)
        brace = _space(self._buffer, named.end)
        if brace == len(self._buffer):
            raise _UnfinishedError
        if self._buffer[brace] != "{":
            raise _NoCallError(NO_OBJECT)
        end = self._json_end(brace)
        self._call(named.name, self._buffer[brace:end], named.call_id, end)

    def _read_pairs(self, *, is_end: bool) -> None:
        form, pairs = self._form, self._form.pairs
        assert pairs is not None
        closing = words_of(form.closing)
        if closing and closing[-1] not in self._buffer[self._at :] and not is_end:
            raise _UnfinishedError
        self._tries += 1
        if self._tries > _MAX_TRIES:
            raise _NoCallError(TOO_LONG)
        named = _named_at(self._buffer, self._at, form, is_end=is_end)
        if named is None:
            raise _NoCallError(NO_NAME)
        given, end = _Values(self._buffer, is_end).pairs(named.end, pairs, closing)
        tool = self._tools.get(named.name)
        if pairs.text_opening == pairs.other_opening:
            texts = tool.texts if tool is not None else frozenset[str]()
            given = {k: v if k in texts else _value_of(v) for k, v in given.items()}
        self._call(named.name, as_json(given), named.call_id, end)

    def _json_end(self, at: int) -> int:
        if self._scan is None:
            self._scan = JsonScan(at)
        scan = copy.copy(self._scan)
        try:
            end = scan.end_in(self._buffer)
        except TooDeepError as error:
            raise _NoCallError(TOO_DEEP) from error
        self._scan = scan
        if end is None:
            raise _UnfinishedError
        return end

    def _call(self, name: str, arguments: str, call_id: str, end: int) -> None:
        """A whole call; what is behind it comes next."""
        if not _is_object(arguments):
            raise _NoCallError(NOT_JSON)
        if name not in self._tools:
            raise _NoCallError(unknown_tool(name) if name else NO_NAME)
        if self._n_calls >= MAX_CALLS:
            raise _NoCallError(TOO_MANY)
        if self._n_calls and not self._is_many:
            raise _NoCallError(ONLY_ONE)
        made = ToolCall(call_id[:MAX_NAME] or self._new_id(self._n_calls), name, arguments)
        self._found = (*self._found, made)
        self._n_calls += 1
        self._at, self._state, self._n_given = end, "behind", 0

    def _read_behind(self, out: list[Piece], *, is_end: bool) -> None:
        """What closes the call, and perhaps opens the next one."""
        form, text = self._form, self._buffer
        while True:
            at = _space(text, self._at)
            self._tell_to(at, out)
            if at == len(text):
                raise _UnfinishedError
            openings = words_of(form.opening)
            if not openings and form.kind == "object" and text[at] == "{":
                return self._next_call(at)
            marks = [words_of(part) for part in (form.closing, form.between, form.end)]
            marks += [[","], [";"]] if form.kind == "object" or self._in_list else []
            marks += [["]"]] if self._in_list else []
            ends = []
            is_partial = False
            for words in (words for words in [*marks, openings] if words):
                end, n_words = _words_at(text, at, words)
                if n_words == len(words):
                    ends.append((end, words is openings))
                is_partial = is_partial or n_words < 0
            if is_partial and not is_end:
                raise _UnfinishedError
            if not ends:
                break
            end, is_opening = max(ends)
            if is_opening:
                return self._next_call(end)
            self._at = end
            if (
                not openings
                and form.kind != "object"
                and text[at:end] in (form.between.strip(), ",")
            ):
                return self._next_call(_space(text, end))
        self._tell_to(self._at, out)
        rest = text[self._told :]
        self._state, self._buffer, self._told, self._held = "text", "", 0, rest
        return None

    def _tell_to(self, at: int, out: list[Piece]) -> None:
        """All up to there belongs to calls that were read."""
        if at > self._told:
            out.append(("call", self._buffer[self._told : at]))
        self._told, self._at = max(self._told, at), at

    def _next_call(self, at: int) -> None:
        """What has been told is of calls that are whole: if this one is none, only it is text."""
        start = self._told
        self._buffer, self._at, self._told = self._buffer[start:], at - start, 0
        self.n_begun += 1
        self._begin_call()


class CallSplitter:
    """Tells calls from the content that another splitter has told from reasoning."""

    def __init__(self, inner: Splitter | None, reader: CallReader) -> None:
        self._inner = inner
        self.reader = reader

    def __copy__(self) -> CallSplitter:
        return CallSplitter(copy.copy(self._inner), copy.copy(self.reader))

    @property
    def inner(self) -> Splitter | None:
        return self._inner

    @property
    def unclosed(self) -> bool:
        return self._inner is not None and self._inner.unclosed

    @property
    def closing(self) -> str:
        return "" if self._inner is None else self._inner.closing

    @property
    def is_at_a_tag(self) -> bool:
        return self._inner is not None and self._inner.is_at_a_tag

    def feed(self, text: str) -> list[Piece]:
        pieces: list[Piece] = [("content", text)] if self._inner is None else self._inner.feed(text)
        return self._read(pieces)

    def flush(self) -> list[Piece]:
        pieces = [] if self._inner is None else self._inner.flush()
        return [*self._read(pieces), *self.reader.flush()]

    def _read(self, pieces: list[Piece]) -> list[Piece]:
        out: list[Piece] = []
        for part, text in pieces:
            out += self.reader.feed(text) if part == "content" else [(part, text)]
        return out


# --- texts --------------------------------------------------------------------------------------

_USUAL_KEYS: Final = ("name", "arguments", "parameters", "id", "type", "function")
_FIRST_KEY: Final = re.compile(r'\{\s*"([^"\\]*)"\s*:')
_NAME: Final = re.compile(r'"(?:name|tool_name)"\s*:\s*"([^"\\]*)"')
_PLAIN_NAME: Final = re.compile(r"""[^\s"'<>＜｜{}()\[\]=,]+""")
_SPACE: Final = re.compile(r"\s*")


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _bare_trigger(form: CallForm) -> str:
    """Of a form without a mark: what a call begins with."""
    return form.trigger or ("{" if form.kind == "object" else "[")


def _first_word(text: str) -> int:
    """Where the first word ends, the space before it included; at least one character."""
    found = re.match(r"\s*(?:<[^\s<>]*>?|\[[A-Z_]+\]|\S)", text)
    return found.end() if found is not None else len(text)


def _words_at(text: str, at: int, words: Sequence[str]) -> tuple[int, int]:
    """(end, how many of the words stand there); fewer than 0: the text ends within them."""
    for number, word in enumerate(words):
        start = _space(text, at)
        if text.startswith(word, start):
            at = start + len(word)
        elif word.startswith(text[start:]):
            return at, -1
        else:
            return at, number
    return at, len(words)


def _behind_words(text: str, at: int, words: Sequence[str], *, is_end: bool) -> tuple[int, int]:
    """As `_words_at`, where more may come."""
    found, n_words = at, 0
    for word in words:
        end, one = _words_at(text, found, [word])
        if one < 0 and not is_end:
            raise _UnfinishedError
        if one < 1:
            break
        found, n_words = end, n_words + 1
    return found, n_words


@dataclass(frozen=True, slots=True)
class _Named:
    """The name of a call, its id where that stands beside it, and where its arguments begin."""

    name: str
    call_id: str
    end: int


def _named_at(text: str, at: int, form: CallForm, *, is_end: bool) -> _Named | None:
    """None: no name stands here, or not what follows it in this form."""
    at = _space(text, at)
    found = _PLAIN_NAME.match(text, at)
    if found is None or len(found[0]) > MAX_NAME:
        if at == len(text) and not is_end:
            raise _UnfinishedError
        return None
    if found.end() == len(text) and not is_end:
        raise _UnfinishedError
    name, call_id, end = found[0], "", found.end()
    if form.is_id_named:
        call_id, name = name, re.sub(r":\d+$", "", name.removeprefix("functions."))
    before, is_id_behind, after = form.behind_name.partition(ID)
    for part, is_last in ((before, not is_id_behind), (after, True)):
        words = words_of(part)
        behind, n_words = _behind_words(text, end, words, is_end=is_end)
        if n_words == len(words):
            end = behind
            if not is_last:
                given = _PLAIN_NAME.match(text, _space(text, end))
                call_id, end = (given[0], given.end()) if given is not None else ("", end)
                if end == len(text) and not is_end:
                    raise _UnfinishedError
        elif is_last and not (form.kind == "named" and text.startswith("{", _space(text, end))):
            return None
        if is_last:
            break
    return _Named(name, call_id, end)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Without empty ones; those of one part that follow each other are one."""
    out: list[Piece] = []
    for part, text in pieces:
        if out and text and out[-1][0] == part:
            out[-1] = (part, out[-1][1] + text)
        elif text:
            out.append((part, text))
    return out


def _parts_of(core: str, keys: tuple[str, str, str]) -> tuple[str, str, str]:
    """(name, arguments as they are written, id) of a call that is an object; an object around
    another one, as OpenAI's form is, is looked through."""
    try:
        found = members(core)
        inner = found.get("function", "")
        if inner.startswith("{"):
            found = {**found, **members(inner)}
        values = {key: json.loads(text, strict=False) for key, text in found.items()}
    except (ValueError, RecursionError) as error:
        raise _NoCallError(NOT_JSON) from error
    name = next((values[k] for k in (keys[0], "name", "tool_name") if k in values), "")
    key = next((k for k in (keys[1], "arguments", "parameters", "args") if k in values), None)
    arguments: Any = {} if key is None else values[key]
    text = "{}" if key is None else found[key]
    if isinstance(arguments, str):  # an object as a text, as OpenAI has it
        text = arguments
        try:
            arguments = json.loads(text, strict=False) if text.strip() else {}
        except (ValueError, RecursionError) as error:
            raise _NoCallError(NO_OBJECT) from error
        text = text if text.strip() else "{}"
    if arguments is None:
        arguments, text = {}, "{}"
    if not isinstance(arguments, dict):
        raise _NoCallError(NO_OBJECT)
    call_id = values.get(keys[2] or "id", "")
    return name if isinstance(name, str) else "", text, call_id if isinstance(call_id, str) else ""


def _value_of(text: object) -> object:
    """A value whose kind nobody told: JSON where it is that, else the text."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


class _Values:
    """Arguments one by one, and values that are no JSON."""

    def __init__(self, text: str, is_end: bool) -> None:
        self._text = text
        self._is_end = is_end

    def pairs(self, at: int, form: Pairs, closing: Sequence[str]) -> tuple[dict[str, Any], int]:
        """All of them, and where the call's closing begins. Raises as the reader does."""
        found: dict[str, Any] = {}
        text = self._text
        while True:
            _, n_words = _words_at(text, at, closing)
            if n_words == len(closing) and (closing or _space(text, at) == len(text)):
                return found, _space(text, at)
            if n_words < 0 and not form.opening:
                raise self._unfinished()
            if found and form.between.strip():
                at = self._behind(at, form.between.strip())
            if form.opening.strip():
                at = self._behind(at, form.opening.strip())
            at = _space(text, at)
            middle = words_of(form.middle)
            cut = text.find(middle[0] if middle else "=", at)
            if cut < 0:
                raise self._unfinished()
            key = text[at:cut].strip()
            if not key or len(key) > MAX_NAME:
                raise _NoCallError(NO_FORM)
            at, n_words = _words_at(text, cut, middle)
            if n_words < len(middle):
                raise self._unfinished() if n_words < 0 else _NoCallError(NO_FORM)
            found[key.strip("\"'")], at = self._pair_value(at, form)

    def _behind(self, at: int, mark: str) -> int:
        end, n_words = _words_at(self._text, at, [mark])
        if n_words == 1:
            return end
        raise self._unfinished() if n_words < 0 else _NoCallError(NO_FORM)

    def _unfinished(self) -> Exception:
        return _NoCallError(CUT_OFF) if self._is_end else _UnfinishedError()

    def _pair_value(self, at: int, form: Pairs) -> tuple[Any, int]:
        text = self._text
        is_told = form.text_opening != form.other_opening
        closing = form.text_closing.strip()
        if not is_told and closing:
            cut = text.find(closing, at)
            if cut < 0:
                raise self._unfinished()
            return _trimmed(text[at:cut], form.middle, form.text_closing), cut + len(closing)
        if is_told and form.other_closing.strip():  # both are told apart by what opens them
            for opening, end, is_text in (
                (form.text_opening.strip(), closing, True),
                (form.other_opening.strip(), form.other_closing.strip(), False),
            ):
                if opening and text.startswith(opening, at):
                    start = at + len(opening)
                    cut = text.find(end, start)
                    if cut < 0:
                        raise self._unfinished()
                    value = text[start:cut]
                    return value if is_text else _value_of(value.strip()), cut + len(end)
        return self._value(_space(text, at), form.text_opening.strip(), 0)

    def _value(self, at: int, quote: str, depth: int) -> tuple[Any, int]:
        """A number, a word, a text, a list or an object in the ways that families write them."""
        text = self._text
        if depth > 32:
            raise _NoCallError(TOO_DEEP)
        if at >= len(text):
            raise self._unfinished()
        if quote and not quote.isspace() and len(quote) > 1 and text.startswith(quote, at):
            cut = text.find(quote, at + len(quote))
            if cut < 0:
                raise self._unfinished()
            return text[at + len(quote) : cut], cut + len(quote)
        mark = text[at]
        if mark in "\"'":
            return self._quoted(at)
        if mark in "[(":
            return self._list(at, quote, depth)
        if mark == "{":
            return self._object(at, quote, depth)
        found = _WORD.match(text, at)
        if found is None or not found[0].strip():
            raise _NoCallError(NO_FORM)
        if found.end() == len(text):
            raise self._unfinished()
        return _word_value(found[0].strip()), found.end()

    def _quoted(self, at: int) -> tuple[str, int]:
        found = _QUOTED.match(self._text, at)
        if found is None:
            raise self._unfinished()
        try:
            return str(ast.literal_eval(found[0].replace("\n", "\\n"))), found.end()
        except (ValueError, SyntaxError):
            return found[0][1:-1], found.end()

    def _list(self, at: int, quote: str, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        text, at = self._text, _space(self._text, at + 1)
        while not text.startswith(("]", ")"), at):
            item, at = self._value(at, quote, depth + 1)
            items.append(item)
            at = self._comma(at, "])")
        return items, at + 1

    def _object(self, at: int, quote: str, depth: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        text, at = self._text, _space(self._text, at + 1)
        while not text.startswith("}", at):
            if text[at : at + 1] in ('"', "'") or (len(quote) > 1 and text.startswith(quote, at)):
                key, at = self._value(at, quote, depth + 1)
            else:
                cut = text.find(":", at)
                if cut < 0:
                    raise self._unfinished()
                key, at = text[at:cut].strip(), cut
            at = self._behind(at, ":")
            found[str(key)], at = self._value(_space(text, at), quote, depth + 1)
            at = self._comma(at, "}")
        return found, at + 1

    def _comma(self, at: int, ends: str) -> int:
        at = _space(self._text, at)
        if at >= len(self._text):
            raise self._unfinished()
        if self._text[at] == ",":
            return _space(self._text, at + 1)
        if self._text[at] not in ends:
            raise _NoCallError(NO_FORM)
        return at


_WORD: Final = re.compile(r"[^\s,\])}<>(\[{\"']+")
_QUOTED: Final = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', re.DOTALL)
_WORDS: Final = {"True": True, "False": False, "None": None}


def _word_value(word: str) -> Any:
    return _WORDS[word] if word in _WORDS else _value_of(word)


def _trimmed(value: str, before: str, behind: str) -> str:
    """Without the line breaks that the form itself has beside a value."""
    if before.endswith("\n"):
        value = value.removeprefix("\n")
    return value.removesuffix("\n") if behind.startswith("\n") else value


def half_call(text: str, names: Sequence[str]) -> int:
    """How many of the last characters of a text are a call that has begun and not ended.

    >>> half_call('Wait. <tool_call>{"name": "clo', ["clock"])
    24
    """
    reader = CallReader(KNOWN[0], [Offered(name) for name in names], new_id=str)
    reader.feed(text)
    return len(reader.begun or "")


def parts_in(reader: CallReader, text: str) -> list[tuple[Part, int, int]]:
    """Which characters of a whole text are calls, and which are not."""
    spans: list[tuple[Part, int, int]] = []
    at = 0
    for part, piece in _joined([*reader.feed(text), *reader.flush()]):
        spans.append((part, at, at + len(piece)))
        at += len(piece)
    return spans


class ChannelReader:
    """Calls that stand in messages of their own, each addressed to a tool (`channels.py`)."""

    def __init__(
        self,
        tools: Sequence[Offered],
        *,
        is_many: bool = True,
        new_id: Callable[[int], str],
    ) -> None:
        self._tools = frozenset(tool.name for tool in tools)
        self._is_many = is_many
        self._new_id = new_id
        self.name: str | None = None
        """Of the tool that the present message is addressed to."""
        self._text = ""
        self._n_calls = 0
        self._found: tuple[ToolCall | Bad, ...] = ()
        self.n_begun = 0

    @property
    def begun(self) -> str | None:
        return None if self.name is None else self._text

    def take(self) -> list[ToolCall | Bad]:
        found, self._found = self._found, ()
        return list(found)

    def begin(self, address: str) -> None:
        """A message to `functions.clock` begins."""
        self.name, self._text = address.removeprefix("functions."), ""
        self.n_begun += 1

    def feed(self, text: str) -> None:
        self._text += text

    def end(self, *, is_cut: bool = False) -> str:
        """The message ends; returns its text where it is no call. `is_cut`: the reply ended in
        it."""
        name, text, self.name, self._text = self.name or "", self._text, None, ""
        sentence = ""
        if name not in self._tools:
            sentence = unknown_tool(name)
        elif self._n_calls >= MAX_CALLS or (self._n_calls and not self._is_many):
            sentence = ONLY_ONE if not self._is_many else TOO_MANY
        elif len(text) > MAX_CHARACTERS:
            sentence = TOO_LONG
        elif not _is_object(text.strip() or "{}") or _is_deep(text):
            sentence = CUT_OFF if is_cut else NOT_JSON
        if sentence:
            self._found = (*self._found, Bad(sentence))
            return text
        call = ToolCall(self._new_id(self._n_calls), name, text.strip() or "{}")
        self._found = (*self._found, call)
        self._n_calls += 1
        return ""


def _is_deep(text: str) -> bool:
    try:
        JsonScan(max(text.find("{"), 0)).end_in(text)
    except TooDeepError:
        return True
    return False
