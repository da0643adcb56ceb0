"""Whether what is shown must take its time from what is computed."""

from __future__ import annotations

import os
from typing import Final

HAS_FEW: Final = (os.cpu_count() or 1) <= 2
"""On so many the threads that decode have no core that they need not share."""
