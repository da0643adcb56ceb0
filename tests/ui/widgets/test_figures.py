"""Figures as people read them."""

from __future__ import annotations

import doctest

import pytest
from recording_desk import loaded

from app.engine.protocol.loading_messages import MemoryPart
from ui.widgets import figures
from ui.widgets.figures import device_text, loaded_text, network_text, quantisation, window_text


def test_the_examples_of_the_docstrings_hold() -> None:
    result = doctest.testmod(figures)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("llama 134M Q4_1", "Q4_1"),
        ("qwen3 8B Q4_K - Medium", "Q4_K_M"),
        ("llama 1B IQ2_XS - 2.3125 bpw", "IQ2_XS"),
        ("gemma3 270M BF16", "BF16"),
        ("gpt-oss 20B MXFP4 MoE", "MXFP4"),
        ("llama all F32", "F32"),
        ("something else", ""),
    ],
)
def test_the_number_format_is_read_from_llama_cpps_description(description: str, name: str) -> None:
    assert quantisation(description) == name


def test_the_weights_stand_in_one_line() -> None:
    assert loaded_text("SmolLM2 135M (included)", loaded()) == "SmolLM2 135M · Q4_1 · 4k"
    assert loaded_text("gemma-3-Q4_1", loaded(n_ctx=1000)) == "gemma-3-Q4_1 · 1,000"
    assert loaded_text("", loaded(description="?")) == "SmolLM2 135M · 4k"


def test_the_device_says_how_much_of_the_network_is_on_it() -> None:
    parts = [MemoryPart("CPU", "weights", 1), MemoryPart("CUDA0", "weights", 1)]
    assert device_text(loaded()) == "CPU"
    assert device_text(loaded(memory=parts, n_gpu_layers=20)) == "CUDA0 · 20 of 30 layers"
    assert device_text(loaded(memory=parts, n_gpu_layers=31)) == "CUDA0"
    assert device_text(loaded(memory=parts, n_gpu_layers=0)) == "CPU"


def test_no_window_is_said_as_it_is() -> None:
    assert window_text(0) == "0"


def test_parameters_are_counted_and_not_looked_up_by_layers() -> None:
    """llama.cpp calls every llama of 30 layers “256M”."""
    assert network_text(loaded(description="llama 256M Q4_1")) == "llama 135M Q4_1"
