"""Calls of tools in one reply: how they are read, and the grammar that binds them.

    auto       free until a call begins, then bound by the tools' grammar
    required   bound from the first token behind the reasoning on; no end before
    none       what opens a call is banned
    a name     as required, with that tool alone

A call begins where the reader of the reply's text says so, and its text up to there is fed to the
grammar. Where the two do not fit (another family's form, other white space within a token), the
call goes on unbound: the reader reads it anyhow, or says what is wrong with it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Final

import msgspec

from app.engine.process.native.vocabulary import Vocabulary
from app.engine.process.sampling.chain import Chain
from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import ChatPrompt
from app.engine.protocol.stages import Sampling
from app.engine.protocol.tool_messages import AUTO, NONE, Tool, ToolCall
from app.engine.text.call_form import KNOWN, CallForm, object_of, words_of
from app.engine.text.calls import Bad, CallReader, CallSplitter, ChannelReader, Offered
from app.engine.text.channels import ChannelSplitter
from app.engine.text.text import ReplyText, Splitter

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class Calling:
    """`grammars`: as `call_grammars` writes them."""

    def __init__(self, generate: Generate, form: CallForm, grammars: Mapping[str, str]) -> None:
        assert isinstance(generate.prompt, ChatPrompt)
        prompt = generate.prompt
        self._form = form
        self._grammars = grammars
        self._choice = prompt.tool_choice
        self._tools = [_offered(tool) for tool in prompt.tools]
        if self._choice in {tool.name for tool in self._tools}:
            self._tools = [tool for tool in self._tools if tool.name == self._choice]
        self._is_many = prompt.parallel_tool_calls
        last = prompt.messages[-1] if prompt.continue_last and prompt.messages else None
        self._said = last.content if last is not None and last.role == "assistant" else ""
        self._key = generate.reply_id.encode() or os.urandom(8)
        sampling = generate.sampling
        self._has_own_grammar = bool(sampling.grammar or sampling.json_schema) and not self.is_due
        self._n_seen = 0
        self._is_free = False
        self.calls: list[ToolCall] = []

    @property
    def is_due(self) -> bool:
        """Whether the reply must call."""
        return self._choice not in (AUTO, NONE)

    @property
    def banned(self) -> list[str]:
        """What no reply may write that may not call."""
        is_marked = self._form.is_marked and self._form.kind != "channel"
        return [self._form.trigger] if self._choice == NONE and is_marked else []

    def marks(self, vocabulary: Vocabulary) -> dict[int, bytes]:
        """ID → bytes of the control tokens that calls are written with, which no text shows."""
        forms = [self._form, *KNOWN]
        texts = {
            word
            for form in forms
            for word in words_of(
                "\n".join((form.begin, form.opening, form.behind_name, form.closing, form.end))
            )
        }
        texts |= {'<|"|>'}
        known = vocabulary.control_ids
        return {
            known[text]: text.encode()
            for text in texts
            if text in known and not vocabulary.is_eog(known[text])
        }

    def around(self, inner: Splitter | None) -> Splitter | None:
        """The splitter that tells calls apart as well."""
        if self._choice == NONE:
            return inner
        if isinstance(inner, ChannelSplitter):
            inner.reader = ChannelReader(self._tools, is_many=self._is_many, new_id=self._new_id)
            return inner
        reader = CallReader(self._form, self._tools, is_many=self._is_many, new_id=self._new_id)
        reader.go_on_from(self._said)
        return CallSplitter(inner, reader)

    def _new_id(self, number: int) -> str:
        """Nine letters and digits, which the strictest template demands; the same each time that
        this reply is written."""
        digest = hashlib.blake2b(self._key + number.to_bytes(2, "big"), digest_size=9).digest()
        return "".join(_DIGITS[byte % len(_DIGITS)] for byte in digest)

    # --- the grammar ----------------------------------------------------------------------------

    def bind(self, text: ReplyText, chain: Chain) -> None:
        """After a token: let the grammar of a call begin where it is time."""
        reader = text.calls
        if reader is None or self._has_own_grammar:
            return
        self._n_seen = min(self._n_seen, reader.n_begun)  # tokens may have been taken back
        if chain.is_bound:
            return
        if self.is_due and not self._is_free:
            is_thinking = bool(text.closing_by_force)
            chain.keeps_on(is_kept=is_thinking)
            if not is_thinking:
                bound = chain.bind(self._grammars.get("", ""), reader.begun or "")
                self._is_free = not bound
        elif reader.begun is not None and reader.n_begun > self._n_seen:
            self._n_seen = reader.n_begun
            name = getattr(reader, "name", None)
            key = name if self._form.kind == "channel" and name is not None else ""
            chain.bind(self._grammars.get(key, ""), reader.begun)

    def found(self, text: ReplyText) -> list[tuple[int, ToolCall] | Bad]:
        """What the reader has found since the last time, calls with their number."""
        out: list[tuple[int, ToolCall] | Bad] = []
        for one in text.calls.take() if text.calls is not None else ():
            if isinstance(one, Bad):
                out.append(one)
            else:
                out.append((len(self.calls), one))
                self.calls.append(one)
        return out


def _offered(tool: Tool) -> Offered:
    fields = object_of(tool.parameters).get("properties")
    fields = fields if isinstance(fields, dict) else {}
    texts = [k for k, v in fields.items() if isinstance(v, dict) and v.get("type") == "string"]
    return Offered(tool.name, frozenset(texts))


def sampling_of(generate: Generate) -> Sampling:
    """What a reply is drawn with: one that must call is bound by its call, and by no grammar of the
    answer that it does not give."""
    prompt, sampling = generate.prompt, generate.sampling
    if not isinstance(prompt, ChatPrompt) or not prompt.tools or prompt.tool_choice in (AUTO, NONE):
        return sampling
    return msgspec.structs.replace(sampling, grammar="", json_schema="")


def calling_of(
    generate: Generate, form: CallForm | None, grammars: Mapping[str, str]
) -> Calling | None:
    """None where a reply is offered no tools."""
    prompt = generate.prompt
    if form is None or not isinstance(prompt, ChatPrompt) or not prompt.tools:
        return None
    return Calling(generate, form, grammars)
