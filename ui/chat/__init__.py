"""The column of the chat: header, composer, editors, find bar, versions, text mode.

What somebody types is never lost, whatever comes on screen.
"""
