"""The window that shows all that a GGUF says, and writes a corrected copy."""
