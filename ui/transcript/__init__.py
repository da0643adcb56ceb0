"""The conversation on screen: `TranscriptView` and what it is made of."""

from ui.transcript.view import TranscriptView

__all__ = ["TranscriptView"]
