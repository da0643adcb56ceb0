"""The panel *Time*: the time line of a reply."""
