"""What the command palette lists, and in which order: fuzzy search over names.

A query fits a name if its letters come there in this order. Runs of letters and beginnings of
words count most, so that "nc" finds "New chat" before "Unknown cause". Many chats are searched
by plain containment only: a fuzzy look at a hundred thousand titles would hold up the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from app.chat.conversations.tagging import cleaned, key_of
from models.records import Conversation

LIMIT: Final = 60
FUZZY_LIMIT: Final = 3_000
_RUN, _WORD, _FIRST, _WHOLE = 6, 10, 8, 15
_SKIPPED: Final = 1
_OTHER_WORD: Final = 12
_NOT_WORDS: Final = " -_/.,:;()[]“”\"'"


@dataclass(frozen=True, slots=True)
class Row:
    """`detail` stands right: a key, or where it works. `kind` sorts what fits equally well."""

    title: str
    run: Callable[[], object]
    detail: str = ""
    key: str = ""
    group: str = ""
    is_enabled: bool = True
    is_heading: bool = False
    also: tuple[str, ...] = ()


Chat = tuple[str, Callable[[], Row]]
"""Its title, and what makes its row."""

ALSO: Final[dict[str, tuple[str, ...]]] = {
    "new_chat": ("new conversation", "start over"),
    "beam_search": ("beams", "best continuations", "length penalty"),
    "beam_search_here": ("search from here",),
    "write_title": ("rename chat automatically", "generate title", "auto title"),
    "tag_chat": ("labels", "add tag", "keywords", "categories"),
    "filter_by_tags": ("labels", "filter chats", "tagged"),
    "manage_tags": ("rename tag", "delete tag", "labels"),
    "backups": ("restore backup", "recover chats", "restore chats"),
    "back_up_now": ("make a backup", "save a copy"),
    "read_aloud": ("text to speech", "TTS", "speak", "voice"),
    "read_replies": ("text to speech", "TTS", "speak", "voice"),
    "trash_chat": ("delete chat", "remove chat"),
    "import_chats": ("ChatGPT", "Claude", "Open WebUI", "restore chats", "move from another app"),
    "import_folder": ("LM Studio", "Jan", "move from another app"),
    "open_weights": ("load model", "import model"),
    "unload_weights": ("eject model", "free memory"),
    "show_memory": ("RAM", "VRAM", "GPU memory", "memory usage"),
    "engines": ("remote", "server", "OpenAI", "API key", "vLLM", "Ollama", "LM Studio", "endpoint"),
    "server_switch": ("serve", "API", "OpenAI", "Anthropic", "start server", "stop server"),
    "server_requests": ("API log", "request log", "who uses the model"),
    "server_settings": ("port", "API key", "endpoint", "localhost", "network"),
    "copy_server_address": ("base URL", "endpoint"),
    "hub": ("download model", "get models", "hugging face"),
    "downloads": ("download progress",),
    "library": ("load model", "switch model", "choose model"),
    "weights_defaults": ("GPU layers", "context length", "system prompt", "load settings"),
    "choose_projector": ("mmproj", "vision", "see pictures", "images", "multimodal"),
    "find_projector": ("mmproj", "vision", "see pictures", "download projector"),
    "chat_settings": ("temperature", "system prompt", "top-k", "max tokens", "context length"),
    "settings": (
        "preferences",
        "options",
        "GPU",
        "temperature",
        "system prompt",
        "font",
        "disk space",
    ),
    "panel_adapters": ("lora", "adapter", "control vector", "steering"),
    "control_vectors": ("steering", "make a control vector", "activation addition"),
    "with_without": ("compare steering", "lora off"),
    "theme_dark": ("dark mode", "night mode"),
    "theme_light": ("light mode", "day mode"),
    "theme_system": ("automatic dark mode",),
    "export_chats": ("save chat", "PDF", "HTML", "Word", "DOCX", "CSV", "JSONL", "fine-tuning"),
    "copy_picture": ("screenshot", "image of a message"),
    "save_picture": ("screenshot", "PNG", "image of a message"),
    "branch_off": ("fork", "duplicate chat"),
    "tools": ("mcp", "function calling", "use tools"),
    "tool_servers": ("mcp servers", "add mcp server", "connectors", "plugins"),
    "tool_call": ("approve tool", "allow tool"),
    "attach": ("upload file", "add document", "PDF", "DOCX", "spreadsheet", "EPUB", "web page"),
    "page_source": ("HTML source", "view source"),
    "stop_attaching": ("cancel attachment", "cancel upload"),
    "attach_from_server": ("mcp resource", "mcp prompt"),
    "thinking": ("reasoning", "reasoning effort", "think"),
    "limit_reasoning": ("thinking budget", "reasoning budget"),
    "thinking_auto": ("reasoning auto",),
    "thinking_on": ("reasoning on", "enable thinking"),
    "thinking_off": ("reasoning off", "disable thinking", "no think"),
    "drafts_lookup": ("faster", "n-gram", "prompt lookup", "speculative sampling"),
    "drafts_model": ("faster", "assistant model", "speculative sampling"),
    "drafts_off": ("speculative sampling off",),
    "begin_reasoning": ("begin reasoning", "prefill reasoning"),
    "retry_reply": ("try again", "retry"),
    "several_answers": ("best of n", "alternatives", "parallel", "presets side by side"),
    "try_seeds": ("distribution", "sample many", "outcomes", "first difference"),
    "panel_batch": ("continuous batching", "slots", "lanes", "parallel"),
    "run_again": ("reproduce", "repeat"),
    "panel_cache": ("saved chats", "parked chats", "clear cache", "free disk space"),
    "panel_sampling": ("temperature", "top-p", "seed"),
    "toggle_sidebar": ("sidebar",),
    "full_screen": ("fullscreen", "maximize"),
    "glossary": (
        "term",
        "definition",
        "what does this mean",
        "meaning",
        "vocabulary of AI",
        "explain",
    ),
    "explain_panel": ("what does this mean", "definitions", "help"),
    "keys": ("shortcuts", "help", "hotkeys"),
    "tour": ("help", "tutorial", "guide", "getting started", "learn", "how it works"),
    "tour_again": ("restart tutorial",),
    "show_log": ("debug", "console"),
    "swap_role": ("swap role",),
}
"""Other words that people type, by the action's name."""


