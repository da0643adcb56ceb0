"""The loaded file as a machine: its blocks drawn and listed, and where the time of a step goes.

It is about the file, whatever token is looked at. What is measured is labelled as measured.
"""
