"""Output formats: a registry of functions that write results as text, data, pages or images."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import Any, TypeAlias

from rich.console import Console

from narrative_twins.plots.style import render
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.heat_map import plot_stories
from narrative_twins.show.html import to_html
from narrative_twins.show.table import to_table


@dataclass(frozen=True)
class Layout:
    """How results are laid out.

    Attributes:
        operations: the names of the operations that were scored, for the header of a table.
        top: show only this many sentences of each story. JSON lists them as `top` and keeps the
            others; curves label them.
        console: the width and colours of the format `text`.
        share: in place of `top`, the share of the sentences in the format `extract`.
    """

    operations: Sequence[str]
    top: int | None
    console: Console
    share: float | None = None


Writer: TypeAlias = Callable[[Iterable[StorySalience], Layout], Iterator[str | bytes]]
"""Yields the output in pieces, lazily, one piece per story if the format allows."""


@dataclass(frozen=True)
class OutputFormat:
    """An output format.

    Attributes:
        write: writes results.
        media_type: its MIME type.
        is_image: its pieces are bytes that no terminal can show.
        is_resumable: each story is a line of JSON with its `sentences` and `windows`, so an
            interrupted run can be continued.
    """

    write: Writer
    media_type: str
    is_image: bool = False
    is_resumable: bool = False


_FORMULA = ("=", "+", "-", "@", "\t", "\r")

FORMATS: dict[str, OutputFormat] = {}  # the registry: formats by name, in the order they are listed


def register_format(name: str, media_type: str, **properties: bool) -> Callable[[Writer], Writer]:
    """Decorator that registers a function as the writer of a format; see `OutputFormat`."""

    def register(write: Writer) -> Writer:
        FORMATS[name] = OutputFormat(write, media_type, **properties)
        return write

    return register


def write_results(
    results: Iterable[StorySalience],
    name: str,
    operations: Iterable[str],
    top: int | None = None,
    console: Console | None = None,
    share: float | None = None,
) -> Iterator[str | bytes]:
    """Results in a format, in pieces, lazily. Iterating raises `ValueError` for an image of no
    story.

    Args:
        results: the results, from `score_stories`.
        name: one of `FORMATS`.
        operations, top, console, share: see `Layout`; the default console writes plain text of 120
            columns.
    """
    layout = Layout(list(operations), top, console or Console(file=io.StringIO(), width=120), share)
    return FORMATS[name].write(results, layout)


@register_format("text", "text/plain")
def _text(results: Iterable[StorySalience], layout: Layout) -> Iterator[str]:
    for result in results:
        with layout.console.capture() as captured:
            layout.console.print(to_table(result, layout.top))
        yield captured.get() + "\n"


@register_format("extract", "text/plain")
def _extract(results: Iterable[StorySalience], layout: Layout) -> Iterator[str]:
    """The most salient sentences in story order, one per line; each of several stories under its
    name."""
    remaining = iter(results)
    first = list(islice(remaining, 2))
    for at, result in enumerate(chain(first, remaining)):
        heading = f"{chr(10) * (at > 0)}{result.name}\n" if len(first) > 1 else ""
        yield f"{heading}{result.extract(layout.top, share=layout.share)}\n"


@register_format("json", "application/json")
def _json(results: Iterable[StorySalience], layout: Layout) -> Iterator[str]:
    yield "["
    yield from (f"{',' * (at > 0)}\n{_object(result, layout)}" for at, result in enumerate(results))
    yield "\n]\n"


@register_format("jsonl", "application/jsonl", is_resumable=True)
def _json_lines(results: Iterable[StorySalience], layout: Layout) -> Iterator[str]:
    yield from (f"{_object(result, layout)}\n" for result in results)


@register_format("csv", "text/csv")
def _csv(results: Iterable[StorySalience], layout: Layout) -> Iterator[str]:
    """One row per sentence. Texts that a spreadsheet would take for formulas get an apostrophe in
    front."""
    yield _row(["story", "index", "window", "start", "end", "sentence", *layout.operations])
    for result in results:
        name = result.index if result.story.id is None else result.story.id
        shown = {
            sentence.index
            for sentence in result.top(len(result) if layout.top is None else layout.top)
        }
        lines = []
        for w, (lo, hi) in enumerate(result.windows):
            for i in (i for i in range(lo, hi) if i in shown):
                scores = [values[i] for values in result.scores.values()]
                lines.append(_row([name, i, w, *result.spans[i], result.sentences[i], *scores]))
        yield "".join(lines)


@register_format("html", "text/html")
def _html(results: Iterable[StorySalience], layout: Layout) -> Iterator[str]:
    yield from to_html(results, layout.top)


@register_format("png", "image/png", is_image=True)
def _png(results: Iterable[StorySalience], layout: Layout) -> Iterator[bytes]:
    yield _image(iter(results), layout, "png")


@register_format("svg", "image/svg+xml", is_image=True)
def _svg(results: Iterable[StorySalience], layout: Layout) -> Iterator[bytes]:
    yield _image(iter(results), layout, "svg")


def _image(results: Iterator[StorySalience], layout: Layout, form: str) -> bytes:
    """The curves of one story, or several stories as a heat map."""
    first = list(islice(results, 2))
    if len(first) == 1:
        figure = first[0].plot() if layout.top is None else first[0].plot(top=layout.top)
    else:
        figure = plot_stories(chain(first, results))
    return render(figure, form)


def _object(result: StorySalience, layout: Layout) -> str:
    chosen = (
        {}
        if layout.top is None
        else {"top": [asdict(sentence) for sentence in result.top(layout.top)]}
    )
    return json.dumps(result.to_dict() | chosen, ensure_ascii=False)


def _row(cells: Sequence[Any]) -> str:
    line = io.StringIO()
    # With this terminator cells that have a carriage return are quoted too.
    writer = csv.writer(line, lineterminator="\r\n")
    writer.writerow([_as_text(cell) if isinstance(cell, str) else cell for cell in cells])
    return line.getvalue().removesuffix("\r\n") + "\n"


def _as_text(cell: str) -> str:
    """A text that a spreadsheet shows as it is: with an apostrophe in front if it would be taken
    for a formula (OWASP, "CSV injection")."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