def fits(query: str, text: str) -> tuple[int, tuple[int, ...]] | None:
    """How well a query fits a text (higher is better) and where its letters are; None: not.

    >>> fits("nc", "New chat")
    (32, (0, 4))
    >>> fits("cn", "New chat") is None
    True
    """
    wanted = [letter for letter in _plain(query) if not letter.isspace()]
    plain = _plain(text)
    if not wanted:
        return 0, ()
    best = _whole("".join(wanted), plain)
    begins = [place for place, letter in enumerate(plain) if letter == wanted[0]]
    for begin in begins[:24]:
        found = _from(begin, wanted, plain)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    return best


def _whole(wanted: str, plain: str) -> tuple[int, tuple[int, ...]] | None:
    at = plain.find(wanted)
    if at < 0:
        return None
    places = tuple(range(at, at + len(wanted)))
    return _score(places, plain) + _WHOLE, places


def _plain(text: str) -> str:
    """Without case, letter for letter: "ß" is one letter still, so that places stay true."""
    plain = text.casefold()
    return plain if len(plain) == len(text) else "".join(c.casefold()[0] for c in text)


def _from(begin: int, wanted: Sequence[str], plain: str) -> tuple[int, tuple[int, ...]] | None:
    """The letters from a beginning on: a word's beginning before the next place at hand."""
    places = [begin]
    for letter in wanted[1:]:
        after = places[-1] + 1
        if plain[after : after + 1] == letter:
            places.append(after)
            continue
        place = _word_place(plain, letter, after)
        if place < 0:
            place = plain.find(letter, after)
        if place < 0:
            return None
        places.append(place)
    return _score(places, plain), tuple(places)


def _score(places: Sequence[int], plain: str) -> int:
    score = _FIRST if places[0] == 0 else 0
    for before, place in zip([None, *places], places, strict=False):
        if _begins_word(plain, place):
            score += _WORD
        if before is not None and place == before + 1:
            score += _RUN
        elif before is not None:
            score -= min(place - before - 1, 8) * _SKIPPED
    return score - min(places[0], 10) + max(0, 8 - len(plain) // 8)


def _begins_word(plain: str, place: int) -> bool:
    return place == 0 or plain[place - 1] in _NOT_WORDS


def _word_place(plain: str, letter: str, after: int) -> int:
    place = plain.find(letter, after)
    while place >= 0 and not _begins_word(plain, place):
        place = plain.find(letter, place + 1)
    return place


def ranked(query: str, actions: Sequence[Row], chats: Iterable[Chat]) -> list[Row]:
    """The rows that fit, the best first. Without a query: all actions, then the newest chats,
    which `chats` has first. Rows of chats are made for those only that are shown."""
    query = query.strip()
    if not query:
        newest = [make() for _, make in islice(chats, LIMIT // 4)]
        return [*(row for row in actions if row.is_enabled), *newest]
    scored: list[tuple[int, int, Row | Callable[[], Row]]] = []
    for place, row in enumerate(actions):
        found = _best(query, row)
        if found is not None:
            # Of two that fit alike the action comes first, and what cannot be done now last.
            scored.append((found[0] + (4 if row.is_enabled else -20), -place, row))
    lowered = _plain(query)
    for place, (title, make) in enumerate(chats):
        found = fits(query, title) if place < FUZZY_LIMIT else _whole(lowered, _plain(title))
        if found is not None:
            scored.append((found[0], -place - len(actions), make))
    scored.sort(key=lambda each: each[:2], reverse=True)
    return [row if isinstance(row, Row) else row() for _, _, row in scored[:LIMIT]]


def tagged_with(query: str, chats: Iterable[Conversation]) -> list[Conversation]:
    """The chats with a tag that begins with what follows `#` or `tag:`; else none.

    >>> tagged_with("work", ())
    []
    """
    for sign in ("#", "tag:"):
        if query.startswith(sign) and (key := key_of(cleaned(query.removeprefix(sign)))):
            return [chat for chat in chats if any(key_of(t).startswith(key) for t in chat.tags)]
    return []


def _best(query: str, row: Row) -> tuple[int, tuple[int, ...]] | None:
    """By its title, or less well by another word that stands there as it was typed."""
    by_title = fits(query, row.title)
    plain = _plain(query)
    if len(plain) < 3 or not any(plain in _plain(word) for word in row.also):
        return by_title
    by_word = max(fits(query, word) or (0, ()) for word in row.also)
    if by_title is not None and by_title[0] >= by_word[0] - _OTHER_WORD:
        return by_title
    return by_word[0] - _OTHER_WORD, ()
