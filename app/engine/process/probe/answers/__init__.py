"""What can be asked about the network besides one position's arrays, a file for each: who wrote a
token, what heads do, the embedding, rotations, where a step's time goes, flash attention.

Each is a generator: a slice for each `next`, None while there is more to do, then the answer; it
raises Refusal. `room.py` runs them beside replies.
"""
