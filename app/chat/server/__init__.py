"""The server of one's own as the window has it: its switch, a log of what it was asked, and each of
these looked at as a chat. What it answers, and how, is `app.server`.

What must hold: it starts when somebody wants it, never before the model that is loaded at the start
has come or failed; what it is asked is kept in memory alone, within bounds, until the window closes
or somebody keeps a chat of it; a request looked at is the same reply as the one that is served.
"""
