"""From messages to token IDs: the template's text, what is left out, what the tokens came from.

Text that people wrote never becomes a control token.
"""
