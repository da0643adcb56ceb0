"""A picture from a Cutaway through another one's server to a projector of llama.cpp's."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_talk import PATIENCE_S
from serving import Served, serving
from small_networks import small_network
from small_projectors import png, small_projector

from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.protocol.loading_messages import BESIDE, LoadOptions
from app.engine.protocol.media_messages import Media
from app.engine.protocol.messages import Failed, Finished, Generate, Summary
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.remote_messages import EngineAddress, remote_path
from app.engine.remote.engine import Reach, RemoteEngine
from app.hub.gate import Gate

pytestmark = pytest.mark.soak
CELLS = 16
PICTURE = png(40, 30)


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The engine finds the projector itself: it lies beside the weights."""
    folder: Path = tmp_path_factory.mktemp("seeing")
    small_network(folder / "tiny-VL.gguf", "grouped")
    small_projector(folder / "mmproj-tiny-VL.gguf", "mlp")
    engine = Engine(child_command("engine"), lambda _: None)
    try:
        loading = engine.load(
            folder / "tiny-VL.gguf", LoadOptions(n_ctx=512, n_threads=1), projector=BESIDE
        )
        assert isinstance(engine.wait_for(loading, PATIENCE_S), Finished)
        with serving(engine) as served:
            yield served
    finally:
        engine.close()


def test_its_cells_are_counted_by_who_asks_over_http(seeing: Served) -> None:
    counts = []
    url = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
    picture = {"type": "image_url", "image_url": {"url": url}}
    for parts in ([], [picture], [picture, picture]):
        content = [{"type": "text", "text": "Hello"}, *parts]
        body = {"messages": [{"role": "user", "content": content}], "max_tokens": 2}
        answer = seeing.ask("/v1/chat/completions", body)
        assert answer.status == 200, answer.body
        counts.append(answer.json["usage"]["prompt_tokens"])
    assert [count - counts[0] for count in counts] == [0, CELLS, 2 * CELLS]
    damaged = PICTURE[:40]
    url = f"data:image/png;base64,{base64.b64encode(damaged).decode()}"
    body = {"messages": [{"role": "user", "content": [{**picture, "image_url": {"url": url}}]}]}
    answer = seeing.ask("/v1/chat/completions", body)
    assert (answer.status, answer.error["code"]) == (400, "bad_media")


def test_and_by_another_cutaway(seeing: Served) -> None:
    gate = Gate()
    gate.let_here(lets=True)
    address = EngineAddress("e1", "Mine", seeing.server.address, "e1")
    engine = RemoteEngine(Reach(gate, lambda _: address, lambda _: None), lambda _: None)
    try:
        engine.wait_for(engine.load(remote_path("e1", "tiny-VL")), PATIENCE_S)
        assert engine.loaded is not None
        assert engine.loaded.remote is not None
        assert engine.loaded.remote.can("images")
        assert "takes no sounds" in engine.loaded.remote.why_not("audio")
        said = ChatMessage("user", "Hello", media=[Media("p", "image", PICTURE, 5)])
        ending = engine.wait_for(
            engine.generate(Generate(0, ChatPrompt([said]), max_tokens=2)), PATIENCE_S
        )
        assert not isinstance(ending, Failed), ending
        assert isinstance(ending.result, Summary)
        (got,) = seeing.generates()[-1].prompt.messages[-1].media
        assert (got.data, got.at) == (PICTURE, 5)
    finally:
        engine.close()
        gate.shut_down()
