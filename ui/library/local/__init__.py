"""The page of what lies on this machine."""
