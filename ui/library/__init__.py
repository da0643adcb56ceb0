"""The library: weights on this machine, on the hub, and on their way here."""
