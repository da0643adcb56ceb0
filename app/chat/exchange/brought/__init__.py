"""Chats of other apps: their exports, folders and archives, read chat by chat.

A file for each app; `formats` lists them. `places` opens what was given (a file, a folder, a ZIP
archive), `pieces` reads JSON of any size, `shapes` what may have any shape, `trees` makes a chat.
What must hold: nothing is unpacked, no name in an archive becomes a path, what is read is bounded,
and what does not come is said (`NotUnderstood`).
"""
