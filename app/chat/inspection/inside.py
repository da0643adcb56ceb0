"""Looking inside: what the network made of one token of a text that the engine has read.

The text is the exact prompt of a reply and the tokens that the reply's trace recorded behind it;
what is looked at is one of its places. The answer comes in two parts, what is quick first and then
the lens, and the last few are kept, so that going back and forth asks nothing. What must hold:
nothing is asked of a text that is not known to be the one that was read; a newer question ends an
older one; an answer is about the weights that wrote the reply.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from app.chat.inspection.prompt_reading import PromptOf, PromptReading
from app.chat.inspection.questions import Kept, Newest, Questions
from app.chat.replies.adapters import adapters_of
from app.chat.replies.cut_versions import cuts_of
from app.chat.surroundings import Still
from app.chat.weights.loading import Loader
from app.engine.protocol.adapter_messages import Adapters
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.frames import MAX_FRAME_BYTES
from app.engine.protocol.inside_messages import (
    BY_TEXT,
    AttributeToken,
    GraphOffer,
    HeadsMeasured,
    Inside,
    LookInside,
    MeasureHeads,
    ReadGraph,
    TokenAttributed,
)
from app.engine.protocol.messages import TokenTrace
from app.insight.prompt.media import place_words, span_at
from app.insight.prompt.parts import PromptTokens
from app.insight.trace.message_tokens import ids_of, n_taken_over, pieces_of
from app.insight.trace.tokens_shown import visible
from models.records import Message, MessageState, Role

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from app.insight.inside.attention_matrix import HeadRow
    from app.insight.inside.wrote import Written

    Values = npt.NDArray[np.float32] | npt.NDArray[np.int32]

KEPT_BYTES: Final = 64 * 2**20
"""Of answers, the newest aside."""

KEPT_ROWS_BYTES: Final = 32 * 2**20
"""Of rows of attention, the newest aside: while one goes from token to token most stay."""

ROOM_BYTES: Final = MAX_FRAME_BYTES // 2
"""Of what grows with the text, in one answer; the rest of the frame is for what does not."""

NOT_A_REPLY: Final = "Only replies can be looked into. Choose a reply."
NOTHING_LOADED: Final = "No model is loaded. Load the one that wrote this reply."
LOADING: Final = "A model is loading. Try again when it is ready."
OTHER_LOADED: Final = "“{name}” wrote this reply, and another model is loaded. Load “{name}”."
GROWING: Final = "This reply is still being generated. Look inside when it is finished."
NO_TOKENS: Final = "No tokens were recorded for this reply."
NO_SCORES: Final = "This model's scores can't be read."
WRITTEN_WITH_CUTS: Final = (
    "Parts of the model were cut for this reply. What you see here is the whole model's replay."
)
UNKNOWN_PROMPT: Final = "The exact prompt of this reply is unknown, so it can't be replayed. "
TOO_LONG: Final = (
    "The attention of all layers to {n:,} tokens is too large to show. Choose an earlier token."
)
LAYER_TOO_LONG: Final = (
    "The attention of a layer to {n:,} tokens is too large to show. Choose an earlier token."
)
NO_ROW: Final = "This layer has no attention. Choose another one."


CELL: Final = "▪".encode()


@dataclass(frozen=True, slots=True)
class ReadText:
    """What the engine read for a reply, then wrote: `ids` of all of it. The prompt's tokens come
    first; of a branch it ends with the `n_head` first tokens of the reply's trace. A *place* counts
    from the first token of the prompt, an *index* in the trace. `note`: what is to be known of what
    is seen of it. `adapters`: what it was written with."""

    message_id: str
    weights_hash: str
    prompt: PromptTokens
    ids: array[int]
    n_head: int
    written: tuple[bytes, ...]
    note: str = ""
    adapters: Adapters = field(default_factory=Adapters)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_prompt(self) -> int:
        return len(self.prompt)

    def piece(self, place: int) -> bytes:
        """The bytes of a token; of a cell of a picture or a sound, those of a sign for it."""
        behind = place - len(self.prompt)
        if behind >= 0:
            return self.written[behind]
        return CELL if self.ids[place] < -1 else self.prompt.piece(place)

    def words(self, place: int) -> str:
        """A token with nothing invisible, or which part of a picture or a sound stands there."""
        span = span_at(self.prompt.media, place)
        if span is None:
            return visible(self.piece(place))
        return place_words(span, place - span.start, {})

    def target(self, place: int) -> int | None:
        """The token that came next; None behind the end."""
        return self.ids[place + 1] if place + 1 < len(self.ids) else None

    def pieces(self, first: int, end: int) -> list[bytes]:
        """The bytes of tokens [first, end)."""
        return [self.piece(place) for place in range(max(first, 0), min(end, len(self)))]

    def place_of(self, index: int) -> int:
        """Where a token of the trace stands in the text."""
        return len(self.prompt) - self.n_head + index

    def index_of(self, place: int) -> int | None:
        """The token's place in the trace; None of one of the prompt."""
        index = place - len(self.prompt) + self.n_head
        return index if index >= 0 else None


