"""The page as a whole: what is said at each step, with the pictures of that step.

html_of(Head("Where is Paris?", "SmolLM2", now), told, entries, material)   →   one HTML file
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from app.insight.tour.line import STAGES, figure_of
from app.insight.tour.page.choice import draw_strip, stage_rows, vote_rows
from app.insight.tour.page.costs import cache_rows, memory_rows, step_rows, time_line
from app.insight.tour.page.layers import (
    embedding_strip,
    head_tiles,
    lens_rows,
    way_rows,
    wrote_rows,
)
from app.insight.tour.page.markup import Markup, escaped, joined, tag
from app.insight.tour.page.material import Entry, Head, Material, Passage, Run, Told, short
from app.insight.tour.page.words import (
    attention_words,
    hardest_head,
    prompt_words,
    token_strip,
)
from app.insight.trace.tokens_shown import quoted

Picture = Callable[[Material], Markup]

PICTURES: Final[dict[str, tuple[Picture, ...]]] = {
    "1/template": (prompt_words,),
    "1/ids": (token_strip,),
    "2/embedding": (embedding_strip,),
    "3/words": (attention_words,),
    "3/heads": (hardest_head, head_tiles),
    "4/stream": (way_rows,),
    "4/lens": (lens_rows,),
    "4/cut": (wrote_rows,),
    "5/scores": (vote_rows,),
    "5/settings": (stage_rows,),
    "5/dice": (draw_strip,),
    "6/phases": (time_line,),
    "6/cache": (cache_rows, step_rows),
    "8/size": (memory_rows,),
}
"""By chapter and name of the step that talks about them."""

STYLE: Final = Path(__file__).parents[4] / "resources" / "tour" / "page.css"

MOST_ASKED: Final = 2_000
"""Letters of the message at the top."""

MOST_NAME: Final = 200

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""A browser that obeys it loads and runs nothing, whatever else this file may hold."""

_MEASURED: Final = (
    "Every number here was measured with this very model file: the draw and its times when the "
    "reply was written, what the network computes when this page was saved, from the same text. "
    "“You” is whoever asked."
)


def html_of(head: Head, told: Sequence[Told], entries: Iterable[Entry], material: Material) -> str:
    """The whole file. `told`: the chapters, of which sentences that don't hold are left out."""
    title = f"Follow one token: {quoted(material.piece(material.at))}"
    linked: set[str] = set()
    parts = [
        tag("h1", title),
        *_top(head, material),
        *(_chapter(n, each, material, linked) for n, each in enumerate(told, 1)),
        *_glossary(entries),
        tag("footer", "Saved by Cutaway, which runs language models on your own computer."),
    ]
    return "".join(
        (
            "<!DOCTYPE html>\n",
            '<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{escaped(_POLICY)}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            tag("title", title),
            f"\n<style>\n{STYLE.read_text('utf-8')}</style>\n</head>\n<body>\n<main>\n",
            "\n".join(parts),
            "\n</main>\n</body>\n</html>\n",
        )
    )


def _top(head: Head, material: Material) -> Iterator[Markup]:
    if head.asked:
        yield tag("blockquote", short(head.asked, MOST_ASKED), class_="asked", dir="auto")
    when = f"{head.saved_at:%Y-%m-%d %H:%M}"
    yield tag("p", tag("b", short(head.model, MOST_NAME)), f" · {when}")
    yield tag("p", _MEASURED, class_="note")
    for note in head.notes:
        yield tag("p", note, class_="note")
    yield _line(material)


def _line(material: Material) -> Markup:
    parts = [
        tag("li", tag("small", stage.name), " ", tag("b", short(figure_of(stage, material.facts))))
        for stage in STAGES
    ]
    return tag("ol", *parts, class_="line", aria_label="The pipeline of this token")


def _chapter(number: int, told: Told, material: Material, linked: set[str]) -> Markup:
    inside = [tag("h2", f"{number}. {told.title}")]
    for passage in told.passages:
        if passage.runs:
            inside.append(tag("p", *_said(passage, linked)))
        pictures = PICTURES.get(f"{number}/{passage.step}", ())
        inside += [shown for make in pictures if (shown := make(material))]
    return tag("section", *inside)


def _said(passage: Passage, linked: set[str]) -> Iterator[Markup]:
    """The first place of each term leads to the glossary."""
    for run in passage.runs:
        if run.term and run.term not in linked:
            linked.add(run.term)
            yield tag("a", run.text, href=f"#{_anchor(run.term)}")
        else:
            yield escaped(run.text)


def _glossary(entries: Iterable[Entry]) -> Iterator[Markup]:
    rows = [
        joined((tag("dt", each.name, id=_anchor(each.name)), tag("dd", each.text)))
        for each in entries
    ]
    if rows:
        yield tag("section", tag("h2", "Glossary"), tag("dl", *rows))


def _anchor(term: str) -> str:
    return "term-" + "-".join(term.casefold().split())


__all__ = ["Entry", "Head", "Material", "Passage", "Run", "Told", "html_of"]
