"""Use cases of weights that are not loaded: what is on this machine, and what it holds."""
