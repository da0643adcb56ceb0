"""What the program does: use cases, engine, files. No widgets; Qt only in `bridge.py`."""
