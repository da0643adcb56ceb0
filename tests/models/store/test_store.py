"""The facade: what is asked for is done in order, on disk, and read back as it was."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from store_records import START, a_conversation, a_message

from models.records import (
    Conversation,
    ConversationKind,
    Message,
    MessageCounts,
    MessageState,
    Role,
    Weights,
)
from models.store.errors import ClosedError, NotFoundError, RefusedError
from models.store.store import Store

ROOT = Path(__file__).parents[3]
LATER = START + timedelta(days=1)

# --- imports --------------------------------------------------------------------------------------


def run_python(code: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_store_imports_nothing_heavy() -> None:
    out = run_python(
        "import sys, models.store.store, models.records;"
        "print([m for m in ('sqlalchemy', 'alembic', 'sqlite3') if m in sys.modules])"
    )
    assert out.strip() == "[]"


def test_asking_imports_nothing_heavy_before_a_thread_of_the_store_does() -> None:
    out = run_python(
        "import sys, pathlib; from models.store.store import Store, WriterThread\n"
        "said = lambda *about: None\n"
        "writer = WriterThread(pathlib.Path('nowhere'), read_only=False, read_only_sentence='',\n"
        "    on_problem=said, busy_timeout_s=1)\n"
        "store = Store(writer, backup_after_s=None)  # its threads do not run\n"
        "asked = [store.list_conversations(), store.load_path('chat', 'leaf'),\n"
        "    store.update_message('m', content='x'), store.save_streaming_text('m', 'x'),\n"
        "    store.set_setting('theme', 'dark'), store.search('word'), store.leaf_through('m')]\n"
        "print([each.done() for each in asked], 'sqlalchemy' in sys.modules)"
    )
    assert out.strip() == f"{[False] * 7} False"


def test_a_database_of_this_version_is_opened_without_alembic(data_dir: Path) -> None:
    code = (
        "import sys, pathlib; from models.store.store import Store\n"
        "for _ in range(2):\n"
        "    store = Store.open(pathlib.Path(sys.argv[1])); state = store.opened.result(20).state\n"
        "    store.list_conversations().result(20); store.close()\n"
        "    print(state, 'sqlalchemy' in sys.modules, 'alembic' in sys.modules)"
    )
    assert run_python(code, data_dir).splitlines() == ["fresh True False", "ok True False"]


# --- conversations --------------------------------------------------------------------------------


def test_a_conversation_comes_back_as_it_was(store: Store) -> None:
    conversation = Conversation(
        id="c",
        title="Ünïcode 🦊 ‹title›",
        created_at=START,
        updated_at=LATER,
        kind=ConversationKind.TEXT,
        folder_id="folder",
        is_pinned=True,
        is_archived=True,
        trashed_at=None,
        system_prompt="Be brief.",
        draft="half a sen",
        weights_path="/weights/a.gguf",
        preset_id="preset",
        is_titled_by_user=True,
    )
    assert store.create_conversation(conversation).result() == conversation
    assert store.load_conversation("c").result() == (conversation, ())
    assert store.list_conversations().result() == (conversation,)


def test_the_list_has_pinned_ones_first_then_the_newest_activity(store: Store) -> None:
    old, new, pinned, trashed = (
        a_conversation(title=title, is_pinned=title == "pinned", updated_at=START + timedelta(days))
        for title, days in (("old", 2), ("new", 3), ("pinned", 1), ("trashed", 4))
    )
    for conversation in (old, new, pinned, trashed):
        store.create_conversation(conversation)
    store.trash_conversation(trashed.id)
    titles = [c.title for c in store.list_conversations().result()]
    assert titles == ["pinned", "new", "old"]
    store.append_message(a_message(old, created_at=START + timedelta(days=9)))
    assert [c.title for c in store.list_conversations().result()] == ["pinned", "old", "new"]


def test_a_change_touches_only_its_field(store: Store) -> None:
    conversation = a_conversation()
    store.create_conversation(conversation)
    changed = store.update_conversation(conversation.id, draft="hello", title="Renamed").result()
    assert changed == replace(conversation, draft="hello", title="Renamed")
    assert store.load_conversation(conversation.id).result()[0] == changed


def test_a_field_that_does_not_exist_is_refused_at_once(store: Store) -> None:
    with pytest.raises(TypeError, match="colour"):
        store.update_conversation("c", colour="red")
    with pytest.raises(TypeError, match="parent_id"):
        store.update_message("m", parent_id="other")


def test_trash_restore_and_purge(store: Store) -> None:
    kept, gone = a_conversation(title="kept"), a_conversation(title="gone")
    for conversation in (kept, gone):
        store.create_conversation(conversation)
        message = store.append_message(a_message(conversation)).result()
        store.append_message(a_message(conversation, message))
        store.save_trace(message.id, b"trace")
        store.trash_conversation(conversation.id)
    assert {c.title for c in store.list_trash().result()} == {"kept", "gone"}
    assert all(c.trashed_at is not None for c in store.list_trash().result())
    store.restore_conversation(kept.id)
    assert store.purge_some(START).result() == 0
    assert store.purge_some(datetime.now(UTC) + timedelta(seconds=1)).result() == 1
    assert [c.title for c in store.list_conversations().result()] == ["kept"]
    assert len(store.load_conversation(kept.id).result()[1]) == 2
    with pytest.raises(NotFoundError):
        store.load_conversation(gone.id).result()


def test_purging_a_path_of_ten_thousand_messages(store: Store, execute) -> None:  # type: ignore[no-untyped-def]
    conversation = a_conversation()
    store.create_conversation(conversation).result()
    execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
        "INSERT INTO message (row_id, id, conversation_row_id, parent_row_id, role, state, "
        "created_us, is_pinned, content, reasoning) "
        "SELECT i, i, 1, nullif(i - 1, 0), 'user', 'complete', i, 0, 'text', '' FROM n"
    )
    store.trash_conversation(conversation.id)
    assert store.purge_some(datetime.now(UTC) + timedelta(seconds=1)).result() == 1
    assert execute("SELECT count(*) FROM message") == [(0,)]


# --- messages -------------------------------------------------------------------------------------


def test_a_message_comes_back_as_it_was(store: Store) -> None:
    conversation = a_conversation()
    store.create_conversation(conversation)
    question = store.append_message(a_message(conversation)).result()
    reply = Message(
        id="reply",
        conversation_id=conversation.id,
        parent_id=question.id,
        role=Role.ASSISTANT,
        content="Paris. 巴黎 🗼\n```py\nprint()\n```",
        created_at=LATER,
        state=MessageState.STOPPED,
        reasoning="The user asks …",
        token_ids=(1, 2, 262143, 2**31 - 1, -1),
        is_pinned=True,
        stop_reason="end_token",
        error="A sentence.",
        seed=2**32 - 2,
        settings={"temperature": 0.8, "stop": ["\n\n"], "nested": {"a": None}},
        weights_name="SmolLM2 135M",
        weights_hash="abc",
        rendered_prompt="<|im_start|>user\nWhat …",
        counts=MessageCounts(prompt_tokens=12, reused=0, tokens_per_s=31.5),
    )
    assert store.append_message(reply).result() == reply
    assert store.load_message("reply").result() == reply
    path = store.load_conversation(conversation.id).result()[1]
    assert path == (question, replace(reply, rendered_prompt=None))


def test_appending_makes_the_message_the_active_leaf(store: Store) -> None:
    conversation = a_conversation()
    store.create_conversation(conversation)
    first = store.append_message(a_message(conversation)).result()
    second = store.append_message(a_message(conversation, first)).result()
    assert store.load_conversation(conversation.id).result()[0].active_leaf_id == second.id


def test_appending_the_same_message_twice_adds_it_once(store: Store) -> None:
    conversation = a_conversation()
    store.create_conversation(conversation)
    store.create_conversation(conversation).result()
    message = a_message(conversation)
    assert store.append_message(message).result() == store.append_message(message).result()
    assert len(store.siblings(message.id).result()) == 1


def test_a_message_without_its_conversation_or_parent_is_refused(store: Store) -> None:
    here, there = a_conversation(), a_conversation()
    with pytest.raises(NotFoundError):
        store.append_message(a_message(here)).result()
    store.create_conversation(here)
    store.create_conversation(there)
    message = store.append_message(a_message(here)).result()
    with pytest.raises(NotFoundError):
        store.append_message(a_message(here, "nowhere")).result()
    with pytest.raises(RefusedError):
        store.append_message(a_message(there, message)).result()
    assert store.load_conversation(there.id).result()[1] == ()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a\0b\0", "a\0b\0"),
        ("half \ud83d of a pair", "half � of a pair"),
        ("\udcff", "�"),
        ("😀", "😀"),
        ("\ud83d\ude00", "😀"),
        ("'; DROP TABLE message; --", "'; DROP TABLE message; --"),
        ("\r\n\x01\x7f\u2028", "\r\n\x01\x7f\u2028"),
    ],
)
def test_any_text_can_be_stored(store: Store, given: str, kept: str) -> None:
    conversation = a_conversation(title=given, draft=given, system_prompt=given)
    created = store.create_conversation(conversation).result()
    assert (created.title, created.draft, created.system_prompt) == (kept, kept, kept)
    message = a_message(conversation, content=given, reasoning=given, error=given)
    stored = store.append_message(message).result()
    assert (stored.content, stored.reasoning, stored.error) == (kept, kept, kept)
    loaded = store.update_message(message.id, rendered_prompt=given).result()
    assert loaded.rendered_prompt == kept


def test_a_growing_reply_is_saved_until_it_is_finished(store: Store) -> None:
    conversation = a_conversation()
    store.create_conversation(conversation)
    reply = a_message(conversation, role=Role.ASSISTANT, content="", state=MessageState.STREAMING)
    store.append_message(reply)
    store.save_streaming_text(reply.id, "Par", "thin", [7, 8]).result()
    saved = store.load_message(reply.id).result()
    assert (saved.content, saved.reasoning, saved.token_ids) == ("Par", "thin", (7, 8))
    store.update_message(reply.id, content="Paris.", state=MessageState.COMPLETE)
    store.save_streaming_text(reply.id, "Pari")
    assert store.load_message(reply.id).result().content == "Paris."


# --- settings, weights, traces --------------------------------------------------------------------


def test_settings(store: Store, execute) -> None:  # type: ignore[no-untyped-def]
    store.set_setting("theme", "dark")
    store.set_setting("theme", "light")
    store.set_setting("stop_strings", ["\n", "\ud800"])
    store.set_setting("seed", None)
    assert store.get_setting("theme").result() == "light"
    assert store.get_setting("missing", 7).result() == 7
    assert store.get_setting("seed", 7).result() is None
    with pytest.raises(TypeError):
        store.set_setting("bad", object())
    execute("INSERT INTO setting VALUES ('broken', '{')")
    assert store.get_setting("broken", "default").result() == "default"
    assert store.all_settings().result() == {
        "theme": "light",
        "stop_strings": ["\n", "\ud800"],
        "seed": None,
    }


def test_weights_keep_what_is_known_while_the_file_is_the_same(store: Store) -> None:
    first = Weights("/a.gguf", "A", 100, last_used_at=START, fast_hash="f", sha256="s")
    assert store.upsert_weights(first).result() == first
    again = store.upsert_weights(Weights("/a.gguf", "A2", 100)).result()
    assert again == replace(first, name="A2")
    other = Weights("/a.gguf", "A", 101, last_used_at=LATER)
    assert store.upsert_weights(other).result() == other
    assert store.list_weights().result() == (other,)


def test_last_used_weights_and_odd_paths(store: Store) -> None:
    assert store.last_used_weights().result() is None
    odd = Weights("/models/\udcff\udcfe.gguf", "odd bytes in its name", 1, last_used_at=LATER)
    store.upsert_weights(Weights("/never.gguf", "never used", 1))
    store.upsert_weights(Weights("/b.gguf", "B", 1, last_used_at=START))
    store.upsert_weights(odd)
    store.upsert_weights(odd)
    assert store.last_used_weights().result() == odd
    assert [w.name for w in store.list_weights().result()] == [odd.name, "B", "never used"]
    conversation = a_conversation(weights_path=odd.path)
    assert store.create_conversation(conversation).result().weights_path == odd.path


def test_traces(store: Store) -> None:
    conversation = a_conversation()
    store.create_conversation(conversation)
    message = store.append_message(a_message(conversation)).result()
    assert store.load_trace(message.id).result() is None
    store.save_trace(message.id, b"one")
    store.save_trace(message.id, b"\0two")
    assert store.load_trace(message.id).result() == b"\0two"
    with pytest.raises(NotFoundError):
        store.save_trace("nowhere", b"").result()


# --- threads and files ----------------------------------------------------------------------------


def test_closing_ends_the_threads_and_merges_the_log(store: Store, database: Path) -> None:
    futures = [store.create_conversation(a_conversation()) for _ in range(20)]
    reading = store.list_conversations()
    assert store.close() == 0
    assert all(future.done() for future in futures)
    assert len(reading.result()) == 20
    assert not [t for t in threading.enumerate() if t.name.startswith("database-")]
    assert sorted(path.name for path in database.parent.iterdir()) == ["cutaway.sqlite3"]
    with pytest.raises(ClosedError):
        store.list_conversations().result()
    with pytest.raises(ClosedError):
        store.set_setting("a", 1).result()


def test_files_are_for_their_owner_alone(store: Store, data_dir: Path) -> None:
    store.set_setting("a", 1)
    store.back_up().result()
    modes = {p: stat.S_IMODE(p.stat().st_mode) for p in [data_dir, *data_dir.rglob("*")]}
    assert len(modes) >= 7
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path, open_store) -> None:  # type: ignore[no-untyped-def]
    tmp_path.chmod(0o755)
    open_store(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "db").stat().st_mode) == 0o700


@pytest.mark.parametrize("is_changed", [False, True])
def test_an_orderly_close_leaves_one_file(open_store, database, is_changed):
    open_store().close()
    store = open_store()
    store.list_conversations().result(10)
    if is_changed:
        store.set_setting("theme", "dark").result(10)
    store.close()
    assert [path.name for path in database.parent.iterdir()] == [database.name]
