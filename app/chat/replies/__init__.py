"""Replies: asked for, waiting, growing, ended, made again.

A reply is a row before the first token is asked for, is saved while it grows, and has exactly one
ending, whatever fails.
"""
