"""Arithmetic on what is seen inside the network: numpy, no Qt, no llama.cpp.

What must hold: every number follows from arrays that the engine told (`inside_messages`), and says
by which formula.
"""
