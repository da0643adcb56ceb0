"""Files and long pastes that go along with a message: read, decoded, counted, put into a prompt.

What is attached is stored whole, and its text can never end the fence that it stands in.
"""
