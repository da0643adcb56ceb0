"""GGUF files: what their headers say and where they are on this machine."""
