"""A beam search's tree: what was told of it (`tree`), how it lies on a plane (`places`)."""
