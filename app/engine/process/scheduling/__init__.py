"""Which request gets the next decode: admission, waiting, batches, threads, and writing.

One context for all. A request that waits is told so, and none waits for good.
"""
