"""A reply's trace: packed into columns, read back token by token, summed up."""
