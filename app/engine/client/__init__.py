"""The window's side of the engine: its process, its supervisor, and who waits for what.

The child is not trusted: frames are checked, silence and endings become sentences, and each
request has exactly one ending.
"""
