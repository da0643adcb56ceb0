"""What happens to the vector: attention, what each layer adds, what could be read there, who wrote
the token, and what is left without a part. The chosen layer and head are the panel's, not a card's.
"""
