"""What the database holds: chats, messages, folders, attachments, downloads, files on this machine.

Questions and changes, each in a transaction of the caller's; done twice, a change adds nothing
twice.
"""
