"""Markdown as this program shows it: text → segments → blocks → layouts.

`segments` cuts a growing text at block boundaries, so that only its open end is read again;
`parser` turns one segment into blocks with markdown-it-py; `document` keeps both. These know
no Qt. `layouts` and its neighbours turn blocks into something that paints and can be selected.
"""
