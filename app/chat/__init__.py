"""Use cases of the chat: send, stop, retry, open, rename, trash, settings."""
