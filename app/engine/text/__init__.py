"""From bytes to text while a reply grows: whole characters, stop strings, channels, reasoning.

Nothing is shown that may still be taken back.
"""
