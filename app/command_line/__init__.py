"""`main.py ask`: one question and its answer without a window.

`cli` parses and runs, `settings` turns a settings file into a request, `output` prints the events.
Nothing here imports Qt.
"""
