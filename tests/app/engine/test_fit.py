"""Whether weights fit, against sums made by hand."""

from __future__ import annotations

from app.engine.fit import Verdict, rough_fit
from app.engine.placement import GIB, DeviceMemory


def host(free: float, total: float = 32) -> DeviceMemory:
    return DeviceMemory("CPU", "a processor", "cpu", int(free * GIB), int(total * GIB))


def gpu(free: float, total: float = 24, name: str = "CUDA0") -> DeviceMemory:
    return DeviceMemory(name, "a device", "gpu", int(free * GIB), int(total * GIB))


def test_rough_by_size_alone() -> None:
    assert rough_fit(4 * GIB, [host(8)]).verdict is Verdict.FITS
    assert rough_fit(8 * GIB, [host(8)]).verdict is Verdict.FITS_NOT
    assert rough_fit(8 * GIB, [host(8), gpu(20)]).verdict is Verdict.FITS
    in_part = rough_fit(20 * GIB, [host(20), gpu(8)])
    assert in_part.verdict is Verdict.FITS_LESS
    for fit in (in_part, rough_fit(1, [])):
        assert fit.is_rough
        assert "probably" in fit.words
        assert "size alone" in fit.why
