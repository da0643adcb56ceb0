"""From messages to token IDs: the chat template's text, cut where somebody else's text is.

Pure: the vocabulary and the renderer come as arguments. Four things make it more than
"render, then tokenise":

1. *Control text stays text.* A user who writes `<|im_end|>` must not end their own turn. So
   every text of a control token inside a message is replaced by a private placeholder before
   rendering, and tokenised as ordinary text afterwards:

       content    a <|im_end|> b
       rendered   <|im_start|>user\\na ⟨c0⟩ b<|im_end|>\\n
       segments   <|im_start|>user\\na_     special: control tokens are found
                  <|im_end|>               ordinary: text and nothing else
                  _b<|im_end|>\\n          special

2. *The rest is tokenised whole*, because `"user\\n"` and `"\\n\\nhello"` have other IDs apart
   than together. Only control text and replies cut it.

3. *Replies come back as themselves.* Text tokenised again often gives other IDs than the ones
   that were generated, which would spoil the KV cache. Where a reply's rendered bytes are what
   its IDs spell, the IDs are used.

4. *Where each token came from is known.* The template is rendered a second time with a marker
   in place of each content; what stands between the markers is scaffold, and laid over the
   real text it shows where each message begins and ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, product
from typing import Any, Final

import msgspec

from app.engine.prompts.call_forms import OTHER_TOOLS, changed_lines
from app.engine.prompts.media import See, media_of, see_nothing, span_of
from app.engine.prompts.midway import Stretch
from app.engine.prompts.reply_opening import missing_opening
from app.engine.prompts.sources import (
    Sourced,
    empty,
    framed,
    given_as,
    is_summary,
    joined,
    led,
    rendered_sources,
    sourced,
)
from app.engine.prompts.tokens import (
    Origin,
    PromptPart,
    PromptTokenizer,
    PromptVocabulary,
    TemplateWords,
    present_controls,
    split_control,
)
from app.engine.prompts.tooling import (
    NO_TOOLING,
    TOOLS,
    Tooling,
    content_start,
    fields_of,
    hidden,
    reader_of,
    same_calls,
    texts_of,
    told,
    tooling_of,
    with_ids,
    with_short_ids,
)
from app.engine.protocol.frames import clean_text
from app.engine.protocol.media_messages import SHOWN, MediaSpan
from app.engine.protocol.prompt_messages import (
    ChatMessage,
    ChatPrompt,
    CutMessage,
    IdsPrompt,
    Prompt,
    TextPrompt,
)
from app.engine.protocol.template_messages import TemplateFailed
from app.engine.protocol.template_variables import read_variables
from app.engine.templates.layout import Layout, MessageSpan, lay_over, restore
from app.engine.text.call_form import OWN, CallForm, object_of, written
from app.engine.text.calls import parts_in
from app.engine.text.marks import reasoning_marks

Render = Callable[..., str]
"""As `TemplateClient.render`."""


@dataclass(frozen=True, slots=True)
class PromptNote:
    """Something the user should know. kind: no_template, empty_template, system_folded,
    turns_merged, turns_left_out, user_first, tools_as_user, calls_as_text, reply_opened,
    thinking_unknown, media_left_out."""

    kind: str
    sentence: str


@dataclass(frozen=True, slots=True)
class BuiltPrompt:
    """`returned`: message_ids of replies that entered as their own IDs; `retokenized`: of those
    whose IDs could not be used. `is_known`: it is known where all messages went. `cut`: what the
    context policy left out (`fitting.py`) of `n_whole` tokens (0: nothing was asked).
    `turn_end`: see `turn_end.py`; filled in by whoever wants a reply. `n_begun`: so many of the
    last tokens are the reply's beginning (`fitting.py` adds them); `rendered` is without them.
    `n_continued`: so many of them are the reply that goes on. `tail`: the first bytes of a
    character that it has begun; they are in the IDs and not in `rendered`. `template`: the source
    that was rendered, "" where there is none. `stretches`: what can go of it in the middle of a
    reply, in the order in which it would (`midway.py`). `calls`: how a reply to it writes calls;
    None where it is offered no tools. `call_grammars`: what may bind them, and `loose_tools`: which
    tools' arguments it leaves open; filled in by whoever wants a reply. `media`: which tokens are
    cells of pictures; `chunks`: what each of them is computed from."""

    ids: list[int]
    rendered: str
    parts: list[PromptPart]
    notes: list[PromptNote] = field(default_factory=list)
    retokenized: list[str] = field(default_factory=list)
    cut: list[CutMessage] = field(default_factory=list)
    n_whole: int = 0
    turn_end: str = ""
    returned: list[str] = field(default_factory=list)
    is_known: bool = True
    n_begun: int = 0
    n_continued: int = 0
    tail: bytes = b""
    template: str = ""
    stretches: list[Stretch] = field(default_factory=list)
    calls: CallForm | None = None
    call_grammars: Mapping[str, str] = field(default_factory=dict)
    loose_tools: frozenset[str] = frozenset()
    media: list[MediaSpan] = field(default_factory=list)
    chunks: list[object] = field(default_factory=list)


NO_TEMPLATE: Final = PromptNote(
    "no_template",
    "This model has no chat template, so a plain format is used. Replies may run on; chat "
    "models include a template.",
)
_EMPTY_TEMPLATE: Final = PromptNote(
    "empty_template",
    "The chat template is empty, so a plain format is used and replies may run on. Remove it to "
    "use the file's own.",
)
_SYSTEM_FOLDED: Final = PromptNote(
    "system_folded",
    "This chat template has no system prompt, so yours is placed before your first message.",
)
_TURNS_MERGED: Final = PromptNote(
    "turns_merged",
    "This chat template needs alternating turns, so consecutive messages by one side are merged.",
)
_USER_FIRST: Final = PromptNote(
    "user_first",
    "This chat template expects your message first, so an empty one was added before the opening "
    "reply, for the model only.",
)
_TOOLS_AS_USER: Final = PromptNote(
    "tools_as_user",
    "This chat template has no tool messages, so the model gets them as messages from you.",
)
_CALLS_AS_TEXT: Final = PromptNote(
    "calls_as_text",
    "This chat template doesn't take these tool calls, so the model gets them as text.",
)
_REPLY_OPENED: Final = "reply_opened"
_NONE: Final[Mapping[str, Any]] = {}


def build_prompt(
    prompt: Prompt,
    vocabulary: PromptVocabulary,
    template: str | None,
    render: Render,
    see: See = see_nothing,
) -> BuiltPrompt:
    """Return the prompt's token IDs and where they come from.

    `template` is the file's own; a ChatPrompt's goes before it. `see` looks at pictures. Raises
    TemplateFailed, or Refusal for a picture that cannot be seen.
    """
    if isinstance(prompt, IdsPrompt):
        return _build_ids(prompt.token_ids, vocabulary)
    if isinstance(prompt, TextPrompt):
        return _build_text(prompt, vocabulary)
    return _build_chat(
        prompt, vocabulary, template if prompt.template is None else prompt.template, render, see
    )


def _build_ids(ids: list[int], vocabulary: PromptVocabulary) -> BuiltPrompt:
    try:
        text = b"".join(vocabulary.piece(i) for i in ids).decode("utf-8", "replace")
    except IndexError:
        text = ""  # no IDs of this vocabulary; whoever runs the prompt refuses them in words
    return BuiltPrompt(list(ids), text, [PromptPart(0, len(ids), "text")] if ids else [])


# --- plain text -------------------------------------------------------------------------------


def _build_text(prompt: TextPrompt, vocabulary: PromptVocabulary) -> BuiltPrompt:
    text = clean_text(prompt.text)
    tokenizer = PromptTokenizer(vocabulary)
    if prompt.special:
        tokenizer.add(text, "text", None)
    else:
        for piece, is_control in split_control(text, vocabulary):
            tokenizer.add(piece, "text", None, ordinary=True, whole=not is_control)
    if prompt.generated:
        written: list[Origin] = [(start, end, "assistant", None) for start, end in prompt.generated]
        tokenizer.share_out(text, written, "text")
    return BuiltPrompt(tokenizer.ids, text, tokenizer.parts)


# --- chat -------------------------------------------------------------------------------------


def _build_chat(
    prompt: ChatPrompt,
    vocabulary: PromptVocabulary,
    template: str | None,
    render: Render,
    see: See,
) -> BuiltPrompt:
    said = [message for message in prompt.messages if not _is_empty(message)]
    continued = None
    if prompt.continue_last and said and said[-1].role == "assistant":
        # The prompt that this reply was begun with, then the reply itself.
        continued = sourced(msgspec.structs.replace(said.pop(), media=[]))
    messages = [sourced(message) for message in said]
    notes: list[PromptNote] = []
    tokenizer = PromptTokenizer(vocabulary)
    whole = messages if continued is None else [*messages, continued]
    if template is None or not template.strip():
        notes.append(NO_TEMPLATE if prompt.template is None else _EMPTY_TEMPLATE)
        tooling = tooling_of(prompt.tools, whole, "", vocabulary, render, {})
        messages = [_as_plain(message, vocabulary) for message in messages]
        continued = continued and _as_plain(continued, vocabulary)
        rendering = _Rendering(vocabulary, None, render_plain)
    else:
        variables = read_variables(prompt.variables)
        extra = {**getattr(vocabulary, "other_tokens", {}), **variables}
        tooling = tooling_of(prompt.tools, whole, template, vocabulary, render, extra)
        rendering = _Rendering(vocabulary, template, render, variables, tooling)
    messages = told(_one_system_prompt(messages), tooling, tokenizer.spell)
    layout, messages = _first_accepted(rendering, with_ids(messages, tooling), notes)
    spans, chunks = _add_layout(tokenizer, layout, messages, tooling, see)
    n_unseen = len(media_of(prompt)) - len({number for _, number in layout.media})
    if n_unseen:
        notes.append(_media_left_out(n_unseen))
    rendered, tail = layout.text, b""
    n_before = len(tokenizer.ids)
    if continued is not None:
        text, tail = _add_continued(tokenizer, continued, rendered, template, prompt)
        rendered += text
    return BuiltPrompt(
        tokenizer.ids,
        rendered,
        tokenizer.parts,
        notes,
        tokenizer.retokenized,
        returned=tokenizer.returned,
        is_known=layout.is_known,
        n_continued=len(tokenizer.ids) - n_before,
        tail=tail,
        template=template or "",
        calls=tooling.form if prompt.tools else None,
        media=spans,
        chunks=chunks,
    )


def _media_left_out(count: int) -> PromptNote:
    what = "a picture or sound" if count == 1 else f"{count:,} pictures and sounds"
    it = "it" if count == 1 else "them"
    sentence = (
        f"The chat template has no place for {what}, so the model doesn't get {it}. Choose another "
        "template."
    )
    return PromptNote("media_left_out", sentence)


def lay_out_chat(
    messages: Sequence[ChatMessage],
    words: TemplateWords,
    template: str,
    render: Render,
    variables: Mapping[str, Any] = _NONE,
) -> tuple[Layout, list[ChatMessage], list[PromptNote]]:
    """How a chat reads once it is rendered, without a vocabulary to tokenise it: the text with
    where each message went, the messages in the form that the template accepted, and what is to
    be said of that. Raises TemplateFailed."""
    notes: list[PromptNote] = []
    whole = [sourced(message) for message in messages if not _is_empty(message)]
    rendering = _Rendering(words, template, render, variables)
    layout, accepted = _first_accepted(rendering, whole, notes)
    return layout, [*accepted], notes


def _one_system_prompt(messages: list[Sourced]) -> list[Sourced]:
    """A summary behind the system prompt becomes a part of it: templates know one, and some leave
    out a second one without a word."""
    if len(messages) > 1 and messages[0].role == "system" and is_summary(messages[1]):
        return [joined(messages[:2], into=messages[0]), *messages[2:]]
    return messages


def _is_empty(message: ChatMessage) -> bool:
    """A reply stopped before its first token would teach the weights to answer nothing."""
    says_nothing = not (
        message.content
        or message.reasoning
        or message.token_ids
        or message.tool_calls
        or message.media
    )
    return says_nothing and message.role in ("assistant", "system")


def render_plain(
    _source: str, messages: list[dict[str, Any]], *, add_generation_prompt: bool, **_: object
) -> str:
    """The format for files without a template: names and blank lines, no control tokens.

    >>> render_plain("", [{"role": "user", "content": "Hi"}], add_generation_prompt=True)
    'User: Hi\\n\\nAssistant:'
    """
    names = {"user": "User: ", "assistant": "Assistant:", "system": "", "tool": "Tool: "}
    turns = [f"{names[message['role']]}{message['content']}\n\n" for message in messages]
    return "".join(turns) + ("Assistant:" if add_generation_prompt else "")


def _as_plain(message: Sourced, vocabulary: PromptVocabulary) -> Sourced:
    """A reply as it stands behind `Assistant:`. A generated one followed directly, most often
    with a space of its own, and must come back so; any other gets its space here."""
    if message.role != "assistant" or message.content[:1].isspace():
        return message
    spelled = PromptTokenizer(vocabulary).spell(message.token_ids or [])
    if spelled and spelled == message.content:
        return message
    return led(message, " ")


def _first_accepted(
    rendering: _Rendering, messages: list[Sourced], notes: list[PromptNote]
) -> tuple[Layout, list[Sourced]]:
    """Render the messages; where the template refuses them, or leaves some out without a word, in
    the nearest form that it accepts. The first error is raised if it accepts none.
    """
    first_error: TemplateFailed | None = None
    accepted: tuple[Layout, list[Sourced]] | None = None
    for form, form_notes in _forms(messages):
        try:
            layout = rendering.lay_out(form)
        except TemplateFailed as error:
            if error.fault not in ("raised", "failed"):
                raise
            first_error = first_error or error
            continue
        if _keeps_all(layout, form):
            notes += [*form_notes, *rendering.notes]
            return layout, form
        accepted = accepted or (layout, form)
    if accepted is not None:  # no form has all that was said, but something was written
        notes += rendering.notes
        return accepted
    assert first_error is not None
    raise first_error


def _forms(messages: list[Sourced]) -> Iterator[tuple[list[Sourced], list[PromptNote]]]:
    """The messages as they are, then with one change, with two, and so on; each form once."""
    tried: list[list[Sourced]] = []
    wanted = sorted(product((False, True), repeat=len(_CHANGES)), key=sum)
    for is_made in wanted:
        form, form_notes = messages, list[PromptNote]()
        for (change, note), is_wanted in zip(_CHANGES, is_made, strict=True):
            changed = change(form) if is_wanted else form
            form_notes += [note] if changed != form and note is not None else []
            form = changed
        if form not in tried:
            tried.append(form)
            yield form, form_notes


def _keeps_all(layout: Layout, form: list[Sourced]) -> bool:
    """Whether a system prompt, if the form has one, and tool messages came out (or nobody can
    tell). Templates leave out what they do not know."""
    if not layout.is_known:
        return True
    there = {span.index for span in layout.spans}
    system = {i for i, message in enumerate(form) if message.role == "system" and message.content}
    tools = {i for i, message in enumerate(form) if message.role == "tool" and message.content}
    return (not system or bool(system & there)) and tools <= there


def _tools_as_user(messages: list[Sourced]) -> list[Sourced]:
    """What tools have said, as the user's."""
    return [given_as(m, "user") if m.role == "tool" else m for m in messages]


