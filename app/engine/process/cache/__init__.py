"""The cells of the KV cache: who holds them, what is shared, parked, given up or copied.

Every cell that llama.cpp holds is accounted for here; a reply keeps its own until it has ended.
"""
