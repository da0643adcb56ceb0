"""Which weights lie on this machine: where to look, what a folder holds, which files are one set.

Files are used in place and never changed.
"""
