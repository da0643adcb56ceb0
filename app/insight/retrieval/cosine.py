"""How well parts of a text fit a question, by the directions of their vectors.

An embedding model turns a text into a vector that points where texts of the same meaning point, so
"How deep is the port?" finds a harbour's depth without sharing a word with it. The cosine of the
angle between two vectors is the measure: 1 the same direction, 0 at right angles.

    cos = a · b / (|a| · |b|)
"""

from __future__ import annotations

from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]


def cosines(parts: Floats, question: Floats) -> list[float]:
    """Of each part's vector [n, d] with the question's [d]; 0 where one of them has no length.

    >>> cosines(np.array([[2, 0], [0, 3], [1, 1]], "f4"), np.array([1, 0], "f4"))
    [1.0, 0.0, 0.7071067690849304]
    """
    lengths = np.linalg.norm(parts, axis=1) * np.linalg.norm(question)
    products = parts @ question
    found = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return [float(cosine) for cosine in found]
