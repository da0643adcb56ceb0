"""Pictures in the window: small ones for lists and messages, a window to look at one.

Nothing here decodes a picture's bytes: `app/pictures` does, in a process of its own, and pixels
come back. What is shown is asked for when it is painted, and no more than a bound is held.
"""
