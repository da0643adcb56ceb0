"""A reply of a server, event by event, as the engine's own events and one summary.

Chunks are OpenAI's `chat.completion.chunk` (choices[0].delta: content, tool_calls) or, for a text,
`text_completion` (choices[0].text). Reasoning stands in `reasoning_content` (llama-server, SGLang,
vLLM before 0.12), `reasoning` (vLLM, Ollama, OpenRouter) or `thinking`; of a server that does not
tell it apart, between tags at the beginning of the content. Log-probabilities: a list
of {token, bytes, logprob, top_logprobs} in `logprobs.content`, llama-server with an `id` in each;
in completions the older four lists tokens, token_logprobs, top_logprobs, text_offset.

A token's record holds what was said of it; the rest is unknown (`TokenTrace`). Text that comes
without log-probabilities is told without a record. Times are the server's where it tells them
(llama-server's `timings`), else they are by this machine's clock, as the tokens arrive.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from app.engine.prompts.prompt import BuiltPrompt
from app.engine.protocol.frames import Array, clean_text
from app.engine.protocol.messages import (
    Event,
    Generate,
    Note,
    Progress,
    Summary,
    TextFlushed,
    TokenArrived,
    TokenTrace,
    tokens_per_s,
)
from app.engine.protocol.prompt_messages import ChatPrompt, CutMessage, Prompt
from app.engine.protocol.tool_messages import (
    BAD_CALL,
    CALLED,
    MAX_CALLS,
    Part,
    ToolCall,
    ToolCalled,
)
from app.engine.remote.asking import Asked
from app.engine.remote.target import Target
from app.engine.text.reasoning import ReasoningSplitter, used_tags
from app.refusal import Refusal

MAX_CHARACTERS: Final = 16 * 1024 * 1024
MAX_PIECE: Final = 4096
_LEAST_NATS: Final = -1e30
"""llama-server writes float32's lowest for a probability of 0."""
_UNSAID_NATS: Final = -9999.0
"""OpenAI's and vLLM's number for "not among the likeliest": a sign, and no log-probability."""
_MOST: Final = 2**31 - 1
_KNOWN_ENDS: Final = ("stop", "length", "tool_calls", "function_call", "deadline")

TOO_LONG: Final = (
    "“{}” sent more text than a reply can hold, so it was stopped. What arrived is kept."
)
OTHER_MODEL: Final = "“{}” answered with the model “{}”, not with “{}”."
NO_FINISH: Final = "“{}” didn't say why the reply ended."
FILTERED: Final = "“{}” ended the reply because of its content filter."
OTHER_END: Final = "“{}” ended the reply: {}."
BAD_CALL_WORDS: Final = (
    "“{}” sent a tool call that can't be read, so nothing was called. Its text is shown as it came."
)


