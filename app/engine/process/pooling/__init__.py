"""Vectors of whole texts, in a context of their own, in slices between the steps of replies.

Nothing here touches a slot or a cell of a chat; the context is freed as soon as it has answered.
"""
