"""The user's settings: one frozen value, and what each of its fields accepts.

Whatever was stored is untrusted (an older or newer version, a hand-edited file):
`from_stored` keeps what is valid and takes the default elsewhere. `checked` says in words
why a value is refused; nothing invalid ever reaches the engine.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast, get_args

import msgspec

from app.chat.settings import formats
from app.engine.protocol.adapter_messages import Adapters, ControlVector, Lora, check_adapters
from app.engine.protocol.draft_messages import MAX_DRAFT, Drafts
from app.engine.protocol.frames import clean_text
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.remote_messages import EngineAddress
from app.engine.protocol.stages import (
    Dist,
    FilterStage,
    Greedy,
    MinP,
    Penalties,
    Sampling,
    SelectStage,
    Stage,
    Temperature,
    TopK,
    TopP,
)
from app.engine.protocol.template_variables import MAX_CHARACTERS, read_variables
from app.engine.protocol.thinking_messages import OFF, ON
from app.engine.protocol.tool_messages import AUTO, MAX_TOOLS, REQUIRED, Tool
from app.hub.address import checked_endpoint, checked_server
from app.refusal import Refusal, bad_setting
from app.strict_reading import STAGE, read_stage, read_struct, snake
from app.tools.servers import ToolServer, read_servers

A = TypeVar("A", Lora, ControlVector)
Check = Callable[[object], Any]

MAX_SEED: Final = 2**32 - 2
MAX_STOP_STRINGS: Final = 16
MAX_STOP_STRING_LENGTH: Final = 200
MAX_SYSTEM_PROMPT_LENGTH: Final = 200_000
MAX_TEMPLATE_LENGTH: Final = 200_000
MAX_BANNED_STRINGS: Final = 64
MAX_REASONING_TAGS: Final = 16
MAX_CHOICE_LENGTH: Final = 64
MAX_STAGES: Final = 32
MAX_CLOSED_FOLDERS: Final = 10_000
MAX_ADDRESS_LENGTH: Final = 2_000
MAX_HUBS: Final = 100
MAX_ENGINES: Final = 50
MAX_ENGINE_NAME_LENGTH: Final = 60
MAX_WEIGHTS_FOLDERS: Final = 200
MAX_PATH_LENGTH: Final = 32_767
MAX_GRAMMAR_LENGTH: Final = 64_000
Policy = Literal["drop_oldest", "keep_ends", "summarize", "stop"]
FILTERS: Final = get_args(FilterStage)
SELECTING: Final = get_args(SelectStage)
CACHE_TYPE_NAMES: Final = ("f16", "f32", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
"""Those of `app.engine.planning.sizes.CACHE_TYPES`, which is not on the way to the first paint."""
SYSTEM_PROMPT: Final = "You are a helpful assistant. Answer clearly and correctly."
"""Measured on the included weights: with the system text of their own template, or at
temperature 0.8, they answer "What is the capital of France?" in broken French; with this
text their answer begins with "The" at probability 0.49, at temperature 0.3 at 1.00."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, resolved. 0 or None often means "automatic"; see the fields.

    `n_threads`, `n_ctx` 0: automatic. `n_gpu_layers` -1: automatic. `type_k`, `type_v`: of the
    KV cache. `max_tokens` 0: until the window is full. `context_policy`: drop_oldest leaves the
    oldest turns out of a prompt that would be too long, and says so; keep_ends those in the middle;
    summarize has a summary written of them first; stop refuses it. `seed` None: a fresh one for
    each reply.
    `chat_format` "own" means `chat_template` (Jinja source; empty: the file's own template).
    `stop_in_reasoning`: stop strings end a reply inside its reasoning, too, and not in its answer
    alone. `reasoning_tags`: pairs like `<think>…</think>` that are followed besides the known ones.
    `thinking`: what was chosen of what the chat template offers ("on", "off", an effort), empty: as
    it does by itself; `reasoning_budget`: after so many tokens reasoning is closed, 0: never;
    `template_variables`: more names for the template, a JSON object.
    `drafts`: who proposes tokens for speculative decoding; `draft_tokens`: how many at once.
    `loras`, `control_vectors`: what changes the weights while they compute.
    `chain`: the sampling stages in the user's order; empty, the usual chain is made of the
    numbers from `temperature` to `repeat_last_n`. Fonts are families, empty the system's; sizes
    are pixels at 100 %. `trash_days` 0: the trash is never emptied by itself. `picture_side`: how
    long a side of an attached picture may be, in pixels; larger ones are made smaller.
    `read_aloud`: each reply is read as it is written; `voice`: as the system's speech program calls
    it, empty: its usual one; `voice_rate`: in percent.
    `write_titles`: the weights write titles of new chats when nothing else runs;
    `write_titles_remote`: those of a server do, too.
    `hub_endpoint` empty: the usual hub. `hub_tokens_kept`: for which hubs the system's keyring has
    a token. `window_geometry` is hex. `weights_folders` are absolute paths; `find_other_apps`:
    weights of other programs are listed too. `download_folder` empty: the one in the data folder;
    `download_limit_kbs` is for all downloads together, 0: no limit. `saved_chats_mb`: how much of
    the disk the KV state of chats may take, 0: none is saved. `unload_after_min`: after so long
    without use the weights leave memory, 0: never. `embedding_model`: the file that finds parts of
    documents by their meaning, empty: they are found by their words. `engines`: servers that answer
    in this machine's place; `local_engines_offline`: those on this computer may be asked while
    `offline`, too.
    `tool_rounds`: so many replies in a row may call tools before a person is asked. `tools` is set
    by nobody: what a reply may call, filled in where settings are resolved; `tool_choice`, whether
    it must, is chosen for one reply alone.
    `server_…`: the server of one's own (`app/chat/server/`); `server_key_kept`: the system's
    keyring has its key; `server_port` 0: any that is free; `server_max_minutes` 0: a request may
    take any time; `server_names`: what else clients may call the model, `server_origins`: web pages
    that may ask, both with commas between.
    """

    theme: str = "system"
    zoom_percent: int = 100
    n_threads: int = 0
    n_ctx: int = 0
    n_gpu_layers: int = -1
    type_k: str = "f16"
    type_v: str = "f16"
    flash_attention: str = "auto"
    max_tokens: int = 0
    context_policy: str = "drop_oldest"
    stop_strings: tuple[str, ...] = ()
    stop_in_reasoning: bool = False
    reasoning_tags: tuple[str, ...] = ()
    thinking: str = ""
    reasoning_budget: int = 0
    template_variables: str = ""
    send_key: str = "enter"
    temperature: float = 0.3
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    seed: int | None = None
    chain: tuple[Stage, ...] = ()
    grammar: str = ""
    json_schema: str = ""
    banned_strings: tuple[str, ...] = ()
    min_tokens: int = 0
    ban_end_token: bool = False
    repeatable: bool = False
    drafts: str = "off"
    draft_tokens: int = 8
    loras: tuple[Lora, ...] = ()
    control_vectors: tuple[ControlVector, ...] = ()
    chat_format: str = ""
    chat_template: str = ""
    system_prompt: str = SYSTEM_PROMPT
    font_text: str = ""
    font_reading: str = ""
    font_mono: str = ""
    text_px: int = 14
    reading_px: int = 15
    offline: bool = False
    hub_endpoint: str = ""
    hub_tokens_kept: tuple[str, ...] = ()
    trash_days: int = 30
    picture_side: int = 1536
    read_aloud: bool = False
    voice: str = ""
    voice_rate: int = 100
    write_titles: bool = True
    write_titles_remote: bool = False
    window_geometry: str = ""
    last_conversation_id: str = ""
    section_visible: bool = False
    section_width: int = 0
    section_panel: str = ""
    tour_at: str = ""
    token_view: bool = False
    token_tint: str = "probability"
    sidebar_visible: bool = True
    sidebar_width: int = 0
    closed_folders: tuple[str, ...] = ()
    weights_folders: tuple[str, ...] = ()
    find_other_apps: bool = True
    download_folder: str = ""
    downloads_at_once: int = 2
    download_limit_kbs: int = 0
    saved_chats_mb: int = 4000
    unload_after_min: int = 0
    embedding_model: str = ""
    engines: tuple[EngineAddress, ...] = ()
    local_engines_offline: bool = False
    tool_servers: tuple[ToolServer, ...] = ()
    tool_rounds: int = 10
    tools: tuple[Tool, ...] = ()
    tool_choice: str = AUTO
    server_on: bool = False
    server_port: int = 8642
    server_address: str = "127.0.0.1"
    server_key_kept: bool = False
    server_names: str = ""
    server_origins: str = ""
    server_loads: bool = True
    server_max_requests: int = 32
    server_max_mb: int = 32
    server_max_minutes: int = 30

    def load_options(self) -> LoadOptions:
        """How to load weights: None wherever the engine shall decide."""
        return LoadOptions(
            n_ctx=self.n_ctx or None,
            n_threads=self.n_threads or None,
            n_gpu_layers=None if self.n_gpu_layers < 0 else self.n_gpu_layers,
            type_k=self.type_k,
            type_v=self.type_v,
            flash_attention=cast("Literal['auto', 'on', 'off']", self.flash_attention),
        )

    @property
    def adapters(self) -> Adapters:
        """What changes the weights, as the engine is asked for it."""
        return Adapters(list(self.loras), list(self.control_vectors))

    @property
    def policy(self) -> Policy:
        """`context_policy` as the engine is asked for it."""
        return cast("Policy", self.context_policy)

    @property
    def drafting(self) -> Drafts | None:
        """`drafts` as the engine is asked for them."""
        if self.drafts == "off":
            return None
        return Drafts("model" if self.drafts == "model" else "lookup", self.draft_tokens)

    @property
    def template(self) -> str | None:
        """The Jinja source to render chats with; None for the file's own, or the plain format."""
        if self.chat_format == formats.OWN:
            return self.chat_template if self.chat_template.strip() else None
        return formats.template_of(self.chat_format)

    @property
    def tag_pairs(self) -> list[tuple[str, str]]:
        """`reasoning_tags` as the engine is asked for them."""
        return [_pair(tags) for tags in self.reasoning_tags]

    def sampling(self) -> Sampling:
        """What the engine is asked for: the chain, and what binds every draw."""
        filters = [stage for stage in self.stages() if isinstance(stage, FILTERS)]
        select = next((stage for stage in self.stages() if isinstance(stage, SELECTING)), Dist())
        return Sampling(
            filters=cast("list[FilterStage]", filters),
            select=cast("SelectStage", select),
            seed=self.seed,
            grammar=self.grammar,
            json_schema=self.json_schema,
            banned_strings=list(self.banned_strings),
            min_tokens=self.min_tokens,
            ban_end_token=self.ban_end_token,
        )

    def stages(self) -> tuple[Stage, ...]:
        """The chain; the usual one, in llama.cpp's order, where none is set. Temperature 0 is
        greedy there."""
        if self.chain:
            return self.chain
        penalties = Penalties(last_n=self.repeat_last_n, repeat=self.repeat_penalty)
        if self.temperature <= 0:
            return (penalties, Greedy())
        return (
            penalties,
            TopK(k=self.top_k),
            TopP(p=self.top_p),
            MinP(p=self.min_p),
            Temperature(t=self.temperature),
            Dist(),
        )


def names() -> tuple[str, ...]:
    """The names of all settings."""
    return tuple(_CHECKS)


def checked(name: str, value: object) -> Any:
    """Return `value` as the setting `name` keeps it, or raise Refusal."""
    check = _CHECKS.get(name)
    if check is None:
        raise bad_setting(f"Unknown setting “{name}”.")
    return check(value)


def changed(settings: Settings, name: str, value: object) -> Settings:
    """`settings` with one value checked and replaced."""
    return dataclasses.replace(settings, **{name: checked(name, value)})


def from_stored(stored: Mapping[str, object]) -> tuple[Settings, tuple[str, ...]]:
    """Settings from what the database holds, and the names whose stored value was refused.

    Names that this version does not know are left alone: a newer one may need them.
    """
    values: dict[str, Any] = {}
    refused = []
    for name, value in stored.items():
        if name not in _CHECKS:
            continue
        try:
            values[name] = checked(name, value)
        except Refusal:
            refused.append(name)
    return Settings(**values), tuple(refused)


def as_stored(value: object) -> object:
    """The JSON form of a setting's value; stages by their names, as in a settings file."""
    if isinstance(value, tuple | list):
        return [as_stored(item) for item in value]
    if not isinstance(value, msgspec.Struct):
        return value
    fields = {name: as_stored(getattr(value, name)) for name in value.__struct_fields__}
    return {STAGE: snake(type(value).__name__), **fields} if isinstance(value, Stage) else fields


def _one_of(title: str, *choices: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if isinstance(value, str) and value in choices:
            return value
        raise bad_setting(f"{title} must be one of {', '.join(choices)}.")

    return check


def _whole(title: str, low: int, high: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if not isinstance(value, bool) and whole and isinstance(value, int | float):
            number = int(value)
            if low <= number <= high:
                return number
        raise bad_setting(f"{title} must be a whole number from {low:,} to {high:,}.")

    return check


def _real(title: str, low: float, high: float) -> Callable[[object], float]:
    def check(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            number = float(value)
            if math.isfinite(number) and low <= number <= high:
                return number
        raise bad_setting(f"{title} must be a number from {low:g} to {high:g}.")

    return check


def _text(title: str, limit: int) -> Callable[[object], str]:
    def check(value: object) -> str:
        if not isinstance(value, str):
            raise bad_setting(f"{title} must be text.")
        if len(value) > limit:
            raise bad_setting(f"{title} is limited to {limit:,} characters.")
        return clean_text(value).replace("\0", "")

    return check


def _thinking(value: object) -> str:
    """A choice's name; "auto" is none."""
    name = _text("The thinking mode", MAX_CHOICE_LENGTH)(value).strip()
    if any(letter.isspace() for letter in name):
        raise bad_setting("The thinking mode must be one word, like on, off, low or high.")
    usual = name.lower() if name.lower() in ("auto", ON, OFF) else name
    return "" if usual == "auto" else usual


def _template_variables(value: object) -> str:
    """A JSON object, as itself or as text."""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value
    if isinstance(text, str):
        read_variables(text)
    text = _text("The template variables", MAX_CHARACTERS)(text)
    return text if text.strip() else ""


def _flag(title: str) -> Callable[[object], bool]:
    def check(value: object) -> bool:
        if isinstance(value, bool):
            return value
        raise bad_setting(f"{title} must be on or off.")

    return check


def _seed(value: object) -> int | None:
    return None if value is None else _whole("The seed", 0, MAX_SEED)(value)


def _texts(titles: str, title: str, most: int) -> Callable[[object], tuple[str, ...]]:
    def check(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            raise bad_setting(f"{titles} must be a list of texts.")
        one = _text(title, MAX_STOP_STRING_LENGTH)
        texts = tuple(dict.fromkeys(text for item in value if (text := one(item))))
        if len(texts) > most:
            raise bad_setting(f"At most {most} {titles.lower()} can be set.")
        return texts

    return check


def _reasoning_tags(value: object) -> tuple[str, ...]:
    """Pairs, each written with … between what opens and what closes reasoning."""
    tags = _texts("Reasoning tags", "A pair of reasoning tags", MAX_REASONING_TAGS)(value)
    pairs = [_pair(text) for text in tags]
    for opening, closing in pairs:
        if not opening or not closing:
            raise bad_setting(
                "Write reasoning tags as a pair with … between them, like <think>…</think>."
            )
    return tuple(dict.fromkeys(f"{opening}…{closing}" for opening, closing in pairs))


def _pair(tags: str) -> tuple[str, str]:
    """(opening, closing); three full stops do as well. One of them is empty where it is no pair.

    >>> _pair("<think> … </think>"), _pair("[T]...[/T]"), _pair("<think>")
    (('<think>', '</think>'), ('[T]', '[/T]'), ('<think>', ''))
    """
    opening, _, closing = tags.partition("…" if "…" in tags else "...")
    return opening.strip(), closing.strip()


def _adapter_files(words: str, kind: type[A], as_adapters: Callable[[list[A]], Adapters]) -> Check:
    """Structs, or the objects that a file has for them."""

    def check(value: object) -> tuple[A, ...]:
        if not isinstance(value, list | tuple):
            raise bad_setting(f"{words} must be a list of files.")
        found: list[A] = []
        for number, item in enumerate(value, 1):
            read = item if isinstance(item, kind) else read_struct(kind, item, f"file {number}")
            if clean_text(read.path) != read.path or "\0" in read.path:
                raise bad_setting(
                    "This file's name contains unreadable characters. Rename it first."
                )
            found.append(read)
        check_adapters(as_adapters(found))
        return tuple(found)

    return check


def _paths(value: object) -> tuple[str, ...]:
    """Absolute paths that a text can hold, each once."""
    if not isinstance(value, list | tuple):
        raise bad_setting("Folders must be a list of paths.")
    if len(value) > MAX_WEIGHTS_FOLDERS:
        raise bad_setting(f"At most {MAX_WEIGHTS_FOLDERS} folders can be added.")
    for path in value:
        if not isinstance(path, str) or not 0 < len(path) <= MAX_PATH_LENGTH:
            raise bad_setting("A folder must be a path.")
        if clean_text(path) != path or "\0" in path:
            raise bad_setting("This folder's name contains unreadable characters. Rename it first.")
        if not Path(path).is_absolute():
            raise bad_setting("Enter the full path of the folder.")
    return tuple(dict.fromkeys(value))


def _download_folder(value: object) -> str:
    """Empty: the one in the data folder."""
    return "" if value == "" else _paths([value])[0]


def _server_address(value: object) -> str:
    """An IP address of this computer, as numbers: a name could come to mean another one."""
    import ipaddress  # not before the first paint

    text = value.strip() if isinstance(value, str) else ""
    try:
        if text == "localhost":
            return "127.0.0.1"
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise bad_setting(
            "The server's address must be an IP address, like 127.0.0.1 for this computer only."
        ) from None


def _server_names(value: object) -> str:
    from app.server.options import read_names  # not before the first paint

    if not isinstance(value, str) or clean_text(value) != value:
        raise bad_setting("The server's model names must be text.")
    return ", ".join(read_names(value))


def _server_origins(value: object) -> str:
    from app.server.options import read_origins  # not before the first paint

    if not isinstance(value, str):
        raise bad_setting("The web pages that may use the server must be text.")
    return ", ".join(read_origins(value))


def _hub_endpoint(value: object) -> str:
    """Empty: the hub that the environment names, or the public one."""
    if value == "":
        return ""
    if not isinstance(value, str) or len(value) > MAX_ADDRESS_LENGTH:
        raise bad_setting("Enter a hub address like https://hub.example.org.")
    return checked_endpoint(value)


def _engines(value: object) -> tuple[EngineAddress, ...]:
    """Structs, or the objects that the database has for them."""
    if not isinstance(value, list | tuple):
        raise bad_setting("Engines must be a list of addresses.")
    if len(value) > MAX_ENGINES:
        raise bad_setting(f"At most {MAX_ENGINES} engines can be added.")
    found: dict[str, EngineAddress] = {}
    for number, item in enumerate(value, 1):
        where = f"engine {number}"
        read = item if isinstance(item, EngineAddress) else read_struct(EngineAddress, item, where)
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", read.id) or read.id in found:
            raise bad_setting(f"“id” in {where} must be a word of its own.")
        name = " ".join(_text("The name", MAX_ENGINE_NAME_LENGTH)(read.name).split())
        if not name or not name.isprintable():
            raise bad_setting("Enter a name for this engine.")
        if any(name.casefold() == other.name.casefold() for other in found.values()):
            raise bad_setting(f"There is an engine “{name}” already. Choose another name.")
        key_name = _text("The key's name", MAX_ADDRESS_LENGTH)(read.key_name)
        found[read.id] = EngineAddress(read.id, name, checked_server(read.url), key_name)
    return tuple(found.values())


def _tools(value: object) -> tuple[Tool, ...]:
    """Structs, or the objects that a reply has for them."""
    if not isinstance(value, list | tuple) or len(value) > MAX_TOOLS:
        raise bad_setting(f"Tools must be a list of at most {MAX_TOOLS:,}.")
    return tuple(
        item if isinstance(item, Tool) else read_struct(Tool, item, f"tool {number}")
        for number, item in enumerate(value, 1)
    )


def _chain(value: object) -> tuple[Stage, ...]:
    """Stages, or the objects that a file has for them. What their numbers may be is judged by
    the engine, beside the samplers that they are for."""
    if not isinstance(value, list | tuple):
        raise bad_setting("The sampling chain must be a list of stages.")
    if len(value) > MAX_STAGES:
        raise bad_setting(f"A sampling chain can have at most {MAX_STAGES} stages.")
    stages = tuple(_stage(item, number) for number, item in enumerate(value, 1))
    for stage in stages[:-1]:
        if isinstance(stage, SELECTING):
            name = snake(type(stage).__name__)
            raise bad_setting(f"“{name}” selects the token, so it must be the last stage.")
    return stages


def _stage(value: object, number: int) -> Stage:
    if isinstance(value, Stage):
        value = as_stored(value)
    stage = read_stage(value, [*FILTERS, *SELECTING], f"stage {number}")
    assert isinstance(stage, Stage)
    return stage


_CHECKS: Final[dict[str, Callable[[object], Any]]] = {
    "theme": _one_of("The theme", "system", "light", "dark"),
    "zoom_percent": _whole("The zoom", 80, 300),
    "n_threads": _whole("The number of threads", 0, 512),
    "n_ctx": _whole("The context window", 0, 16_777_216),
    "n_gpu_layers": _whole("The number of layers on the GPU", -1, 10_000),
    "type_k": _one_of("The type of the key cache", *CACHE_TYPE_NAMES),
    "type_v": _one_of("The type of the value cache", *CACHE_TYPE_NAMES),
    "flash_attention": _one_of("Flash attention", "auto", "on", "off"),
    "context_policy": _one_of("The policy for a full context", *get_args(Policy)),
    "max_tokens": _whole("The maximum number of tokens", 0, 10_000_000),
    "stop_strings": _texts("Stop strings", "A stop string", MAX_STOP_STRINGS),
    "stop_in_reasoning": _flag("Stopping in reasoning"),
    "reasoning_tags": _reasoning_tags,
    "thinking": _thinking,
    "reasoning_budget": _whole("The reasoning limit", 0, 10_000_000),
    "template_variables": _template_variables,
    "send_key": _one_of("The send key", "enter", "ctrl_enter"),
    "temperature": _real("The temperature", 0, 10),
    "top_k": _whole("Top-k", 0, 1_000_000),
    "top_p": _real("Top-p", 0, 1),
    "min_p": _real("Min-p", 0, 1),
    "repeat_penalty": _real("The repetition penalty", 0.1, 10),
    "repeat_last_n": _whole("The repetition window", -1, 1_000_000),
    "seed": _seed,
    "chain": _chain,
    "grammar": _text("The grammar", MAX_GRAMMAR_LENGTH),
    "json_schema": _text("The JSON schema", MAX_GRAMMAR_LENGTH),
    "banned_strings": _texts("Banned strings", "A banned string", MAX_BANNED_STRINGS),
    "min_tokens": _whole("The minimum number of tokens", 0, 10_000_000),
    "ban_end_token": _flag("Continuing past the end"),
    "repeatable": _flag("Repeatable"),
    "drafts": _one_of("Speculative decoding", "off", "lookup", "model"),
    "draft_tokens": _whole("The number of draft tokens", 1, MAX_DRAFT),
    "loras": _adapter_files("LoRA adapters", Lora, lambda loras: Adapters(loras=loras)),
    "control_vectors": _adapter_files(
        "Control vectors", ControlVector, lambda vectors: Adapters(vectors=vectors)
    ),
    "chat_format": _one_of("The chat format", *formats.NAMES),
    "chat_template": _text("The chat template", MAX_TEMPLATE_LENGTH),
    "system_prompt": _text("The system prompt", MAX_SYSTEM_PROMPT_LENGTH),
    "font_text": _text("The interface font", 200),
    "font_reading": _text("The reading font", 200),
    "font_mono": _text("The monospaced font", 200),
    "text_px": _whole("The interface size", 10, 28),
    "reading_px": _whole("The reading size", 10, 40),
    "offline": _flag("Offline"),
    "hub_endpoint": _hub_endpoint,
    "hub_tokens_kept": _texts("Hubs with a token", "A hub's address", MAX_HUBS),
    "read_aloud": _flag("Reading aloud"),
    "voice": _text("The voice", 80),
    "voice_rate": _whole("The speed of the voice", 50, 300),
    "write_titles": _flag("Titles by the model"),
    "write_titles_remote": _flag("Titles by servers' models"),
    "trash_days": _whole("The number of days in the trash", 0, 3650),
    "picture_side": _whole("The longest side of a picture", 128, 4096),
    "window_geometry": _text("The window's geometry", 20_000),
    "last_conversation_id": _text("The last conversation", 200),
    "section_visible": _flag("The section"),
    "section_width": _whole("The section's width", 0, 10_000),
    "section_panel": _text("The section's panel", 100),
    "tour_at": _text("Where the tour was left", 100),
    "token_view": _flag("The token view"),
    "token_tint": _one_of("The tint", "probability", "rank", "entropy", "surprise", "time"),
    "sidebar_visible": _flag("The sidebar"),
    "sidebar_width": _whole("The sidebar's width", 0, 10_000),
    "closed_folders": _texts("Closed folders", "A closed folder", MAX_CLOSED_FOLDERS),
    "weights_folders": _paths,
    "download_folder": _download_folder,
    "downloads_at_once": _whole("The number of downloads at once", 1, 8),
    "download_limit_kbs": _whole("The limit of the download speed", 0, 10_000_000),
    "unload_after_min": _whole("The idle time before unloading", 0, 10_000),
    "embedding_model": _text("The embedding model", MAX_PATH_LENGTH),
    "saved_chats_mb": _whole("The disk space for saved chats", 0, 10_000_000),
    "find_other_apps": _flag("Including models from other apps"),
    "engines": _engines,
    "local_engines_offline": _flag("Engines on this computer while offline"),
    "tool_servers": read_servers,
    "tool_rounds": _whole("The rounds of tool calls", 1, 1_000),
    "tools": _tools,
    "tool_choice": _one_of("The tool choice", AUTO, REQUIRED),
    "server_on": _flag("The server"),
    "server_port": _whole("The server's port", 0, 65_535),
    "server_address": _server_address,
    "server_key_kept": _flag("Keeping the server's key"),
    "server_names": _server_names,
    "server_origins": _server_origins,
    "server_loads": _flag("Loading the model for a request"),
    "server_max_requests": _whole("The number of requests at once", 1, 1_000),
    "server_max_mb": _whole("The size of a request", 1, 1_000),
    "server_max_minutes": _whole("The minutes of a request", 0, 10_000),
}
