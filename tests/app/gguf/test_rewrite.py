"""Corrected copies: other metadata, the same tensors, whatever else happens."""

from __future__ import annotations

import errno
import os
import stat
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import Layout, Tensor, Typed, tiny_llama, write_gguf

from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Finished, Generate
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, TextPrompt
from app.engine.protocol.stages import Greedy, Sampling
from app.gguf import rewrite
from app.gguf.header import read_header
from app.gguf.rewrite import write_copy
from app.gguf.source import FileSource
from app.gguf.values import NewValue, text_of_value, value_typed
from app.refusal import Refusal

CHANGES = {
    "general.name": value_typed(
        "string", "Ein längerer Name 模型 🙂, which moves all that follows"
    ),
    "llama.context_length": value_typed("uint32", "1024"),
    "tokenizer.ggml.add_bos_token": None,
    "general.languages": value_typed("array of string", '["de", "en"]'),
    "notes.ratio": value_typed("float32", "0.5"),
}


@pytest.fixture
def original(tmp_path: Path) -> Path:
    tiny_llama(tmp_path / "original.gguf")
    return tmp_path / "original.gguf"


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def tensor_bytes(path: Path) -> dict[str, bytes]:
    header, data = read_header(path), path.read_bytes()
    starts = {tensor.name: header.data_offset + tensor.offset for tensor in header.tensors}
    return {t.name: data[starts[t.name] : starts[t.name] + t.size_bytes] for t in header.tensors}


@pytest.mark.parametrize("alignment", [32, 64, 4096])
def test_a_copy_has_the_changes_and_the_same_tensors(tmp_path: Path, alignment: int) -> None:
    original, copy = tmp_path / "original.gguf", tmp_path / "copy.gguf"
    tiny_llama(original, alignment=alignment)
    before = original.read_bytes()
    returned = write_copy(original, copy, CHANGES)
    old, new = read_header(original), read_header(copy)
    assert returned == new
    wanted = dict(old.metadata)
    wanted |= {key: value.value for key, value in CHANGES.items() if value is not None}
    del wanted["tokenizer.ggml.add_bos_token"]
    assert new.metadata == wanted
    assert list(new.entries)[: len(old.entries) - 1] == [
        key for key in old.entries if key != "tokenizer.ggml.add_bos_token"
    ]
    assert new.data_offset % alignment == 0
    assert new.table_end != old.table_end
    assert new.tensors == old.tensors
    assert tensor_bytes(copy) == tensor_bytes(original)
    assert original.read_bytes() == before
    assert left_in(tmp_path) == {"original.gguf", "copy.gguf"}


def test_the_gguf_package_reads_the_same(original: Path, tmp_path: Path) -> None:
    from gguf import GGUFReader

    copy = tmp_path / "copy.gguf"
    write_copy(original, copy, CHANGES)
    old, new = GGUFReader(original), GGUFReader(copy)
    assert [t.name for t in new.tensors] == [t.name for t in old.tensors]
    for ours, theirs in zip(new.tensors, old.tensors, strict=True):
        assert ours.data_offset % new.alignment == 0
        assert ours.tensor_type == theirs.tensor_type
        assert ours.data.tobytes() == theirs.data.tobytes()
    assert new.fields["general.name"].contents() == CHANGES["general.name"].value
    assert new.fields["general.languages"].contents() == ["de", "en"]
    assert new.fields["notes.ratio"].contents() == 0.5
    untouched = "tokenizer.ggml.tokens"
    assert new.fields[untouched].contents() == old.fields[untouched].contents()
    assert "tokenizer.ggml.add_bos_token" not in new.fields


def test_an_unchanged_copy_is_the_same_file(original: Path, tmp_path: Path) -> None:
    write_copy(original, tmp_path / "copy.gguf", {})
    assert (tmp_path / "copy.gguf").read_bytes() == original.read_bytes()


def test_text_that_is_no_utf8_stays_as_it_is(tmp_path: Path) -> None:
    original = tmp_path / "original.gguf"
    write_gguf(original, metadata={"a.odd": b"\xff\xfe\x80", "general.name": "x"})
    write_copy(original, tmp_path / "copy.gguf", {"general.name": value_typed("string", "longer")})
    assert b"\xff\xfe\x80" in (tmp_path / "copy.gguf").read_bytes()


def test_a_file_without_tensors_or_keys(tmp_path: Path) -> None:
    original = tmp_path / "original.gguf"
    write_gguf(original, architecture=None)
    header = write_copy(original, tmp_path / "copy.gguf", {"a.b": value_typed("bool", "true")})
    assert header.metadata == {"a.b": True}


