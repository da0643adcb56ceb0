"""Templates through their process: hostile ones cost a sentence, and nothing is left behind."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from app.engine.protocol.template_messages import AT_FAULT, TemplateFailed
from app.engine.templates.client import DEADLINE_S, TemplateClient

ROOT = Path(__file__).resolve().parents[4]

HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def client(forked_children: None) -> Iterator[TemplateClient]:
    client = TemplateClient()
    yield client
    client.close()


def _through(client: TemplateClient, source: str) -> str:
    return client.render(source, HELLO, bos_token="", eos_token="", add_generation_prompt=True)


def test_the_process_renders_and_goes() -> None:
    client = TemplateClient()
    before = {child.pid for child in psutil.Process().children()}
    client.start()
    assert _through(client, "{{ messages[0].content }}") == "Hello"
    with pytest.raises(TemplateFailed, match="line 1"):
        _through(client, "{{ x | nonsense }}")
    client.close()
    assert {child.pid for child in psutil.Process().children()} <= before
    assert not [t for t in threading.enumerate() if t.name.startswith("engine-")]
    assert _through(client, "again") == "again"
    client.close()


HOSTILE = [
    ("{% for i in range(10**9) %}{% endfor %}", "failed"),
    ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "timeout"),
    ("{{ 'a' * 3000000000 }}", "memory"),
    ("{{ 'a' * (messages|length * 3000000000) }}", "memory"),
    ("{{ 9 ** (9 ** 9) }}", "timeout"),
    ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "failed"),
]


@pytest.mark.parametrize(("source", "kind"), HOSTILE)
def test_a_hostile_template_ends_in_a_sentence_and_the_next_one_renders(
    client: TemplateClient, source: str, kind: str
) -> None:
    client.start()
    began = time.monotonic()
    client._deadline_s = 0.2 if kind == "timeout" else 10.0
    with pytest.raises(TemplateFailed) as caught:
        _through(client, source)
    client._deadline_s = DEADLINE_S
    assert caught.value.fault == kind
    assert time.monotonic() - began < 20
    assert _through(client, "fine") == "fine"


def test_a_process_that_died_while_idle_blames_nobody(client: TemplateClient) -> None:
    client.start()
    assert _through(client, "x") == "x"
    assert client._child is not None
    psutil.Process(client._child.pid).kill()
    assert _through(client, "y") == "y"


def _over(tmp_path: Path, *lives: str) -> tuple[TemplateClient, Path]:
    """A process that does in each of its lives what is said, the last one for ever."""
    counter = tmp_path / "lives"
    source = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from app.engine.protocol import wire
from app.engine.protocol.template_messages import Rendered, TemplatesReady
from pathlib import Path
counter = Path({str(counter)!r})
life = len(counter.read_text()) if counter.exists() else 0
counter.write_text("x" * (life + 1))
lives = {list(lives)!r}
act = lives[min(life, len(lives) - 1)]
commands, frames = wire.begin_child()
writer, reader = wire.FrameWriter(frames), wire.FrameReader(commands)
if act == "no start":
    raise SystemExit(1)
writer.write(TemplatesReady())
reader.read()
if act == "die":
    os._exit(3)
writer.write(Rendered("fine"))
reader.read()
"""
    return TemplateClient(command=[sys.executable, "-c", source]), counter


def test_a_process_that_is_ended_in_the_middle_is_asked_once_more(tmp_path: Path) -> None:
    client, lives = _over(tmp_path, "die", "answer")
    try:
        assert _through(client, "x") == "fine"
        assert len(lives.read_text()) == 2
    finally:
        client.close()


def test_a_template_that_brings_each_process_down_is_at_fault(tmp_path: Path) -> None:
    client, lives = _over(tmp_path, "die")
    with pytest.raises(TemplateFailed, match="crashed"):
        _through(client, "x")
    assert len(lives.read_text()) == 2


def test_a_process_that_does_not_start_blames_no_template(tmp_path: Path) -> None:
    client, _ = _over(tmp_path, "no start")
    with pytest.raises(TemplateFailed, match="didn't start") as caught:
        _through(client, "x")
    assert AT_FAULT not in caught.value.sentence


def test_a_process_that_says_what_is_no_frame_is_a_sentence() -> None:
    """At once, and not when its deadline is over."""
    says = "import os, time; os.write(1, b'no frame of ours'); time.sleep(600)"
    client = TemplateClient(command=[sys.executable, "-c", says])
    with pytest.raises(TemplateFailed, match="didn't start"):
        _through(client, "x")


def test_a_command_that_does_not_exist_is_a_sentence() -> None:
    client = TemplateClient(command=["/does/not/exist"])
    with pytest.raises(TemplateFailed, match="couldn't be started"):
        _through(client, "x")


def test_two_threads_may_render_at_once(client: TemplateClient) -> None:
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(_through(client, f"{n}")))
        for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list("012345")
