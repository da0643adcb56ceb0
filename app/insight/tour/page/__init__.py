"""The tour of one token as a page: one HTML file, to be read anywhere.

`page.py` puts it together; `words.py`, `layers.py`, `choice.py` and `costs.py` make its pictures
from what `material.py` holds. What must hold: it loads nothing and runs nothing; whatever comes
from a model or a person is escaped (`markup.py`); no picture is there without the numbers that it
was made from, and what isn't known is a sentence; its size is bounded.
"""
