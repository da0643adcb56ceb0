"""Arithmetic on traces and probes: pure functions, numpy in, numpy out."""