def _user_first(messages: list[Sourced]) -> list[Sourced]:
    """An empty message of the user before a reply that begins the conversation."""
    first = next((i for i, m in enumerate(messages) if m.role != "system"), len(messages))
    if first < len(messages) and messages[first].role != "assistant":
        return messages
    return [*messages[:first], empty("user"), *messages[first:]]


def _fold_system(messages: list[Sourced]) -> list[Sourced]:
    """Put the system prompt before the first user message."""
    system = [m for m in messages if m.role == "system" and m.content]
    rest = [m for m in messages if m.role != "system"]
    first = next((i for i, m in enumerate(rest) if m.role == "user"), None)
    if not system or first is None:
        return messages
    opening = joined([*system, rest[first]], into=rest[first])
    return [*rest[:first], opening, *rest[first + 1 :]]


def _merge_neighbours(messages: list[Sourced]) -> list[Sourced]:
    """Join neighbouring messages of one role."""
    merged: list[Sourced] = []
    for message in messages:
        if merged and merged[-1].role == message.role and message.role != "tool":
            merged[-1] = joined([merged[-1], message], into=merged[-1])
        else:
            merged.append(message)
    return merged


def _calls_as_text(messages: list[Sourced]) -> list[Sourced]:
    """What replies have called, as their text."""
    return [_with_calls_told(m) if m.tool_calls else m for m in messages]


