"""Reading aloud: Markdown → sentences, the platform's own voices as child processes, one at a time.

What must hold: text goes to a program on its stdin and never through a shell; a child is always
waited for; nothing is read after it was stopped.
"""
