"""`main.py bench`: this machine measured, the app against a bare loop over llama.cpp.

Both sides get the same file, threads and context, in turns. `loop` is the bare side and imports
nothing of the app, so that what is compared is the app itself.
"""
