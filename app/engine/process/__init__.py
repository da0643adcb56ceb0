"""All that runs in the engine's process. `llama_cpp` is imported here alone, never by the window.

Read downwards: child, serving, scheduling, cache, sampling, trace, native. What lies
lower imports nothing of what lies above it.
"""
