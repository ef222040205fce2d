"""Output formats: a registry of functions that write results as text, data, pages or images; and
saved results, read again without an encoder.

A format is one decorated function. It is a choice of `--format`, its suffixes imply it, and the web
page offers it as a download.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import Any, TypeAlias

from rich.console import Console

from narrative_twins.books.result import BookSalience
from narrative_twins.books.story_files import read_story_files
from narrative_twins.extras import check_extra
from narrative_twins.plots.style import render
from narrative_twins.salience.ranking import highest
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.pages import book_html, to_html
from narrative_twins.show.terminal import TOP, book_text, to_table
from narrative_twins.stories.rows import RowColumns, shown_json


@dataclass(frozen=True)
class Layout:
    """How results are laid out.

    Attributes:
        top: how many sentences of each story to show, the most salient ones; None for all. JSON has
            all sentences, and the selected ones as `top`; curves number the selected ones.
        console: has the width and colours of the format `text`.
        share: for the format `extract`, the share of the sentences to show, in place of `top`.
    """

    top: int | None
    console: Console
    share: float | None = None


Pieces: TypeAlias = Iterable[str | bytes]
"""Output in pieces, made lazily, one piece per story if the format allows."""
Writer: TypeAlias = Callable[[Iterable[StorySalience], Layout], Pieces]
BookWriter: TypeAlias = Callable[[BookSalience, Layout], Pieces]


@dataclass(frozen=True)
class OutputFormat:
    """An output format.

    Attributes:
        name: the name of the format, which is also the suffix of downloads.
        write: a function that writes the results of stories.
        media_type: the MIME type of the format.
        suffixes: the suffixes of files in this format.
        write_book: a function that writes the result of a book; None if a book can't have this
            format.
        binary: whether the output is bytes that no terminal can show.
        extra: the extra of this package that the format needs, such as `plot`.
        download: whether the web page offers the format.
    """

    name: str
    write: Writer
    media_type: str
    suffixes: tuple[str, ...] = ()
    write_book: BookWriter | None = None
    binary: bool = False
    extra: str | None = None
    download: bool = True

    def check(self) -> None:
        """Raise an `ImportError` that says what to install if a library is missing."""
        if self.extra is not None:
            check_extra(self.extra)


FORMATS: dict[str, OutputFormat] = {}
"""The formats by name, in the order in which they are listed."""


def register_format(name: str, media_type: str, **properties: Any) -> Callable[[Writer], Writer]:
    """Return a decorator that registers a function as the writer of the format `name`. `properties`
    are further fields of `OutputFormat`."""

    def register(write: Writer) -> Writer:
        """Register `write` as the writer of the format, and return it unchanged."""
        FORMATS[name] = OutputFormat(name, write, media_type, **properties)
        return write

    return register


def book_formats() -> list[str]:
    """Return the names of the formats that a book can have."""
    return [name for name, form in FORMATS.items() if form.write_book is not None]


def write_results(
    results: Iterable[StorySalience] | BookSalience,
    name: str,
    top: int | None = None,
    console: Console | None = None,
    share: float | None = None,
) -> Pieces:
    """Return results in the format `name`, as pieces that are made lazily. An image shows one
    story: for none or several, the first piece raises a `ValueError`.

    Args:
        results: the results of stories, from `score_stories`, or the result of a book.
        name: a name in `FORMATS`; for a book, one of `book_formats`.
        top, console, share: see `Layout`; the default console writes plain text of 120 columns.
    """
    layout = Layout(top, console or Console(file=io.StringIO(), width=120), share)
    form = FORMATS[name]
    if not isinstance(results, BookSalience):
        return form.write(results, layout)
    if form.write_book is None:
        raise ValueError(f"a book has no format {name!r}; choose from {', '.join(book_formats())}")
    return form.write_book(results, layout)


@register_format(
    "text",
    "text/plain",
    suffixes=(".txt",),
    write_book=lambda book, layout: book_text(book, layout.top or TOP, layout.console),
    download=False,
)
def _text(results: Iterable[StorySalience], layout: Layout) -> Pieces:
    """Yield each story as a table for the terminal."""
    for result in results:
        with layout.console.capture() as captured:
            layout.console.print(to_table(result, layout.top))
        yield captured.get() + "\n"


@register_format(
    "extract",
    "text/plain",
    write_book=lambda book, layout: [f"{book.extract(layout.top, share=layout.share)}\n"],
    download=False,
)
def _extract(results: Iterable[StorySalience], layout: Layout) -> Pieces:
    """Yield the most salient sentences of each story, one per line and in story order. If there are
    several stories, the name of each story is above its sentences."""
    remaining = iter(results)
    first = list(islice(remaining, 2))
    for at, result in enumerate(chain(first, remaining)):
        separator = "\n" if at else ""
        heading = f"{separator}{result.name}\n" if len(first) > 1 else ""
        yield f"{heading}{result.extract(layout.top, share=layout.share)}\n"


@register_format(
    "json",
    "application/json",
    suffixes=(".json",),
    write_book=lambda book, layout: [json.dumps(book.json(), ensure_ascii=False) + "\n"],
)
def _json(results: Iterable[StorySalience], layout: Layout) -> Pieces:
    """Yield a JSON list with one object per story."""
    yield "["
    separator = ""
    for result in results:
        yield f"{separator}\n{_object(result, layout)}"
        separator = ","
    yield "\n]\n"


@register_format("jsonl", "application/jsonl", suffixes=(".jsonl", ".ndjson"), download=False)
def _json_lines(results: Iterable[StorySalience], layout: Layout) -> Pieces:
    """Yield one JSON object per story, each on a line."""
    for result in results:
        yield f"{_object(result, layout)}\n"


def result_data(result: StorySalience, top: int | None) -> dict[str, Any]:
    """Return a result as JSON data; unless `top` is None, with its `top` most salient sentences."""
    data = result.json()
    if top is not None:
        data["top"] = [asdict(sentence) for sentence in result.top(top)]
    return data


def _object(result: StorySalience, layout: Layout) -> str:
    """Return a result as JSON on one line."""
    return json.dumps(result_data(result, layout.top), ensure_ascii=False)


CSV_COLUMNS = ("file", "row", "story", "index", "window", "start", "end", "sentence")
"""The columns of CSV before columns that are kept, and scores by operation."""


@register_format("csv", "text/csv", suffixes=(".csv",))
def _csv(results: Iterable[StorySalience], layout: Layout) -> Pieces:
    """Yield CSV: a line with the names of the columns, then a line per sentence."""
    columns: list[str] = []
    for at, result in enumerate(results):
        lines = []
        if not at:
            columns = list(result.kept)
            lines.append(_row(*CSV_COLUMNS, *columns, *result.scores))
        name = result.row if result.story.id is None else result.story.id
        windows = [w for w, (lo, hi) in enumerate(result.windows) for _ in range(lo, hi)]
        top = len(windows) if layout.top is None else layout.top
        for i in sorted(highest(result, top)):
            scores = [values[i] for values in result.scores.values()]
            row, kept = result.row, result.kept
            if result.rows:  # one for each sentence
                row, kept = result.rows[i], {key: values[i] for key, values in kept.items()}
            about = [result.file, row, name, i, windows[i], *result.spans[i], result.sentences[i]]
            lines.append(_row(*about, *(shown_json(kept.get(key)) for key in columns), *scores))
        yield "".join(lines)


def _row(*cells: Any) -> str:
    """Return the cells of a row as a line of CSV."""
    line = io.StringIO()
    # With this terminator cells that have a carriage return are quoted too.
    csv.writer(line, lineterminator="\r\n").writerow(map(_without_formula, cells))
    return line.getvalue().removesuffix("\r\n") + "\n"


_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""How a formula begins; spreadsheets in some languages take fullwidth signs for the others."""


