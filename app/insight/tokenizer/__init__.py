"""How a text becomes tokens: merges and Unigram replayed from the file; the vocabulary searched.

Shown only where the replay ends in the IDs that llama.cpp gave.
"""