@pytest.mark.weights
def test_the_engine_loads_the_copy_and_says_the_same(
    forked_engines: None, made_gguf: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.gguf"
    changes = {
        "general.name": value_typed("string", "A copy"),
        "tokenizer.chat_template": value_typed("string", "Say {{ messages[0].content }} again:"),
    }
    write_copy(made_gguf, copy, changes)
    plain = TextPrompt("The capital of France is")
    chat = ChatPrompt([ChatMessage("user", "one two three")])
    greedy = Sampling(filters=[], select=Greedy())
    said = []
    engine = Engine(child_command("engine"), lambda _: None)
    try:
        for path in (made_gguf, copy):
            loaded = engine.wait_for(engine.load(path, LoadOptions(n_ctx=256, n_threads=1)), 60)
            assert isinstance(loaded, Finished)
            for prompt in (plain, chat):
                request = engine.generate(Generate(0, prompt, greedy, max_tokens=3))
                ending = engine.wait_for(request, 60)
                assert isinstance(ending, Finished)
                said.append((loaded.result.name, ending.result.prompt_tokens, ending.result.text))
    finally:
        engine.close()
    (name, _, text), (_, by_template, _), (new_name, _, same_text), (_, by_new, _) = said
    assert text == same_text != ""
    assert new_name == "A copy" != name
    assert by_new != by_template


# --- what ends it -------------------------------------------------------------------------------


def refused(original: Path, target: Path, changes: Any = CHANGES, **options: Any) -> Refusal:
    """The refusal; nothing is changed or left by it."""
    before = {path: path.read_bytes() for path in target.parent.glob("*") if path.is_file()}
    with pytest.raises(Refusal) as caught:
        write_copy(original, target, changes, **options)
    after = {path: path.read_bytes() for path in target.parent.glob("*") if path.is_file()}
    assert after == before
    return caught.value


def test_nothing_is_overwritten(original: Path, tmp_path: Path) -> None:
    assert "the original file" in refused(original, original).sentence
    other = tmp_path / "other.gguf"
    other.write_bytes(b"mine")
    assert "exists" in refused(original, other).sentence
    link = tmp_path / "link.gguf"
    link.symlink_to(tmp_path / "nowhere.gguf")
    assert "exists" in refused(original, link).sentence
    assert link.is_symlink()


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_gets_the_name_meanwhile_stays(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    target = tmp_path / "copy.gguf"
    if not has_links:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError(1, "no")))

    def on_progress(done: int, total: int) -> None:
        if done == total:
            target.write_bytes(b"mine")

    with pytest.raises(Refusal, match="exists"):
        write_copy(original, target, CHANGES, on_progress=on_progress)
    assert target.read_bytes() == b"mine"
    assert left_in(tmp_path) == {"original.gguf", "copy.gguf"}


def test_a_disk_without_hard_links(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(errno.EOPNOTSUPP, "")))
    write_copy(original, tmp_path / "copy.gguf", CHANGES)
    assert tensor_bytes(tmp_path / "copy.gguf") == tensor_bytes(original)
    assert left_in(tmp_path) == {"original.gguf", "copy.gguf"}


@pytest.mark.parametrize("after", [0, 1, 20])
def test_cancelling_leaves_nothing(original: Path, tmp_path: Path, after: int) -> None:
    asked = iter(range(1000))
    error = refused(original, tmp_path / "copy.gguf", is_cancelled=lambda: next(asked) >= after)
    assert error.kind == "cancelled"


def test_progress_ends_at_the_whole(original: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    write_copy(
        original, tmp_path / "copy.gguf", CHANGES, on_progress=lambda *pair: told.append(pair)
    )
    size = (tmp_path / "copy.gguf").stat().st_size
    assert told[-1] == (size, size)
    assert told == sorted(told)


def test_space_is_asked_for_before(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(rewrite.shutil, "disk_usage", lambda _: usage(1 << 40, 1 << 40, 63 << 20))
    sentence = refused(original, tmp_path / "copy.gguf").sentence
    assert "MB, but only 66.1 MB are free" in sentence
    assert "Free some space" in sentence


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "is full"),
        (errno.EROFS, "Can't save in"),
        (errno.EFBIG, "too large for the file system"),
        (errno.EIO, "couldn't be saved"),
    ],
)
def test_a_disk_that_fails_on_the_way(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    assert words in refused(original, tmp_path / "copy.gguf").sentence


def test_an_original_that_cannot_be_read_to_its_end(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, data_offset = FileSource.read_at, read_header(original).data_offset

    def read_at(self: FileSource, offset: int, count: int) -> bytes:
        if offset >= data_offset:
            raise OSError(errno.EIO, "Input/output error")
        return whole(self, offset, count)

    monkeypatch.setattr(FileSource, "read_at", read_at)
    assert "couldn't be read completely" in refused(original, tmp_path / "copy.gguf").sentence


def test_original_that_changes_meanwhile(original: Path, tmp_path: Path) -> None:
    def on_progress(done: int, total: int) -> None:
        if done == total:
            os.utime(original, ns=(1, 1))

    error = refused(original, tmp_path / "copy.gguf", on_progress=on_progress)
    assert "changed while" in error.sentence


def test_places_that_cannot_be(original: Path, tmp_path: Path) -> None:
    assert "doesn't exist" in refused(original, tmp_path / "none" / "copy.gguf").sentence
    assert "end in .gguf" in refused(original, tmp_path / "copy.bin").sentence
    assert "too long" in refused(original, tmp_path / ("x" * 251 + ".gguf")).sentence


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("general.alignment", "depend on it"),
        ("split.count", "split"),
        ("", "letters"),
        ("a b", "letters"),
        ("Ž", "letters"),
        ("x" * 201, "letters"),
    ],
)
def test_keys_that_cannot_be_changed(original: Path, tmp_path: Path, key: str, words: str) -> None:
    changes = {key: value_typed("uint32", "64")}
    assert words in refused(original, tmp_path / "copy.gguf", changes).sentence


