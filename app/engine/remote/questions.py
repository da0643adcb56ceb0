"""What else the engine is asked, where a server can tell it.

    llama-server    POST /apply-template, /tokenize (with_pieces), /detokenize; its chat template
                    stands in GET /props
    vLLM            POST /tokenize ({prompt} or {messages}, return_token_strs), /detokenize;
                    `prompt_logprobs` of POST /v1/completions ("OpenAI-Compatible Server")

Everything else fails with the sentence why, which is the offer's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from app.engine.prompts.fitting import fit_prompt
from app.engine.prompts.prompt import BuiltPrompt, build_prompt
from app.engine.prompts.thinking import inspected, with_thinking
from app.engine.protocol.adapter_messages import MakeVector
from app.engine.protocol.beam_messages import SearchBeams
from app.engine.protocol.cache_messages import ChangeCache, MeasureStep, ReadCache
from app.engine.protocol.embedding_messages import (
    DescribeEmbedding,
    FindNearest,
    ReadEmbedding,
    ReadRotations,
)
from app.engine.protocol.frames import Array
from app.engine.protocol.inside_messages import AttributeToken, LookInside, MeasureHeads, ReadGraph
from app.engine.protocol.lane_messages import ReadLanes
from app.engine.protocol.loading_messages import ReadDevices
from app.engine.protocol.machine_messages import CompareFlash, ProfileStep
from app.engine.protocol.messages import (
    CheckGrammar,
    Command,
    CountPrompt,
    Event,
    Generate,
    PromptCount,
    PromptScores,
    ReadVocabulary,
    Result,
    SetThreads,
    Summary,
    Tokenize,
    Tokens,
)
from app.engine.protocol.passage_messages import EmbedPassages
from app.engine.protocol.pooling_messages import EmbedTexts
from app.engine.protocol.prompt_messages import (
    ChatPrompt,
    IdsPrompt,
    Prompt,
    PromptShown,
    ReadPrompt,
    ShownPart,
    TextPrompt,
)
from app.engine.protocol.remote_messages import Ability
from app.engine.protocol.replay_messages import ReplayDraws
from app.engine.protocol.saved_messages import DropSaved, ForgetChats, SaveChats, UseSaved
from app.engine.protocol.template_messages import TemplateFailed
from app.engine.protocol.thinking_messages import OFF, ReadThinking, ThinkingOffer
from app.engine.remote.asking import template_fields
from app.engine.remote.controls import NOTE, SENTENCE, candidates, neutral, unescaped
from app.engine.remote.media import has_media
from app.engine.remote.target import Target
from app.engine.text.reasoning import KNOWN
from app.refusal import Refusal

if TYPE_CHECKING:
    from app.hub.engines.calls import Server

MAX_TOKENS: Final = 1 << 22
_CHUNK: Final = 512
_CONTROL: Final = 8
"""llama.cpp's attribute of a control token (LLAMA_TOKEN_ATTR_CONTROL)."""

RENDERED: Final = "Rendered and tokenised by “{}”"
UNSAID: Final = ", which doesn't say whose a token is"

NEEDS: Final[dict[type[Any], tuple[str, Ability]]] = {
    Tokenize: ("Tokens of a text", "tokenize"),
    CountPrompt: ("The length of a prompt", "count"),
    ReadPrompt: ("The prompt", "rendered_prompt"),
    ReadVocabulary: ("The vocabulary", "vocabulary"),
    ReadDevices: ("Devices", "devices"),
    SetThreads: ("The number of threads", "threads"),
    ReadCache: ("The cache", "cache"),
    ChangeCache: ("The cache", "cache"),
    MeasureStep: ("The time of a step", "machine"),
    ReplayDraws: ("Replayed draws", "draws"),
    UseSaved: ("A saved cache", "saved"),
    SaveChats: ("A saved cache", "saved"),
    DropSaved: ("A saved cache", "saved"),
    ForgetChats: ("A saved cache", "saved"),
    ReadLanes: ("The engine's lanes", "lanes"),
    LookInside: ("The inside", "inside"),
    ReadGraph: ("The inside", "inside"),
    MeasureHeads: ("The inside", "inside"),
    AttributeToken: ("Attributions", "inside"),
    ReadRotations: ("Rotations", "embedding"),
    ReadEmbedding: ("The embedding", "embedding"),
    DescribeEmbedding: ("The embedding", "embedding"),
    FindNearest: ("Nearest tokens", "embedding"),
    ProfileStep: ("The profile of a step", "machine"),
    CompareFlash: ("A comparison of flash attention", "machine"),
    SearchBeams: ("Beams", "beams"),
    EmbedTexts: ("Vectors of texts", "inside"),
    EmbedPassages: ("Vectors of passages", "inside"),
    MakeVector: ("A control vector", "vectors"),
    CheckGrammar: ("A check of the grammar", "grammar"),
}
"""What a command asks for, in words, and the ability that it needs."""


