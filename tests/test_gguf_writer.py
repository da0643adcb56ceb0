"""The files that other tests stand on: llama.cpp itself loads them and says what they should say.

The library runs in a child process, so that native code that aborts fails one test only.
"""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
from pathlib import Path

import gguf_writer
import pytest
from gguf_writer import (
    MAGIC,
    Tensor,
    Typed,
    Vocabulary,
    bpe_vocabulary,
    impostors,
    normal_numbers,
    spm_vocabulary,
    tiny_llama,
    truncated_copy,
    write_gguf,
)

# Reads a path, text to tokenise and a start token; prints what llama.cpp makes of them.
PROBE = """
import ctypes, json, sys
import llama_cpp as ll

path, text, first, steps = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), int(sys.argv[4])
silent = ll.llama_log_callback(lambda level, text, data: None)
ll.llama_log_set(silent, ctypes.c_void_p(0))
weights = ll.llama_model_load_from_file(path.encode(), ll.llama_model_default_params())
if not weights:
    print(json.dumps(None))
    sys.exit()
vocabulary = ll.llama_model_get_vocab(weights)
n_vocab = ll.llama_vocab_n_tokens(vocabulary)
ids = (ll.llama_token * 256)()
count = ll.llama_tokenize(vocabulary, text, len(text), ids, 256, True, True)
params = ll.llama_context_default_params()
params.n_ctx = 256
context = ll.llama_init_from_model(weights, params)
token, reply = first, []
for _ in range(steps):
    row = (ll.llama_token * 1)(token)
    assert ll.llama_decode(context, ll.llama_batch_get_one(row, 1)) == 0
    logits = ll.llama_get_logits_ith(context, -1)
    token = max(range(n_vocab), key=logits.__getitem__)
    reply.append(token)
print(json.dumps({
    "ids": list(ids[:count]),
    "reply": reply,
    "eog": [i for i in range(n_vocab) if ll.llama_vocab_is_eog(vocabulary, i)],
    "bos": ll.llama_vocab_bos(vocabulary),
    "template": (ll.llama_model_chat_template(weights, None) or b"").decode(),
}))
"""


def probe(path: Path, text: str = "", first: int = 0, steps: int = 1) -> dict | None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(path), text, str(first), str(steps)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.weights
@pytest.mark.parametrize("build", [bpe_vocabulary, spm_vocabulary])
def test_llama_cpp_tokenises_words_and_control_tokens_as_one(tmp_path, build):
    vocabulary = build()
    tiny_llama(tmp_path / "tiny.gguf", vocabulary=vocabulary)
    answer = probe(tmp_path / "tiny.gguf", "<|im_start|>user\n é hello<|im_end|>")
    expected = [vocabulary.id_of("<|im_start|>")]
    if vocabulary.model == "llama":
        # llama.cpp puts SentencePiece's space prefix behind a control token as well
        expected = [vocabulary.bos_id, *expected, vocabulary.id_of(" ")]
    expected += [vocabulary.id_of("user"), vocabulary.id_of_byte(0x0A), vocabulary.id_of(" ")]
    expected += [vocabulary.id_of_byte(byte) for byte in "é".encode()]
    expected += [vocabulary.id_of(" hello"), vocabulary.id_of("<|im_end|>")]
    assert answer["ids"] == expected
    assert answer["bos"] == vocabulary.bos_id
    assert answer["eog"] == sorted([vocabulary.eos_id, vocabulary.eot_id])
    assert "<|im_start|>" in answer["template"]


@pytest.mark.weights
@pytest.mark.parametrize("build", [bpe_vocabulary, spm_vocabulary])
def test_successors_are_what_llama_cpp_says(tmp_path, build):
    vocabulary = build()
    smile = [vocabulary.id_of_byte(byte) for byte in "🙂".encode()]
    said = [vocabulary.id_of(" world"), *smile, vocabulary.id_of(" Paris"), vocabulary.eot_id]
    first = vocabulary.id_of(" hello")
    successors = dict(zip([first, *said], said, strict=False))
    tiny_llama(tmp_path / "table.gguf", vocabulary=vocabulary, successors=successors)
    answer = probe(tmp_path / "table.gguf", first=first, steps=len(said) + 1)
    assert answer["reply"] == [*said, vocabulary.eos_id]


@pytest.mark.weights
def test_random_weights_repeat_by_seed_and_differ_between_seeds(tmp_path):
    replies = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        gguf_writer._random_tensors.cache_clear()
        tiny_llama(tmp_path / f"{name}.gguf", seed=seed)
        replies.append(probe(tmp_path / f"{name}.gguf", first=5, steps=12)["reply"])
    assert replies[0] == replies[1]
    assert replies[0] != replies[2]


