"""What the database holds of chats: messages and their tree, folders, attachments, the trash.

Questions and changes, each in a transaction of the caller's; done twice, a change adds nothing
twice.
"""
