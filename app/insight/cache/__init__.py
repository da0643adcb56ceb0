"""The KV cache as panels show it: its cells in order, and what they cost."""
