"""llama.cpp itself: the library, weights, vocabulary, adapters, and its log.

In which order it is loaded, what C keeps a pointer to, and what its log means is known here alone;
what goes up are arrays, ids and errors with a sentence.
"""
