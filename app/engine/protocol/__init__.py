"""All that the window and the engine's process say to each other, and the frames that it goes in.

Only plain values. Both sides import this folder, and it imports neither of them.
"""
