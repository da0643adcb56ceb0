"""The page of one file's own settings: load options, template, drafts, notes."""
