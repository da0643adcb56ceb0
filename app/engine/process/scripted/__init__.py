"""An engine that plays a script over the real wire: for tests, screenshots and the window alone.

It runs in the engine's place, and answers every question that the real one answers without
llama.cpp.
"""
