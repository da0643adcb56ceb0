"""The left column: new chat, search, the conversations in groups, trash and settings."""
