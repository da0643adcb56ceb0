"""The store: opening the database, its two threads, backups, and what is saved of a damaged one.

One writer in order, one reader; what was said to be saved is on the disk.
"""
