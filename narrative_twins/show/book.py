"""The salience of a book as text for the terminal, and as one self-contained HTML page. All text is
escaped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape

from rich import box
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from narrative_twins.plots.printable import one_line
from narrative_twins.plots.shades import shares
from narrative_twins.salience.books.contents import Contents
from narrative_twins.salience.books.result import BookSalience
from narrative_twins.salience.books.units import Unit, compared, scores_of, sentences_of
from narrative_twins.show.highlights import BARS
from narrative_twins.show.html import PAGE_END, page_head

TOP = 3
"""How many sentences of each chapter are shown as text."""


def book_text(result: BookSalience, top: int = TOP, console: Console | None = None) -> str:
    """A table of contents with scores and bars, then the `top` most salient sentences of each
    chapter in story order. The console decides about width and colours; default plain text of 120
    columns."""
    console = console or Console(width=120, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(
            Text(f"{one_line(result.name)}: {result.extent}", Style(bold=True)), soft_wrap=True
        )
        names = list(dict.fromkeys([*result.operations("chapter"), *result.operations("scene")]))
        if names:
            console.print(_contents(result, names))
        for chapter in result.chapters if "sentence" in result.levels else ():
            console.print()
            console.print(Text(one_line(chapter.name), Style(bold=True)), soft_wrap=True)
            console.print(_salient(chapter, result.primary_operation("sentence"), top))
        console.print()
        for note in [
            "Bars go from the lowest to the highest of the units that are compared.",
            *result.notes,
        ]:
            console.print(Text(note))
    # Lines are padded to the width of the console.
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _contents(result: BookSalience, names: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("#", justify="right", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("chapter", ratio=1)
    bars = _bars(result.chapters)
    for chapter, cells in zip(result.chapters, bars, strict=True):
        table.add_row(
            str(chapter.index + 1),
            *(cells.get(name, "") for name in names),
            Text(one_line(chapter.name)),
        )
        if len(chapter.children) > 1 and "scene" in result.levels:
            for number, own in enumerate(_bars(chapter.children), start=1):
                table.add_row(
                    "",
                    *(own.get(name, "") for name in names),
                    Text(f"  scene {number}", Style(dim=True)),
                )
    return table


def _bars(units: Sequence[Unit]) -> list[dict[str, str]]:
    """The scores of units that are compared, each with a bar, by operation."""
    cells: list[dict[str, str]] = [{} for _ in units]
    for name, scores in scores_of(units).items():
        for cell, score, share in zip(cells, scores, shares(compared(units, name)), strict=True):
            cell[name] = f"{score:.3f} {BARS[round(share * 7)]}"
    return cells


def _salient(chapter: Unit, operation: str, top: int) -> Table:
    sentences, windows = sentences_of(chapter.children)
    values = compared(sentences, operation, windows)
    chosen = [sentences[i] for i in sorted(range(len(sentences)), key=lambda i: -values[i])[:top]]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    for sentence in sorted(chosen, key=lambda sentence: sentence.index):
        score = f"{sentence.scores[operation]:.3f}"
        table.add_row(str(sentence.index + 1), score, Text(one_line(sentence.text)))
    return table


def book_html(result: BookSalience) -> Iterator[str]:
    """A page with the table of contents of a book, shaded by salience, that opens down to the
    sentences, in pieces. It has no scripts, and is light or dark as the reader's system is."""
    yield page_head(f"{result.name}: narrative salience", _STYLE)
    yield f'<h1><bdi>{escape(result.name)}</bdi></h1>\n<p class="notes">{escape(result.extent)}. '
    yield f"{escape(' '.join([result.legend, *result.notes]))}</p>\n"
    yield from Contents(result.shading).chapters(result.chapters)
    yield PAGE_END


def book_json(result: BookSalience) -> Iterator[str]:
    """The salience of a book as JSON, which `read_book_salience` reads, in pieces."""
    yield json.dumps(result.to_dict(), ensure_ascii=False) + "\n"


_STYLE = """:root { color-scheme: light dark; }
details, .closed { margin: .3rem 0; } details > * { margin-left: 1.2rem; } details > summary { margin-left: 0; }
summary { cursor: pointer; } .unit { background: var(--light, none); padding: 1px 3px; }
.chapter { font-weight: bold; } .chapter, .scene, small, .notes { font-family: system-ui, sans-serif; }
small, .notes { font-size: .8rem; color: #55555f; } p { overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) {
  body { background: #161412; color: #ececec; } .unit { background: var(--dark, none); }
  small, .notes { color: #b8b8c0; }
}
"""
