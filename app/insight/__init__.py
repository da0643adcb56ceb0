"""Arithmetic on traces and probes: pure functions, numbers in, numbers out."""
