"""The request that a reply is asked for with: of a chat, or of a text document.

The same for a reply that is asked for now and for one whose prompt is looked at again later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from app.chat.attachments.media_files import MediaFiles, media_of
from app.chat.documents.text_prompt import text_request
from app.chat.replies.prompts import generate_request
from app.chat.replies.reply import Beginning
from app.chat.settings.settings import Settings
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import Generate
from models.records import Conversation, Message


def reply_request(
    conversation: Conversation,
    path: Sequence[Message],
    settings: Settings,
    weights_hash: str,
    beginning: Beginning,
    place: Sequence[int] | None,
    loaded: Loaded | None,
    files: MediaFiles,
) -> Generate:
    """`path`: what stands above the reply, from the root. `settings` are resolved, with the
    system prompt that counts. `place`: where in a text document it stands; None in a chat.
    `files`: has the pictures and sounds of the path (`Shelf.with_whole`)."""
    if place is not None:
        n_ctx = loaded.n_ctx if loaded is not None else 0
        return text_request(conversation, path, settings, place, n_ctx)
    return generate_request(
        dataclasses.replace(conversation, system_prompt=""),  # resolved with the rest
        path,
        settings,
        weights_hash,
        beginning.as_said(),
        files.for_prompt(media_of(path), loaded),
    )
