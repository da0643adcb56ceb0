"""The engine process, its client, and what both sides agree on."""