def _without_formula(cell: Any) -> Any:
    """Return a cell of CSV with an apostrophe in front if a spreadsheet would read it as a formula:
    `=A1` becomes `'=A1` (OWASP, "CSV injection")."""
    is_formula = isinstance(cell, str) and cell.startswith(_FORMULAS)
    return f"'{cell}" if is_formula else cell


@register_format(
    "html", "text/html", suffixes=(".html", ".htm"), write_book=lambda book, layout: book_html(book)
)
def _html(results: Iterable[StorySalience], layout: Layout) -> Pieces:
    """Return the pieces of an HTML page with all stories."""
    return to_html(results, layout.top)


def _register_image(form: str, media_type: str) -> None:
    """Register the image format `form`, which is `"png"` or `"svg"`."""

    @register_format(
        form,
        media_type,
        suffixes=(f".{form}",),
        write_book=lambda book, layout: [render(book.plot(), form)],
        binary=True,
        extra="plot",
    )
    def image(results: Iterable[StorySalience], layout: Layout) -> Pieces:
        """Yield an image of the curves of one story. Raises a `ValueError` for none or several."""
        # Two tell one story from several, of which there may be millions.
        first = list(islice(results, 2))
        if len(first) != 1:
            raise ValueError(
                f"an image shows one story, not {'several' if first else 'none'}; write several as"
                " html"
            )
        yield render(first[0].plot(top=TOP if layout.top is None else layout.top), form)


_register_image("png", "image/png")
_register_image("svg", "image/svg+xml")


def read_results(paths: Iterable[str | os.PathLike[str]]) -> Iterator[StorySalience]:
    """Yield saved results, lazily and in order. Their `index` counts the stories of all files.

    Args:
        paths: files from `narrative-twins score` with `--format jsonl` or `json`, or lines of
            `StorySalience.json` as JSON; `-` for standard input, as JSON Lines.

    Raises:
        ValueError: a file can't be read, or something in it is no result; the message says where.
    """
    index = 0
    for path in paths:
        file = os.fspath(path)
        form = "json" if file.lower().endswith(".json") else "jsonl"
        for document in read_story_files([file], form, columns=RowColumns("")):
            try:
                if document.problem is not None:
                    raise ValueError(document.problem)
                yield StorySalience.from_dict(document.content, index)
            except ValueError as error:
                raise ValueError(
                    f"{document.name}: {error}; saved scores are the JSON Lines or JSON that"
                    " `narrative-twins score` writes"
                ) from None
            index += 1