def _with_calls_told(message: Sourced) -> Sourced:
    calls = ("\n" if message.content else "") + written(OWN, message.tool_calls)
    return msgspec.structs.replace(framed(message, "", calls, is_own=True), tool_calls=[])


_CHANGES: Final = (
    (_calls_as_text, _CALLS_AS_TEXT),
    (_tools_as_user, _TOOLS_AS_USER),
    (_user_first, _USER_FIRST),
    (_fold_system, _SYSTEM_FOLDED),
    (_merge_neighbours, _TURNS_MERGED),
    (with_short_ids, None),
)
"""What may be done to messages that a template does not take as they are, the last one first."""


class _Rendering:
    """Renders messages with control text replaced, and finds where each of them went. What begins
    a reply is added where the template does not write it; `notes` say so."""

    def __init__(
        self,
        vocabulary: TemplateWords,
        template: str | None,
        render: Render,
        variables: Mapping[str, Any] = _NONE,
        tooling: Tooling = NO_TOOLING,
    ) -> None:
        self._tooling = tooling
        self._vocabulary = vocabulary
        self._extra = {**getattr(vocabulary, "other_tokens", {}), **variables}
        self._template = template or ""
        self._render = render
        self._opening = missing_opening(self._template, vocabulary, render)

    @property
    def notes(self) -> list[PromptNote]:
        if not self._opening:
            return []
        sentence = (
            f"This chat template doesn't begin the reply, so “{self._opening.strip()}” was added "
            "before it."
        )
        return [PromptNote(_REPLY_OPENED, sentence)]

    def lay_out(self, messages: list[Sourced]) -> Layout:
        """Render twice (with the contents, with markers). Raises TemplateFailed."""
        tooling = self._tooling
        texts = [text for m in messages for text in (m.content, m.reasoning) if text]
        texts += texts_of(messages, tooling)
        open_mark, close_mark = _unused_characters([self._template, *texts])
        controls = present_controls(texts, self._vocabulary)
        pattern = re.compile("|".join(map(re.escape, controls))) if controls else None

        def hide(text: str) -> str:
            if pattern is None:
                return text
            return pattern.sub(
                lambda found: f"{open_mark}c{controls.index(found[0])}{close_mark}", text
            )

        numbers = count()

        def content_of(message: Sourced) -> str:
            text, at = "", 0
            for media in message.media:
                text += hide(message.content[at : media.at])
                text += f"{open_mark}i{next(numbers)}{close_mark}"
                at = media.at + len(SHOWN)
            return text + hide(message.content[at:])

        given = [_as_dict(m, content_of(m), m.reasoning and hide(m.reasoning)) for m in messages]
        marked = [
            _as_dict(
                m,
                m.content and f"{open_mark}m{index}{close_mark}",
                m.reasoning and f"{open_mark}r{index}{close_mark}",
            )
            for index, m in enumerate(messages)
        ]
        for of in (given, marked):
            for message, one in zip(messages, of, strict=True):
                one |= fields_of(message, tooling, hide)
        tools = hidden(tooling.definitions(), hide)
        marks = (open_mark, close_mark)
        rendered = _unescaped(self._run(given, tools), marks) + self._opening
        try:
            scaffold = _unescaped(self._run(marked, tools), marks) + self._opening
        except TemplateFailed:
            scaffold = ""  # it looks into the contents; where they went stays unknown
        contents = {f"m{index}": str(one["content"]) for index, one in enumerate(given)}
        contents |= {f"r{i}": str(one.get("reasoning_content", "")) for i, one in enumerate(given)}
        layout = lay_over(rendered, scaffold, contents, open_mark, close_mark)
        if tools and scaffold:
            layout.spans.extend(self._definitions(rendered, scaffold, marked, open_mark))
        return restore(layout, controls, open_mark, close_mark)

    def _definitions(
        self, rendered: str, scaffold: str, marked: list[dict[str, Any]], open_mark: str
    ) -> list[MessageSpan]:
        """Where the tools are told of: what another tool in their place would change."""
        try:
            other = self._run(marked, OTHER_TOOLS) + self._opening
        except TemplateFailed:
            return []
        start, end = changed_lines(scaffold, other)
        found = scaffold[start:end]
        if not found or open_mark + "m" in found or open_mark + "r" in found:
            return []
        at = rendered.find(found)
        return [MessageSpan("t", -1, at, at + len(found))] if at >= 0 else []

    def _run(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None
    ) -> str:
        extra = {**self._extra, "tools": tools} if tools else self._extra
        return self._render(
            self._template,
            messages,
            bos_token=self._vocabulary.bos_text,
            eos_token=self._vocabulary.eos_text,
            add_generation_prompt=True,
            **({"extra": extra} if extra else {}),
        )


