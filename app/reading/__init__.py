"""Documents that people attach (PDF and others), read by a process of its own.

A document is somebody else's data for parsers that were written for friends. So each is read in a
process that lives for it alone, has a limit of memory and of time, may write no file, start no
program and open no connection, and says either a text with its places or one sentence. What must
hold: whatever the file is, the window goes on, and nothing of it is run.
"""
