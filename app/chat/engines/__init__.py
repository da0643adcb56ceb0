"""Servers that answer in this machine's place: their list, keys, and what they said of themselves.

What must hold: the window waits for none of them, a key is in the keyring or in memory alone, and
what is shown of a server it said in this run.
"""
