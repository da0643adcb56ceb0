"""What a load needs and where it fits: sizes, devices, memory. Pure arithmetic, on both sides.

The window and the engine plan with the same code, so that what was promised is what is loaded.
"""
