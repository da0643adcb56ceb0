"""Text mode: one text without a template, kept as a tree of changes.

A continuation, an edit and a version are messages like any other, so nothing is stored twice.
"""
