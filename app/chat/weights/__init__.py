"""Weights: loading them, what is set for single files, what fits, what lies on this machine.

One load at a time. What the engine says of a load counts for that load alone.
"""
