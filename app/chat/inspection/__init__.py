"""What panels ask about a reply, a prompt, the vocabulary and the KV cache.

A question never delays a reply, and each is answered once or not at all: by `then` or `failed`.
"""