def cannot(what: str, why: str, name: str) -> Refusal:
    return Refusal("unsupported", f"{what} cannot be had from “{name}”: {why}")


def answered(command: Command, server: Server, target: Target) -> Result:
    """Raises ServerFault, Refusal, CalledOff."""
    if isinstance(command, ReadThinking):
        return thinking(command, target)
    offer = target.offer
    what, ability = NEEDS.get(type(command), ("This", "inside"))
    why_not = offer.why_not(ability)
    if why_not:
        raise cannot(what, why_not, offer.name)
    if isinstance(command, Tokenize):
        return _tokenized(command, server, target)
    if isinstance(command, CountPrompt):
        ids, n_ctx = _prompt_ids(command.prompt, server, target)
        return PromptCount(len(ids), n_ctx)
    if isinstance(command, ReadPrompt):
        return _shown(command, server, target)
    if isinstance(command, CheckGrammar):
        why = f"“{offer.name}” checks a grammar only when it answers with it."
        raise cannot(what, why, offer.name)
    raise cannot(what, f"“{offer.name}” has no such question.", offer.name)


# --- tokens -------------------------------------------------------------------------------------


def _tokenized(command: Tokenize, server: Server, target: Target) -> Tokens:
    if target.offer.speaks_llama:
        ids, pieces = _llama_tokens(
            server, command.text, special=command.special, add_special=command.add_special
        )
    else:
        body = {
            "model": target.model.id,
            "prompt": command.text,
            "add_special_tokens": command.add_special,
            "return_token_strs": True,
        }
        ids, pieces = _vllm_tokens(server, body, target)
    return Tokens(ids, pieces)


def _llama_tokens(
    server: Server, text: str, *, special: bool, add_special: bool
) -> tuple[list[int], list[bytes]]:
    body = {
        "content": text,
        "add_special": add_special,
        "parse_special": special,
        "with_pieces": True,
    }
    told = server.post("/tokenize", body)
    rows = told.get("tokens") if isinstance(told, dict) else None
    ids: list[int] = []
    pieces: list[bytes] = []
    for row in rows if isinstance(rows, list) else ():
        token_id, piece = (row.get("id"), row.get("piece")) if isinstance(row, dict) else (None, "")
        if not isinstance(token_id, int) or not _is_id(token_id):
            raise _unreadable(server, "/tokenize")
        ids.append(token_id)
        pieces.append(piece.encode() if isinstance(piece, str) else _as_bytes(piece))
    _check_many(ids, server)
    return ids, pieces


def _vllm_tokens(
    server: Server, body: dict[str, Any], target: Target
) -> tuple[list[int], list[bytes]]:
    """IDs, and the bytes of each: the vocabulary's strings, which write bytes in one of two ways.
    Which one it is shows against the text that the server makes of the same IDs."""
    ids, told = _vllm_ids(server, body)
    strings = told.get("token_strs")
    text = detokenized(ids, server, target) if ids else ""
    if isinstance(strings, list) and len(strings) == len(ids) and text is not None:
        for spell in (_byte_level, _with_spaces):
            pieces = [spell(each) if isinstance(each, str) else b"" for each in strings]
            if b"".join(pieces).decode("utf-8", "replace").strip() == text.strip():
                return ids, pieces
    why = f"“{target.offer.name}” doesn't tell what each token spells."
    raise cannot("Tokens of a text", why, target.offer.name)