@dataclass(frozen=True, slots=True)
class Seen:
    """The arrays of one place, by the names of `inside_messages.AXES`. `missing`: what was wanted
    and is not there, or not in each layer, with the reason. `is_whole`: no more of it comes.
    `target`: the token whose score and rank each layer of the lens tells; None behind the end."""

    place: int
    target: int | None
    arrays: Mapping[str, Values]
    missing: Mapping[str, str]
    notes: tuple[str, ...] = ()
    n_reused: int = 0
    n_read: int = 0
    seconds: float = 0.0
    is_whole: bool = False

    def has(self, name: str) -> bool:
        """Whether it is known of this array what it holds, or why it is not there."""
        found = "lens_ids" if name == "lens" else name
        return found in self.arrays or name in self.missing

    @property
    def size_bytes(self) -> int:
        return sum(values.nbytes for values in self.arrays.values())


@dataclass(frozen=True, slots=True)
class HeadNames:
    """What was measured of each head: `scores` [n_layer, n_head, len(HEAD_SCORES)], from `n_texts`
    random texts of `n_tokens`."""

    scores: npt.NDArray[np.float32]
    n_texts: int
    n_tokens: int


class Insides:
    """Neither `read` nor `look` waits. A question is answered as long as it is the newest of its
    kind and `still` holds: `then` once (`look`: for each part, the last time whole), or `failed`
    once, with a sentence."""

    def __init__(self, loader: Loader, questions: Questions, reading: PromptReading) -> None:
        self._loader = loader
        self._questions = questions
        self._reading = reading
        self._text: ReadText | None = None
        self._kept: Kept[Seen] = Kept(loader, lambda seen: seen.size_bytes)
        self._newest = Newest(questions)
        self._kept_rows: Kept[HeadRow] = Kept(loader, _row_bytes)
        self._newest_row = Newest(questions)
        self._head_names: tuple[object, HeadNames] | None = None
        self._lacks: tuple[object, Mapping[str, str]] | None = None

    def beside(self) -> Insides:
        """For somebody else who asks: neither ends the questions of the other, and what has been
        found is both's."""
        other = Insides(self._loader, self._questions, self._reading)
        other._kept = self._kept
        return other

    # --- the text -------------------------------------------------------------------------------

    def read(
        self,
        message: Message,
        traces: Sequence[TokenTrace],
        then: Callable[[ReadText], None],
        failed: Callable[[str], None],
        *,
        still: Still,
    ) -> None:
        """The text of a reply of the open chat, if it can be looked into."""
        refusal = self.refusal(message)
        if refusal or not len(traces):
            failed(refusal or NO_TOKENS)
            return
        n_head = min(n_taken_over(message), len(traces))
        written = ids_of(traces, n_head)
        known = self._text
        if known is not None and known.message_id == message.id:
            is_same = known.ids[known.n_prompt :].tolist() == written
            if is_same and known.weights_hash == self._loader.weights_hash:
                then(known)
                return

        def take(prompt: PromptOf) -> None:
            now = self.refusal(message)  # other weights may be here by now
            if now or prompt.tokens is None or not prompt.is_given:
                failed(now or UNKNOWN_PROMPT + prompt.sentence)
                return
            pieces = tuple(pieces_of(traces, n_head, len(traces)))
            ids = array("i", [*prompt.tokens.ids, *written])
            cut = cuts_of(message.settings)
            note = WRITTEN_WITH_CUTS if cut is not None and cut.parts else ""
            self._text = ReadText(
                message.id,
                self._loader.weights_hash,
                prompt.tokens,
                ids,
                n_head,
                pieces,
                note,
                adapters_of(message.settings),
            )
            then(self._text)

        self._reading.read(message.id, take, still=still)

    def refusal(self, message: Message) -> str:
        """Why a reply can't be looked into; empty where it can."""
        if message.role is not Role.ASSISTANT:
            return NOT_A_REPLY
        if message.state is MessageState.STREAMING:
            return GROWING
        if self._loader.is_loading:
            return LOADING
        if self._loader.loaded is None:
            return NOTHING_LOADED
        if self._loader.remote is not None:
            return self._loader.remote.why_not("inside")
        if not message.weights_hash or message.weights_hash != self._loader.weights_hash:
            return OTHER_LOADED.format(name=message.weights_name or "Another model")
        return ""

    # --- one place ------------------------------------------------------------------------------

    def look(
        self,
        text: ReadText,
        place: int,
        want: Iterable[str],
        then: Callable[[Seen], None],
        failed: Callable[[str], None],
        progress: Callable[[int, int], None] = lambda done, total: None,
        *,
        still: Still,
    ) -> None:
        """What the network made of the token at `place`. `want`: names of
        `inside_messages.WANTED`; the lens, which takes longest, comes last. `progress`: tokens that
        have been read of those before it."""
        is_newest = self._newest.begin()

        def counts() -> bool:
            return is_newest() and still()

        key, seen = self._at(text, place)
        wanted = tuple(want)
        by_text = self._by_text_bytes(place + 1)
        if by_text > MAX_FRAME_BYTES - 2**20:  # room for what is around it
            too_long = TOO_LONG.format(n=place + 1)
            seen = replace(seen, missing={**seen.missing, **dict.fromkeys(BY_TEXT, too_long)})
        steps = _steps(seen, wanted, by_text)
        if not steps or seen.arrays:
            then(replace(seen, place=place, is_whole=not steps))

        def ask(seen: Seen) -> None:
            steps = _steps(seen, wanted, by_text)
            if not steps or not counts():
                return
            command = LookInside(
                0,
                text.ids[: place + 1].tolist(),
                list(steps[0]),
                [] if seen.target is None else [seen.target],
                adapters=text.adapters,
            )
            self._newest.request_id = self._questions.ask(
                command,
                Inside,
                lambda told: take(seen, told),
                failed,
                still=counts,
                progress=progress,
            )

        def take(before: Seen, told: Inside) -> None:
            found = _with(before, told)
            self._kept.put(key, found, KEPT_BYTES)
            steps = _steps(found, wanted, by_text)
            then(replace(found, is_whole=not steps))
            ask(found)

        ask(seen)

    def _by_text_bytes(self, n_tokens: int) -> int:
        """Of one array that has a number for each layer, head and token."""
        loaded = self._loader.loaded
        return 0 if loaded is None else 4 * loaded.n_layer * loaded.n_head * n_tokens

    def lens_at(
        self,
        text: ReadText,
        place: int,
        then: Callable[[Seen], None],
        failed: Callable[[str], None],
        *,
        still: Still,
    ) -> None:
        """The lens at one more place, beside what `look` is about: at once where it is known."""
        key, seen = self._at(text, place)
        if seen.has("lens"):
            then(replace(seen, place=place))
            return

        def take(told: Inside) -> None:
            found = _with(seen, told)
            self._kept.put(key, found, KEPT_BYTES)
            then(replace(found, place=place))

        targets = [] if seen.target is None else [seen.target]
        command = LookInside(
            0, text.ids[: place + 1].tolist(), ["lens"], targets, adapters=text.adapters
        )
        self._questions.ask(command, Inside, take, failed, still=still)

    def stop(self) -> None:
        """No answer is wanted any more: nobody is called."""
        self._newest.begin()

    # --- a row of the matrix --------------------------------------------------------------------

    def row_at(
        self,
        text: ReadText,
        place: int,
        layer: int,
        then: Callable[[HeadRow], None],
        failed: Callable[[str], None],
        *,
        still: Still,
    ) -> None:
        """What a layer's heads take from each token up to `place`, beside what `look` is about; a
        newer question of this kind ends an older one. At once where it is known. Whoever wants
        several asks for the earliest first: then each token is replayed behind the one before it,
        and nothing is read twice, of a window or a state neither."""
        is_newest = self._newest_row.begin()
        known = self._at(text, place)[1]
        key = (text.weights_hash, text.ids[: place + 1].tobytes(), layer)
        row = self._kept_rows.get(key)
        if row is not None:
            then(row)
            return
        want = [name for name in ROW_WANTED if not known.has(name)]
        loaded = self._loader.loaded
        if loaded is not None and 4 * loaded.n_head * (place + 1) > MAX_FRAME_BYTES - 2**20:
            failed(LAYER_TOO_LONG.format(n=place + 1))
            return

        def take(arrays: Mapping[str, Values], missing: Mapping[str, str]) -> None:
            found = _row_of({**arrays, **_layer_of(known.arrays, layer)})
            if found is None:
                failed(missing.get("attention") or NO_ROW)
            else:
                self._kept_rows.put(key, found, KEPT_ROWS_BYTES)
                then(found)

        def told(answer: Inside) -> None:
            from app.insight.inside.arrays import arrays_of

            arrays = arrays_of(answer)
            rows = {"attention": arrays["attention"][0]} if "attention" in arrays else {}
            rest = {name: arrays[name] for name in arrays if name != "attention"}
            missing = {each.name: each.sentence for each in answer.missing}
            take({**_layer_of(rest, layer), **rows}, missing)

        if not want:
            take({}, known.missing)
            return
        self._newest_row.request_id = self._questions.ask(
            LookInside(
                0,
                text.ids[: place + 1].tolist(),
                want,
                layers=[layer],
                only_layers=True,
                adapters=text.adapters,
            ),
            Inside,
            told,
            failed,
            still=lambda: is_newest() and still(),
        )

    def stop_rows(self) -> None:
        """No row is wanted any more: nobody is called."""
        self._newest_row.begin()

    def learn(self, then: Callable[[Mapping[str, str]], None], *, still: Still) -> None:
        """What nobody can see of the loaded weights, whatever token is looked at, with the reasons;
        learned once per load. One token is decoded for it, which touches every page of a mapped
        file: to be asked when nothing else is going on. Where it fails nobody is called: the first
        question about a token says why. `still` says that these weights are loaded."""
        loaded = self._loader.loaded
        if self._lacks is not None and self._lacks[0] is loaded:
            then(self._lacks[1])
            return

        def take(offer: GraphOffer) -> None:
            lacks = {
                each.name: each.sentence
                for each in offer.missing
                if each.name not in offer.in_some_layers
            }
            self._lacks = (loaded, lacks)
            then(lacks)

        self._questions.ask(ReadGraph(0), GraphOffer, take, lambda _sentence: None, still=still)

    # --- heads ----------------------------------------------------------------------------------

    def name_heads(
        self, then: Callable[[HeadNames], None], failed: Callable[[str], None], *, still: Still
    ) -> None:
        """What each head of the loaded weights does; measured once per load. `still` says that they
        are loaded."""
        loaded = self._loader.loaded
        if self._head_names is not None and self._head_names[0] is loaded:
            then(self._head_names[1])
            return

        def take(told: HeadsMeasured) -> None:
            from app.insight.inside.arrays import head_scores  # numpy, when somebody looks

            names = HeadNames(head_scores(told), told.n_texts, told.n_tokens)
            self._head_names = (loaded, names)
            then(names)

        self._questions.ask(MeasureHeads(0), HeadsMeasured, take, failed, still=still)

    # --- who wrote it ---------------------------------------------------------------------------

    def attribute(
        self,
        text: ReadText,
        place: int,
        other: int | None,
        then: Callable[[Written], None],
        failed: Callable[[str], None],
        *,
        still: Still,
    ) -> None:
        """What wrote the token behind `place`, rather than `other` (None: the best one besides)."""

        def take(told: TokenAttributed) -> None:
            from app.insight.inside.wrote import written_of  # numpy, when somebody looks

            then(written_of(told))

        command = AttributeToken(
            0, text.ids[: place + 1].tolist(), text.target(place), other, text.adapters
        )
        self._questions.ask(command, TokenAttributed, take, failed, still=still)

    def without(
        self,
        text: ReadText,
        place: int,
        cuts: Sequence[Cut],
        then: Callable[[Values], None],
        failed: Callable[[str], None],
        *,
        still: Still,
    ) -> None:
        """The logits behind `place` when parts are replaced by their mean over the text there."""

        def take(told: Inside) -> None:
            from app.insight.inside.arrays import arrays_of

            arrays = arrays_of(told)
            if "logits" in arrays:
                then(arrays["logits"])
            else:
                failed(next((each.sentence for each in told.missing), NO_SCORES))

        command = LookInside(
            0,
            text.ids[: place + 1].tolist(),
            ["logits"],
            cuts=list(cuts),
            mean_tokens=min(text.n_prompt, place + 1),  # read once for all tokens of the reply
            adapters=text.adapters,
        )
        self._questions.ask(command, Inside, take, failed, still=still)

    # --- what is kept ---------------------------------------------------------------------------

    def take_state(self) -> None:
        """Something was loaded or unloaded."""
        if self._kept.forget_former():
            self._text = None

    def _at(self, text: ReadText, place: int) -> tuple[tuple[object, ...], Seen]:
        """By what a place is kept, and what is known of it so far."""
        target = text.target(place)
        key = (text.weights_hash, repr(text.adapters), text.ids[: place + 1].tobytes(), target)
        self.take_state()
        return key, self._kept.get(key) or Seen(place, target, {}, {})


