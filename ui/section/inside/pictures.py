"""Arrays as pictures: one numpy expression for all pixels, and one QImage.

    signed_image(vector[None, :], colors, full=…)    below 0 ochre, 0 the card, above 0 the accent
    share_image(rows, colors, full=…)                from the card to the accent

A picture has a pixel per number, and is painted enlarged without smoothing, so that it shows what
is there and nothing between.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PySide6.QtGui import QColor, QImage

from ui.look.colors import Colors

Values = npt.NDArray[np.float32]


def signed_image(values: Values, colors: Colors, full: float) -> QImage:
    """[height, width] numbers; `full` and more in either direction has the whole colour. What is
    not a number shows the plane behind."""
    strength = np.clip(np.nan_to_num(values) / max(full, 1e-30), -1, 1)[..., None]
    plane, plus, minus = (_rgb(each) for each in (colors.card, colors.accent, colors.second))
    return _image(plane + np.abs(strength) * (np.where(strength < 0, minus, plus) - plane))


def share_image(values: Values, colors: Colors, full: float = 1.0) -> QImage:
    """[height, width] numbers from 0 to `full`."""
    strength = np.clip(np.nan_to_num(values) / max(full, 1e-30), 0, 1)[..., None]
    plane, plus = _rgb(colors.card), _rgb(colors.accent)
    return _image(plane + strength * (plus - plane))


def _rgb(color: str) -> npt.NDArray[np.float32]:
    found = QColor(color)
    return np.array([found.red(), found.green(), found.blue()], np.float32)


def _image(rgb: npt.NDArray[np.float32]) -> QImage:
    """[height, width, 3] from 0 to 255."""
    height, width, _ = rgb.shape
    pixels = np.empty((height, width, 4), np.uint8)
    pixels[..., :3] = np.rint(rgb[..., ::-1])
    pixels[..., 3] = 255
    image = QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_RGB32)
    return image.copy()  # the array goes, the picture stays
