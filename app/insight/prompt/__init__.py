"""A prompt's tokens by the messages that they came from."""
