"""A message shown by its tokens, in the same item, selection and search as its Markdown."""
