"""Every command, result and event that one of the two processes sends the other.

The unions `Command`, `Result` and `Event` are all that travels; what the structs of one subject
hold is beside them (`__init__.py` says where). What must hold:

* Each request carries an id, chosen by the client, never used twice in one child.
  It ends in exactly one of `Finished`, `Stopped` or `Failed`; after that no event with
  this id follows. The client drops events of ids that it does not wait for.
* Errors never travel as tokens. `Failed.sentence` is for the user and says what to do
  next; `Failed.evidence` is for us (the last log lines, a native message).
* Each field of an event has a bound (`frames.py`), and a struct whose fields must fit each
  other a `check()`; the receiver applies both to every frame before anybody sees it.
* Arrays travel as `Array`: the dtype that their field names, and bytes whose length fits.
* Text fields hold no lone surrogates (msgpack is UTF-8); `clean_text()` sees to it.
* The window treats every frame as untrusted: unknown tags, missing fields, wrong types
  and oversized frames end the child, not the window.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from app.engine.protocol.adapter_messages import Adapters, AdapterUsed, MakeVector, VectorMade
from app.engine.protocol.beam_messages import BeamsFound, BeamsGrew, SearchBeams
from app.engine.protocol.cache_messages import (
    CacheMap,
    ChangeCache,
    MeasureStep,
    ReadCache,
    StepMeasured,
)
from app.engine.protocol.cut_messages import Cut, CutMode
from app.engine.protocol.draft_messages import DraftReport, Drafts, Rejected
from app.engine.protocol.embedding_messages import (
    DescribeEmbedding,
    EmbeddingFacts,
    EmbeddingRows,
    FindNearest,
    NearestTokens,
    ReadEmbedding,
    ReadRotations,
    Rotations,
)
from app.engine.protocol.frames import (
    FEW,
    MANY,
    Amount,
    Bits,
    Blob,
    Count,
    Evidence,
    Float32s,
    Int32s,
    Int64s,
    Logit,
    Milliseconds,
    Name,
    Nats,
    Piece,
    ProtocolError,
    Rate,
    Seconds,
    Sentence,
    Share,
    Text,
    TokenId,
    UInt8s,
    WireMessage,
    Word,
    are_nats,
    check_equal,
    check_pieces,
    is_nats,
)
from app.engine.protocol.inside_messages import (
    AttributeToken,
    GraphOffer,
    HeadsMeasured,
    Inside,
    LookInside,
    MeasureHeads,
    ReadGraph,
    TokenAttributed,
)
from app.engine.protocol.lane_messages import Lanes, ReadLanes
from app.engine.protocol.loading_messages import (
    Device,
    DevicesRead,
    Loaded,
    LoadWeights,
    ReadDevices,
)
from app.engine.protocol.machine_messages import (
    CompareFlash,
    FlashCompared,
    ProfileStep,
    StepProfiled,
)
from app.engine.protocol.media_messages import Spans, check_spans
from app.engine.protocol.midway_messages import ContextShift
from app.engine.protocol.passage_messages import EmbedPassages, PassagesEmbedded
from app.engine.protocol.pooling_messages import EmbedTexts, TextsEmbedded
from app.engine.protocol.prompt_messages import (
    ContextPolicy,
    CutMessage,
    Prompt,
    PromptShown,
    ReadPrompt,
)
from app.engine.protocol.remote_messages import EngineOffer
from app.engine.protocol.replay_messages import (
    DrawsReplayed,
    ReplayDraws,
)
from app.engine.protocol.saved_messages import DropSaved, ForgetChats, SaveChats, UseSaved
from app.engine.protocol.stages import (
    Sampling,
)
from app.engine.protocol.thinking_messages import ReadThinking, ThinkingOffer
from app.engine.protocol.timeline_messages import (
    MAX_SPANS,
    Span,
)
from app.engine.protocol.tool_messages import Calls, Part, ToolCalled

PROTOCOL_VERSION: Final = 1

MAX_GRAMMAR_BYTES: Final = 64 * 1024
"""Of a grammar, and of a schema."""

# --- commands: window -> engine ---------------------------------------------------------------


class Generate(WireMessage, frozen=True, tag=True):
    """Generate one reply.

    `conversation`: whose KV cells this is (prefix reuse looks there first).
    `alternatives`: how many top candidates each token's trace carries (0 ... 64).
    `record_stages`: whether each stage's effect is recorded.
    `hold`: start in step mode: every drawn token is announced by `Held` and waits for
    `Choose` or `Resume`. `deadline_s`: a hard cap on wall time (0: none).
    `stop_ids`: tokens that end the reply, besides the file's own end tokens.
    `context_policy`: what happens where the prompt is too long, or the window full in the middle of
    the reply: stop says so, drop_oldest leaves out the oldest turns, keep_ends those in the middle,
    summarize the oldest ones, of which a summary stands among the messages (see `Summary.cut`).
    `repeatable`: the same numbers to the last bit as another repeatable run: slot alone, no reuse,
    fixed chunks and threads. `score_prompt`: also evaluate how probable each prompt token was
    (PromptScores; no reuse then). `forced_ids`: the reply's first tokens, chosen instead of drawn;
    they are measured like any other. `reply_id`: the message that the reply becomes, named where
    the cache is shown. `stop_in_reasoning`: texts in `stop` end the reply inside its reasoning as
    well, and not in its answer alone. `reuse_prefix`: go on from cells that are there; without it
    and without a conversation none are left, either. `is_background`: it rests while anybody else
    reads or writes, leaves its slot to a person, and is refused where a chat would lose its cells.
    `is_guest`: another program asked for it, so a person's replies come first.
    `cuts`: parts of the network that are cut from the prompt's last token on, by `cut_mode`; none
    of them in an empty list, which is written as those are, in a context of their own, to be held
    against them. `is_stored`: its chat is stored, so its KV state may be written to disk; no
    other's ever is. `drafts`: propose tokens and check them in one pass (speculative decoding).
    `adapters`: what changes the weights (None: those that they were loaded with).
    """

    id: Amount
    prompt: Prompt
    sampling: Sampling = msgspec.field(default_factory=Sampling)
    max_tokens: int = 0
    stop: list[str] = msgspec.field(default_factory=list)
    conversation: str = ""
    alternatives: int = 8
    record_stages: bool = False
    hold: bool = False
    reuse_prefix: bool = True
    deadline_s: float = 0.0
    context_policy: ContextPolicy = "stop"
    repeatable: bool = False
    score_prompt: bool = False
    stop_ids: list[int] = msgspec.field(default_factory=list)
    forced_ids: list[int] = msgspec.field(default_factory=list)
    reply_id: str = ""
    stop_in_reasoning: bool = False
    is_background: bool = False
    is_guest: bool = False
    cuts: list[Cut] | None = None
    cut_mode: CutMode = "mean"
    is_stored: bool = False
    drafts: Drafts | None = None
    adapters: Adapters | None = None


class Stop(WireMessage, frozen=True, tag=True):
    """Stop the request `target` (a Generate, a LoadWeights, or a question about the cache). Has no
    ending of its own."""

    target: int


class Hold(WireMessage, frozen=True, tag=True):
    """From the next token on, request `target` waits for a choice at each token."""

    target: int


class Choose(WireMessage, frozen=True, tag=True):
    """While held: `token_id` becomes the next token (the drawn one or another). One that is none
    is refused in words, so it has no bound here: a command out of bounds ends the engine."""

    target: int
    token_id: int


class Resume(WireMessage, frozen=True, tag=True):
    """End holding: take the drawn token and run on."""

    target: int


class Tokenize(WireMessage, frozen=True, tag=True):
    """Text to IDs. `special`: control-token text becomes control tokens. `inside`: as people's
    text that stands behind another one, so that the IDs spell it and nothing before it.
    `add_special`: with what the file puts around a text (BOS, EOS). -> Tokens
    """

    id: Amount
    text: str
    special: bool = False
    add_special: bool = False
    inside: bool = False


class CountPrompt(WireMessage, frozen=True, tag=True):
    """How many tokens this prompt has; answered beside a running reply. `adapters`: those that its
    reply will be written with, so that what is saved of its cells can be fetched ahead.
    -> PromptCount"""

    id: Amount
    prompt: Prompt
    context_policy: ContextPolicy = "stop"
    adapters: Adapters | None = None


class ReadVocabulary(WireMessage, frozen=True, tag=True):
    """All pieces of the loaded vocabulary. -> VocabularyTable"""

    id: Amount


class CheckGrammar(WireMessage, frozen=True, tag=True):
    """Whether a reply could be bound by this; one of the two is given. -> GrammarChecked"""

    id: Amount
    grammar: str = ""
    json_schema: str = ""


class SetThreads(WireMessage, frozen=True, tag=True):
    """Change the number of threads of the loaded weights between two steps. -> Done"""

    id: Amount
    n_threads: int


class Shutdown(WireMessage, frozen=True, tag=True):
    """End the child in an orderly way. It also ends when its stdin closes."""


Command = (
    LoadWeights
    | Generate
    | Stop
    | Hold
    | Choose
    | Resume
    | Tokenize
    | CountPrompt
    | ReadPrompt
    | ReadThinking
    | ReadVocabulary
    | CheckGrammar
    | ReadDevices
    | SetThreads
    | ReadCache
    | ChangeCache
    | MeasureStep
    | ReplayDraws
    | UseSaved
    | SaveChats
    | DropSaved
    | ReadLanes
    | ForgetChats
    | LookInside
    | ReadGraph
    | MeasureHeads
    | AttributeToken
    | ReadRotations
    | ReadEmbedding
    | DescribeEmbedding
    | FindNearest
    | ProfileStep
    | CompareFlash
    | SearchBeams
    | EmbedTexts
    | EmbedPassages
    | MakeVector
    | Shutdown
)


# --- results ------------------------------------------------------------------------------------


class Summary(WireMessage, frozen=True, tag=True):
    """How a reply ended; what is not given is nothing.

    stop_reason: end_token, turn_end (the template's marker, in ordinary tokens), max_tokens,
    stop_string, tool_calls, context_full, stopped, deadline. stop_detail: the token, marker, text
    or number.
    `text` is the whole reply (without what a stop string swallowed); `token_ids` exclude the
    end token. Times in seconds by the engine's clock; `tokens_per_s` counts as llama-bench
    does: (generated - 1) / time after the first token. `reuse_source`: where the reused tokens
    came from: slot, fork, parked, saved (on disk), or empty. `timeline`: what the time went into,
    from the command's arrival to the end; empty where nobody recorded it. `reasoning_tokens`: so
    many of the reply's tokens were reasoning, tags not counted, with those that it went on from;
    `reasoning_limit`: it was closed there by force (0: it was not). `shifts`: each time that the
    window was full in the middle of the reply, and what left the prompt then. `adapters`: what it
    was written with. `tool_calls`: what it called.
    """

    stop_reason: Word
    text: Text = ""
    reasoning: Text = ""
    token_ids: Annotated[list[TokenId], MANY] = msgspec.field(default_factory=list)
    stop_detail: Text = ""
    seed: Amount = 0
    prompt_tokens: Count = 0
    reused: Count = 0
    evaluated: Count = 0
    generated: Count = 0
    first_token_s: Seconds = 0.0
    prefill_s: Seconds = 0.0
    decode_s: Seconds = 0.0
    total_s: Seconds = 0.0
    tokens_per_s: Rate = 0.0
    n_threads: Count = 0
    context_used: Count = 0
    context_size: Count = 0
    rendered_prompt: Text = ""
    notes: Annotated[list[Sentence], FEW] = msgspec.field(default_factory=list)
    cut: Annotated[list[CutMessage], MANY] = msgspec.field(default_factory=list)
    shifts: Annotated[list[ContextShift], FEW] = msgspec.field(default_factory=list)
    reuse_source: Word = ""
    prompt_ids: Annotated[list[TokenId], MANY] | None = None
    timeline: Annotated[list[Span], msgspec.Meta(max_length=MAX_SPANS)] = msgspec.field(
        default_factory=list
    )
    drafts: DraftReport | None = None
    reasoning_tokens: Count = 0
    reasoning_limit: Count = 0
    adapters: Annotated[list[AdapterUsed], FEW] = msgspec.field(default_factory=list)
    tool_calls: Calls = msgspec.field(default_factory=list)
    unknown: Annotated[list[Word], FEW] = msgspec.field(default_factory=list)


def tokens_per_s(generated: int, decode_s: float) -> float:
    """Of a reply whose first token is not in the time."""
    return max(generated - 1, 0) / decode_s if decode_s > 0 else 0.0


class Tokens(WireMessage, frozen=True, tag=True):
    """token_ids, and the bytes of each piece."""

    token_ids: Annotated[list[TokenId], MANY]
    pieces: Annotated[list[Piece], MANY]

    def check(self) -> None:
        check_equal("token IDs and pieces", len(self.token_ids), len(self.pieces))


class PromptCount(WireMessage, frozen=True, tag=True):
    """`n_tokens` of the prompt as the policy lets it be; more than `n_ctx` would be refused. Where
    `n_cut` messages are left out, the whole conversation has `n_whole` tokens, and `first_cut` and
    `last_cut` are the first and last of those messages that have an id. `media`: which of the
    tokens are cells of pictures, as far as it fits."""

    n_tokens: Count
    n_ctx: Count
    n_cut: Count = 0
    n_whole: Count = 0
    last_cut: Name = ""
    first_cut: Name = ""
    media: Spans = msgspec.field(default_factory=list)

    def check(self) -> None:
        check_spans(self.media, self.n_tokens)


class VocabularyTable(WireMessage, frozen=True, tag=True):
    """Piece i is blob[offsets[i]:offsets[i + 1]]; attributes[i] is llama.cpp's token attribute."""

    offsets: Int64s
    blob: Blob
    attributes: Int32s

    def check(self) -> None:
        check_pieces(self.offsets, self.blob)
        check_equal("pieces and attributes", self.offsets.size - 1, self.attributes.size)


class GrammarChecked(WireMessage, frozen=True, tag=True):
    """`sentence`: why it cannot be used; nothing: it can. `line` and `column` (of characters) count
    from 1, and are 0 where the whole is meant. `notes`: what of a schema is not held."""

    sentence: Sentence = ""
    line: Count = 0
    column: Count = 0
    notes: Annotated[list[Sentence], FEW] = msgspec.field(default_factory=list)


class Done(WireMessage, frozen=True, tag=True):
    """An ending without a payload."""


Result = (
    Loaded
    | Summary
    | Tokens
    | PromptCount
    | PromptShown
    | ThinkingOffer
    | VocabularyTable
    | GrammarChecked
    | CacheMap
    | StepMeasured
    | DrawsReplayed
    | Lanes
    | Inside
    | GraphOffer
    | HeadsMeasured
    | TokenAttributed
    | Rotations
    | EmbeddingRows
    | EmbeddingFacts
    | NearestTokens
    | StepProfiled
    | FlashCompared
    | BeamsFound
    | TextsEmbedded
    | PassagesEmbedded
    | VectorMade
    | DevicesRead
    | EngineOffer
    | Done
)


# --- events: engine -> window --------------------------------------------------------------------


class Hello(WireMessage, frozen=True, tag=True):
    """The child's first frame. `can_offload`: whether this build deals layers to graphics devices;
    `repacked`: tensor types that its processor keeps in another order beside a mapped file."""

    protocol: Count
    engine: Word
    version: Word
    pid: Amount
    devices: Annotated[list[Device], FEW]
    physical_cores: Count
    notes: Annotated[list[Sentence], FEW]
    can_offload: bool = True
    repacked: Annotated[list[Word], FEW] = msgspec.field(default_factory=list)


class Progress(WireMessage, frozen=True, tag=True):
    """phase: load (done/total are bytes or percent), draft, projector (a load has come to the draft
    model or the projector: what ends the process now is its doing), prefill, measure, replay,
    inside or beams (tokens), embedding (rows), passages, examples, seeing (parts of pictures and
    sounds; 0 as the first one is begun). Sent often enough to serve as a sign of life; `id` is the
    request it belongs to.
    """

    id: Amount
    phase: Word
    done: Amount
    total: Amount


class Alive(WireMessage, frozen=True, tag=True):
    """Sent while requests are open and there has been nothing else to say: the engine computes
    (one step may take minutes), or a held reply waits for a person and others for it."""


class Queued(WireMessage, frozen=True, tag=True):
    """The request waits for a slot; `position` 1 is next."""

    id: Amount
    position: Count


class Log(WireMessage, frozen=True, tag=True):
    """A line of llama.cpp's own log. level: debug, info, warning, error."""

    level: Word
    text: Text


SURVIVED: Final = 255
"""In `TokenTrace.removed_by`: it was there at the draw."""


_STAGES: Final = bytes(range(SURVIVED))
_SURVIVED: Final = bytes([SURVIVED])


class StageEffect(WireMessage, frozen=True, tag=True):
    """What one stage did at one token: how many candidates were left after it, and the chosen
    token's probability among them (0 if the stage removed it). `uniform`: the number in [0, 1)
    that decided whether a stage of chance acts (XTC does where it is not above its probability);
    None where none was drawn."""

    stage: Word
    left: Count
    probability: Share
    uniform: Share | None = None


class TokenTrace(WireMessage, frozen=True, tag=True):
    """What was recorded about one generated token.

    `logprob` (nat), `rank` (1 is the most probable) and `entropy` (bits) are before samplers,
    at temperature 1, over the whole vocabulary. `alternative_ids` (i4) and
    `alternative_logprobs` (f4) are the top candidates, best first, on the same footing.
    `removed_by` (u1, one per alternative; empty where stages are not recorded): index into
    `stages` of the one that removed it, or SURVIVED. `uniform`: the number in
    [0, 1) that the selecting stage drew, on the cumulative distribution in native order; None for
    greedy. `drafted`: proposed by a draft and accepted. `chosen`: by hand, in place of what was
    drawn; it has no `uniform` then; `inserted`: by the engine, to close reasoning at its limit
    (`chosen` as well). `ms`: from the previous token (or the end of prefill) to this
    one. `log_total`: ln Σ e^logit over the vocabulary, so each candidate's logit is its
    log-probability plus this; None where it was not recorded. `draft_logprob`: what the draft model
    gave the token that it proposed here. `rejected`: what was proposed here and not drawn.

    A server elsewhere may not say all of it: `rank` and `entropy` are None then, `token_id` and
    those of alternatives -1; `alternative_pieces` are the alternatives' bytes where no vocabulary
    can be asked for them (one for each, else empty).
    """

    index: Count
    token_id: TokenId
    piece: Piece
    logprob: Nats
    rank: Count | None
    entropy: Bits | None
    alternative_ids: Int32s
    alternative_logprobs: Float32s
    stages: Annotated[list[StageEffect], FEW]
    ms: Milliseconds
    removed_by: UInt8s | None = None
    uniform: Share | None = None
    drafted: bool = False
    chosen: bool = False
    log_total: Logit | None = None
    draft_logprob: Nats | None = None
    rejected: Rejected | None = None
    inserted: bool = False
    alternative_pieces: Annotated[list[Piece], FEW] = msgspec.field(default_factory=list)

    def check(self) -> None:
        nats = self.alternative_logprobs.numbers()
        check_equal("alternatives", self.alternative_ids.size, len(nats))
        if self.alternative_pieces:
            check_equal("alternatives and pieces", len(nats), len(self.alternative_pieces))
        is_sound = is_nats(self.logprob) and is_nats(self.draft_logprob or 0.0)
        if not is_sound or not are_nats(nats):
            raise ProtocolError("a log-probability is none")
        if 0 < self.ms < 1e-9:
            raise ProtocolError("a token took less time than any clock can tell")
        removed = b"" if self.removed_by is None else self.removed_by.data
        if removed:
            check_equal("alternatives and stages", len(nats), len(removed))
        if removed.translate(None, _STAGES[: len(self.stages)] + _SURVIVED):
            raise ProtocolError("an alternative was removed by a stage that is not there")


class TokenArrived(WireMessage, frozen=True, tag=True):
    """One more token. `text`: what may now be shown (whole characters, stop strings held
    back), so it may be empty or belong to several tokens. The joined texts of all events of a
    request equal Summary.text and Summary.reasoning, by their `part`; that of a call is in neither.
    """

    id: Amount
    token: TokenTrace
    text: Text
    part: Part
    context_used: Count


class TextFlushed(WireMessage, frozen=True, tag=True):
    """Text that was held back and turned out to be ordinary (no token of its own)."""

    id: Amount
    text: Text
    part: Part


class Held(WireMessage, frozen=True, tag=True):
    """Step mode: the drawn token and the table, before it is appended."""

    id: Amount
    token: TokenTrace


class PromptScores(WireMessage, frozen=True, tag=True):
    """How probable each prompt token was, before samplers: `logprobs` (f4, nat) and `ranks` (i4)
    of tokens 1 ... n - 1 (the first has nothing before it). In chunks: `start` is the index of the
    first one here."""

    id: Amount
    start: Count
    token_ids: Annotated[list[TokenId], MANY]
    logprobs: Float32s
    ranks: Int32s

    def check(self) -> None:
        check_equal("scores", len(self.token_ids), self.logprobs.size, self.ranks.size)


class TextTakenBack(WireMessage, frozen=True, tag=True):
    """The last `n_tokens` tokens of the reply are taken back (a banned string began in the first
    of them). Their text was held back, so nothing that was shown changes."""

    id: Amount
    n_tokens: Count


class ThreadsChanged(WireMessage, frozen=True, tag=True):
    """The governor has settled on another number of threads while `id` was written."""

    id: Amount
    n_threads: Count
    reason: Sentence


class Note(WireMessage, frozen=True, tag=True):
    """Something the user should know about this request. kind: a short stable word."""

    id: Amount
    kind: Word
    sentence: Sentence


class Finished(WireMessage, frozen=True, tag=True):
    id: Amount
    result: Result


class Stopped(WireMessage, frozen=True, tag=True):
    """Stopped by the user. A stopped reply has its Summary; a stopped load has Done."""

    id: Amount
    result: Result


class Failed(WireMessage, frozen=True, tag=True):
    """kind: not_a_gguf, incomplete_file, missing_file, not_readable, out_of_memory,
    unsupported, not_a_chat_model, prompt_too_long, bad_setting, bad_template, no_candidate,
    no_projector, bad_media, native_error, busy, not_loaded, internal; of a server elsewhere also
    unreachable, refused, server_error. `partial` is the Summary so far, if any."""

    id: Amount
    kind: Word
    sentence: Sentence
    evidence: Evidence = ""
    partial: Summary | None = None


Event = (
    Hello
    | Alive
    | Progress
    | Queued
    | Log
    | TokenArrived
    | TextFlushed
    | Held
    | PromptScores
    | TextTakenBack
    | BeamsGrew
    | ToolCalled
    | ThreadsChanged
    | Note
    | Finished
    | Stopped
    | Failed
)
