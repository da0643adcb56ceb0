"""From logits to one token: the chain of samplers, grammars, what is banned, the draw.

Each stage is llama.cpp's own; this code decides their order, feeds them, and records what they did.
"""
