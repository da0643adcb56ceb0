"""What a model needs of the memory: the badge, the bars, the wish."""
