"""`main.py ask`: one question and its answer without a window.

`cli` is the command; `settings` turns a settings file into a request, `output` prints the events.
`run` (arguments, streams, how it ends) and `talk` (the engine, Ctrl-C) are any command's. Nothing
here imports Qt.
"""
