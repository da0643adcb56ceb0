"""`kill -9` at any moment: what was acknowledged is there, and so is what was sent of a reply."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from models.records import MessageState
from models.store.backup import is_sound

ROOT = Path(__file__).parents[3]

_CHILD = """
import json, sys
from pathlib import Path
from models.records import Attachment, MessageState, Role
from models.store.store import Store
from store_records import a_conversation, a_message

PICTURE = bytes(range(256)) * 400

def acknowledge(*what):
    sys.stdout.write(json.dumps(what) + "\\n")
    sys.stdout.flush()

store = Store.open(Path(sys.argv[1]), backup_after_s=None)
conversation = a_conversation(id=sys.argv[2])
store.create_conversation(conversation).result()
parent, turn = None, 0
while True:
    question = a_message(
        conversation, parent, id=f"{sys.argv[2]}-q{turn}", content=f"question {turn}"
    )
    store.append_message(question).result()
    acknowledge("sent", question.id, question.content)
    picture = Attachment(
        f"{sys.argv[2]}-p{turn}", conversation.id, "ant.png", "", 4, question.created_at,
        question.id, kind="picture",
    )
    store.create_attachment(picture, ("image/png", PICTURE)).result()
    acknowledge("attached", picture.id, picture.name)
    reply = a_message(
        conversation, question, id=f"{sys.argv[2]}-r{turn}",
        role=Role.ASSISTANT, state=MessageState.STREAMING, content="",
    )
    store.append_message(reply).result()
    text = ""
    for word in range(8):
        text += f"word{word} "
        store.save_streaming_text(reply.id, text, "", list(range(word + 1))).result()
        acknowledge("streamed", reply.id, text)
    store.update_message(reply.id, state=MessageState.COMPLETE, content=text).result()
    acknowledge("finished", reply.id, text)
    parent, turn = reply, turn + 1
"""


def run_and_kill(data_dir: Path, name: str, acknowledgements: int, pause_s: float) -> list[Any]:
    """Let the child work until it has acknowledged so much, and a moment longer."""
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(data_dir), name],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
    )
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(acknowledgements)]
    time.sleep(pause_s)
    child.kill()
    lines += child.stdout.readlines()
    child.stdout.close()
    child.wait()
    return [json.loads(line) for line in lines if line.endswith("\n")]


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 6))]
)
def test_nothing_that_was_acknowledged_is_lost(
    open_store: Any, data_dir: Path, database: Path, seed: int
) -> None:
    dice = random.Random(seed)
    acknowledged = run_and_kill(data_dir, "c", dice.randrange(1, 60), dice.random() * 0.02)
    store = open_store()
    opened = store.opened.result()
    assert opened.state == "ok"
    path = {m.id: m for m in store.load_conversation("c").result()[1]}
    streaming = [m for m in path.values() if m.state is MessageState.INTERRUPTED]
    assert opened.interrupted == len(streaming) <= 1
    latest = {own: (what, text) for what, own, text in acknowledged if what != "attached"}
    attached = {each.id for each in store.list_attachments("c").result()}
    assert {own for what, own, _ in acknowledged if what == "attached"} <= attached
    for own in attached:  # one that is there has its bytes
        assert store.load_file(own).result() == ("image/png", bytes(range(256)) * 400)
    for message_id, (what, text) in latest.items():
        message = path[message_id]
        if what == "streamed":
            # What was saved last was perhaps not acknowledged any more.
            assert message.content in (text, text + f"word{len(text.split())} ")
            assert message.state in (MessageState.INTERRUPTED, MessageState.COMPLETE)
        else:
            assert message.content == text
            assert message.state is MessageState.COMPLETE
    assert len(path) <= len(latest) + 2
    store.close()
    assert is_sound(database)


@pytest.mark.parametrize("times", [2, pytest.param(5, marks=pytest.mark.soak)])
def test_killed_again_and_again(open_store: Any, data_dir: Path, times: int) -> None:
    for number in range(times):
        acknowledged = run_and_kill(data_dir, f"c{number}", 5, 0.004 * number)
        assert acknowledged[0][0] == "sent"
    store = open_store()
    assert {c.id for c in store.list_conversations().result()} == {f"c{n}" for n in range(times)}
