"""Replies read aloud, by sentence, also while they are written.

What must hold: one voice at a time; it ends at once where it is stopped, where another chat comes
on screen, and with the window; it says the answer alone, without reasoning; a reply that is written
on is followed, and what was said is not said again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from app.chat.aloud.speakers import Speaker, find_speaker, language_of, why_none
from app.chat.aloud.spoken import SpokenText
from app.chat.aloud.voice import Voice
from app.chat.conversations.shelf import Shelf
from app.chat.events import Noticed, ReadingChanged
from app.chat.surroundings import Surroundings
from models.records import Message, MessageState, Role

END_S: Final = 3.0
NOTHING: Final = "There is nothing to read aloud in this message."

FindSpeaker = Callable[[str, int, str], Speaker | None]


@dataclass(slots=True)
class _Reading:
    conversation_id: str
    message_id: str
    voice: Voice
    text: SpokenText = field(default_factory=SpokenText)
    source: str = ""
    sentences: list[str] = field(default_factory=list)
    at: int = -1
    is_paused: bool = False
    is_whole: bool = False


class Aloud:
    def __init__(
        self, around: Surroundings, shelf: Shelf, find: FindSpeaker = find_speaker
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._find = find
        self._now: _Reading | None = None
        self._voices: list[Voice] = []

    @property
    def is_possible(self) -> bool:
        return self._speaker() is not None

    @property
    def is_reading(self) -> bool:
        return self._now is not None

    @property
    def is_paused(self) -> bool:
        return self._now is not None and self._now.is_paused

    @property
    def message_id(self) -> str:
        """The message that is read; empty: none is."""
        return self._now.message_id if self._now is not None else ""

    @staticmethod
    def why_not() -> str:
        """What to install."""
        return why_none()

    def _speaker(self, text: str = "") -> Speaker | None:
        settings = self._around.settings
        locale = os.environ.get("LC_ALL") or os.environ.get("LANG") or ""
        return self._find(settings.voice, settings.voice_rate, language_of(text, locale))

    # --- acts -----------------------------------------------------------------------------------

    def read(self, message_id: str) -> None:
        """Read this message of the open chat from its beginning; what was read ends."""
        self.stop()
        message = self._shelf.message(message_id)
        # A reply that begins has its language from the question.
        above = self._shelf.path_to(message.parent_id)[-1:] if message is not None else ()
        said = "" if message is None else message.content or "".join(m.content for m in above)
        speaker = self._speaker(said)
        if speaker is None:
            self._around.emit(Noticed("info", why_none()))
            return
        if message is None:
            return
        if not _is_growing(message) and not message.content.strip():
            self._around.emit(Noticed("info", NOTHING))
            return

        def here(act: Callable[[], None]) -> None:
            self._around.hand_over(act, lambda: self._now is reading)

        voice = Voice(
            speaker,
            began=lambda number: here(lambda: self._on_began(reading, number)),
            ended=lambda why: here(lambda: self._on_ended(why)),
        )
        reading = _Reading(message.conversation_id, message_id, voice)
        self._now = reading
        self._voices = [each for each in self._voices if each.is_alive] + [voice]
        self._take(reading, message)
        if reading.is_whole and not reading.sentences:
            self.stop()
            self._around.emit(Noticed("info", NOTHING))
        else:
            self._tell()

    def follow(self, message_id: str) -> None:
        """This message has more text, or has ended."""
        reading = self._now
        if reading is not None and reading.message_id == message_id:
            message = self._shelf.message(message_id)
            if message is None:
                self.stop()
            else:
                self._take(reading, message)

    def began(self, message: Message) -> None:
        """A reply of the open chat begins: read it where that is wanted."""
        is_wanted = self._around.settings.read_aloud and message.role is Role.ASSISTANT
        if is_wanted and _is_growing(message) and self._speaker() is not None:
            self.read(message.id)

    def on_opened(self) -> None:
        """A chat or path came on screen: what is not on it is read no more."""
        reading = self._now
        if reading is not None and self._shelf.message(reading.message_id) is None:
            self.stop()

    def toggle_pause(self) -> None:
        reading = self._now
        if reading is None:
            return
        reading.is_paused = not reading.is_paused
        if reading.is_paused:
            reading.voice.pause()
        else:
            reading.voice.go_on()
        self._tell()

    def skip(self) -> None:
        """To the next sentence."""
        if self._now is not None:
            self._now.voice.skip()

    def stop(self) -> None:
        reading, self._now = self._now, None
        if reading is not None:
            reading.voice.stop()
            self._around.emit(ReadingChanged())

    def close(self) -> None:
        self.stop()
        for voice in self._voices:
            voice.join(END_S)

    # --- inside ---------------------------------------------------------------------------------

    def _take(self, reading: _Reading, message: Message) -> None:
        """What has become sure of the text."""
        if reading.is_whole:
            return
        n_said = 0
        if not message.content.startswith(reading.source):  # the weights took some of it back
            n_said = len(reading.sentences)
            reading.text, reading.source, reading.sentences = SpokenText(), "", []
        reading.text.append(message.content[len(reading.source) :])
        reading.source = message.content
        if not _is_growing(message):
            reading.text.end()
            reading.is_whole = True
        for sentence in reading.text.take():
            reading.sentences.append(sentence)
            if len(reading.sentences) > n_said:
                reading.voice.say(len(reading.sentences) - 1, sentence)
        if reading.is_whole:
            reading.voice.end()

    def _on_began(self, reading: _Reading, number: int) -> None:
        reading.at = number
        self._tell()

    def _on_ended(self, why: str) -> None:
        self.stop()
        if why:
            self._around.emit(Noticed("warning", f"Reading aloud ended. {why}"))

    def _tell(self) -> None:
        reading = self._now
        if reading is None:
            return
        at = reading.at
        sentence = reading.sentences[at] if 0 <= at < len(reading.sentences) else ""
        self._around.emit(
            ReadingChanged(
                reading.conversation_id, reading.message_id, sentence, is_paused=reading.is_paused
            )
        )


def _is_growing(message: Message) -> bool:
    return message.state is MessageState.STREAMING
