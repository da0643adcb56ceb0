"""The page on which a hub is searched. Nothing is sent until somebody searches."""
