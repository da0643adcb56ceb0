"""Templates through their process: hostile ones cost a sentence, and nothing is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from app.engine.template_client import TemplateClient, TemplateFailed

HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def client() -> Iterator[TemplateClient]:
    client = TemplateClient(deadline_s=1.0)
    yield client
    client.close()


def _through(client: TemplateClient, source: str) -> str:
    return client.render(source, HELLO, bos_token="", eos_token="", add_generation_prompt=True)


def test_the_process_renders_and_goes(client: TemplateClient) -> None:
    before = {child.pid for child in psutil.Process().children()}
    client.start()
    assert _through(client, "{{ messages[0].content }}") == "Hello"
    with pytest.raises(TemplateFailed, match="line 1"):
        _through(client, "{{ x | nonsense }}")
    client.close()
    assert {child.pid for child in psutil.Process().children()} <= before
    assert not [t for t in threading.enumerate() if t.name.startswith("engine-")]
    assert _through(client, "again") == "again"


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
    with pytest.raises(TemplateFailed) as caught:
        _through(client, source)
    assert caught.value.kind == kind
    assert time.monotonic() - began < 20
    assert _through(client, "fine") == "fine"


def test_a_process_that_dies_is_a_sentence(client: TemplateClient) -> None:
    client.start()
    assert _through(client, "x") == "x"
    for child in psutil.Process().children():
        if "--child=templates" in child.cmdline():
            child.kill()
            child.wait(5)
    with pytest.raises(TemplateFailed, match="brought its process down"):
        _through(client, "x")
    assert _through(client, "y") == "y"


def test_a_command_that_does_not_exist_is_a_sentence() -> None:
    client = TemplateClient(command=["/does/not/exist"])
    with pytest.raises(TemplateFailed, match="could not be started"):
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
