"""Which parts of a long text fit a question: cut, scored, chosen.

`chunks.py` cuts a text where it has borders, `terms.py` and `bm25.py` compare words, `cosine.py`
compares vectors, and `choice.py` takes the best ones that fit, in the order of the text.
"""
