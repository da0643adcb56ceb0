"""The scripted engine: the protocol of the real one, played from a script, without weights.

It is a real process over the real wire, so tests, screenshots and UI work see what they
would see of llama.cpp: load progress, prefill, tokens with their numbers, Stop within
milliseconds, step mode, a full context, and every way to die. The script (`script.py`)
gives bytes, delays, errors and exits; nothing here invents a number that it does not hold.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import signal
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import msgspec

from app.engine.process.scripted.cache import BUSY, ScriptCache
from app.engine.process.scripted.grammar import scripted_check
from app.engine.process.scripted.lanes import ScriptLanes
from app.engine.process.scripted.media import scripted_offer, scripted_sight
from app.engine.process.scripted.passages import scripted_passages
from app.engine.process.scripted.prompt import END_ID, build_scripted, show_scripted
from app.engine.process.scripted.script import (
    CLOSING,
    Script,
    ScriptError,
    ScriptFailure,
    ScriptReply,
    ScriptToken,
    ScriptVocabulary,
    read_script,
)
from app.engine.process.scripted.steering import Steering, StopSeenError
from app.engine.process.scripted.take import Said, Take
from app.engine.prompts.fitting import PromptTooLong, counted, fit_prompt
from app.engine.prompts.media import check_media, media_of
from app.engine.prompts.prompt import BuiltPrompt
from app.engine.protocol import wire
from app.engine.protocol.adapter_messages import AdapterUsed, MakeVector
from app.engine.protocol.beam_messages import BeamsFound, SearchBeams
from app.engine.protocol.cache_messages import ChangeCache, MeasureStep, ReadCache, StepMeasured
from app.engine.protocol.draft_messages import Rejected
from app.engine.protocol.embedding_messages import EmbeddingCommand, ReadRotations
from app.engine.protocol.frames import Array, ProtocolError
from app.engine.protocol.inside_messages import AttributeToken, LookInside, MeasureHeads, ReadGraph
from app.engine.protocol.lane_messages import ReadLanes
from app.engine.protocol.loading_messages import (
    Device,
    DevicesRead,
    Loaded,
    LoadWeights,
    ReadDevices,
)
from app.engine.protocol.machine_messages import MachineCommand, ProfileStep
from app.engine.protocol.messages import (
    PROTOCOL_VERSION,
    SURVIVED,
    Alive,
    CheckGrammar,
    Choose,
    Command,
    CountPrompt,
    Done,
    Failed,
    Finished,
    Generate,
    Held,
    Hello,
    Hold,
    Log,
    Note,
    Progress,
    PromptCount,
    PromptScores,
    ReadVocabulary,
    Result,
    Resume,
    SetThreads,
    Shutdown,
    StageEffect,
    Stop,
    Stopped,
    Summary,
    TextFlushed,
    TextTakenBack,
    TokenArrived,
    Tokenize,
    Tokens,
    TokenTrace,
    VocabularyTable,
)
from app.engine.protocol.midway_messages import SHIFT_NOTE
from app.engine.protocol.passage_messages import EmbedPassages
from app.engine.protocol.pooling_messages import EmbedTexts
from app.engine.protocol.prompt_messages import ChatPrompt, Prompt, ReadPrompt, TextPrompt
from app.engine.protocol.replay_messages import (
    DrawExplained,
    DrawsReplayed,
    ReplayDraws,
    ReplayedDraw,
)
from app.engine.protocol.saved_messages import SavedCommand
from app.engine.protocol.thinking_messages import ReadThinking, ThinkingOffer
from app.engine.protocol.tool_messages import NONE
from app.engine.text.text import Piece
from app.refusal import Refusal

if TYPE_CHECKING:
    from app.engine.process.scripted.inside import MadeUpNetwork

_LEAVE_AFTER_S: Final = 0.2

_Slow = LookInside | EmbeddingCommand | MachineCommand | MakeVector
_STEERED: Final = Generate | LoadWeights | MeasureStep | _Slow | SearchBeams | EmbedPassages
"""What is answered after a while."""


def main(path: str) -> int:
    """Play the script at `path` for the parent on the other end of stdin and stdout."""
    commands, frames = wire.begin_child()
    try:
        script = read_script(path)
    except ScriptError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    ScriptedEngine(script, commands, frames).run()
    return 0


class ScriptedEngine:
    """The main thread plays; a second one reads commands, so that Stop is seen at once."""

    def __init__(self, script: Script, commands: BinaryIO, frames: BinaryIO) -> None:
        self._script = script
        self._reader = wire.FrameReader(commands)
        self._frames = frames
        self._writer = wire.FrameWriter(frames)
        self._jobs: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._steering = Steering(lambda: self._send(Alive()))
        self._vocabulary = ScriptVocabulary(script)
        self._loaded: Loaded | None = None
        self._next_reply = 0
        self._cache = ScriptCache()
        self._lanes = ScriptLanes()
        self._said: deque[Said] = deque(maxlen=64)
        self._texts: deque[list[int]] = deque(maxlen=64)
        self._made_up: MadeUpNetwork | None = None

    def run(self) -> None:
        """Say Hello, then play until stdin ends or Shutdown comes."""
        hello = self._script.hello
        time.sleep(hello.ms / 1000)
        self._send(
            Hello(
                protocol=PROTOCOL_VERSION if hello.protocol is None else hello.protocol,
                engine="scripted",
                version=hello.version,
                pid=os.getpid(),
                devices=self._devices(),
                physical_cores=os.cpu_count() or 1,
                notes=hello.notes,
            )
        )
        threading.Thread(target=self._read_commands, name="commands", daemon=True).start()
        while (job := self._jobs.get()) is not None:
            self._play(job)

    def _devices(self) -> list[Device]:
        cpu = Device("CPU", "scripted processor", "cpu", 2**33, 2**34)
        return self._script.hello.devices or [cpu]

    def _send(self, message: msgspec.Struct) -> None:
        self._writer.write(message)  # type: ignore[arg-type]

    # --- the thread that reads commands -----------------------------------------------------

    def _read_commands(self) -> None:
        with contextlib.suppress(ProtocolError, OSError):
            while (payload := self._reader.read()) is not None:
                command = wire.decode_command(payload)
                if isinstance(command, Shutdown):
                    break
                self._take(command)
        self._steering.end()
        self._jobs.put(None)
        # What hangs on purpose does not see the above.
        time.sleep(_LEAVE_AFTER_S)
        os._exit(0)

    def _take(self, command: Command) -> None:
        if isinstance(command, Stop | Hold | Choose | Resume):
            self._steering.take(command)
        elif isinstance(command, Tokenize):
            ids = self._vocabulary.tokenize(command.text)
            self._answer(command.id, Tokens(ids, [self._vocabulary.pieces[i] for i in ids]))
        elif isinstance(command, CountPrompt) and self._loaded:
            try:
                self._answer(command.id, self._count(command, self._loaded.n_ctx))
            except Refusal as refused:
                self._fail(command.id, refused)
        elif isinstance(command, ReadPrompt) and self._loaded:
            self._show_prompt(command, self._loaded.n_ctx)
        elif isinstance(command, ReadThinking) and self._loaded:
            self._answer(command.id, self._thinking(command))
        elif isinstance(command, CheckGrammar):
            self._answer(command.id, scripted_check(command))
        elif isinstance(command, ReadVocabulary):
            self._answer(command.id, self._read_vocabulary())
        elif isinstance(command, ReadDevices):
            self._answer(command.id, DevicesRead(self._devices()))
        elif isinstance(command, ReplayDraws) and self._loaded:
            self._answer(command.id, scripted_draws(command))
        elif isinstance(command, ReadCache | ChangeCache | SavedCommand) and self._loaded:
            self._look_at_cache(command, self._loaded)
        elif isinstance(command, ReadLanes) and self._loaded:
            self._answer(command.id, self._lanes.answer(command.since, self._loaded.n_slots))
        elif isinstance(command, MeasureHeads) and self._loaded:
            self._answer(command.id, self._network().heads())
        elif isinstance(command, AttributeToken) and self._loaded:
            next_id = self._said_behind(command.token_ids)
            self._answer(command.id, self._network().attribute(command, next_id))
        elif isinstance(command, ReadGraph) and self._loaded:
            self._answer(command.id, self._network().offer(self._script.inside.missing))
        elif isinstance(command, ReadRotations) and self._loaded:
            self._answer(command.id, self._network().rotations())
        elif isinstance(command, MeasureStep) and self._cache.is_busy:
            self._fail(command.id, BUSY)
        else:
            if isinstance(command, _STEERED):
                self._steering.expect(command)
            self._jobs.put(command)

    def _look_at_cache(
        self, command: ReadCache | ChangeCache | SavedCommand, loaded: Loaded
    ) -> None:
        if isinstance(command, ReadCache):
            self._answer(command.id, self._cache.map(loaded))
            return
        if isinstance(command, ChangeCache):
            failure = self._cache.change(command)
        else:
            failure = self._cache.keep(command)
        if failure is not None:
            self._fail(command.id, failure)
        else:
            self._answer(command.id, Done())

    def _thinking(self, command: ReadThinking) -> ThinkingOffer:
        """The script's; another template than the file's offers nothing."""
        if command.template is not None:
            return ThinkingOffer()
        offer = self._script.thinking
        return ThinkingOffer(offer.choices, offer.auto, offer.variables, offer.has_reasoning)

    def _answer(self, request_id: int, result: Result) -> None:
        self._send(Finished(request_id, result))

    def _read_vocabulary(self) -> VocabularyTable:
        pieces = self._vocabulary.pieces
        offsets = [0]
        for piece in pieces:
            offsets.append(offsets[-1] + len(piece))
        return VocabularyTable(
            Array.of("i8", offsets), b"".join(pieces), Array.of("i4", self._vocabulary.attributes())
        )

    # --- the thread that plays --------------------------------------------------------------

    def _play(self, job: Command) -> None:
        if isinstance(job, LoadWeights):
            self._play_load(job)
        elif isinstance(job, Generate):
            self._play_generate(job)
        elif isinstance(job, SetThreads) and self._loaded:
            self._loaded = msgspec.structs.replace(self._loaded, n_threads=job.n_threads)
            self._answer(job.id, Done())
        elif isinstance(job, MeasureStep) and self._loaded:
            self._play_measured(job, self._loaded.n_threads)
        elif isinstance(job, SearchBeams) and self._loaded:
            self._play_beams(job)
        elif isinstance(job, EmbedTexts) and self._loaded:
            self._fail(job.id, _NO_VECTORS)
        elif isinstance(job, EmbedPassages) and self._loaded:
            self._play_passages(job)
        elif isinstance(job, _Slow) and self._loaded:
            self._play_inside(job, self._loaded.n_threads)
        else:
            self._fail(cast("CountPrompt", job).id, _NOT_LOADED)

    def _play_passages(self, job: EmbedPassages) -> None:
        passages = self._script.passages
        try:
            self._steering.wait(job.id, passages.ms / 1000)
        except StopSeenError:
            self._send(Stopped(job.id, Done()))
            return
        if passages.fail is not None:
            self._fail(job.id, passages.fail)
        else:
            self._answer(job.id, scripted_passages(job))

    def _play_measured(self, job: MeasureStep, n_threads: int) -> None:
        measured, n_tokens = self._script.measured, self._cache.n_tokens(job.conversation)
        try:
            self._steering.wait(job.id, measured.ms / 1000)
        except StopSeenError:
            self._send(Stopped(job.id, Done()))
        else:
            steps = StepMeasured(n_tokens, [*measured.step_ms], [*measured.replay_ms], n_threads)
            self._answer(job.id, steps)

    def _play_inside(self, job: _Slow, n_threads: int) -> None:
        inside = self._script.inside
        phase, total = "embedding", len(self._vocabulary.pieces)
        if isinstance(job, LookInside | MachineCommand):
            phase, total = "inside", len(job.token_ids) - 1
        elif isinstance(job, MakeVector):
            phase, total = "examples", len(job.positive) + len(job.negative)
        try:
            for chunk in range(1, inside.chunks + 1):
                self._steering.wait(job.id, inside.ms / inside.chunks / 1000)
                self._send(Progress(job.id, phase, total * chunk // inside.chunks, total))
        except StopSeenError:
            self._send(Stopped(job.id, Done()))
            return
        if inside.fail is not None:
            self._fail(job.id, inside.fail)
        elif isinstance(job, LookInside):
            next_id = self._said_behind(job.token_ids)
            self._answer(job.id, self._network().look(job, next_id, inside.missing))
        elif isinstance(job, MachineCommand):
            network, n_tokens = self._network(), len(job.token_ids)
            tell = network.profiled if isinstance(job, ProfileStep) else network.flash
            self._answer(job.id, tell(n_tokens, n_threads))
        else:
            try:
                self._answer(job.id, self._found(job))
            except Refusal as refused:
                self._fail(job.id, refused)

    def _play_beams(self, job: SearchBeams) -> None:
        """A step takes as long as a chunk of what is asked about the inside."""
        from app.engine.process.scripted.beams import searched  # numpy, as above

        inside = self._script.inside
        try:
            for item in searched(job, self._vocabulary, self._said_behind):
                if isinstance(item, BeamsFound):
                    self._answer(job.id, item)
                    return
                self._steering.wait(job.id, inside.ms / inside.chunks / 1000)
                if inside.fail is not None:
                    self._fail(job.id, inside.fail)
                    return
                self._send(item)
        except StopSeenError:
            self._send(Stopped(job.id, Done()))
        except Refusal as refused:
            self._fail(job.id, refused)

    def _found(self, job: EmbeddingCommand | MakeVector) -> Result:
        """Raises Refusal."""
        if not isinstance(job, MakeVector):
            return self._network().embedding(job)
        from app.engine.process.scripted.adapters import made_vector

        return made_vector(job)

    def _network(self) -> MadeUpNetwork:
        """Made when somebody looks: importing numpy takes longer than most scripts."""
        if self._made_up is None:
            from app.engine.process.scripted.inside import MadeUpNetwork

            self._made_up = MadeUpNetwork(len(self._vocabulary.pieces))
        return self._made_up

    def _said_behind(self, ids: list[int]) -> int | None:
        """The token that followed this text in a reply that was played; the end, behind a whole
        one."""
        for text in reversed(self._texts):
            if len(text) > len(ids) and text[: len(ids)] == ids:
                return text[len(ids)]
        return None

    def _fail(
        self, request_id: int, failure: ScriptFailure | Refusal, partial: Summary | None = None
    ) -> None:
        self._send(Failed(request_id, failure.kind, failure.sentence, failure.evidence, partial))

    def _play_load(self, command: LoadWeights) -> None:
        load = self._script.load
        size = 100_000_000
        happens = load.happens_to(command.path, command.options.n_ctx, command.projector)
        try:
            for step in range(load.steps):
                self._steering.wait(command.id, load.ms / load.steps / 1000)
                self._send(Progress(command.id, "load", size * (step + 1) // load.steps, size))
            if happens and load.at_draft:
                self._send(Progress(command.id, "draft", 0, 1))
            if happens and load.at_projector:
                self._send(Progress(command.id, "projector", 0, 1))
            if happens:
                self._happen(ScriptToken(exit=load.exit, signal=load.signal, hang=load.hang))
        except StopSeenError:
            return self._send(Stopped(command.id, Done()))
        if happens and load.fail is not None:
            return self._fail(command.id, load.fail)
        self._loaded = self._made_up_weights(command)
        self._cache.use(command.saved)
        return self._send(Finished(command.id, self._loaded))

    def _made_up_weights(self, command: LoadWeights) -> Loaded:
        options = command.options
        made_up = {
            "path": command.path,
            "name": Path(command.path).stem or "Scripted",
            "architecture": "scripted",
            "description": "scripted replies, no model",
            "size_bytes": 100_000_000,
            "n_params": 0,
            "n_layer": 0,
            "n_embd": 0,
            "n_head": 0,
            "n_head_kv": 0,
            "n_vocab": len(self._vocabulary.pieces),
            "n_ctx": options.n_ctx or 4096,
            "n_ctx_train": 8192,
            "n_ubatch": options.n_ubatch or 512,
            "n_threads": options.n_threads or os.cpu_count() or 1,
            "n_gpu_layers": options.n_gpu_layers or 0,
            "flash_attention": options.flash_attention == "on",
            "type_k": options.type_k,
            "type_v": options.type_v,
            "has_template": True,
            "add_bos": False,
            "eog_ids": [END_ID],
            "memory": [],
            "kv_bytes_per_token": 0,
            "load_s": self._script.load.ms / 1000,
            "notes": [],
            "fast_hash": "scripted",
            "templates": ["default"],
        }
        loaded = msgspec.convert({"@": "Loaded", **made_up, **self._script.load.loaded}, Loaded)
        offer = scripted_offer(command.projector, self._script.projector)
        return loaded if offer is None else msgspec.structs.replace(loaded, projector=offer)

    def _play_generate(self, command: Generate) -> None:
        if self._loaded is None:
            return self._fail(command.id, _NOT_LOADED)
        n_ctx = self._loaded.n_ctx
        try:
            built = self._fit(command, n_ctx)
        except Refusal as refused:
            return self._fail(command.id, refused)
        ids = built.ids
        reply = self._choose_reply(command.prompt)
        if not _may_call(command.prompt):
            reply = reply.without_calls()
        prompt_tokens = len(ids) if reply.prefill.tokens is None else reply.prefill.tokens
        if prompt_tokens >= n_ctx:
            sentence = (
                f"The prompt has {prompt_tokens} tokens, but the context window holds only "
                f"{n_ctx}. Shorten it, or reload the model with a larger context window."
            )
            return self._fail(command.id, ScriptFailure("prompt_too_long", sentence))
        for note in built.notes:
            self._send(Note(command.id, note.kind, note.sentence))
        take = Take(command, self._loaded, prompt_tokens, built)
        try:
            take.adapters = self._adapters(command)
        except Refusal as refused:
            return self._fail(command.id, refused)
        if command.reuse_prefix:
            take.reused, take.reuse_source = self._cache.reused(command.conversation, ids)
            take.reused = min(take.reused, prompt_tokens)
        self._cache.begin(take)
        self._lanes.begin(take)
        ending = "failed"
        try:
            try:
                self._begin(take)
                self._play_prefill(take, reply)
                self._play_tokens(take, reply)
                ending = take.stop_reason
            except StopSeenError:
                ending = "stopped"
                raise
            finally:
                self._cache.end(take)
                self._lanes.end(ending)
                end = [END_ID] if take.stop_reason == "end_token" else []
                self._texts.append([*take.prompt_ids, *take.token_ids, *end])
        except StopSeenError:
            self._flush(take)
            self._said.append(take.said())
            return self._send(Stopped(command.id, take.summary("stopped")))
        except _ScriptedError as failed:
            partial = take.summary("failed") if take.token_ids else None
            return self._fail(command.id, failed.failure, partial)
        self._said.append(take.said())
        self._flush(take)
        return self._send(Finished(command.id, take.summary(take.stop_reason)))

    @staticmethod
    def _adapters(command: Generate) -> list[AdapterUsed]:
        asked = command.adapters
        if asked is None or not (asked.loras or asked.vectors):
            return []
        from app.engine.process.scripted.adapters import scripted_adapters  # numpy, as above

        return scripted_adapters(asked)

    def _choose_reply(self, prompt: Prompt) -> ScriptReply:
        text = ""
        if isinstance(prompt, ChatPrompt):
            asking = (m.content for m in reversed(prompt.messages) if m.role in ("user", "tool"))
            text = next(asking, "")
        elif isinstance(prompt, TextPrompt):
            text = prompt.text
        matching = [r for r in self._script.replies if r.match is not None and r.match in text]
        if matching:
            return matching[0]
        in_order = [reply for reply in self._script.replies if reply.match is None]
        if not in_order or (self._next_reply >= len(in_order) and not self._script.loop):
            return ScriptReply()
        reply = in_order[self._next_reply % len(in_order)]
        self._next_reply += 1
        return reply

    def _fit(self, command: Generate | CountPrompt | ReadPrompt, n_ctx: int) -> BuiltPrompt:
        """The prompt, by the same context policy as the real engine's. Raises Refusal."""
        offer = self._loaded.projector if self._loaded is not None else None
        check_media(media_of(command.prompt), offer)
        see = scripted_sight(self._script.projector, offer)
        return fit_prompt(
            command.prompt,
            lambda prompt: build_scripted(prompt, self._vocabulary, see),
            n_ctx,
            command.context_policy,
        )

    def _show_prompt(self, command: ReadPrompt, n_ctx: int) -> None:
        try:
            built = self._fit(command, n_ctx)
        except Refusal as refused:
            self._fail(command.id, refused)
        else:
            self._answer(command.id, show_scripted(built, n_ctx, self._vocabulary))

    def _count(self, command: CountPrompt, n_ctx: int) -> PromptCount:
        try:
            built = self._fit(command, n_ctx)
        except PromptTooLong as error:
            return PromptCount(error.used, n_ctx)
        return counted(built, n_ctx)

    def _play_prefill(self, take: Take, reply: ScriptReply) -> None:
        self._see(take)
        prefill = reply.prefill
        todo = take.prompt_tokens - take.reused
        for chunk in range(1, prefill.chunks + 1):
            self._steering.wait(take.command.id, prefill.ms / prefill.chunks / 1000)
            done = take.reused + todo * chunk // prefill.chunks
            n_read = done - take.reused - todo * (chunk - 1) // prefill.chunks
            take.read(n_read)
            self._lanes.read(n_read)
            self._send(Progress(take.command.id, "prefill", done, take.prompt_tokens))
        take.end_prefill()
        if take.command.score_prompt and reply.prompt_probabilities:
            self._score_prompt(take, reply.prompt_probabilities)

    def _see(self, take: Take) -> None:
        """Pictures that are in no cells yet take their time."""
        unseen = [span for span in take.media if span.start >= take.reused]
        for number in range(len(unseen)):
            self._send(Progress(take.command.id, "seeing", number, len(unseen)))
            self._steering.wait(take.command.id, self._script.projector.ms / 1000)
            take.see()
        if unseen:
            self._send(Progress(take.command.id, "seeing", len(unseen), len(unseen)))

    def _score_prompt(self, take: Take, probabilities: list[float]) -> None:
        """The script's probabilities go round over the prompt; each rank is what they allow."""
        ids = take.prompt_ids[1:]
        cycle = [probabilities[i % len(probabilities)] for i in range(len(ids))]
        logprobs = [math.log(max(p, 1e-30)) for p in cycle]
        ranks = [1 if p > 0.5 else int(1 / max(p, 1e-9)) for p in cycle]
        self._send(
            PromptScores(take.command.id, 1, ids, Array.of("f4", logprobs), Array.of("i4", ranks))
        )

    def _begin(self, take: Take) -> None:
        """What the reply begins with is its text, in the parts in which it was said before."""
        begin_ids = take.begin_ids
        said = next((s for s in reversed(self._said) if s.begins_with(begin_ids)), None)
        for at, token_id in enumerate(begin_ids):
            part = said.parts[at] if said is not None else "content"
            self._send_texts(take, take.go_over(part))
            self._send_texts(take, take.begin(self._vocabulary.pieces[token_id]))

    def _play_tokens(self, take: Take, reply: ScriptReply) -> None:
        for token in take.left_of(reply.steps()):
            if token.piece is None:
                self._steering.wait(take.command.id, (token.ms or 0) / 1000)
                self._happen(token, take.command.id)
                self._take_back(take, token.take_back)
                if token.call is not None:
                    self._send_texts(take, take.go_over("content"))
                    self._send(take.call(token.call))
                continue
            if (shift := take.make_room()) is not None:
                self._cache.shift(take)
                self._send(Note(take.command.id, SHIFT_NOTE, shift.sentence))
            if take.ends_before_token():
                return
            if token.part == "reasoning" and take.is_at_limit:
                self._end_reasoning(take, token)
                continue
            self._steering.wait(take.command.id, (token.ms or 0) / 1000)
            if self._play_token(take, token, token.piece):
                return
        take.stop_reason = reply.ending

    def _play_token(self, take: Take, token: ScriptToken, piece: bytes) -> bool:
        """Send one token, held if the user wishes so. Returns whether it ended the reply."""
        ms = take.lap_ms()
        trace = self._trace(take, token, piece, ms)
        if take.forced:
            forced = take.forced.popleft()
            if not 0 <= forced < len(self._vocabulary.pieces):
                raise _ScriptedError(ScriptFailure("bad_setting", f"Token {forced} doesn't exist."))
            if forced == END_ID:
                take.stop_reason = "end_token"
                return True
            piece = self._vocabulary.pieces[forced]
            trace = self._trace(take, token, piece, ms, chosen=True)
        elif self._steering.is_holding(take.command.id):
            take.begin_hold()
            self._send(Held(take.command.id, trace))
            chosen = self._steering.choice(take.command.id)
            if chosen == END_ID:
                take.stop_reason = "end_token"
                return True
            if chosen is not None and 0 <= chosen < len(self._vocabulary.pieces):
                is_other = chosen != trace.token_id
                piece = self._vocabulary.pieces[chosen]
                trace = self._trace(take, token, piece, ms, chosen=is_other)
            take.end_hold()
        self._send_texts(take, take.go_over(token.part))
        pieces = take.add(trace.token_id, b"" if token.withheld else piece)
        self._lanes.token()
        take.note_draft(token, ms)
        (part, text), *others = pieces or [(take.part, "")]
        self._send(TokenArrived(take.command.id, trace, text, part, take.context_used))
        self._send_texts(take, others)
        return take.is_stopped_by_string()

    def _end_reasoning(self, take: Take, token: ScriptToken) -> None:
        """The tag that closes it is written by force, and the rest of it is not."""
        sentence = take.end_reasoning()
        if not sentence:
            return
        trace = self._trace(take, token, CLOSING, take.lap_ms(), chosen=True)
        trace = msgspec.structs.replace(trace, inserted=True)
        self._send_texts(take, take.add(trace.token_id, b""))
        self._send(TokenArrived(take.command.id, trace, "", "reasoning", take.context_used))
        take.notes.append(sentence)
        self._send(Note(take.command.id, "reasoning_limit", sentence))

    def _trace(
        self, take: Take, token: ScriptToken, piece: bytes, ms: float, *, chosen: bool = False
    ) -> TokenTrace:
        table = [(text.encode("utf-8", "replace"), p) for text, p in token.alternatives]
        table = table[: take.command.alternatives]
        listed = dict(table).get(piece)
        given = 1.0 if token.probability is None else token.probability
        probability = listed if piece != token.piece and listed is not None else given
        ranks = [other for other, _ in table]
        records, draft = take.command.record_stages, token.draft_probability
        removed = records and bool(token.removed_by)
        return TokenTrace(
            index=len(take.token_ids),
            token_id=self._vocabulary.id_of(piece),
            piece=piece,
            logprob=math.log(max(probability, 1e-30)),
            rank=ranks.index(piece) + 1 if piece in ranks else token.rank,
            entropy=_entropy_bits([p for _, p in table] or [probability]),
            alternative_ids=Array.of("i4", [self._vocabulary.id_of(other) for other, _ in table]),
            alternative_logprobs=Array.of("f4", [math.log(max(p, 1e-30)) for _, p in table]),
            stages=[StageEffect(*effect) for effect in token.stages] if records else [],
            ms=ms,
            removed_by=Array.of("u1", token.removed_by[: len(table)]) if removed else None,
            uniform=None if chosen else token.uniform,
            drafted=token.drafted,
            draft_logprob=draft if draft is None else math.log(max(draft, 1e-30)),
            rejected=self._rejected(token),
            chosen=chosen,
        )

    def _rejected(self, token: ScriptToken) -> Rejected | None:
        if not token.rejected:
            return None
        pieces = [text.encode("utf-8", "replace") for text, _ in token.rejected]
        return Rejected(
            [self._vocabulary.id_of(piece) for piece in pieces],
            pieces,
            math.log(max(token.rejected_probability, 1e-30)),
            [math.log(max(share, 1e-30)) for _, share in token.rejected],
        )

    def _take_back(self, take: Take, n_tokens: int) -> None:
        """As after a banned string: tokens whose text was withheld are no part of the reply."""
        n_tokens = min(n_tokens, len(take.token_ids))
        if n_tokens > 0:
            take.take_back(n_tokens)
            self._send(TextTakenBack(take.command.id, n_tokens))

    def _flush(self, take: Take) -> None:
        self._send_texts(take, take.flush())

    def _send_texts(self, take: Take, pieces: list[Piece]) -> None:
        for part, text in pieces:
            self._send(TextFlushed(take.command.id, text, part))

    def _happen(self, token: ScriptToken, request_id: int = 0) -> None:
        """Let what the script says happen instead of a token."""
        if token.stderr is not None:
            print(token.stderr, file=sys.stderr, flush=True)  # noqa: T201
        if token.log is not None:
            self._send(Log("info", token.log))
        if token.note is not None:
            self._send(Note(request_id, *token.note))
        if token.garbage is not None:
            self._frames.write(bytes.fromhex(token.garbage))
            self._frames.flush()
        if token.fail is not None:
            raise _ScriptedError(token.fail)
        if token.hang:
            if token.hang == "hard":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(60)
        if token.exit is not None:
            os._exit(token.exit)
        if token.signal is not None:
            number = signal.Signals[f"SIG{token.signal.removeprefix('SIG')}"]
            signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
            os.kill(os.getpid(), number)
            time.sleep(60)


