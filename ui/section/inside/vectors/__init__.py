"""The vector before the first layer: a token's row of the embedding matrix, beside others and on a
map, and how its place in the text is told. Cosines and distances are of centred rows, in all
dimensions.
"""
