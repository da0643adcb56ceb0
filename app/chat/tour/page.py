"""The tour of one token, saved as a page: what it needs is asked for, then one file is written.

    desk.pages.save(Wish(message, traces, index, asked), "/home/me/Paris.html")

Whatever can't be known (another model is loaded, the prompt isn't stored) is a sentence on the
page. What must hold: a page is about the token that was followed when it was asked for, and about
the weights that wrote it, whatever is looked at or loaded meanwhile; a newer page ends an older one
that isn't written yet.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.chat.events import Noticed, PageProgressed, PageSaved
from app.chat.surroundings import Surroundings, now
from app.chat.tour.wish import Run, Wish
from app.engine.protocol.messages import ReadVocabulary, VocabularyTable
from app.engine.protocol.pieces import Pieces

if TYPE_CHECKING:
    from app.chat.exchange.exchange import Exchange
    from app.chat.inspection.embedding import Embeddings
    from app.chat.inspection.inside import Insides, ReadText, Seen
    from app.chat.inspection.machine import Machines
    from app.chat.inspection.questions import Questions
    from app.chat.inspection.words import Words
    from app.chat.weights.fits import Fits
    from app.chat.weights.header_files import HeaderFiles
    from app.chat.weights.loading import Loader

WANTED: Final = (
    *("embedding", "attention", "k_after", "attn_out", "ffn_out", "residual", "logits", "lens"),
)
"""Of the arrays that can be seen inside."""

STEPS: Final = (
    *("text", "words", "inside", "written", "nearest", "rotations", "position", "machine"),
    *("header", "hash"),
)
"""What is asked for, in this order."""

CHANGED: Final = "Another model was loaded while this page was made."


class TourPages:
    """`save` doesn't wait: PageProgressed says how far it is, PageSaved that the file is there."""

    def __init__(
        self,
        around: Surroundings,
        loader: Loader,
        questions: Questions,
        insides: Insides,
        embedding: Embeddings,
        words: Words,
        headers: HeaderFiles,
        machines: Machines,
        fits: Fits,
        exchange: Exchange,
    ) -> None:
        self._around = around
        self._loader = loader
        self._questions = questions
        self._insides = insides.beside()
        self._embedding = embedding.beside()
        self._words = words
        self._headers = headers
        self._machines = machines
        self._fits = fits
        self._exchange = exchange
        self._run: Run | None = None

    def save(self, wish: Wish, target: str) -> None:
        """Ask for what is missing, then write the file; one that is there is replaced."""
        self.cancel()
        refusal = self._insides.refusal(wish.message)
        run = Run(wish, target, None if refusal else self._loader.loaded, list(STEPS))
        if refusal:
            run.missing["inside"] = refusal
            run.left = []
        self._run = run
        self._go_on(run)

    def cancel(self) -> None:
        """Nothing of it is written."""
        if self._run is not None:
            self._run = None
            self._insides.stop()
            self._around.emit(PageProgressed(0, 0, is_over=True))

    def take_state(self) -> None:
        """Something was loaded or unloaded: what is asked for may be answered by nobody."""
        run = self._run
        if run is not None and run.step and self._loader.loaded is not run.loaded:
            self._go_on(run)

    # --- asking ---------------------------------------------------------------------------------

    def _go_on(self, run: Run) -> None:
        """To the next step that can be asked for; behind the last one the page is written."""
        while run.left and self._loader.loaded is run.loaded:
            run.step = run.left.pop(0)
            self._around.emit(PageProgressed(STEPS.index(run.step), len(STEPS)))
            if self._ask(run, run.step):
                return
        if run.left:
            # What has come so far is about the weights that wrote the reply.
            run.missing.setdefault("inside", CHANGED)
        run.step = ""
        self._write(run)

    def _ask(self, run: Run, step: str) -> bool:
        """Whether an answer will come, which goes on then."""
        loaded = run.loaded
        text: ReadText | None = run.found.get("text")
        assert loaded is not None
        place = -1 if text is None else text.place_of(run.wish.index) - 1

        def still() -> bool:
            return self._run is run and run.step == step

        def take(found: Any) -> None:
            run.found[step] = found
            self._go_on(run)

        def fail(sentence: str) -> None:
            run.missing["inside" if step == "text" else step] = sentence
            self._go_on(run)

        def take_seen(seen: Seen) -> None:
            if seen.is_whole:
                take(seen)
            else:
                run.found[step] = seen  # the rest may fail

        path = Path(loaded.path)
        if step == "text":
            self._insides.read(run.wish.message, run.wish.traces, take, fail, still=still)
        elif step == "words":
            if (known := self._words.of(loaded.fast_hash)) is not None:
                run.found[step] = known
                return False
            self._questions.ask(
                ReadVocabulary(0),
                VocabularyTable,
                lambda table: take(Pieces(table)),
                fail,
                still=still,
            )
        elif step in ("inside", "written", "nearest"):
            if text is None or place < 0:
                return False
            if step == "inside":
                self._insides.look(text, place, WANTED, take_seen, fail, still=still)
            elif step == "written":
                self._insides.attribute(text, place, None, take, fail, still=still)
            else:
                self._embedding.nearest(((text.ids[place], 1.0),), take, fail, still=still)
        elif step == "rotations":
            self._embedding.rotations(take, fail, still=still)
        elif step == "position":
            told = run.found.get("rotations")
            if told is None or told.rotations:
                return False
            self._headers.position(path, take, fail, still=still)
        elif step == "machine":
            self._machines.read(take, fail, still=still)
        elif step == "header":
            self._headers.read(path, take, fail, still=still)
        else:
            self._headers.fingerprint(path, take, fail, still=still)
        return True

    # --- writing --------------------------------------------------------------------------------

    def _write(self, run: Run) -> None:
        from app.chat.tour.page_made import maker  # numpy, when somebody saves one

        devices = self._fits.machine().devices
        memory = sum(device.total_bytes for device in devices if device.kind == "cpu")
        make = maker(run, memory, now().astimezone())

        def made() -> str | None:
            page = make()
            return page if self._run is run else None

        def saved(is_written: bool) -> None:
            self._end(run)
            if is_written:
                self._around.emit(PageSaved(run.target))

        def failed(sentence: str) -> None:
            self._end(run)
            self._around.emit(Noticed("error", sentence))

        self._exchange.write_text(run.target, made, saved, failed)

    def _end(self, run: Run) -> None:
        if self._run is run:
            self._run = None
            self._around.emit(PageProgressed(len(STEPS), len(STEPS), is_over=True))
