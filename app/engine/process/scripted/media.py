"""Pictures as the scripted engine sees them: cells of a made-up projector, known by their bytes."""

from __future__ import annotations

import hashlib
import math

from app.engine.process.scripted.script import ScriptProjector
from app.engine.prompts.media import See, Seen, check_media, media_ids
from app.engine.protocol.loading_messages import BESIDE
from app.engine.protocol.media_messages import Media, ProjectorOffer


def scripted_offer(path: str, script: ScriptProjector) -> ProjectorOffer | None:
    """What became of a projector; None: none was asked for, or none lies beside, which the script
    says with as little as one word of its own."""
    if not path or (path == BESIDE and script == ScriptProjector()):
        return None
    return ProjectorOffer(
        path,
        script.kind,
        script.images,
        script.audio,
        script.image_size,
        script.tokens,
        script.size_bytes,
        script.why,
    )


def scripted_sight(script: ScriptProjector, offer: ProjectorOffer | None) -> See:
    """Raises Refusal for what the loaded projector cannot take."""
    columns = math.isqrt(script.tokens)
    is_square = columns * columns == script.tokens

    def see(media: Media) -> list[Seen]:
        check_media([media], offer)
        digest = hashlib.sha256(media.kind.encode() + media.data).digest()
        side = columns if is_square and media.kind == "image" else 0
        return [Seen(media_ids(digest, script.tokens), True, side, side)]

    return see
