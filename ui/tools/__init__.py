"""Tools in the window: the composer's control, and the bar in which a call is answered.

What must hold: nothing runs by a key that was meant for something else. The keyboard comes into the
bar only when it is sent there, and a call that has just come takes no answer for a moment.
"""
