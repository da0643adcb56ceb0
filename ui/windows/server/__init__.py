"""The server of one's own in the window: its switch and mark, what it was asked, and the words of a
request that is looked at as a chat. What must hold: the address that is shown is the one that is
listened on, and a key is on screen only while somebody looks at the page that it was made on.
"""
