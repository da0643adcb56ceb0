"""Small databases of each schema there was, for testing that they still open.

`python tests/schema_file.py`, from the repository's root, makes the one of the present
schema. Run it in the commit that adds a migration, and never again for that schema.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

_FOLDER = Path(__file__).parent / "models" / "data"


def path_for(revision: str) -> Path:
    return _FOLDER / f"schema-{revision}.sqlite3"


def all_files() -> list[Path]:
    return sorted(_FOLDER.glob("schema-*.sqlite3"))


def make(target: Path) -> None:
    """A few rows of everything, with one reply that is still streaming."""
    from models.records import (
        Attachment,
        Conversation,
        Download,
        DownloadFile,
        Folder,
        LocalFile,
        Message,
        MessageCounts,
        MessageState,
        Preset,
        Role,
        Weights,
    )
    from models.store.store import Store

    now = datetime(2026, 5, 3, 12, tzinfo=UTC)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder), backup_after_s=None)
        chat = Conversation("chat", "Capitals", now, now, draft="And of Italy?")
        trashed = replace(chat, id="trashed", title="Thrown away", trashed_at=now)
        question = Message("question", "chat", None, Role.USER, "The capital of France?", now)
        reply = Message(
            "reply",
            "chat",
            "question",
            Role.ASSISTANT,
            "It is Paris.",
            now,
            reasoning="Easy.",
            token_ids=(1, 2),
            stop_reason="end_token",
            seed=7,
            settings={"temperature": 0.8},
            weights_name="SmolLM2 135M",
            rendered_prompt="<|im_start|>",
            counts=MessageCounts(prompt_tokens=9, generated=2, tokens_per_s=30.5),
        )
        edited = replace(question, id="edited", content="What is the capital of Spain?")
        growing = Message(
            "growing", "chat", "edited", Role.ASSISTANT, "Mad", now, MessageState.STREAMING
        )
        store.upsert_weights(Weights("/smollm2.gguf", "SmolLM2 135M", 98_000_000, now))
        store.create_conversation(chat)
        store.create_conversation(trashed)
        deleted = replace(question, id="deleted", content="Rome?", trashed_at=now)
        for message in (question, deleted, reply, edited, growing):
            store.append_message(message)
        store.create_folder(Folder("folder", "Travel", now))
        store.create_preset(Preset("preset", "Precise", now, now, {"temperature": 0.1}))
        store.create_attachment(
            Attachment("attachment", "chat", "map.txt", "A map", 5, now, "question", tokens=2)
        )
        read = {"media_type": "application/pdf", "places": [[0, "page 1"]]}
        store.create_attachment(
            Attachment(
                "read", "chat", "map.pdf", "A map", 5, now, "question", 2, 1, "document", read
            )
        )
        store.update_conversation("chat", folder_id="folder", settings={"seed": 7})
        store.set_weights_settings("/smollm2.gguf", {"threads": 2})
        store.save_trace("reply", b"trace")
        store.create_download(
            Download(
                "download",
                "https://hub.example",
                "owner/name",
                "c0ffee",
                "/weights",
                (DownloadFile("part.gguf", 98_000_000, "ab" * 32, etag='"x"', done_bytes=7),),
                now,
            )
        )
        store.save_local_files(
            (LocalFile("/smollm2.gguf", 98_000_000, 10**18, 7, now, "ab" * 32, {"name": "x"}, "r"),)
        )
        store.set_setting("theme", "dark")
        done = store.list_conversations().result(30)
        assert len(done) == 1
        store.close()
        database = Path(folder) / "db" / "cutaway.sqlite3"
        with closing(sqlite3.connect(database)) as raw, raw:
            raw.execute(
                "INSERT INTO attachment_data SELECT row_id, 'application/pdf', x'25504446'"
                " FROM attachment WHERE id = 'read'"
            )
            raw.execute(
                "INSERT INTO conversation_tag SELECT row_id, 'travel' FROM conversation"
                " WHERE id = 'chat'"
            )
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(database.read_bytes())


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from models.store.plain import HEAD_REVISION

    make(path_for(HEAD_REVISION))
