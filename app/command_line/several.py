"""`ask --answers N`: one prompt answered several times at once, and how often each token came.

The answers share the engine's passes, up to its number of slots; more wait for theirs. Each has a
seed of its own (`--seed S` counts on from S), or settings of its own: `answers` in the settings
file is a list of objects, one for each. Where all draw from the same settings, a table says where
they first differ. One that fails ends no other.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import msgspec

from app.chat.settings.settings import MAX_SEED
from app.command_line.output import AskOutput, JsonLines
from app.command_line.run import FAILED, INTERRUPTED
from app.command_line.settings import DESCRIBES_SAMPLING, AskSettings, resolved
from app.command_line.talk import RequestError, Talk
from app.engine.protocol.lane_messages import Lanes, ReadLanes
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import (
    Event,
    Failed,
    Generate,
    Note,
    Stopped,
    Summary,
    TextTakenBack,
    TokenArrived,
)
from app.insight.sampling.outcomes import Outcome, Outcomes, Run, outcomes, step_of
from app.insight.time.lanes import LaneRecord, rate_of
from app.refusal import bad_setting

MOST: Final = 64
ALTERNATIVES: Final = 16
ANSWERS: Final = "answers"
"""In a settings file: what each answer has otherwise."""


def add_several_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--answers",
        type=int,
        metavar="N",
        help=f"answer N times at once (up to {MOST}), with a seed each, and compare",
    )


def settings_of_each(
    options: argparse.Namespace, file: dict[str, Any] | None
) -> list[AskSettings] | None:
    """Of each answer; None: one is asked for, as ever. Raises Refusal."""
    listed = None if file is None else file.pop(ANSWERS, None)
    if listed is not None and (
        not isinstance(listed, list)
        or not 1 <= len(listed) <= MOST
        or not all(isinstance(one, dict) for one in listed)
    ):
        raise bad_setting(f"“{ANSWERS}” must be a list of 1 to {MOST} objects of settings.")
    wanted = options.answers
    if wanted is not None and not 1 <= wanted <= MOST:
        raise bad_setting(f"--answers must be between 1 and {MOST}.")
    if listed is None:
        return None if wanted is None else [resolved(options, file)] * wanted
    if wanted is not None and wanted != len(listed):
        raise bad_setting(f"--answers says {wanted}, but “{ANSWERS}” lists {len(listed)}.")
    for one in listed:
        if "load" in one or ANSWERS in one:
            raise bad_setting(f"An entry of “{ANSWERS}” can't change how the model is loaded.")
    return [resolved(options, _over(file or {}, one)) for one in listed]


def _over(file: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The file's settings under those of one answer; a chain goes before plain numbers."""
    under = dict(file)
    if "chain" in own:
        under = {name: value for name, value in under.items() if name not in DESCRIBES_SAMPLING}
    elif any(name in own for name in DESCRIBES_SAMPLING):
        under.pop("chain", None)
    return {**under, **own}


def requests_of(each: list[AskSettings], prompts: list[Any], *, with_trace: bool) -> list[Generate]:
    """With a seed each: those that are set count on from the first one's."""
    requests = []
    fresh = random.sample(range(MAX_SEED), len(each))
    for place, (settings, prompt) in enumerate(zip(each, prompts, strict=True)):
        request = settings.generate(prompt, with_trace=with_trace)
        seed = request.sampling.seed
        if each.count(settings) > 1 or seed is None:
            seed = fresh[place] if seed is None else (seed + place) % MAX_SEED
        sampling = msgspec.structs.replace(request.sampling, seed=seed)
        requests.append(
            msgspec.structs.replace(
                request,
                sampling=sampling,
                alternatives=max(request.alternatives, ALTERNATIVES),
                record_stages=True,
                conversation=f"answer {place + 1}",
                reply_id=f"answer {place + 1}",
            )
        )
    return requests