def _may_call(prompt: Prompt) -> bool:
    return isinstance(prompt, ChatPrompt) and bool(prompt.tools) and prompt.tool_choice != NONE


class _ScriptedError(Exception):
    def __init__(self, failure: ScriptFailure) -> None:
        self.failure = failure


_BEHIND: Final = "Nothing was drawn after the last token."
_NO_VECTORS: Final = ScriptFailure("unsupported", "A script has no vectors of texts.")
_NOT_LOADED: Final = ScriptFailure("not_loaded", "No model is loaded. Choose a GGUF file first.")


def _entropy_bits(probabilities: list[float]) -> float:
    """Entropy of the listed candidates, all others taken as one."""
    rest = max(0.0, 1.0 - sum(probabilities))
    return -sum(p * math.log2(p) for p in (*probabilities, rest) if p > 0)


def scripted_draws(command: ReplayDraws) -> DrawsReplayed:
    """Every token stays what it was.

    >>> from app.engine.protocol.replay_messages import AskedDraw
    >>> from app.engine.protocol.stages import Sampling
    >>> asked = ReplayDraws(1, [5, 6, 7], 1, Sampling(), [AskedDraw(2)])
    >>> scripted_draws(asked).draws[0].token_id
    7
    """
    ids = command.token_ids
    draws = [
        ReplayedDraw(asked.position, ids[asked.position], 1.0, 1)
        if 0 <= asked.position < len(ids)
        else ReplayedDraw(asked.position, -1, reason=_BEHIND)
        for asked in command.asked
    ]
    explained = None
    if command.explain and draws and draws[-1].token_id >= 0:
        nothing, one = Array.of("f4", [0.0]), Array.of("f4", [1.0])
        n_stages = len(command.sampling.filters) + 1
        explained = DrawExplained(
            *(Array.of("i4", [draws[-1].token_id]), nothing, nothing, one),
            *(Array("u1", [1], bytes([SURVIVED])), [1] * n_stages, 0.0, 0.0),
        )
    return DrawsReplayed(draws, explained)
