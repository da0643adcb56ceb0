"""The vocabulary of the loaded weights: text to IDs and back to bytes.

Everything here only reads, and llama.cpp's vocabulary is immutable after loading, so a second
thread tokenises and counts while the first one decodes. This class has what `prompt.py` asks of
a vocabulary.
"""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import numpy as np

from app.engine.process.native.arrays import as_array
from app.engine.process.native.native import NativeError, llama
from app.engine.protocol.frames import clean_text
from app.engine.protocol.messages import VocabularyTable
from app.engine.text.channels import MARKS, channel_marks
from app.engine.text.reasoning import KNOWN

_UNKNOWN: Final = 1
_CONTROL: Final = 8
_USER_DEFINED: Final = 16
_HIDDEN: Final = _UNKNOWN | _CONTROL
_MAX_DRY_SAMPLERS: Final = 4
_Piece: Final = ctypes.c_char * 128
"""Room for most pieces. Making the type anew for each of them takes as long as asking."""
_TAGS: Final = frozenset(tag.encode() for tags in KNOWN for tag in (tags.opening, tags.closing))


class Vocabulary:
    """`handle` is a llama_vocab; it lives as long as the weights."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._dry_samplers: OrderedDict[tuple[object, ...], Any] = OrderedDict()
        self._dry_lock = threading.Lock()
        self.n_vocab = int(llama.llama_vocab_n_tokens(handle))
        self._pieces: list[bytes | None] = [None] * self.n_vocab
        self.bos_id = self._special(llama.llama_vocab_bos(handle))
        self.eos_id = self._special(llama.llama_vocab_eos(handle))
        self.add_bos = bool(llama.llama_vocab_get_add_bos(handle))
        self.add_eos = bool(llama.llama_vocab_get_add_eos(handle))

    def tokenize(self, text: str, special: bool = False, add_bos: bool = False) -> list[int]:
        """IDs of `text`, tokenised whole. `special`: control-token text becomes control tokens.

        `add_bos` puts the BOS token first if there is one; nothing else is ever added.
        """
        data = clean_text(text).encode()
        ids = (llama.llama_token * (len(data) + 4))()
        count = self._tokenize(data, ids, special)
        if count < 0:
            ids = (llama.llama_token * -count)()
            count = self._tokenize(data, ids, special)
        if count < 0:
            raise NativeError(f"llama.cpp could not tokenise {len(data)} bytes")
        found = list(ids[:count])
        return [self.bos_id, *found] if add_bos and self.bos_id is not None else found

    def with_ends(self, ids: list[int]) -> list[int]:
        """A whole text's IDs with what the file puts around them: a model that was trained for
        vectors may take its own from the EOS."""
        first = [self.bos_id] if self.add_bos and self.bos_id is not None else []
        last = [self.eos_id] if self.add_eos and self.eos_id is not None else []
        return [*first, *ids, *last]

    def piece(self, token_id: int) -> bytes:
        """The bytes that a token stands for; of a control token its name.

        Raises IndexError for an ID that is none: native code would abort, and −1 would be
        the last one.
        """
        if not 0 <= token_id < self.n_vocab:
            raise IndexError(token_id)
        known = self._pieces[token_id]
        if known is None:
            known = self._pieces[token_id] = self._read_piece(token_id)
        return known

    def shown_piece(self, token_id: int) -> bytes:
        """The bytes that belong to the text of a reply: control tokens have none.

        Reasoning tags are kept even where a vocabulary calls them control tokens, since they
        are how reasoning is told from the answer.
        """
        piece = self.piece(token_id)
        return b"" if self._is_hidden[token_id] and piece not in _TAGS else piece

    def is_eog(self, token_id: int) -> bool:
        return token_id in self._eog

    @property
    def handle(self) -> Any:
        """The llama_vocab, for native samplers that need one."""
        return self._handle

    def dry_sampler(self, key: tuple[object, ...], build: Callable[[], Any]) -> Any:
        """A DRY sampler of these settings, to be freed by the caller. Making the first one looks
        for breakers in every token (0.2 s for 262,144), so the last few are kept and copied."""
        with self._dry_lock:
            if key not in self._dry_samplers:
                self._dry_samplers[key] = build()
                if len(self._dry_samplers) > _MAX_DRY_SAMPLERS:
                    llama.llama_sampler_free(self._dry_samplers.popitem(last=False)[1])
            self._dry_samplers.move_to_end(key)
            return llama.llama_sampler_clone(self._dry_samplers[key])

    @property
    def bos_text(self) -> str:
        return "" if self.bos_id is None else self._text(self.bos_id)

    @property
    def eos_text(self) -> str:
        return "" if self.eos_id is None else self._text(self.eos_id)

    @cached_property
    def end_texts(self) -> list[str]:
        """Texts of the tokens that end a reply."""
        return [self._text(token_id) for token_id in self.eog_ids]

    @cached_property
    def other_tokens(self) -> dict[str, str]:
        """Texts of further special tokens, by the names that templates know them by."""
        unknown = np.flatnonzero(self.attributes & _UNKNOWN)
        found = {
            "unk_token": int(unknown[0]) if len(unknown) else None,
            "pad_token": self._special(llama.llama_vocab_pad(self._handle)),
            "sep_token": self._special(llama.llama_vocab_sep(self._handle)),
        }
        return {name: self._text(i) for name, i in found.items() if i is not None}

    @cached_property
    def attributes(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        """llama.cpp's token attributes (a bit set), shape [n_vocab]."""
        read, handle = llama.llama_vocab_get_attr, self._handle
        return np.fromiter((read(handle, i) for i in range(self.n_vocab)), np.int32, self.n_vocab)

    @cached_property
    def _is_hidden(self) -> bytes:
        """One byte per token, which costs less to read than a number of numpy's."""
        hidden = (self.attributes & _HIDDEN) != 0
        hidden[self._shown_marks] = True
        return bytes(hidden)

    @cached_property
    def eog_ids(self) -> list[int]:
        """All tokens that end a reply."""
        is_eog, handle = llama.llama_vocab_is_eog, self._handle
        return [i for i in range(self.n_vocab) if is_eog(handle, i)]

    @cached_property
    def _eog(self) -> frozenset[int]:
        return frozenset(self.eog_ids)

    @cached_property
    def control_ids(self) -> dict[str, int]:
        """Text → ID of the tokens that `special=True` finds in a text and `special=False` does
        not. User-defined tokens are none of them: llama.cpp finds those in any text. It calls the
        marks of channels so, to have their text shown, but to the weights they are control."""
        found = [*np.flatnonzero(self.attributes & _HIDDEN), *self._shown_marks]
        return {text: int(i) for i in found if (text := self._text(int(i)))}

    def is_control(self, token_id: int) -> bool:
        """Whether it is one of `control_ids`."""
        return token_id in self._controls

    @cached_property
    def _controls(self) -> frozenset[int]:
        return frozenset(self.control_ids.values())

    @cached_property
    def _shown_marks(self) -> list[int]:
        found = [self.tokenize(text, special=True) for text in MARKS]
        alone = [ids[0] for ids in found if len(ids) == 1]
        return [i for i in alone if self.attributes[i] & _USER_DEFINED and self._text(i) in MARKS]

    @cached_property
    def channel_marks(self) -> dict[int, bytes]:
        """What stands for the marks of channels in a reply's text; empty where there are none."""
        return channel_marks(self.control_ids)

    @cached_property
    def control_texts(self) -> list[str]:
        return list(self.control_ids)

    def table(self) -> VocabularyTable:
        """All pieces and attributes, as they travel to the window."""
        pieces = [self.piece(i) for i in range(self.n_vocab)]
        offsets = np.zeros(self.n_vocab + 1, np.int64)
        np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
        return VocabularyTable(
            offsets=as_array(offsets), blob=b"".join(pieces), attributes=as_array(self.attributes)
        )

    def _tokenize(self, data: bytes, ids: Any, special: bool) -> int:
        return int(
            llama.llama_tokenize(self._handle, data, len(data), ids, len(ids), False, special)
        )

    def _read_piece(self, token_id: int) -> bytes:
        buffer: ctypes.Array[ctypes.c_char] = _Piece()
        for _ in range(2):
            size = llama.llama_token_to_piece(self._handle, token_id, buffer, len(buffer), 0, True)
            if size >= 0:
                return bytes(buffer.raw[:size])
            buffer = ctypes.create_string_buffer(-size)
        raise NativeError(f"llama.cpp has no piece for token {token_id}")

    def _text(self, token_id: int) -> str:
        raw: bytes = llama.llama_vocab_get_text(self._handle, token_id) or b""
        return raw.decode("utf-8", "replace")

    @staticmethod
    def _special(token_id: int) -> int | None:
        return None if token_id < 0 else int(token_id)
