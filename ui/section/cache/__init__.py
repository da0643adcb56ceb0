"""The panel *Cache*: the map of the cells, chats that hold them, what can be cleared and parked."""
