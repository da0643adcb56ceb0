"""`ask` with the policy summarize: what falls out of the prompt is summarised first."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from app.command_line.output import AskOutput
from app.command_line.talk import RequestError, Talk
from app.engine.prompts.summarizing import portions, room_for, summary_message, summary_request
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import Generate, Note, Summary
from app.engine.protocol.prompt_messages import ChatPrompt, PromptShown, ReadPrompt


def all_summarized(
    talk: Talk, requests: Sequence[Generate], loaded: Loaded, output: AskOutput
) -> list[Generate]:
    """Of several answers to one prompt: one summary for each prompt."""
    made: list[tuple[Generate, Generate]] = []
    found = []
    for request in requests:
        known = (new for old, new in made if old.prompt == request.prompt)
        if request.context_policy == "summarize" and (before := next(known, None)) is not None:
            request = msgspec.structs.replace(request, prompt=before.prompt)
        elif request.context_policy == "summarize":
            made.append((request, summarized(talk, request, loaded, output)))
            request = made[-1][1]
        found.append(request)
    return found


def summarized(talk: Talk, request: Generate, loaded: Loaded, output: AskOutput) -> Generate:
    """The request with a summary in place of the messages that its policy leaves out. Where it
    fails they are dropped, and that is said."""
    prompt = request.prompt
    if request.context_policy != "summarize" or not isinstance(prompt, ChatPrompt):
        return request
    numbered = [
        msgspec.structs.replace(message, message_id=str(i))
        for i, message in enumerate(prompt.messages)
    ]
    question = ReadPrompt(0, msgspec.structs.replace(prompt, messages=numbered), "summarize")
    try:
        shown = talk.ask_aside(question, PromptShown)
    except RequestError:
        return request  # sending says in words what is wrong
    try:
        cut = {int(each.message_id): each.n_tokens for each in shown.cut if each.message_id}
        if not cut:
            return request
        said = [prompt.messages[i] for i in sorted(cut)]
        text = ""
        for portion in portions(said, [cut[i] for i in sorted(cut)], room_for(loaded.n_ctx)):
            part = summary_request(portion, text, prompt, loaded.n_ctx)
            text = talk.ask_aside(part, Summary).text.strip() or text
    except RequestError as error:
        why = f"The summary failed, so the oldest messages are dropped. {error.sentence}"
        output.event(Note(0, "summary_failed", why))
        return request
    if not text:
        output.event(Note(0, "summary_failed", "The summary is empty: messages are dropped."))
        return request
    messages = "message" if len(cut) == 1 else f"{len(cut):,} messages"
    output.event(Note(0, "summarized", f"The oldest {messages} are sent as a summary: {text}"))
    first = sum(message.role == "system" for message in prompt.messages[:1])
    rest = [m for i, m in enumerate(prompt.messages) if i >= first and i not in cut]
    kept = [*prompt.messages[:first], summary_message(text), *rest]
    return msgspec.structs.replace(request, prompt=msgspec.structs.replace(prompt, messages=kept))
