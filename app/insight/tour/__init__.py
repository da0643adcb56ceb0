"""Facts of one token: the figures of the pipeline's line, of the tour and of its page.

What must hold: a fact is measured, read or follows from what was; one that isn't known isn't there.
"""