class ReplyReader:
    """`tell` gets the events. One thread takes, another may ask for `summary`: under one lock."""

    def __init__(
        self,
        generate: Generate,
        asked: Asked,
        target: Target,
        tell: Callable[[Event], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._generate = generate
        self._asked = asked
        self._target = target
        self._tell = tell
        self._clock = clock
        self._texts: dict[Part, list[str]] = {"content": [], "reasoning": [], "call": []}
        self._n_characters = 0
        self._ids: list[int] = []
        self._cut: list[CutMessage] = []
        self._has_gap = False
        self._held: list[_Entry] = []
        """A token that spells nothing: the end token, if nothing follows (llama-server)."""
        self._usage: Mapping[str, Any] = {}
        self._timings: Mapping[str, Any] = {}
        self._calls: dict[int, dict[str, str]] = {}
        self._open_call = -1
        self.calls: list[ToolCall] = []
        self._noted: set[str] = set()
        self._finish = ""
        self._detail: int | str | None = None
        self._splitter = _splitter(generate.prompt)
        self._began_at = clock()
        self._first_at: float | None = None
        self._last_at = self._began_at
        self._predicted_ms = 0.0

    @property
    def has_finished(self) -> bool:
        """The server has said why the reply ended."""
        return bool(self._finish)

    @property
    def has_begun(self) -> bool:
        return self._first_at is not None

    def ask_otherwise(self, asked: Asked) -> None:
        """Nothing had come yet, and it is asked for with other fields."""
        self._asked = asked

    def leave_out(self, built: BuiltPrompt) -> None:
        """The prompt was too long, and went without these messages."""
        self._cut = list(built.cut)
        for note in built.notes:
            if note.kind == "turns_left_out":
                self.note(note.kind, note.sentence)

    def begin_with(self, text: str) -> None:
        """What the reply begins with, which was given to the server and is not the server's."""
        if text:
            self._add("content", text)
            self._tell(TextFlushed(self._generate.id, text, "content"))

    def note(self, kind: str, sentence: str) -> None:
        if kind not in self._noted:
            self._noted.add(kind)
            self._tell(Note(self._generate.id, kind, sentence))

    # --- one event ------------------------------------------------------------------------------

    def take(self, chunk: Any) -> bool:
        """Whether it brought something new. Raises Refusal where no reply can hold it."""
        if not isinstance(chunk, dict):
            return False
        self._check_model(chunk.get("model"))
        is_new = self._take_figures(chunk)
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                is_new = self._take_choice(choice) or is_new
        return is_new

    def _check_model(self, told: Any) -> None:
        wanted = self._target.model.id
        if not isinstance(told, str) or not told or told == wanted:
            return
        # A dated or a longer name of the same, or its file.
        same = told.startswith(wanted) or told.rpartition("/")[2] == wanted.rpartition("/")[2]
        if not same:
            shown = "".join(c if c.isprintable() else " " for c in told[:120])
            self.note("other_model", OTHER_MODEL.format(self._name, shown, wanted))

    @property
    def _name(self) -> str:
        return self._target.offer.name

    def _take_figures(self, chunk: Mapping[str, Any]) -> bool:
        is_new = False
        progress = chunk.get("prompt_progress")
        if isinstance(progress, dict):
            done, total = _count(progress.get("processed")), _count(progress.get("total"))
            if total:
                self._tell(Progress(self._generate.id, "prefill", min(done, total), total))
                is_new = True
        if isinstance(chunk.get("usage"), dict):
            self._usage = chunk["usage"]
        if isinstance(chunk.get("timings"), dict):
            self._timings = chunk["timings"]
        return is_new

    def _take_choice(self, choice: Mapping[str, Any]) -> bool:
        delta = choice.get("delta", choice.get("message"))
        delta = delta if isinstance(delta, dict) else {}
        reasoning = _first_text(delta, "reasoning_content", "reasoning", "thinking")
        content = _first_text(delta, "content") or _first_text(choice, "text")
        finish = choice.get("finish_reason")
        entries = [*self._held, *_entries(choice.get("logprobs"), self._asked.n_logprobs)]
        self._held = []
        if finish == "stop":
            entries = _without_end(entries, reasoning + content)
        elif entries and not entries[-1].piece and not finish:
            self._held = [entries.pop()]
        ids = choice.get("token_ids")
        now = self._clock()
        if reasoning or content or entries:
            self._first_at = now if self._first_at is None else self._first_at
        if reasoning:
            self._splitter = None  # the server tells it apart
        if reasoning and content:
            self._flush("reasoning", reasoning)
            self._take_tokens(entries, ids, content, "content", now)
        elif reasoning or content or entries:
            part: Part = "reasoning" if reasoning else "content"
            self._take_tokens(entries, ids, reasoning or content, part, now)
        has_call = self._take_calls(delta.get("tool_calls"))
        if isinstance(finish, str) and finish and not self._finish:
            self._finish = finish
            detail = choice.get("stop_reason", choice.get("matched_stop"))
            self._detail = detail if isinstance(detail, int | str) else None
            self._close_calls()
        return bool(reasoning or content or entries or has_call or finish)

    # --- text and tokens ------------------------------------------------------------------------

    def _take_tokens(
        self, entries: list[_Entry], ids: Any, text: str, part: Part, now: float
    ) -> None:
        if not entries:
            self._flush(part, text)
            self._last_at = now
            return
        spelled = [entry.text for entry in entries]
        texts = spelled if "".join(spelled) == text else [""] * (len(entries) - 1) + [text]
        known = ids if isinstance(ids, list) and len(ids) >= len(entries) else []
        for at, (entry, shown) in enumerate(zip(entries, texts, strict=True)):
            token_id = entry.token_id if entry.token_id >= 0 else _id(known[at] if known else None)
            if entry.logprob is None:
                self._ids.append(token_id)
                self._flush(part, shown)
                continue
            self._ids.append(token_id)
            ms = self._token_ms(now, is_first_of_chunk=at == 0)
            own, shown = self._last_piece(part, shown)
            trace = TokenTrace(
                index=self._place(len(entries) - 1 - at),
                token_id=token_id,
                piece=entry.piece,
                logprob=entry.logprob,
                rank=entry.rank(),
                entropy=None,
                alternative_ids=entry.alternative_ids(),
                alternative_logprobs=entry.alternative_logprobs(),
                stages=[],
                ms=ms,
                alternative_pieces=[each.piece for each in entry.alternatives],
            )
            self._add(own, shown)
            self._tell(
                TokenArrived(self._generate.id, trace, shown, own, self._context_used() or 0)
            )
            self._has_gap = self._has_gap or trace.index >= len(self._ids)
        self._last_at = now

    def _token_ms(self, now: float, *, is_first_of_chunk: bool) -> float:
        """Since the token before. What comes in one piece came at once."""
        if not is_first_of_chunk:
            return 0.0
        told = _ms(self._timings.get("predicted_ms"))
        if told is not None:
            ms = max(told - self._predicted_ms, 0.0)
            self._predicted_ms = told
        else:
            ms = 1000 * (now - self._last_at)
        return ms if ms >= 1e-9 else 0.0

    def _place(self, n_behind: int) -> int:
        """llama-server counts tokens that it says nothing else about (parts of a character)."""
        told, least = _count(self._timings.get("predicted_n")), len(self._ids) - 1
        return max(told - 1 - n_behind, least) if told else least

    def _context_used(self) -> int | None:
        timings = self._timings
        if "predicted_n" in timings and "prompt_n" in timings:
            names = ("cache_n", "prompt_n", "predicted_n")
            return min(sum(_count(timings.get(name)) for name in names), _MOST)
        return None

    def _flush(self, part: Part, text: str) -> None:
        for own, shown in self._pieces(part, text):
            self._add(own, shown)
            self._tell(TextFlushed(self._generate.id, shown, own))

    def _last_piece(self, part: Part, text: str) -> tuple[Part, str]:
        """What a token shows: where its text belongs to two parts, the first one is told here."""
        *before, last = self._pieces(part, text) or [(part, "")]
        for own, shown in before:
            self._add(own, shown)
            self._tell(TextFlushed(self._generate.id, shown, own))
        if not last[1] and part == "content" and self._splitter is not None:
            return ("reasoning" if self._splitter.unclosed else "content"), ""
        return last

    def _pieces(self, part: Part, text: str) -> list[tuple[Part, str]]:
        """Of which part a text is; what may become a tag is held back."""
        if part != "content" or self._splitter is None:
            return [(part, text)] if text else []
        return [(own, str(shown)) for own, shown in self._splitter.feed(text) if shown]

    def _add(self, part: Part, text: str) -> None:
        self._n_characters += len(text)
        if self._n_characters > MAX_CHARACTERS:
            raise Refusal("server_error", TOO_LONG.format(self._name))
        self._texts[part].append(text)

    # --- tool calls -----------------------------------------------------------------------------

    def _take_calls(self, told: Any) -> bool:
        """They come in pieces, by `index`; one is whole when the next begins, or at the end."""
        is_new = False
        for each in told if isinstance(told, list) else ():
            if not isinstance(each, dict):
                continue
            index = each.get("index", 0)
            if not isinstance(index, int) or not 0 <= index < MAX_CALLS:
                continue
            if index != self._open_call:
                self._close_calls()
                self._open_call = index
            call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
            function = each.get("function")
            function = function if isinstance(function, dict) else {}
            call["id"] = call["id"] or _text(each.get("id"))
            call["name"] += _text(function.get("name"))
            arguments = function.get("arguments")
            if isinstance(arguments, dict):  # Ollama's own form
                arguments = msgspec.json.encode(arguments).decode()
            written = _text(arguments)
            call["arguments"] += written
            self._flush("call", written)
            is_new = True
        return is_new

    def _close_calls(self) -> None:
        call = self._calls.get(self._open_call)
        if call is None:
            return
        self._open_call = -1
        written = call["arguments"].strip() or "{}"
        try:
            is_object = isinstance(msgspec.json.decode(written), dict)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            is_object = False
        if not call["name"].strip() or not is_object:
            self.note(BAD_CALL, BAD_CALL_WORDS.format(self._name))
            self._flush("content", f"{call['name']} {call['arguments']}".strip())
            return
        call_id = call["id"] or f"call_{self._generate.id}_{len(self.calls)}"
        found = ToolCall(call_id[:256], call["name"][:256], written)
        self.calls.append(found)
        self._tell(ToolCalled(self._generate.id, len(self.calls) - 1, found))

    # --- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """The stream has ended as it should."""
        self._close_calls()
        self._release()
        if not self._finish:
            self.note("no_finish", NO_FINISH.format(self._name))
        elif self._finish == "content_filter":
            self.note("content_filter", FILTERED.format(self._name))
        elif self._finish not in _KNOWN_ENDS:
            shown = "".join(c for c in self._finish[:80] if c.isprintable())
            self.note("other_end", OTHER_END.format(self._name, shown))

    def _release(self) -> None:
        """What was held back for a possible tag is text."""
        if self._splitter is not None:
            held, self._splitter = self._splitter.flush(), None
            for part, text in held:
                self._flush(part, str(text))

    def end_at_deadline(self) -> None:
        """The time that it had is over."""
        self._finish = "deadline"

    def summary(self, stop_reason: str = "") -> Summary:
        """As it stands now; `stop_reason`: why it ended, where the server did not end it."""
        self._release()
        reason, detail = (stop_reason, "") if stop_reason else self._why()
        figures, unknown = self._figures()
        return Summary(
            stop_reason=reason,
            stop_detail=detail,
            text="".join(self._texts["content"]),
            reasoning="".join(self._texts["reasoning"]),
            seed=self._asked.seed or 0,
            token_ids=[] if "token_ids" in unknown else list(self._ids),
            context_size=self._target.model.n_ctx,
            tool_calls=list(self.calls),
            cut=list(self._cut),
            unknown=sorted(unknown),
            **figures,
        )

    def _why(self) -> tuple[str, str]:
        finish, most = self._finish, self._generate.max_tokens
        if self.calls and finish in ("stop", "tool_calls", "function_call"):
            return CALLED, ""
        if finish == "length":
            written = _count(self._usage.get("completion_tokens")) or self._n_written()
            if most and (not written or written >= most):
                return "max_tokens", str(most)
            return "context_full", ""
        if finish == "stop":
            if isinstance(self._detail, str) and self._detail:
                return "stop_string", self._detail[:4096]
            # Who names no stop string, where there were some, may have met one or the end.
            is_told = self._detail is not None or not self._generate.stop
            return ("end_token" if is_told else ""), ""
        return finish if finish in ("content_filter", "deadline") else "", ""

    def _n_written(self) -> int:
        return _count(self._timings.get("predicted_n")) or len(self._ids)

    def _figures(self) -> tuple[dict[str, Any], set[str]]:
        """Fields of the summary, and the names of those that nobody told."""
        usage, timings, unknown = self._usage, self._timings, {"n_threads"}
        has_text = any(self._texts["content"] + self._texts["reasoning"])
        generated = _count(usage.get("completion_tokens")) or self._n_written()
        prompt = _count(usage.get("prompt_tokens"))
        is_recorded = bool(self._ids) or not has_text
        is_one_more = is_recorded and not self._has_gap and generated == len(self._ids) + 1
        if self._finish == "stop" and is_one_more:
            generated -= 1  # the end token is counted there, and is no part of the reply
        reused = _cached(usage, timings)
        if not prompt and "prompt_n" in timings:
            prompt = _count(timings.get("prompt_n")) + (reused or 0)
        if not generated and has_text:
            unknown.add("generated")
        first, last = self._first_at, self._last_at
        decode_s = last - first if first is not None else 0.0
        prefill_s = 0.0
        written_ms, read_ms = _ms(timings.get("predicted_ms")), _ms(timings.get("prompt_ms"))
        if written_ms is not None and read_ms is not None:
            decode_s, prefill_s = written_ms / 1000, read_ms / 1000
        else:
            unknown.add("prefill_s")
        if not prompt:
            unknown.add("prompt_tokens")
        if reused is None:
            unknown |= {"reused", "evaluated"}
        if self._asked.seed is None:
            unknown.add("seed")
        if self._has_gap or len(self._ids) != generated or min(self._ids, default=-1) < 0:
            unknown.add("token_ids")
        if not self._target.model.n_ctx:
            unknown.add("context_size")
        if not (prompt and generated):
            unknown.add("context_used")
        if first is None:
            unknown.add("first_token_s")
        reasoned = _reasoned(usage)
        if not reasoned and self._texts["reasoning"]:
            unknown.add("reasoning_tokens")
        rate = tokens_per_s(generated, decode_s)
        if rate <= 0:
            unknown.add("tokens_per_s")
        figures = {
            "prompt_tokens": prompt,
            "reused": min(reused or 0, prompt) if prompt else reused or 0,
            "evaluated": max(prompt - reused, 0) if reused is not None else 0,
            "generated": generated,
            "first_token_s": max(first - self._began_at, 0.0) if first is not None else 0.0,
            "prefill_s": max(prefill_s, 0.0),
            "decode_s": max(decode_s, 0.0),
            "total_s": max(self._clock() - self._began_at, 0.0),
            "tokens_per_s": min(rate, 1e9),
            "context_used": prompt + generated if prompt and generated else 0,
            "reasoning_tokens": reasoned,
        }
        return figures, unknown


def _splitter(prompt: Prompt) -> ReasoningSplitter | None:
    """Of a reply that begins anew; in a text, and behind a beginning, tags are text."""
    if not isinstance(prompt, ChatPrompt) or prompt.continue_last or prompt.begin_ids:
        return None
    return ReasoningSplitter(used_tags(prompt.reasoning_tags))


# --- what stands in a chunk -----------------------------------------------------------------------


class _Entry:
    """What was said of one token. `logprob` None: nothing. `alternatives`: best first."""

    __slots__ = ("alternatives", "logprob", "piece", "text", "token_id")

    def __init__(self, text: str, piece: bytes, token_id: int, logprob: float | None) -> None:
        self.text = text
        self.piece = piece
        self.token_id = token_id
        self.logprob = logprob
        self.alternatives: list[_Entry] = []

    def rank(self) -> int | None:
        """Its place among the likeliest, if it is one of them: the list is of the whole
        vocabulary's."""
        for at, each in enumerate(self.alternatives):
            is_same_id = self.token_id >= 0 and each.token_id == self.token_id
            if is_same_id or (self.token_id < 0 and each.piece == self.piece):
                return at + 1
        return None

    def alternative_ids(self) -> Array:
        return Array.of("i4", [each.token_id for each in self.alternatives])

    def alternative_logprobs(self) -> Array:
        return Array.of("f4", [each.logprob or 0.0 for each in self.alternatives])


def _entries(logprobs: Any, most: int) -> Iterator[_Entry]:
    if not isinstance(logprobs, dict):
        return
    content = logprobs.get("content")
    if isinstance(content, list):
        for told in content:
            entry = _entry(told)
            if entry is not None:
                _set_alternatives(entry, map(_entry, _list(told.get("top_logprobs"))), most)
                yield entry
        return
    nats, tops = _list(logprobs.get("token_logprobs")), _list(logprobs.get("top_logprobs"))
    for at, token in enumerate(_list(logprobs.get("tokens"))):
        nat = nats[at] if at < len(nats) else None
        entry = _entry({"token": token, "logprob": nat})
        if entry is None:
            continue
        top = tops[at] if at < len(tops) else None
        if isinstance(top, dict):
            found = ({"token": text, "logprob": each} for text, each in top.items())
            _set_alternatives(entry, map(_entry, found), most)
        yield entry


def _set_alternatives(entry: _Entry, found: Iterator[_Entry | None], most: int) -> None:
    known = [each for each in found if each is not None and each.logprob is not None]
    known.sort(key=lambda each: -(each.logprob or 0.0))
    entry.alternatives = known[:most]


def _entry(told: Any) -> _Entry | None:
    if not isinstance(told, dict) or not isinstance(told.get("token"), str):
        return None
    text = clean_text(told["token"][:MAX_PIECE])
    return _Entry(
        text, _bytes(told.get("bytes"), text), _id(told.get("id")), _nats(told.get("logprob"))
    )


def _bytes(told: Any, text: str) -> bytes:
    if isinstance(told, list) and told and len(told) <= MAX_PIECE:
        try:
            return bytes(told)
        except (ValueError, TypeError):
            pass
    return text.encode()


def _nats(told: Any) -> float | None:
    """None for what is said to be unknown, or is no log-probability."""
    if not _is_number(told) or told > 1.0 or told == _UNSAID_NATS:
        return None
    return min(float(told), 0.0) if told > _LEAST_NATS else -math.inf


def _without_end(entries: list[_Entry], text: str) -> list[_Entry]:
    """Without the end token, which vLLM and SGLang list by its name and llama-server with none."""
    spelled = [entry.text for entry in entries]
    is_named = "".join(spelled) != text and "".join(spelled[:-1]) == text
    ends = bool(entries) and (is_named or not entries[-1].piece)
    return entries[:-1] if ends else entries


def _cached(usage: Mapping[str, Any], timings: Mapping[str, Any]) -> int | None:
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict) and isinstance(details.get("cached_tokens"), int):
        return _count(details["cached_tokens"])
    return _count(timings["cache_n"]) if "cache_n" in timings else None


def _reasoned(usage: Mapping[str, Any]) -> int:
    details = usage.get("completion_tokens_details")
    told = details.get("reasoning_tokens") if isinstance(details, dict) else None
    return _count(told) or _count(usage.get("reasoning_tokens"))


def _first_text(told: Mapping[str, Any], *names: str) -> str:
    return next((text for name in names if (text := _text(told.get(name)))), "")


def _text(told: Any) -> str:
    """Fit to be kept: no lone surrogates, no NUL."""
    if not isinstance(told, str):
        return ""
    text = told if told.isascii() else clean_text(told)
    return text.replace("\0", "\ufffd") if "\0" in text else text


def _list(told: Any) -> Sequence[Any]:
    return told if isinstance(told, list) else ()


def _is_number(told: Any) -> bool:
    return isinstance(told, int | float) and not isinstance(told, bool) and math.isfinite(told)


def _ms(told: Any) -> float | None:
    """A time that can be: not below 0, nor above some weeks."""
    return float(told) if _is_number(told) and 0 <= told <= _MOST else None


def _count(told: Any) -> int:
    is_count = isinstance(told, int) and not isinstance(told, bool) and 0 <= told <= _MOST
    return told if is_count else 0


def _id(told: Any) -> int:
    is_id = isinstance(told, int) and not isinstance(told, bool) and 0 <= told <= _MOST
    return told if is_id else -1
