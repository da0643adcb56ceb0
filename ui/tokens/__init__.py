"""The token view of the transcript and step mode: their bars, acts, and where tokens come from."""
