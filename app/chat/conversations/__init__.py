"""The chats: which is open, its path through the tree of messages, drafts, folders, search.

What is on screen is never replaced by an older answer, and every change is in the store before it
is said to be saved.
"""
