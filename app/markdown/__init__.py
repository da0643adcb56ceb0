"""Markdown as this program reads it: text → segments → blocks. No Qt.

`segments` cuts a growing text at block boundaries, so that only its open end is read again;
`parser` turns one segment into blocks with markdown-it-py; `document` keeps both.
`ui/markdown` paints the blocks, and exports write them.
"""