def _unescaped(text: str, marks: tuple[str, str]) -> str:
    """Placeholders as they are, where a template has written them as ASCII."""
    for mark in marks:
        text = text.replace(f"\\u{ord(mark):04x}", mark)
    return text


def _as_dict(message: ChatMessage, content: str, reasoning: str | None) -> dict[str, Any]:
    """The message as templates know it."""
    fields: dict[str, Any] = {"role": message.role, "content": content}
    if reasoning:
        fields["reasoning_content"] = reasoning
    return fields


def _unused_characters(texts: Sequence[str]) -> tuple[str, str]:
    """Two private-use characters that no text holds."""
    used = set().union(*texts)
    unused = (chr(code) for code in range(0xE000, 0xF900) if chr(code) not in used)
    return next(unused), next(unused)


# --- tokens -----------------------------------------------------------------------------------


def _add_layout(
    tokenizer: PromptTokenizer,
    layout: Layout,
    messages: list[Sourced],
    tooling: Tooling = NO_TOOLING,
    see: See = see_nothing,
) -> tuple[list[MediaSpan], list[object]]:
    """Tokenise the rendered text: whole, but for control text, replies with their own IDs, and
    pictures. Returns where these are, and what they are computed from."""
    if tooling is not NO_TOOLING:
        layout.spans.extend(list(_call_spans(layout, messages, tooling.form)))
        layout.spans.sort(key=lambda span: span.start)
    text, position = layout.text, 0
    replies = list(_replies_as_ids(tokenizer, layout, messages, tooling.form))
    media = [each for message in messages for each in message.media]
    seen = {at: media[number] for at, number in layout.media}
    cuts = [(start, end, None) for start, end in layout.ordinary] + replies
    cuts += [(at, at + len(SHOWN), None) for at in seen]
    spans: list[MediaSpan] = []
    chunks: list[object] = []
    origins = _origins(layout, messages)
    for start, end, reply in sorted(cuts, key=lambda cut: (cut[0], -cut[1])):
        if start < position:
            continue  # control text inside a reply that enters as its own IDs
        tokenizer.add_mixed(text[position:start], position, origins)
        origin, message_id = _origin_at(origins, start)
        if reply is not None:
            tokenizer.add_ids(*reply)
        elif start in seen:
            tokenizer.begin()
            for piece in see(seen[start]):
                if piece.is_cells:
                    spans.append(span_of(seen[start], piece, len(tokenizer.ids)))
                    chunks.append(piece.chunk)
                tokenizer.add_ids(piece.ids, origin, message_id)
        else:
            tokenizer.add(text[start:end], origin, message_id, ordinary=True)
        position = end
    tokenizer.add_mixed(text[position:], position, origins)
    return spans, chunks


