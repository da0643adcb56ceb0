"""*Follow one token*: the tour's card beside the live widgets, and the glossary.

What must hold: nothing is dimmed or blocked; the card is inside the window, whatever happens to the
window; it says only what is known.
"""
