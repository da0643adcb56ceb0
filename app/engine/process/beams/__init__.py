"""Beam search: the best few continuations of a text, side by side in one batch.

`search` is the algorithm on rows of scores, without llama.cpp; `room` decodes for it.
"""