def _call_spans(layout: Layout, messages: list[Sourced], form: CallForm) -> Iterator[MessageSpan]:
    """Where the calls of replies went: they stand between the message before and the next one,
    behind the reply's own content or before it."""
    own = [span for span in layout.spans if span.index >= 0]
    for index, message in enumerate(messages):
        if not message.tool_calls:
            continue
        high = min((s.start for s in own if s.index > index), default=len(layout.text))
        for last in (index, index - 1):
            low = max((span.end for span in own if span.index <= last), default=0)
            found = _calls_in(layout.text[low:high], message, form)
            if found is not None:
                yield MessageSpan("c", index, low + found[0], low + found[1])
                break


def _calls_in(text: str, message: Sourced, form: CallForm) -> tuple[int, int] | None:
    """Where all calls of a message stand in a part of the rendered text."""
    if form.kind == "channel":
        found = _CHANNEL_CALL.search(text)
        return None if found is None else found.span(1)
    starts = [0]
    if not form.is_marked:  # what begins a call is no mark: wherever it stands it may be one
        starts = [found.start() for found in re.finditer(r"[\[{]", text)][:_MAX_STARTS]
    for start in starts:
        reader = reader_of(form, message.tool_calls)
        calls = [span for span in parts_in(reader, text[start:]) if span[0] == "call"]
        if calls and same_calls(reader.take(), message.tool_calls):
            end = start + calls[-1][2]
            return start + calls[0][1], len(text[:end].rstrip())
    return None


