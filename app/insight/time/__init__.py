"""What the time of a reply went into: stretches without gaps, which add up to the whole."""