def _vllm_ids(server: Server, body: dict[str, Any]) -> tuple[list[int], dict[str, Any]]:
    told = server.post("/tokenize", body)
    ids = told.get("tokens") if isinstance(told, dict) else None
    if not isinstance(ids, list) or not all(map(_is_id, ids)):
        raise _unreadable(server, "/tokenize")
    _check_many(ids, server)
    return ids, told


def _byte_level(string: str) -> bytes:
    """GPT-2's way: each byte is a character of its own.

    >>> _byte_level("Ġworld")
    b' world'
    """
    codes = _byte_codes()
    return b"".join(
        bytes([codes[c]]) if c in codes else c.encode("utf-8", "replace") for c in string
    )


def _byte_codes() -> dict[str, int]:
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(256 + n): b for n, b in enumerate(others)}


def _with_spaces(string: str) -> bytes:
    """SentencePiece's way.

    >>> _with_spaces("▁world"), _with_spaces("<0x0A>")
    (b' world', b'\\n')
    """
    if len(string) == 6 and string.startswith("<0x") and string.endswith(">"):
        try:
            return bytes([int(string[3:5], 16)])
        except ValueError:
            pass
    return string.replace("▁", " ").encode("utf-8", "replace")


def _detokenizes(target: Target) -> bool:
    return target.offer.speaks_llama or target.offer.kind in ("vllm", "sglang")


def detokenized(ids: Sequence[int], server: Server, target: Target) -> str | None:
    """What tokens spell together; None where the server cannot tell."""
    if any(each < 0 for each in ids) or not _detokenizes(target):
        return None
    told = server.post("/detokenize", {"model": target.model.id, "tokens": list(ids)})
    if not isinstance(told, dict):
        return None
    names = ("content", "prompt", "text")
    found = next((told[name] for name in names if isinstance(told.get(name), str)), None)
    # A part of a character has no text of its own.
    return None if found is None or "\ufffd" in found else found


def _check_many(ids: list[int], server: Server) -> None:
    if len(ids) > MAX_TOKENS:
        raise _unreadable(server, "too many tokens")


def _unreadable(server: Server, what: str) -> Exception:
    from app.hub.engines.faults import unreadable

    return unreadable(server.name, what)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _as_bytes(piece: Any) -> bytes:
    try:
        return bytes(piece) if isinstance(piece, list) else b""
    except (ValueError, TypeError):
        return b""


# --- prompts ------------------------------------------------------------------------------------


class _ServerVocabulary:
    """A server's vocabulary as far as it tells it. `pieces`: of the tokens that it has named."""

    control_texts: Final[list[str]] = []
    bos_id: Final = None
    add_bos: Final = False

    def __init__(self, server: Server, target: Target) -> None:
        self._server = server
        self._pieces: dict[int, bytes] = {}
        self.bos_text, self.eos_text = target.bos_text, target.eos_text

    def tokenize(self, text: str, special: bool = False, add_bos: bool = False) -> list[int]:
        ids, pieces = _llama_tokens(self._server, text, special=special, add_special=add_bos)
        self._pieces.update(zip(ids, pieces, strict=True))
        return ids

    def piece(self, token_id: int, /) -> bytes:
        """Raises IndexError for one that it has not named."""
        if token_id not in self._pieces:
            raise IndexError(token_id)
        return self._pieces[token_id]


