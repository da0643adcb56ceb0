"""What is known of weights files: those that were used, those on this machine, downloads.

Questions and changes, each in a transaction of the caller's; the files are never touched.
"""
