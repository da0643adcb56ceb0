"""The facts of the token that is looked at, as they become known (a `FactSource`).

    facts = LiveFacts(looking, desk, bridge)
    facts.follow(section)                   what the panels see and measure, once they are built
    facts.want(frozenset({"top_head"}))     asks for what these need; nothing while it is empty
    facts.facts                             what is known now; `changed` says that it is more

What a panel has seen already isn't asked again: place and arrays are those of `InsideView`, while
it shows the token that is chosen; measurements are the cards' own. All else is asked of the desk,
each question once for what it is about. What must hold: an answer that is about anything else by
now is no fact.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from PySide6.QtCore import QObject, Signal

from app.chat.events import EngineStateChanged
from app.chat.replies.written_by import drawn_with
from app.chat.settings.sampler_links import stages_of_reply
from app.engine.protocol.cache_messages import StepMeasured
from app.engine.protocol.machine_messages import FlashCompared
from app.insight.tour.facts import Fact, Facts
from app.insight.tour.file import (
    cell_facts,
    computer_facts,
    fingerprint,
    header_facts,
    loaded_facts,
    machine_facts,
    position_facts,
    window_facts,
)
from app.insight.tour.measured import flash_facts, step_facts
from app.insight.tour.reply import reply_facts, settings_facts, speed_facts
from app.insight.tour.text import place_facts, prompt_facts
from app.insight.tour.token import token_facts
from app.insight.trace.tokens_shown import visible
from ui.section.looking import Looking
from ui.section.panel import Panel
from ui.widgets.kit import rest_timer

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from app.chat.inspection.embedding import Embeddings
    from app.chat.inspection.inside import ReadText, Seen
    from app.engine.protocol.loading_messages import Loaded
    from ui.section.inside.view import InsideView
    from ui.section.section import Section

_OF_ATTENTION: Final = (
    *("n_head", "n_kv_head", "n_heads", "sink_share", "no_attention", "looked_at"),
    *("look_head", "look_token", "look_share", "chosen_head", "chosen_token", "chosen_share"),
)
_OF_LENS: Final = ("layer_best", "layer_rank", "lead_layer", "end_rank", "first_lead")
_OF_VOTE: Final = ("logit", "probability", "rank", "best", "second", "lead", "odds")
ARRAYS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(_OF_ATTENTION, ("attention",)),
    "n_kv_head": ("attention", "k_after"),
    **dict.fromkeys(_OF_LENS, ("lens",)),
    **dict.fromkeys(_OF_VOTE, ("logits",)),
}
"""What has to be seen inside for a fact."""

QUESTIONS: Final[dict[str, frozenset[str]]] = {
    "text": frozenset(
        (
            *("token", "id", "read", "position", "n_before", "n_template", "n_message_tokens"),
            *("n_message_words", "n_window_layers", "window", "nearest", "other", "top_head"),
            "top_head_logits",
        )
    ),
    "written": frozenset(("other", "top_head", "top_head_logits")),
    "nearest": frozenset(("nearest",)),
    "rotations": frozenset(("n_pairs", "position_otherwise")),
    "position": frozenset(("position_otherwise",)),
    "machine": frozenset(("ffn_share", "bits_per_weight")),
    "header": frozenset(("quantisation",)),
    "hash": frozenset(("hash_now",)),
}
"""What is asked, in this order, and for which facts."""


class At(NamedTuple):
    """A place of a text. `seen`: what the panel Inside knows of it; None where it doesn't show it.
    `is_settled`: nothing that is quick is on its way."""

    text: ReadText
    place: int
    seen: Seen | None
    is_settled: bool


class LiveFacts(QObject):
    """`changed`: more is known, or less."""

    changed = Signal()

    def __init__(
        self, looking: Looking, desk: Desk, bridge: Bridge, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._looking = looking
        self._desk = desk
        self._wanted: frozenset[str] = frozenset()
        self._view: InsideView | None = None
        self._embeddings: Embeddings | None = None
        self._asked: dict[str, object] = {}
        self._found: dict[str, Any] = {}
        self._measured: dict[type, tuple[Any, str, Loaded | None]] = {}
        self._facts: Facts | None = None
        self._attention: tuple[object, Facts] = (None, {})
        self._soon = rest_timer(self, self._ask_and_tell)
        looking.message_changed.connect(self._on_news)
        looking.trace_changed.connect(self._on_news)
        looking.token_changed.connect(self._on_news)
        looking.words_changed.connect(self._on_news)
        bridge.on(EngineStateChanged, self._on_news)

    # --- what is known --------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:
        """Nothing while nobody wants any."""
        if not self._wanted:
            return {}
        if self._facts is None:
            self._facts = self._made()
        return self._facts

    def want(self, names: frozenset[str]) -> None:
        """From now on these are wanted, and no others."""
        self._wanted = names
        self._looking.set_awake(bool(names), "tour")
        self._want_arrays()
        self._on_news()

    def follow(self, section: Section) -> None:
        """Its panels, those that are there and those to come."""
        section.panel_built.connect(self.take_panel)
        for panel in section.built:
            self.take_panel(panel)

    def take_panel(self, panel: Panel) -> None:
        panel.measured.connect(self._on_measured)
        if panel.title != "Inside":
            return
        from ui.section.inside.panel import InsidePanel  # it is there, so this costs nothing

        assert isinstance(panel, InsidePanel)
        self._view = view = panel.view
        view.seen_changed.connect(self._on_news)
        view.layer_changed.connect(self._on_news)
        view.head_changed.connect(self._on_news)
        self._want_arrays()
        self._on_news()

    def _want_arrays(self) -> None:
        if self._view is not None:
            names = (name for wanted in self._wanted for name in ARRAYS.get(wanted, ()))
            self._view.want(sorted(set(names)))

    def _on_measured(self, measured: object) -> None:
        """It is about the chat that is open, and about the loaded weights."""
        chat, loaded = self._desk.shelf.open.id, self._desk.loader.state.loaded
        self._measured[type(measured)] = (measured, chat, loaded)
        self._on_news()

    def _on_news(self) -> None:
        """All that happens in one turn is asked about and told once; the panel has begun by then to
        ask for what it shows."""
        self._facts = None
        if self._wanted:
            self._soon.start()

    def _ask_and_tell(self) -> None:
        if self._wanted:
            self._ask_all()
            self.changed.emit()

    # --- what is looked at ----------------------------------------------------------------------

    @property
    def _loaded(self) -> Loaded | None:
        """The weights that wrote the reply; without one those that are loaded."""
        if self._looking.message is not None:
            return self._looking.loaded
        loaded = self._desk.loader.state.loaded
        return None if loaded is None or loaded.remote is not None else loaded

    @property
    def _seen_text(self) -> ReadText | None:
        """The text of the reply, where the panel has it."""
        message, view = self._looking.message, self._view
        text = None if view is None else view.text
        is_its = text is not None and message is not None and text.message_id == message.id
        return text if is_its else None

    @property
    def _text(self) -> ReadText | None:
        """The same, else as it was asked for here."""
        return self._seen_text or self._known("text")

    @property
    def _at(self) -> At | None:
        """Where the token that is looked at was guessed. The panel may still show, or have gone to
        sleep with, another one."""
        looking, view, text = self._looking, self._view, self._text
        if text is None:
            return None
        index = looking.index
        if view is not None and view.text is text and view.place is not None:
            is_own = index is None and view.index is None and bool(looking.aside)
            if is_own or (index is not None and view.index == index):
                is_settled = view.seen is not None and view.seen.is_whole
                return At(text, view.place, view.seen, is_settled)
        place = -1 if index is None else text.place_of(index) - 1
        is_settled = view is None or not view.is_waiting
        return At(text, place, None, is_settled) if 0 <= place < len(text) else None

    def _word(self, token_id: int) -> str | None:
        words = self._looking.words
        return None if words is None else visible(words.piece(token_id))

    # --- asking ---------------------------------------------------------------------------------

    def _ask_all(self) -> None:
        for question in QUESTIONS:
            about = self._about(question)
            if about is not None and self._asked.get(question) != about:
                self._asked[question] = about
                self._found.pop(question, None)
                self._ask(question, about)

    def _about(self, question: str) -> tuple[object, ...] | None:
        """What an answer is about, as things are now; None where nobody wants it, or nobody can
        know."""
        loaded, message = self._loaded, self._looking.message
        if not self._wanted & QUESTIONS[question] or loaded is None or self._desk.loader.is_loading:
            return None
        if question in ("rotations", "machine", "header"):
            return (loaded,)
        if question == "position":
            told = self._known("rotations")
            return (loaded,) if told is not None and not told.rotations else None
        if message is None or self._looking.is_growing:
            return None
        if question == "hash":
            return (loaded, message.id)
        if question == "text":
            n_tokens = len(self._looking.traces)
            is_asked = n_tokens and self._seen_text is None
            return (loaded, message.id, n_tokens) if is_asked else None
        at = self._at
        if at is None or not at.is_settled:
            return None
        if question == "nearest":
            return (loaded, at.text.ids[at.place])
        is_followed = at.text.target(at.place) is not None
        return (loaded, message.id, at.place) if is_followed else None

    def _known(self, question: str) -> Any:
        """Its answer, if it is about what is looked at; None: there is none (yet)."""
        about = self._asked.get(question)
        if about is None or question not in self._found or about != self._about(question):
            return None
        return self._found[question]

    def _ask(self, question: str, about: tuple[object, ...]) -> None:
        desk, loaded, at = self._desk, self._loaded, self._at
        message = self._looking.message
        assert loaded is not None

        def still() -> bool:
            return self._asked.get(question) == about == self._about(question)

        def take(found: object) -> None:
            self._found[question] = found
            self._on_news()

        def fail(_sentence: str) -> None:
            """Then it isn't known; the panel that it belongs to says why."""
            take(None)

        path = Path(loaded.path)
        if question == "text" and message is not None:
            desk.inside.read(message, self._looking.traces, take, fail, still=still)
        elif question == "written" and at is not None:
            desk.inside.attribute(at.text, at.place, None, take, fail, still=still)
        elif question == "nearest" and at is not None:
            own = ((at.text.ids[at.place], 1.0),)
            self._embedding.nearest(own, take, fail, still=still)
        elif question == "rotations":
            self._embedding.rotations(take, fail, still=still)
        elif question == "position":
            desk.headers.position(path, take, fail, still=still)
        elif question == "machine":
            desk.machine.read(take, fail, still=still)
        elif question == "header":
            desk.headers.read(path, take, fail, still=still)
        elif question == "hash":
            desk.headers.fingerprint(path, take, fail, still=still)

    @property
    def _embedding(self) -> Embeddings:
        """Questions of our own: a card that asks the same goes on."""
        if self._embeddings is None:
            self._embeddings = self._desk.embedding.beside()
        return self._embeddings

    # --- made of it -----------------------------------------------------------------------------

    def _made(self) -> Facts:
        """What was recorded as the reply was written comes last, over what is computed now."""
        looking, loaded, text, at = self._looking, self._loaded, self._text, self._at
        message, token, index = looking.message, looking.token, looking.index
        found: dict[str, Fact] = {**self._of_file(loaded), **self._of_measured(loaded)}
        if text is not None:
            found |= prompt_facts(text.prompt)
        if at is not None:
            found |= place_facts(at.text, at.place)
            if loaded is not None:
                found |= window_facts(loaded, at.place)
            found |= self._of_seen(at, loaded)
        if message is not None:
            found |= reply_facts(message)
            found |= speed_facts(message)
            stages = stages_of_reply(message.settings)
            found |= settings_facts(drawn_with(message.settings, stages))
            n_cells = message.counts.context_used
            if loaded is not None and n_cells is not None:
                found |= cell_facts(loaded, n_cells)
            if token is not None and index is not None:
                found |= token_facts(message, token, index, loaded)
        return found

    def _of_file(self, loaded: Loaded | None) -> Facts:
        found: dict[str, Fact] = {}
        if "memory_total" in self._wanted:
            devices = self._desk.fits.machine().devices
            found |= computer_facts(sum(d.total_bytes for d in devices if d.kind == "cpu"))
        if loaded is None:
            return found
        found |= loaded_facts(loaded)
        machine, shown = self._known("machine"), self._known("header")
        if machine is not None:
            found |= machine_facts(machine)
        if shown is not None:
            found |= header_facts(shown.facts)
        digits = self._known("hash")
        if digits is not None:
            found["hash_now"] = fingerprint(digits)
        told = self._known("rotations")
        # Of a file that doesn't rotate the header may say more, which is on its way.
        if told is not None and (told.rotations or "position" in self._found):
            found |= position_facts(told, self._known("position"))
        return found

    def _of_measured(self, loaded: Loaded | None) -> Facts:
        found: dict[str, Fact] = {}
        step, chat, of_step = self._measured.get(StepMeasured, (None, "", None))
        if step is not None and of_step is loaded and chat == self._desk.shelf.open.id:
            found |= step_facts(step)
        flash, _chat, of_flash = self._measured.get(FlashCompared, (None, "", None))
        if flash is not None and of_flash is loaded:
            found |= flash_facts(flash)
        return found

    def _of_seen(self, at: At, loaded: Loaded | None) -> Facts:
        from app.insight.inside.embedding import folded_words  # numpy, when somebody looks
        from app.insight.tour import seen as of

        found: dict[str, Fact] = {}
        nearest, written = self._known("nearest"), self._known("written")
        if nearest is not None and self._looking.words is not None:
            own = [at.text.ids[at.place]]
            found |= of.nearest_facts(folded_words(nearest, own, self._looking.words), self._word)
        if written is not None:
            found |= of.written_facts(written, self._word)
        view = self._view
        if at.seen is None or view is None:
            return found

        def piece(place: int) -> str:
            return visible(at.text.piece(place))

        arrays = at.seen.arrays
        if self._wanted & set(_OF_ATTENTION):
            about = (at.text, at.seen.missing, arrays.get("attention"), arrays.get("k_after"))
            if not _are_same(self._attention[0], about):
                made = of.attention_facts(arrays, at.seen.missing, piece)
                self._attention = (about, made)
            found |= self._attention[1]
            found |= of.head_facts(arrays, view.layer, view.head, piece)
        n_layer = view.n_layer if loaded is None else loaded.n_layer
        found |= of.layer_facts(arrays, view.layer, n_layer, self._word)
        if view.votes is not None:
            found |= of.vote_facts(view.votes, view.target, self._word)
        return found


def _are_same(one: object, other: tuple[object, ...]) -> bool:
    """The very same objects; arrays aren't compared."""
    if not isinstance(one, tuple):
        return False
    return all(a is b for a, b in zip(one, other, strict=True))
