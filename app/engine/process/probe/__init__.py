"""The network while it computes: what one token becomes on its way from vector to vote.

A context of its own, with llama.cpp's evaluation callback, replays one position of a text. `graph`
finds out from a graph's own structure which node is what, so that no architecture is listed by
name; `watch` is the callback; `probe` owns the context. What must hold: nothing that a reply uses
is touched, and a probe that fails harms none; what a graph does not offer is missing, for a reason.
"""
