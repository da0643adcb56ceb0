"""Prompts of the scripted engine: the made-up vocabulary has a plain chat format of its own."""

from __future__ import annotations

from dataclasses import replace

from app.engine.process.scripted.script import CONTROL_ATTRIBUTE, ScriptCall, ScriptVocabulary
from app.engine.prompts.media import See, see_nothing, span_of
from app.engine.prompts.prompt import BuiltPrompt
from app.engine.prompts.shown import shown
from app.engine.prompts.sources import sourced
from app.engine.prompts.tokens import PromptPart, unfinished
from app.engine.protocol.media_messages import SHOWN, Media, MediaSpan
from app.engine.protocol.prompt_messages import (
    ChatMessage,
    ChatPrompt,
    IdsPrompt,
    Prompt,
    PromptShown,
    TextPrompt,
)
from app.engine.protocol.tool_messages import Tool, ToolCall

END_ID = 0


def build_scripted(
    prompt: Prompt, vocabulary: ScriptVocabulary, see: See = see_nothing
) -> BuiltPrompt:
    """`<|role|>text<|end|>` for each message, and the opening of the reply. Raises Refusal for a
    picture that cannot be seen."""
    if isinstance(prompt, IdsPrompt):
        return _plain(prompt.token_ids, _spelled(prompt.token_ids, vocabulary))
    building = _Building(vocabulary, see)
    if isinstance(prompt, ChatPrompt) and prompt.tools:
        building.add_tools(prompt.tools)
    if isinstance(prompt, TextPrompt):
        ends = [(end, "assistant") for _, end in prompt.generated]
        starts = [(start, "text") for start, _ in prompt.generated]
        building.add_text(prompt.text, [*sorted([*starts, *ends]), (len(prompt.text), "text")])
        return building.built()
    for message in prompt.messages:
        is_open = prompt.continue_last and message is prompt.messages[-1]
        building.add_message(message, is_open=is_open)
    if prompt.continue_last:
        return building.built(is_open=True)
    building.add_scaffold(b"<|assistant|>")
    return building.built()


def show_scripted(built: BuiltPrompt, n_ctx: int, vocabulary: ScriptVocabulary) -> PromptShown:
    attributes = vocabulary.attributes()
    return shown(
        built,
        n_ctx,
        vocabulary.pieces.__getitem__,
        attributes.__getitem__,
        lambda token_id: attributes[token_id] == CONTROL_ATTRIBUTE,
    )


def _plain(ids: list[int], text: str) -> BuiltPrompt:
    return BuiltPrompt(ids, text, [PromptPart(0, len(ids), "text")] if ids else [])


def _spelled(ids: list[int], vocabulary: ScriptVocabulary) -> str:
    data = b"".join(vocabulary.pieces[i] for i in ids)
    return data[: len(data) - len(unfinished(data))].decode("utf-8", "replace")


def _whole(ids: list[int], vocabulary: ScriptVocabulary) -> list[int]:
    """Without those that only begin a character."""
    n_bytes, end = len(_tail(ids, vocabulary)), len(ids)
    while n_bytes > 0:
        end -= 1
        n_bytes -= len(vocabulary.pieces[ids[end]])
    return ids[:end]


def _tail(ids: list[int], vocabulary: ScriptVocabulary) -> bytes:
    return unfinished(b"".join(vocabulary.pieces[i] for i in ids))


def _called(call: ToolCall) -> str:
    return ScriptCall(call.name, call.arguments).text


class _Building:
    """A chat prompt as it grows."""

    def __init__(self, vocabulary: ScriptVocabulary, see: See) -> None:
        self._vocabulary = vocabulary
        self._see = see
        self._media: list[MediaSpan] = []
        self._ids: list[int] = []
        self._text = ""
        self._parts: list[PromptPart] = []
        self._returned: list[str] = []
        self._tail = b""

    def add_message(self, message: ChatMessage, *, is_open: bool = False) -> None:
        """`is_open`: it goes on, inside of a character if it was cut off there."""
        self.add_scaffold(f"<|{message.role}|>".encode())
        ids = message.token_ids or []
        if ids and max(ids) < len(self._vocabulary.pieces):
            self._text += _spelled(ids, self._vocabulary)
            self._tail = _tail(ids, self._vocabulary) if is_open else b""
            shown = ids if is_open else _whole(ids, self._vocabulary)
            self._add(shown, message.role, message.message_id)
            self._returned.append(message.message_id or "")
        else:
            self._add_content(message)
        self.add_scaffold(self._vocabulary.pieces[END_ID])

    def add_tools(self, tools: list[Tool]) -> None:
        """Their definitions, before all else."""
        self.add_scaffold(b"<|system|>")
        text = "\n".join(f"{tool.name}: {tool.description} {tool.parameters}" for tool in tools)
        self.add_text(text, [(len(text), "tools")])
        self.add_scaffold(self._vocabulary.pieces[END_ID])

    def add_scaffold(self, piece: bytes) -> None:
        self._text += piece.decode()
        self._add([self._vocabulary.id_of(piece)], "scaffold", None)

    def _add_content(self, message: ChatMessage) -> None:
        said, at = sourced(message), 0
        for media in [*said.media, None]:
            end = len(said.content) if media is None else media.at
            ends = [(min(last, end) - at, of) for _, last, of, _ in said.sources if last > at]
            self.add_text(said.content[at:end], ends, message.message_id)
            if media is not None:
                self._add_media(media, message)
                at = end + len(SHOWN)
        for call in message.tool_calls:
            text = _called(call)
            self.add_text(text, [(len(text), message.role)], message.message_id)

    def _add_media(self, media: Media, message: ChatMessage) -> None:
        self._text += SHOWN
        for seen in self._see(media):
            self._media.append(span_of(media, seen, len(self._ids)))
            self._add(seen.ids, message.role, message.message_id)

    def add_text(
        self, text: str, ends: list[tuple[int, str]], message_id: str | None = None
    ) -> None:
        """`ends`: up to which character what comes from one place goes, in order. A token belongs
        to where its first byte comes from."""
        self._text += text
        borders = [(len(text[:end].encode("utf-8", "replace")), origin) for end, origin in ends]
        at = 0
        for token_id in self._vocabulary.tokenize(text):
            while len(borders) > 1 and borders[0][0] <= at:
                borders.pop(0)
            self._add([token_id], borders[0][1], message_id)
            at += len(self._vocabulary.pieces[token_id])

    def _add(self, ids: list[int], origin: str, message_id: str | None) -> None:
        start = len(self._ids)
        self._ids += ids
        last = self._parts[-1] if self._parts else None
        if last is not None and (last.origin, last.message_id) == (origin, message_id):
            start = self._parts.pop().start
        self._parts.append(PromptPart(start, len(self._ids), origin, message_id))

    def built(self, *, is_open: bool = False) -> BuiltPrompt:
        """`is_open`: the last message goes on, so its end token is left out."""
        if is_open:
            self._text = self._text.removesuffix(self._vocabulary.pieces[END_ID].decode())
            self._ids.pop()
            last = self._parts.pop()
            if last.end - 1 > last.start:
                self._parts.append(replace(last, end=last.end - 1))
        return BuiltPrompt(
            self._ids,
            self._text,
            self._parts,
            returned=self._returned,
            tail=self._tail,
            media=self._media,
        )
