"""The page of downloads."""
