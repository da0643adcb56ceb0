"""How weights are quantised: told from a file's name, and about how many bits that takes.

A name can lie, and a hub has nothing else before the header is read. What a header says is in
`facts.py`.
"""

from __future__ import annotations

import re
from typing import Final

from app.gguf.tensor_types import TENSOR_TYPES

FILE_TYPES: Final[dict[int, str]] = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
}
"""`general.file_type` (llama.cpp's `enum llama_ftype`) → the name that people use."""

GUESSED: Final = 1024
"""Added to `general.file_type` where the converter guessed it."""

_NAME: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:UD[-_])?(?:"
    r"I?Q[1-8]_(?:K(?:_(?:XXS|XS|S|M|L|XL))?|XXS|XS|S|M|NL|XL|[01](?:_(?:4_4|4_8|8_8))?)"
    r"|TQ[12]_0|MXFP4(?:_MOE)?|NVFP4|BF16|FP?16|FP?32"
    r")(?![A-Za-z0-9])",
    re.IGNORECASE,
)

_MIXED_BITS: Final[dict[str, float]] = {
    "IQ1_S": 2.00,
    "IQ1_M": 2.15,
    "IQ2_XXS": 2.38,
    "IQ2_XS": 2.59,
    "IQ2_S": 2.74,
    "IQ2_M": 2.93,
    "IQ3_XXS": 3.25,
    "IQ3_XS": 3.50,
    "IQ3_S": 3.66,
    "IQ3_M": 3.76,
    "IQ4_XS": 4.46,
    "IQ4_NL": 4.68,
    "Q2_K_S": 2.97,
    "Q2_K": 3.16,
    "Q2_K_L": 3.30,
    "Q2_K_XL": 3.40,
    "Q3_K_S": 3.64,
    "Q3_K": 4.00,
    "Q3_K_M": 4.00,
    "Q3_K_L": 4.30,
    "Q3_K_XL": 4.30,
    "Q4_0": 4.66,
    "Q4_1": 5.15,
    "Q4_K_S": 4.67,
    "Q4_K": 4.89,
    "Q4_K_M": 4.89,
    "Q4_K_L": 5.00,
    "Q4_K_XL": 5.00,
    "Q5_0": 5.61,
    "Q5_1": 6.10,
    "Q5_K_S": 5.57,
    "Q5_K": 5.70,
    "Q5_K_M": 5.70,
    "Q5_K_L": 5.80,
    "Q5_K_XL": 5.80,
    "Q6_K": 6.56,
    "Q6_K_L": 6.70,
    "Q6_K_XL": 7.00,
    "Q8_K_XL": 10.0,
}
"""Bits per weight of a whole file: embeddings and the last layer keep more bits than the rest.
The figures of llama.cpp's `tools/quantize/README.md` for an 8B, rounded; _L and _XL, which are
other people's mixes, by the size of such files. A small file has more: its embeddings weigh more.
"""


def quantisation_in_name(name: str) -> str:
    """The quantisation that a file or tag is named after, in capitals; "" if none.

    >>> quantisation_in_name("Qwen3-4B-UD-Q4_K_XL.gguf"), quantisation_in_name("x.i1-iq2_xxs.gguf")
    ('UD-Q4_K_XL', 'IQ2_XXS')
    """
    found = [match[0].upper() for match in _NAME.finditer(name)]
    if not found:
        return ""
    text = found[-1].replace("UD_", "UD-")
    return {"FP16": "F16", "FP32": "F32"}.get(text, text)


def nominal_bits(quantisation: str) -> float | None:
    """About how many bits a weight takes in a file of this quantisation; None if unknown.

    >>> nominal_bits("UD-Q4_K_XL"), nominal_bits("F16"), nominal_bits("")
    (5.0, 16.0, None)
    """
    plain = quantisation.upper().removeprefix("UD-").removesuffix("_MOE")
    if plain in _MIXED_BITS:
        return _MIXED_BITS[plain]
    for kind in TENSOR_TYPES.values():
        if kind.name == plain:
            return 8 * kind.block_bytes / kind.block_elements
    return None
