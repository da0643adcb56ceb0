"""One reply of the scripted engine while it is played: text, counts and times so far."""

from __future__ import annotations

import time
from typing import Literal

from app.engine.prompt import BuiltPrompt
from app.engine.protocol import Generate, Loaded, Summary
from app.engine.text import CharacterStream, StopMatcher


class Take:
    """Counts and times are of this playing; the seed is the request's, or 1."""

    def __init__(
        self, command: Generate, loaded: Loaded, prompt_tokens: int, prompt: BuiltPrompt
    ) -> None:
        self.command = command
        self.prompt_tokens = prompt_tokens
        self.reused = 0
        self.token_ids: list[int] = []
        self.part: Literal["content", "reasoning"] = "content"
        self.stop_reason = "end_token"
        self._loaded = loaded
        self._prompt = prompt
        self._characters = CharacterStream()
        self._matcher = StopMatcher([stop for stop in command.stop if stop])
        self._texts: dict[str, list[str]] = {"content": [], "reasoning": []}
        self._seed = command.sampling.seed
        self._began = self._lap = time.monotonic()
        self._prefilled = self._began
        self._first: float | None = None

    @property
    def prompt_ids(self) -> list[int]:
        return self._prompt.ids

    @property
    def context_used(self) -> int:
        return self.prompt_tokens + len(self.token_ids)

    def end_prefill(self) -> None:
        self._prefilled = self._lap = time.monotonic()

    def lap_ms(self) -> float:
        """Milliseconds since the last token (or the end of prefill)."""
        now = time.monotonic()
        lap, self._lap = now - self._lap, now
        return lap * 1000

    def ends_before_token(self) -> bool:
        """Whether there is room for one more token; if not, why is kept."""
        if self.command.max_tokens and len(self.token_ids) >= self.command.max_tokens:
            self.stop_reason = "max_tokens"
        elif self.context_used >= self._loaded.n_ctx:
            self.stop_reason = "context_full"
        elif self.command.deadline_s and time.monotonic() - self._began > self.command.deadline_s:
            self.stop_reason = "deadline"
        else:
            return False
        return True

    def add(self, token_id: int, piece: bytes) -> str:
        """Take in one token and return the text that may now be shown."""
        if self._first is None:
            self._first = self._lap
        self.token_ids.append(token_id)
        text = self._matcher.feed(self._characters.feed(piece))
        self._texts[self.part].append(text)
        return text

    def is_stopped_by_string(self) -> bool:
        if self._matcher.matched is None:
            return False
        self.stop_reason = "stop_string"
        return True

    def change_part(self, part: str | None) -> tuple[Literal["content", "reasoning"], str] | None:
        """Go over to `part` (None: the end); return what was held back of the old one."""
        if part == self.part:
            return None
        old = self.part
        text = self._matcher.feed(self._characters.flush())
        if self._matcher.matched is None:
            text += self._matcher.flush()
        self._texts[old].append(text)
        if part is not None:
            self.part = "reasoning" if part == "reasoning" else "content"
        return (old, text) if text else None

    def summary(self, stop_reason: str) -> Summary:
        now = time.monotonic()
        generated = len(self.token_ids)
        prefill_s = self._prefilled - self._began
        first_s = (self._first or now) - self._began
        decode_s = self._lap - self._first if self._first else 0.0
        evaluated = self.prompt_tokens - self.reused
        return Summary(
            text="".join(self._texts["content"]),
            reasoning="".join(self._texts["reasoning"]),
            token_ids=self.token_ids,
            stop_reason=stop_reason,
            stop_detail=self._matcher.matched.words if self._matcher.matched else "",
            seed=1 if self._seed is None else self._seed,
            prompt_tokens=self.prompt_tokens,
            reused=self.reused,
            evaluated=evaluated,
            generated=generated,
            first_token_s=first_s,
            prefill_s=prefill_s,
            decode_s=decode_s,
            total_s=now - self._began,
            tokens_per_s=(generated - 1) / decode_s if decode_s > 0 else 0.0,
            prefill_tokens_per_s=evaluated / prefill_s if prefill_s > 0 else 0.0,
            n_threads=self._loaded.n_threads,
            context_used=self.context_used,
            context_size=self._loaded.n_ctx,
            rendered_prompt=self._prompt.rendered,
            notes=[note.sentence for note in self._prompt.notes],
            cut=self._prompt.cut,
            reuse_source="slot" if self.reused else "",
            prompt_ids=self._prompt.ids if self.command.score_prompt else None,
        )
