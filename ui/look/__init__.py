"""How everything looks: colours, sizes, the style sheet, icons, fonts, tints.

No colour and no size is written anywhere else.
"""