def test_parts_and_damaged_files_have_no_copy(tmp_path: Path) -> None:
    part = tmp_path / "big-00001-of-00002.gguf"
    write_gguf(part, metadata={"split.count": Typed("u16", 2), "split.no": Typed("u16", 0)})
    assert "Join them" in refused(part, tmp_path / "copy.gguf").sentence
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(part.read_bytes()[:50])
    assert "incomplete" in refused(cut, tmp_path / "copy.gguf").sentence
    assert "no longer exists" in refused(tmp_path / "gone.gguf", tmp_path / "copy.gguf").sentence


def test_the_copy_may_be_read_by_those_who_may_read_the_original(
    original: Path, tmp_path: Path
) -> None:
    original.chmod(0o444)
    write_copy(original, tmp_path / "copy.gguf", {})
    assert stat.S_IMODE((tmp_path / "copy.gguf").stat().st_mode) == 0o644


def test_a_copy_that_is_not_what_was_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = tmp_path / "original.gguf"
    layout: Layout = write_gguf(original, tensors={"t": Tensor((4,), [1.0] * 4)})
    assert layout.size
    other = tmp_path / "other.gguf"
    write_gguf(other, tensors={"u": Tensor((4,), [1.0] * 4)})
    monkeypatch.setattr(rewrite, "read_header", lambda *_, **__: read_header(other))
    assert "was deleted" in refused(original, tmp_path / "copy.gguf").sentence


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("uint8", "255", 255),
        ("int8", " -128 ", -128),
        ("uint64", str(2**64 - 1), 2**64 - 1),
        ("uint32", "32,768", 32768),
        ("bool", "No", False),
        ("float64", "1e300", 1e300),
        ("string", "  as it is\n", "  as it is\n"),
        ("array of string", '["a", "ž"]', ["a", "ž"]),
        ("array of int32", "[1, -2]", [1, -2]),
        ("array of float32", "[1, 0.5]", [1.0, 0.5]),
        ("array of bool", "[true]", [True]),
        ("array of uint8", "[]", []),
    ],
)
def test_values_are_typed_and_read_back(kind: str, text: str, value: Any, tmp_path: Path) -> None:
    new = value_typed(kind, text)
    assert new.value == value
    assert value_typed(kind, text_of_value(new.value)) == new
    original, copy = tmp_path / "original.gguf", tmp_path / "copy.gguf"
    write_gguf(original)
    write_copy(original, copy, {"a.key": new})
    read = read_header(copy, keep_arrays=frozenset({"a.key"}))
    assert read.metadata["a.key"] == value
    assert read.entries["a.key"].kind_name == kind


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("uint8", "256"),
        ("uint8", "-1"),
        ("int8", "128"),
        ("uint32", "1.5"),
        ("uint32", ""),
        ("int64", str(2**63)),
        ("uint32", "9" * 5000),
        ("bool", "maybe"),
        ("float32", "1e300"),
        ("float64", "nan"),
        ("float64", "inf"),
        ("string", "\ud800"),
        ("string", "x" * (1 << 21)),
        ("array of string", "[1]"),
        ("array of uint8", "[256]"),
        ("array of uint8", "[true]"),
        ("array of float32", '["1"]'),
        ("array of int32", "1, 2"),
        ("array of int32", "{}"),
        ("array of int32", "[" * 100_000),
        ("array of int32", "[" + "1," * 5000 + "1]"),
    ],
)
def test_values_that_cannot_be(kind: str, text: str) -> None:
    with pytest.raises(Refusal) as caught:
        value_typed(kind, text)
    assert str(caught.value).endswith(".")


def test_encoded_as_the_writer_of_the_tests_does(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    write_gguf(path, metadata={"a.key": Typed("array:i16", [-1, 5])})
    assert NewValue(9, 3, [-1, 5]).encoded() in path.read_bytes()
