"""Speculative decoding: who proposes tokens, and how many are worth a larger pass.

What must hold: a proposal never decides anything. Each token is drawn from the target's own
scores by the reply's own chain (`scheduling/writing.py`), so text, seed and trace are those of a
reply without drafts; only the time differs.
"""
