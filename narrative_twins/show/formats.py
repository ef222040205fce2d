"""Results for people and for programs: a terminal table, JSON, JSON Lines, CSV, a page of HTML, pictures."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain, islice
from typing import Any

from rich.console import Console

from narrative_twins.plots.style import PICTURES, picture
from narrative_twins.salience.operations import Operation
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.heat_map import plot_stories
from narrative_twins.show.html import to_html
from narrative_twins.show.table import to_table

FORMATS = ("text", "json", "jsonl", "csv", "html", *PICTURES)


def pieces(
    results: Iterable[StorySalience], form: str, operations: Iterable[Operation], top: int | None, console: Console
) -> Iterator[str | bytes]:
    """Results in a format, lazily, a piece a story; a picture is one piece: the curves of one story, or several stories
    as a heat map.

    Args:
        results: what `score_stories` gave.
        form: one of `FORMATS`.
        operations: what was scored, for the head of a table.
        top: show only so many sentences of each story; JSON names them as `top` and keeps the others, the curves of a
            story label them.
        console: says for `text` how wide and colourful it is.

    Raises:
        ValueError: a picture is asked for, and there is no story. While iterating.
    """
    if form in PICTURES:
        yield _picture(iter(results), form, top)
    elif form == "html":
        yield from to_html(results, top)
    elif form == "text":
        for result in results:
            with console.capture() as captured:
                console.print(to_table(result, top))
            yield captured.get() + "\n"
    elif form == "csv":
        yield _row(["story", "index", "window", "start", "end", "sentence", *(one.name for one in operations)])
        for result in results:
            yield _rows(result, top)
    else:
        lines = (json.dumps(_plain(result, top), ensure_ascii=False) for result in results)
        if form == "jsonl":
            yield from (f"{line}\n" for line in lines)
        else:
            yield "["
            yield from (f"{',' * (at > 0)}\n{line}" for at, line in enumerate(lines))
            yield "\n]\n"


def _picture(results: Iterator[StorySalience], form: str, top: int | None) -> bytes:
    begun = list(islice(results, 2))
    if len(begun) == 1:
        figure = begun[0].plot() if top is None else begun[0].plot(top=top)
    else:
        figure = plot_stories(chain(begun, results))
    return picture(figure, form)


def _plain(result: StorySalience, top: int | None) -> dict[str, Any]:
    chosen = {} if top is None else {"top": [asdict(one) for one in result.top(top)]}
    return result.to_dict() | chosen


def _rows(result: StorySalience, top: int | None) -> str:
    """A story as CSV, a row a sentence."""
    name = result.index if result.story.id is None else result.story.id
    chosen = {one.index for one in result.top(len(result) if top is None else top)}
    lines = []
    for w, (lo, hi) in enumerate(result.windows):
        for i in (i for i in range(lo, hi) if i in chosen):
            scores = [values[i] for values in result.scores.values()]
            lines.append(_row([name, i, w, *result.spans[i], result.sentences[i], *scores]))
    return "".join(lines)


def _row(cells: Sequence[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()
