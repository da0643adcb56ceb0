"""Tools in the chat: which servers there are and what of theirs is offered (`servers`), the calls
of a reply on their way to results (`turns`), and how a result stands in a message (`results`).

What must hold: nothing runs that nobody has allowed; a result belongs to one call of one reply, and
is dropped where that is gone.
"""
