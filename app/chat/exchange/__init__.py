"""Chats as files: Cutaway's own JSON, which loses nothing, and Markdown, which people read."""