class Several:
    """Takes the events of all answers, on the engine's thread, and tells them apart."""

    def __init__(self, output: AskOutput, requests: list[Generate]) -> None:
        self._output = output
        self._requests = requests
        self.runs = [Run(request.sampling.seed or 0) for request in requests]
        self._is_same = all(
            msgspec.structs.replace(r.sampling, seed=None)
            == msgspec.structs.replace(requests[0].sampling, seed=None)
            and r.prompt == requests[0].prompt
            for r in requests
        )

    def event(self, event: Event, place: int) -> None:
        run = self.runs[place]
        if isinstance(event, TokenArrived):
            run.steps.append(step_of(event.token))
        elif isinstance(event, TextTakenBack):
            del run.steps[max(len(run.steps) - event.n_tokens, 0) :]
        if isinstance(self._output, JsonLines):
            self._output.event(event, answer=place + 1)
        elif isinstance(event, Note) and place == 0:
            self._output.event(event)

    def run(self, talk: Talk, loaded: Loaded) -> int:
        """The exit code: that of the first that failed, or was stopped."""
        code = 0
        first_failure: Failed | None = None
        for place, ending in talk.endings_of(list(self._requests), self.event):
            run = self.runs[place]
            run.is_over = True
            summary = ending.partial if isinstance(ending, Failed) else ending.result
            if isinstance(summary, Summary):
                run.has_ended = summary.stop_reason in ("end_token", "turn_end")
                self._tell(place, summary)
            if isinstance(ending, Failed):
                first_failure = first_failure or ending
                self._tell_failed(place, ending)
            elif isinstance(ending, Stopped):
                code = INTERRUPTED
        if code != INTERRUPTED:
            self._tell_lanes(talk)
        found = outcomes(self.runs, (), loaded.eog_ids) if self._is_same else None
        if found is not None and len(self.runs) > 1:
            self._tell_outcomes(found)
        if first_failure is not None and all(not run.steps for run in self.runs):
            raise RequestError(first_failure)
        return code or (FAILED if first_failure is not None else 0)

    def _tell(self, place: int, summary: Summary) -> None:
        if isinstance(self._output, JsonLines):
            self._output.summary(summary, answer=place + 1)
        else:
            name = f"Answer {place + 1} · seed {summary.seed}"
            _print(f"{name}\n{summary.text}\n")

    def _tell_failed(self, place: int, failed: Failed) -> None:
        if isinstance(self._output, JsonLines):
            self._output.failed(failed, answer=place + 1)
        else:
            sys.stderr.write(f"Answer {place + 1}: {failed.sentence}\n")

    def _tell_lanes(self, talk: Talk) -> None:
        """Who was in which slot, and how fast all of them were together."""
        record = LaneRecord()
        record.take(talk.ask(ReadLanes(0), Lanes))
        start, end = record.bursts()[0][0], record.now_ms
        rate = record.tokens_per_s(start, end)
        at_once = max((len(span.shares) for span in record.spans), default=0)
        if isinstance(self._output, JsonLines):
            visits = [
                {
                    "answer": int(visit.reply_id.rpartition(" ")[2]),
                    "slot": visit.slot,
                    "waited_ms": visit.waited_ms,
                    "joined_ms": round(visit.joined_ms - start, 3),
                    "left_ms": round(visit.left_ms - start, 3),
                    "reused": visit.reused,
                    "read": visit.read,
                    "written": visit.written,
                    "tokens_per_s": rate_of(visit),
                }
                for visit in record.visits.values()
            ]
            fields = {"at_once": at_once, "tokens_per_s": rate, "answers": visits}
            self._output.line("batch", fields)
        elif rate is not None:
            _print(f"{at_once} at once, {rate:,.1f} tokens/s together\n")

    def _tell_outcomes(self, found: Outcomes) -> None:
        rows = [
            {
                **asdict(row),
                "piece": row.piece.hex(),
                "text": row.piece.decode("utf-8", "replace"),
                "is_end": row.is_end,
            }
            for row in found.rows
        ]
        if isinstance(self._output, JsonLines):
            fields = {
                "position": found.position,
                "differs": found.differs,
                "n": found.n,
                "rows": rows,
                "unseen": found.unseen,
            }
            self._output.line("outcomes", fields)
            return
        where = f"token {found.position + 1}"
        if not found.differs:
            _print(f"All {found.n} agree up to {where}.")
            return
        _print(f"First difference at {where}, in {found.n} answers:")
        _print(f"{'token':<20}{'came':>6}{'share':>9}{'expected':>17}{'model':>9}")
        for row in found.rows:
            _print(_row(row, found))


def _row(row: Outcome, found: Outcomes) -> str:
    """
    >>> row = Outcome(5, b" cat", 3, 0.75, 0.5, 0.7, 1)
    >>> _row(row, Outcomes((), 0, True, 4, (row,), 0.3))
    "' cat'                   3    75.0%   70.0% ±  22.9%    50.0%"
    """
    name = "(end)" if row.is_end else repr(row.piece.decode("utf-8", "replace"))
    expected = "–"
    if row.expected is not None:
        expected = f"{row.expected:.1%} ± {found.stray(row.expected):>6.1%}"
    model = "–" if row.model is None else f"{row.model:.1%}"
    return f"{name[:19]:<20}{row.count:>6}{row.share:>9.1%}{expected:>17}{model:>9}"


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
