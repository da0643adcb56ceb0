"""Settings and their levels: app, model, chat, message; presets; the chain as it is edited.

The last level that sets a value decides. A value is checked when it is set and once more before it
goes to the engine.
"""
