"""A server of one's own: other programs use the loaded weights, on the slots and cache of the
chat.

`server.py` is all that the window and `main.py serve` need. It runs on a thread and an event loop
of its own; Starlette and uvicorn are imported there, not before it is started. What must hold:

* Whoever asks is a stranger: each field is bounded, and has its effect or is refused in words.
* A request that ends, however it ends, frees its slot; so does a client that goes, or reads none.
* Nothing that a client sends can act as a control token, but IDs that it names as such.
"""
