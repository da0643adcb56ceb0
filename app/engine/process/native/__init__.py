"""llama.cpp itself: the library, weights, vocabulary, adapters, and its log.

Pointers stay below this floor; what goes up are arrays, ids and errors with a sentence.
"""
