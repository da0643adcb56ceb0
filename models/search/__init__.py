"""Full-text search over all chats: the index, the query's language, snippets.

Newest first, in slices of time, so that a million messages never hold a reader up.
"""
