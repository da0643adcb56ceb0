"""Pictures that people bring along: what they are, made ready for a model, drawn for the window.

No picture's bytes are decoded in the window's process, nor is anything of them read but the first
few: `child.py` does it, in a process with a limit of memory and a deadline (`client.py`), with
Pillow, which is imported nowhere else. What comes back are pixels, or a PNG or JPEG of ours.
"""
