"""Questions searched in attached documents, within one chat: which parts fit, and go in.

`search.py` finds parts of one text, `draft.py` keeps those of the composer up to date as the
question is typed, `sending.py` settles them before a reply is asked for. What must hold: a message
is stored and shown before anything is searched for it, and what went in is stored with it.
"""