@pytest.mark.weights
def test_llama_cpp_refuses_a_file_that_lacks_its_last_byte(tmp_path):
    layout = tiny_llama(tmp_path / "whole.gguf")
    start, size = layout.tensors["output.weight"]
    truncated_copy(tmp_path / "whole.gguf", tmp_path / "cut.gguf", start + size - 1)
    assert probe(tmp_path / "whole.gguf") is not None
    assert probe(tmp_path / "cut.gguf") is None


def test_layout_tells_where_the_parts_lie(tmp_path):
    path = tmp_path / "parts.gguf"
    layout = write_gguf(
        path,
        metadata={"a.number": 7, "general.architecture": None},
        tensors={"t": Tensor((2, 2), [1.0, 2.0, 3.0, 4.0])},
    )
    data = path.read_bytes()
    assert data[:4] == MAGIC
    assert struct.unpack_from("<IQQ", data, 4) == (3, 1, 1)
    assert data[layout.metadata_start + 8 :].startswith(b"a.number")
    assert data[layout.tensor_table_start :].startswith(struct.pack("<Q", 1) + b"t")
    start, size = layout.tensors["t"]
    assert start == layout.data_start
    assert start % 32 == 0
    assert struct.unpack("<4f", data[start : start + size]) == (1.0, 2.0, 3.0, 4.0)
    assert layout.size == len(data)
    cuts = layout.cut_points()
    assert {23, 24, layout.tensor_table_start - 1, start + size - 1} <= set(cuts)
    assert max(cuts) < layout.size


def test_the_header_can_lie(tmp_path):
    write_gguf(tmp_path / "lie.gguf", n_tensors=2**60, n_metadata=3, version=9)
    assert struct.unpack_from("<IQQ", (tmp_path / "lie.gguf").read_bytes(), 4) == (9, 2**60, 3)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (True, struct.pack("<I?", 7, True)),
        (5, struct.pack("<II", 4, 5)),
        (-5, struct.pack("<Ii", 5, -5)),
        (2**40, struct.pack("<IQ", 10, 2**40)),
        (0.5, struct.pack("<If", 6, 0.5)),
        ("é", struct.pack("<IQ", 8, 2) + "é".encode()),
        ([1, 2], struct.pack("<IIQii", 9, 5, 2, 1, 2)),
        (["a"], struct.pack("<IIQQ", 9, 8, 1, 1) + b"a"),
        (Typed("u64", 5), struct.pack("<IQ", 10, 5)),
        (Typed("array:f32", []), struct.pack("<IIQ", 9, 6, 0)),
        (Typed("raw", b"\xff"), b"\xff"),
    ],
)
def test_values_are_stored_with_their_type(tmp_path, value, stored):
    layout = write_gguf(tmp_path / "v.gguf", architecture=None, metadata={"k": value})
    data = (tmp_path / "v.gguf").read_bytes()
    assert data[layout.metadata_start : layout.tensor_table_start] == (
        struct.pack("<Q", 1) + b"k" + stored
    )


def test_ids_are_found_by_readable_text():
    for vocabulary in (spm_vocabulary([" word"]), bpe_vocabulary([" word"])):
        assert isinstance(vocabulary, Vocabulary)
        assert vocabulary.tokens[vocabulary.id_of(" word")] in ("\u2581word", "\u0120word")
        with pytest.raises(KeyError):
            vocabulary.id_of("nowhere")


def test_impostors_are_no_gguf_files(tmp_path):
    paths = impostors(tmp_path)
    assert paths["directory"].is_dir()
    for name, path in paths.items():
        if path.is_file():
            assert len(path.read_bytes()) <= 4 or not path.read_bytes().startswith(MAGIC), name


@pytest.mark.parametrize("count", [0, 1, 2, 7, 700])
def test_normal_numbers_are_those_that_are_drawn_one_by_one(count: int) -> None:
    """Also behind an odd number of them, and the source goes on as if it had drawn them."""
    at_once, one_by_one = random.Random(5), random.Random(5)
    for _ in range(3):
        found = normal_numbers(at_once, count, 0.2).tolist()
        assert found == pytest.approx([one_by_one.gauss(0.0, 0.2) for _ in range(count)])
        assert at_once.gauss(0.0, 1.0) == pytest.approx(one_by_one.gauss(0.0, 1.0))
        assert at_once.random() == one_by_one.random()
