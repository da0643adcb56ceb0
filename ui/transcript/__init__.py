"""The conversation on screen: `view.TranscriptView` and what it is made of.

`area` knows where the messages stand; mouse, keyboard, search and tokens work on that, and the view
puts them together.
"""
