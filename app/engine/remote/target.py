"""What a request is made for: a model of a server, as the server described both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from app.engine.protocol.remote_messages import EngineAddress, EngineOffer, RemoteModel
from app.engine.protocol.thinking_messages import TemplateInspected


@dataclass(frozen=True, slots=True)
class Target:
    """`parameters`: the names of all that a request may set, where the server tells them.
    `template`: the model's chat template, where it is told, and its first and last token; `inspect`
    finds out what it knows of thinking, `render` renders with it (both as `TemplateClient`'s).
    `n_slots`: replies at once.
    `refused`: fields that it has refused since, which are not sent any more. `single_tokens`:
    whether texts are a single token of the model, as far as it was asked."""

    address: EngineAddress
    offer: EngineOffer
    model: RemoteModel
    parameters: frozenset[str] | None = None
    template: str = ""
    n_slots: int = 1
    refused: set[str] = field(default_factory=set)
    single_tokens: dict[str, bool] = field(default_factory=dict)
    bos_text: str = ""
    eos_text: str = ""
    inspect: Callable[..., TemplateInspected] | None = None
    render: Callable[..., str] | None = None

    def knows(self, name: str) -> bool:
        """Whether a request may set this, as far as the server says."""
        return self.parameters is None or name in self.parameters

    @property
    def control_texts(self) -> list[str]:
        """A server does not tell its control tokens."""
        return []

    @property
    def is_openai(self) -> bool:
        """OpenAI's own, whose newer models take no `max_tokens`."""
        return self.address.url.partition("://")[2].startswith("api.openai.com")