_MAX_STARTS: Final = 16
_IN_MESSAGE: Final = r"(?:(?!<\|start\|>).)*?"
_CHANNEL_CALL: Final = re.compile(
    rf"<\|start\|>assistant({_IN_MESSAGE}to={_IN_MESSAGE})<\|(?:call|end)\|>", re.DOTALL
)


def _replies_as_ids(
    tokenizer: PromptTokenizer, layout: Layout, messages: list[Sourced], form: CallForm = OWN
) -> Iterator[tuple[int, int, tuple[list[int], str, str | None]]]:
    """(start, end, what to add) for each reply whose rendered bytes are what its IDs spell. Those
    of a character that it was cut off in stay out."""
    free_from = 0
    returning: set[int] = set()
    for span in layout.spans:
        reply = messages[span.index]
        if span.kind == "c" and reply.token_ids:
            start = _start_of_called(tokenizer, layout, reply, span, form)
            ids = tokenizer.without_tail(reply.token_ids)
            if start is not None and start >= free_from and ids is not None:
                returning.add(span.index)
                yield start, span.end, (ids, "assistant", reply.message_id)
            free_from = span.end
        if span.kind != "m" or reply.tool_calls:
            continue
        if reply.role == "assistant" and reply.token_ids:
            spelled = tokenizer.spell(reply.token_ids)
            start = span.end - len(spelled) if spelled else -1
            if spelled and start >= free_from and layout.text[start : span.end] == spelled:
                ids = tokenizer.without_tail(reply.token_ids)
                if ids is not None:
                    returning.add(span.index)
                    yield start, span.end, (ids, "assistant", reply.message_id)
        free_from = span.end
    tokenizer.retokenized += [
        message.message_id or ""
        for index, message in enumerate(messages)
        if message.token_ids and index not in returning
    ]
    tokenizer.returned += [messages[index].message_id or "" for index in sorted(returning)]


