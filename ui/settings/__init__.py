"""The settings window: one page of labelled rows for each matter."""
