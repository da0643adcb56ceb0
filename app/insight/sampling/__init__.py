"""What the stages of the chain did to a token, and what other settings would have done.

Redone from the recorded candidates by the formulas of llama.cpp, against which tests compare it.
"""