def _start_of_called(
    tokenizer: PromptTokenizer,
    layout: Layout,
    reply: Sourced,
    calls: MessageSpan,
    form: CallForm,
) -> int | None:
    """From where on the IDs of a reply with calls stand for what the template made of it; None:
    they do not. Its calls may be spaced otherwise, what stands before its content may not."""
    spelled = tokenizer.spell(reply.token_ids or [])
    if not spelled:
        return None
    if form.kind == "channel":
        given = object_of(spelled.rpartition("<|message|>")[2])
        is_same = given == object_of(reply.tool_calls[-1].arguments)
        return _start_in_channel(layout, reply, calls) if is_same else None
    first = content_start(reply, form, spelled)
    if first is None:
        return None
    spans = (s for s in layout.spans if s.index == calls.index and s.kind == "m")
    start = next((span.start for span in spans), calls.start)
    before = spelled[:first]
    if not before.strip():
        return start
    return start - len(before) if layout.text[:start].endswith(before) else None


def _start_in_channel(layout: Layout, reply: Sourced, calls: MessageSpan) -> int | None:
    is_thought_there = any(s.kind == "r" and s.index == calls.index for s in layout.spans)
    if reply.reasoning and not is_thought_there:
        return None
    before = [s.end for s in layout.spans if s.index < calls.index and s.index >= 0]
    mark = "<|start|>assistant"
    at = layout.text.find(mark, max(before, default=0))
    return at + len(mark) if 0 <= at <= calls.start else None


