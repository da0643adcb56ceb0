"""Commands without a window: `main.py ask`, one question and its answer; `main.py inside`, what the
network makes of one token.

`cli` is `ask`: `settings` turns a settings file into its request, `output` prints the events.
`inside` asks and saves, `seen` prints. `run` (arguments, streams, how it ends) and `talk` (the
engine, Ctrl-C) are any command's. Nothing here imports Qt.
"""