ROW_WANTED: Final = ("attention", "q_after", "k_after")
"""What a row of the matrix is made of."""


def _layer_of(arrays: Mapping[str, Values], layer: int) -> dict[str, Values]:
    """One layer's part of what makes a row."""
    return {name: arrays[name][layer] for name in ROW_WANTED if name in arrays}


def _row_of(arrays: Mapping[str, Values]) -> HeadRow | None:
    """Of a layer's arrays; None where it has no attention."""
    import numpy as np  # when somebody looks

    from app.insight.inside.attention_matrix import HeadRow

    found = {
        name: np.array(values, np.float32)  # the answer, which has all layers, goes
        for name, values in arrays.items()
        if np.isfinite(values).all()
    }
    if "attention" not in found:
        return None
    return HeadRow(found["attention"], found.get("q_after"), found.get("k_after"))


def _row_bytes(row: HeadRow) -> int:
    return sum(values.nbytes for values in row if values is not None)


def _steps(seen: Seen, want: Sequence[str], by_text_bytes: int = 0) -> list[list[str]]:
    """What is asked for in turn: what is quick, then the lens. Arrays that grow with the text come
    alone where two of them are too many for a frame.

    >>> _steps(Seen(0, None, {}, {"logits": "none"}), ("lens", "logits", "residual"))
    [['residual'], ['lens']]
    >>> _steps(Seen(0, None, {}, {}), ("value_norms", "attention", "logits"), 40 << 20)
    [['logits'], ['value_norms'], ['attention']]
    """
    left = [name for name in want if not seen.has(name)]
    alone = {"lens"}
    if len(BY_TEXT) * by_text_bytes > ROOM_BYTES:
        alone |= set(BY_TEXT)
    quick = [name for name in left if name not in alone]
    single = sorted((name for name in left if name in alone), key="lens".__eq__)
    return [step for step in (quick, *([name] for name in single)) if step]


def _with(seen: Seen, told: Inside) -> Seen:
    """The two answers in one."""
    from app.insight.inside.arrays import arrays_of  # numpy, when somebody looks

    return replace(
        seen,
        arrays={**seen.arrays, **arrays_of(told)},
        missing={**seen.missing, **{each.name: each.sentence for each in told.missing}},
        notes=tuple(dict.fromkeys((*seen.notes, *told.notes))),
        n_reused=max(seen.n_reused, told.n_reused),
        n_read=seen.n_read + told.n_read,
        seconds=seen.seconds + told.seconds,
    )
