"""What the window asks of a hub: searching, looking into a repository, downloading.

The hub itself is behind `app.hub`, and so are all connections. Of each kind of question the newest
alone is answered.
"""
