"""The panel *Inside*: one token of a reply, from vector to vote, as the network computed it.

`view` knows what is looked at and what came of it; `panel` is its column; each card is a file and a
row of `cards.CARDS`: in `vectors/` before the first layer, in `layers/` on the way through them, in
`machine/` about the whole file; those of the vote and the draw are here. What must hold: nothing is
drawn without its array behind it; what a file does not offer says why; arrays become pictures in
numpy and QImage, never cell by cell.
"""
