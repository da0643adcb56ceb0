"""One reply: asked for, read to its end, told as it comes.

Where a reply is to go on from a text, that text is the last message or the prompt's end, as the
server wants it (`asking`). A reply that begins with token IDs has them spelled by the server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from app.engine.protocol.messages import Event, Generate, Summary
from app.engine.protocol.prompt_messages import ChatPrompt, IdsPrompt
from app.engine.protocol.request_rules import check_request
from app.engine.remote import questions
from app.engine.remote.answer import ReplyReader
from app.engine.remote.asking import Asked, asked_for, refused_fields, without
from app.engine.remote.media import refused_media
from app.engine.remote.target import Target
from app.refusal import Refusal

if TYPE_CHECKING:
    from app.hub.engines.calls import Server

REFUSED: Final = "“{}” doesn't take {} for this model, so it was asked without: {}"
BEGINS_WITH_IDS: Final = (
    "“{}” doesn't tell what these tokens spell, so it can't go on behind them. Regenerate the "
    "reply."
)


def reply_to(
    generate: Generate,
    server: Server,
    target: Target,
    tell: Callable[[Event], None],
    begun: Callable[[ReplyReader], None],
    lock: threading.RLock,
    clock: Callable[[], float],
) -> Summary:
    """Raises ServerFault, Refusal, CalledOff. `begun` gets the reader, which takes under `lock`."""
    from app.hub.engines.faults import ServerFault

    check_request(generate)
    if generate.score_prompt:
        return questions.scored(generate, server, target, tell)
    prompt, said = questions.prepared(generate.prompt, server, target)
    generate = msgspec.structs.replace(generate, prompt=prompt)
    begin = _spelled(generate, server, target)
    asked = asked_for(generate, target, begin, _rendered(generate, server, target))
    reply = ReplyReader(generate, asked, target, tell, clock)
    begun(reply)
    with lock:
        for kind, sentence in (*said, *asked.notes):
            reply.note(kind, sentence)
        reply.begin_with(begin)
    is_fitted = False
    refused: dict[str, str] = {}

    def answered() -> None:
        """Without these fields: before that an error may have named them by chance."""
        for listed, evidence in refused.items():
            target.refused.update(listed.split(", "))
            reply.note(f"refused {listed}", REFUSED.format(server.name, listed, evidence))

    while True:
        try:
            _read(generate, asked, server, reply, lock, clock, answered)
            break
        except ServerFault as fault:
            if fault.kind == "prompt_too_long" and not (reply.has_begun or is_fitted):
                is_fitted = True
                found = questions.fitted(generate, server, target)
                if found is not None:
                    generate = msgspec.structs.replace(generate, prompt=found[0])
                    asked = asked_for(generate, target, begin)
                    with lock:
                        reply.ask_otherwise(asked)
                        reply.leave_out(found[1])
                    continue
            names = refused_fields(asked, fault.evidence)
            if reply.has_begun or not 400 <= fault.status <= 501:
                raise
            told = refused_media(server.name, generate.prompt, fault.status, fault.evidence)
            if told is not None:
                raise told from fault
            if not names or fault.status > 500:
                raise
            refused[", ".join(sorted(names))] = fault.evidence
            asked = without(asked, names)
            with lock:
                reply.ask_otherwise(asked)
    with lock:
        reply.close()
        return reply.summary()


def _read(
    generate: Generate,
    asked: Asked,
    server: Server,
    reply: ReplyReader,
    lock: threading.RLock,
    clock: Callable[[], float],
    answered: Callable[[], None],
) -> None:
    """To the end of the stream. `answered`: called, under the lock, as soon as something has come.
    Raises ServerFault where it ends without saying so."""
    from app.hub.engines.calls import Done
    from app.hub.engines.faults import cut_short

    ends_at = clock() + generate.deadline_s if generate.deadline_s else None
    has_ended = False
    with server.events(asked.path, asked.body) as events:
        for event in events:
            if event is Done:
                has_ended = True
                break
            with lock:
                is_new = reply.take(event)
                if is_new:
                    answered()
            if is_new:
                events.progressed()
            if ends_at is not None and clock() > ends_at:
                reply.end_at_deadline()
                return
    if not has_ended and not reply.has_finished:
        raise cut_short(server.name, "the stream ended without a finish_reason")


def _rendered(generate: Generate, server: Server, target: Target) -> str | None:
    """A prompt that is completed as a text, since no chat of the server can say it: one that goes
    on inside the reasoning."""
    prompt = generate.prompt
    if not isinstance(prompt, ChatPrompt) or not prompt.continue_last or not prompt.messages:
        return None
    last = prompt.messages[-1]
    if last.content or not last.reasoning or not target.offer.can("rendered_prompt"):
        return None
    return questions.rendered_inside(prompt, server, target)


def _spelled(generate: Generate, server: Server, target: Target) -> str:
    """What the tokens spell that the reply begins with."""
    prompt = generate.prompt
    begin_ids = [] if isinstance(prompt, IdsPrompt) else prompt.begin_ids
    ids = [*begin_ids, *generate.forced_ids]
    if not ids:
        return ""
    text = questions.detokenized(ids, server, target)
    if text is None:
        raise Refusal("unsupported", BEGINS_WITH_IDS.format(target.offer.name))
    return text
