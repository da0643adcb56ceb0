"""The hub of weights: search, download, verify. The only package that opens connections."""