def _origins(layout: Layout, messages: list[Sourced]) -> list[Origin]:
    origins: list[Origin] = []
    for span in layout.spans:
        if span.kind == "t":
            origins.append((span.start, span.end, TOOLS, None))
            continue
        message, text = messages[span.index], layout.text[span.start : span.end]
        if span.kind == "m":
            origins += rendered_sources(message, text, span.start)
        else:
            origins.append((span.start, span.end, message.role, message.message_id))
    return origins


def _origin_at(origins: list[Origin], position: int) -> tuple[str, str | None]:
    for start, end, origin, message_id in origins:
        if start <= position < end:
            return origin, message_id
    return "scaffold", None


def _add_continued(
    tokenizer: PromptTokenizer,
    reply: ChatMessage,
    rendered: str,
    template: str | None,
    prompt: ChatPrompt,
) -> tuple[str, bytes]:
    """Append the reply that is to be continued; return its text, and the bytes of a character that
    it has begun.

    A reply that has only reasoning goes on inside it: the opening tag stands before it, unless
    the template has just written one.
    """
    spelled = tokenizer.spell(reply.token_ids) if reply.token_ids else None
    if reply.token_ids and spelled is not None and spelled.endswith(reply.content):
        tokenizer.add_ids(reply.token_ids, "assistant", reply.message_id)
        tokenizer.returned.append(reply.message_id or "")
        return spelled, tokenizer.tail(reply.token_ids)
    if reply.token_ids:
        tokenizer.retokenized.append(reply.message_id or "")
    marks = reasoning_marks(template or "", rendered, prompt.reasoning_tags)
    is_open = marks.is_open
    parts: list[tuple[str, bool]] = []  # text, and whether somebody wrote it
    if reply.reasoning:
        parts += [] if is_open else [(marks.opening, False)]
        parts.append((reply.reasoning, True))
        is_open = True
    if reply.content:
        parts += [(marks.closing if is_open else marks.answer, False)]
        parts.append((reply.content, True))
    for text, is_written in parts:
        if is_written:
            tokenizer.add_inside(text, "assistant", reply.message_id)
        elif text:
            tokenizer.add(text, "scaffold", None)
    return "".join(text for text, _ in parts), b""
