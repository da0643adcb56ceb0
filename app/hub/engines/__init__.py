"""Connections to servers that answer in the engine's place, behind the gate like all others.

`calls`: one question, or one streamed answer, with a bound for everything; `faults`: what went
wrong, as a sentence that says what to do next. What an answer means is read in
`app/engine/remote/`, which never connects.

What must hold: a server is untrusted. No line, event, answer or wait is longer than its bound; what
it writes reaches a sentence only shortened and without control characters; its key is in none, and
goes along with no redirect.
"""
