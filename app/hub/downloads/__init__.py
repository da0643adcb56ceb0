"""Downloads: the queue, one run, one transfer, its partial file, its place on the disk.

What was fetched survives any ending, and a name is given only to what is whole and hashed.
"""
