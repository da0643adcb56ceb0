"""Chats on paper: the transcript's own layouts on the pages of a PDF, and on pictures of messages.

An export's thread reads, parses and leads; each layout and each stroke of the painter is one short
step on the GUI thread (`steps`), which is free between two of them.
"""
