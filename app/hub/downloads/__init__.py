"""Downloads: the queue, one run, one transfer, its partial file, its place on the disk.

    asked for → a row of the database, before the first byte (queue)
    → fetched beside the final place, and hashed (run, transfer, partial)
    → size and SHA-256 fit → fsync → the final name → found by the library as any other file

What was fetched survives any ending, and a name is given only to what is whole and hashed.
"""