def fitted(
    generate: Generate, server: Server, target: Target
) -> tuple[ChatPrompt, BuiltPrompt] | None:
    """A chat that the server found too long, without what the context policy leaves out; None where
    it leaves nothing out, or where the server's template is not told. Room for a reply is kept."""
    prompt, n_ctx = generate.prompt, target.model.n_ctx
    render, policy = target.render, generate.context_policy
    is_fit = isinstance(prompt, ChatPrompt) and policy != "stop" and render is not None
    if has_media(prompt):
        return None  # how many tokens a picture has there, nobody knows here
    if not is_fit or not target.template or not n_ctx or not target.offer.can("rendered_prompt"):
        return None
    assert isinstance(prompt, ChatPrompt)
    assert render is not None
    vocabulary, template = _ServerVocabulary(server, target), target.template
    as_text = [msgspec.structs.replace(m, token_ids=None) for m in prompt.messages]
    ours = msgspec.structs.replace(prompt, messages=as_text, template=None, begin_ids=[])
    window = n_ctx - min(generate.max_tokens or n_ctx // 4, n_ctx // 2)
    try:
        built = fit_prompt(
            ours,
            lambda part: build_prompt(part, vocabulary, template, render),
            window,
            "keep_ends" if policy == "keep_ends" else "drop_oldest",
        )
    except (Refusal, TemplateFailed, IndexError):
        return None
    gone = {cut.message_id for cut in built.cut if cut.message_id}
    left = [message for message in prompt.messages if message.message_id not in gone]
    return (msgspec.structs.replace(prompt, messages=left), built) if gone else None


def _parts_by_own_rendering(
    prompt: Prompt, ids: list[int], server: Server, target: Target
) -> list[ShownPart]:
    """Where each token comes from: the server's template rendered here, the server's tokens of it.
    Nothing, unless these are the very tokens that the server makes of the chat itself."""
    if not isinstance(prompt, ChatPrompt) or target.render is None or not target.template:
        return []
    as_text = [msgspec.structs.replace(m, token_ids=None) for m in prompt.messages]
    ours = msgspec.structs.replace(prompt, messages=as_text, template=None)
    try:
        built = build_prompt(
            ours, _ServerVocabulary(server, target), target.template, target.render
        )
    except (Refusal, TemplateFailed, IndexError):
        return []
    n_before = len(ids) - len(built.ids)  # a BOS, perhaps
    if n_before not in (0, 1) or ids[n_before:] != built.ids:
        return []
    found = [ShownPart(0, n_before, "scaffold")] if n_before else []
    for part in built.parts:
        origin = "unknown" if part.origin == "scaffold" and not built.is_known else part.origin
        start, end = part.start + n_before, part.end + n_before
        found.append(ShownPart(start, end, origin, part.message_id))
    return found


def prepared(
    prompt: Prompt, server: Server, target: Target
) -> tuple[Prompt, list[tuple[str, str]]]:
    """The prompt as a server may have it, and what is to be said of it: no text in it acts as a
    control token, and thinking is as it was chosen."""
    is_meant = isinstance(prompt, TextPrompt) and prompt.special
    is_kept_apart = target.is_openai or target.offer.kind == "cutaway"
    if isinstance(prompt, IdsPrompt) or is_meant or is_kept_apart:
        return prompt, []
    if isinstance(prompt, ChatPrompt):
        prompt = unescaped(prompt)
    controls = _controls_in(prompt, server, target)
    notes: list[tuple[str, str]] = []
    if isinstance(prompt, TextPrompt):
        prompt = neutral(prompt, controls)
    else:
        prompt, notes = _with_choice(neutral(prompt, controls), target)
    if controls:
        words = SENTENCE.format(target.offer.name, ", ".join(controls[:3]))
        notes = [*notes, (NOTE, words)]
    return prompt, notes


def _controls_in(prompt: ChatPrompt | TextPrompt, server: Server, target: Target) -> list[str]:
    can_ask = target.offer.speaks_llama or target.offer.kind == "vllm"
    found = candidates(prompt, can_ask=can_ask)
    if not can_ask:
        return found
    known = target.single_tokens
    unknown = [text for text in found if text not in known]
    if unknown:
        tokens = _tokens_as_read("\n".join(unknown), server, target)
        known.update((text, tokens is None or text.encode() in tokens) for text in unknown)
    return [text for text in found if known[text]]


def _tokens_as_read(text: str, server: Server, target: Target) -> set[bytes] | None:
    """What each token spells where control tokens are read; None where the server doesn't say."""
    from app.hub.engines.faults import ServerFault

    try:
        if target.offer.speaks_llama:
            return set(_llama_tokens(server, text, special=True, add_special=False)[1])
        body = {
            "model": target.model.id,
            "prompt": text,
            "add_special_tokens": False,
            "return_token_strs": True,
        }
        strings = _vllm_ids(server, body)[1].get("token_strs")
    except ServerFault as fault:
        if fault.kind in ("unreachable", "refused", "busy"):
            raise
        return None
    if not isinstance(strings, list):
        return None
    return {each.encode() for each in strings if isinstance(each, str)}


def _with_choice(prompt: ChatPrompt, target: Target) -> tuple[Prompt, list[tuple[str, str]]]:
    """What was chosen of thinking, as variables of the server's template where that is told."""
    if target.inspect is None or not target.template:
        return prompt, []
    found, notes = with_thinking(prompt, target.template, target, target.inspect)
    assert isinstance(found, ChatPrompt)
    told = [(note.kind, note.sentence) for note in notes]
    return msgspec.structs.replace(found, thinking=""), told


def rendered(prompt: ChatPrompt, server: Server, target: Target) -> str:
    """The chat as llama-server's template makes it."""
    told = server.post("/apply-template", template_fields(prompt, target.offer))
    found = told.get("prompt") if isinstance(told, dict) else None
    if not isinstance(found, str):
        raise _unreadable(server, "/apply-template")
    return found


def rendered_inside(prompt: ChatPrompt, server: Server, target: Target) -> str:
    """A prompt that ends inside the reasoning of the last message."""
    before = msgspec.structs.replace(prompt, messages=prompt.messages[:-1], continue_last=False)
    text = rendered(before, server, target)
    tags = [opens for opens, _ in prompt.reasoning_tags] + [each.opening for each in KNOWN]
    opens = next((each for each in tags if each in target.template), "")
    if not opens:
        raise cannot(
            "A continued reasoning",
            f"the chat template on “{target.offer.name}” knows no reasoning.",
            target.offer.name,
        )
    reasoning = prompt.messages[-1].reasoning or ""
    return text + ("" if text.rstrip().endswith(opens) else f"{opens}\n") + reasoning


def _prompt_ids(prompt: Prompt, server: Server, target: Target) -> tuple[list[int], int]:
    """The IDs of a whole prompt, and the size of the window."""
    n_ctx = target.model.n_ctx
    _check_media("The length of a prompt", prompt, target)
    prompt, _ = prepared(prompt, server, target)
    if isinstance(prompt, IdsPrompt):
        return list(prompt.token_ids), n_ctx
    if target.offer.speaks_llama:
        return _llama_prompt(prompt, server, target)[1], n_ctx
    ids, told = _vllm_ids(server, _vllm_prompt(prompt, target))
    told_ctx = told.get("max_model_len")
    return ids, told_ctx if isinstance(told_ctx, int) and _is_id(told_ctx) else n_ctx


def _check_media(what: str, prompt: Prompt, target: Target) -> None:
    """Raise Refusal where there are pictures in it."""
    if has_media(prompt):
        why = "it doesn't tell what it makes of pictures and sounds."
        raise cannot(what, why, target.offer.name)


def _llama_prompt(
    prompt: ChatPrompt | TextPrompt, server: Server, target: Target
) -> tuple[str, list[int], list[bytes]]:
    """Its text, IDs and pieces, as llama-server reads a prompt: with control tokens."""
    text = rendered(prompt, server, target) if isinstance(prompt, ChatPrompt) else prompt.text
    return text, *_llama_tokens(server, text, special=True, add_special=True)


def _vllm_prompt(prompt: Prompt, target: Target) -> dict[str, Any]:
    body: dict[str, Any] = {"model": target.model.id, "return_token_strs": True}
    if isinstance(prompt, ChatPrompt):
        body |= template_fields(prompt, target.offer)
        body["add_generation_prompt"] = not prompt.continue_last
        body["continue_final_message"] = prompt.continue_last
    elif not isinstance(prompt, IdsPrompt):
        body["prompt"] = prompt.text
    return body


def _shown(command: ReadPrompt, server: Server, target: Target) -> PromptShown:
    """Whose each token is, this program's own rendering knows; it is told where both are the
    same."""
    _check_media("The prompt", command.prompt, target)
    prompt, said = prepared(command.prompt, server, target)
    if isinstance(prompt, IdsPrompt):
        raise cannot("The prompt", "it was given as token IDs.", target.offer.name)
    parts: list[ShownPart] = []
    if target.offer.speaks_llama:
        text, ids, pieces = _llama_prompt(prompt, server, target)
        parts = _parts_by_own_rendering(prompt, ids, server, target)
    else:
        ids, pieces = _vllm_tokens(server, _vllm_prompt(prompt, target), target)
        text = b"".join(pieces).decode("utf-8", "replace")
    if not ids:
        raise cannot("The prompt", "it has no tokens.", target.offer.name)
    origin = "text" if isinstance(prompt, TextPrompt) else "unknown"
    offsets = [0]
    for piece in pieces:
        offsets.append(offsets[-1] + len(piece))
    return PromptShown(
        token_ids=Array.of("i4", ids),
        offsets=Array.of("i8", offsets),
        blob=b"".join(pieces),
        attributes=Array.of("i4", [0] * len(ids)),
        controls=Array.of("u1", [0] * len(ids)),
        parts=parts or [ShownPart(0, len(ids), origin)],
        rendered=text,
        n_ctx=target.model.n_ctx,
        notes=[
            f"{RENDERED.format(target.offer.name)}{'' if parts else UNSAID}.",
            *(words for _, words in said),
        ],
        cut=[],
        n_whole=len(ids),
        returned=[],
        retokenized=[],
    )


def thinking(command: ReadThinking, target: Target) -> ThinkingOffer:
    """What can be chosen: found out in the template, where it is told."""
    if not target.offer.can("thinking"):
        return ThinkingOffer()
    if target.offer.kind == "ollama":  # `reasoning_effort` of "OpenAI compatibility"
        return ThinkingOffer([OFF, "low", "medium", "high"], has_reasoning=True)
    if target.inspect is None or not target.template.strip():
        return ThinkingOffer()
    tags, variables = command.reasoning_tags, command.variables
    return inspected(target.template, target, target.inspect, tags, variables).offer


# --- scores of a prompt -------------------------------------------------------------------------


def scored(
    generate: Generate, server: Server, target: Target, tell: Callable[[Event], None]
) -> Summary:
    """How probable each token of a prompt was, by vLLM's `prompt_logprobs`: for each position what
    the token there had, with its rank; nothing for the first."""
    offer = target.offer
    why_not = offer.why_not("prompt_logprobs")
    if why_not:
        raise cannot("The surprise of a prompt", why_not, offer.name)
    ids, _ = _prompt_ids(generate.prompt, server, target)
    body = {
        "model": target.model.id,
        "prompt": ids,
        "max_tokens": 1,
        "temperature": 0.0,
        "prompt_logprobs": 0,
    }
    told = server.post("/v1/completions", body, deadline_s=600.0)
    choices = told.get("choices") if isinstance(told, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    rows = first.get("prompt_logprobs") if isinstance(first, dict) else None
    if not isinstance(rows, list) or len(rows) != len(ids):
        raise cannot("The surprise of a prompt", "its answer has no scores.", offer.name)
    nats: list[float] = []
    ranks: list[int] = []
    for token_id, row in zip(ids[1:], rows[1:], strict=True):
        found = row.get(str(token_id)) if isinstance(row, dict) else None
        nat = found.get("logprob") if isinstance(found, dict) else None
        rank = found.get("rank") if isinstance(found, dict) else None
        has_nat = isinstance(nat, int | float) and math.isfinite(nat)
        if nat is None or not has_nat or not isinstance(rank, int) or not _is_id(rank):
            raise cannot("The surprise of a prompt", "its scores have gaps.", offer.name)
        nats.append(min(float(nat), 0.0))
        ranks.append(rank)
    for at in range(0, len(nats), _CHUNK):
        end = min(at + _CHUNK, len(nats))
        tell(
            PromptScores(
                generate.id,
                at + 1,
                ids[at + 1 : end + 1],
                Array.of("f4", nats[at:end]),
                Array.of("i4", ranks[at:end]),
            )
        )
    unknown = ["evaluated", "reused", "seed", "token_ids", "total_s"]
    return Summary("max_tokens", prompt_tokens=len(ids), unknown=unknown)
