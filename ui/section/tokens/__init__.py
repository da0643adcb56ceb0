"""The panel *Tokens*: the table of a reply's tokens, alternatives, the vocabulary, merges."""
