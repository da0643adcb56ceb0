"""The main window: its frame, first paint, actions, palette, columns, notices, status line.

The window takes keys from its first paint on; everything that can be done is one entry of
`actions`.
"""
