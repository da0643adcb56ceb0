"""Chat templates, rendered in a process of their own with a memory limit and a deadline.

A template comes out of somebody's file: it is never run beside the window or the engine.
"""
