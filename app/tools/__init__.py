"""Tool servers (MCP): where they run, what they offer, how a tool is called.

`servers` says what a server is, `host` runs them on a thread with an event loop of its own, each in
a `running.Run`; `process` starts those by command under `guard.py`, those by address go through the
hub's gate. What must hold:

* Everything that a server says is untrusted: bounded (`bounds`), named in words (`answers`).
* A server gets no more of our environment than `environment` lists, and ends with the app.
* `mcp`, pydantic and what they import are imported on the host's thread, when a server is started.
"""
