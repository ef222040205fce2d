"""Results as text for the terminal, and which sentences are highlighted there and on pages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from rich import box
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from narrative_twins.books.result import BookSalience
from narrative_twins.plots.shades import STRONG, hex_color, shares
from narrative_twins.plots.style import INK, one_line
from narrative_twins.salience.result import Scored, StorySalience, precision, shown_score
from narrative_twins.stories.sentences import Span
from narrative_twins.writing import for_terminal

MARK = "★"
BARS = "▁▂▃▄▅▆▇█"
TOP = 3
"""How many sentences of each chapter of a book are shown as text."""

_ASCII = str.maketrans("★─━│…·▁▂▃▄▅▆▇█", "*--|.|12345678")
_BOLD = Style(bold=True)
_STARRED = Style(bold=True, color=INK, bgcolor=hex_color(STRONG))


def in_encoding(text: str, encoding: str) -> str:
    """Return a text that an encoding can write: the text itself, or with ASCII in place of stars,
    bars and lines, and `?` in place of other characters that the encoding lacks."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text


def marked(result: StorySalience, operation: str) -> set[int]:
    """Return the indices of the sentences that have a star by an operation, see `Scored.marked`."""
    return set(result.marked(operation))


def shown_windows(result: StorySalience, top: int | None) -> dict[str, list[int]]:
    """Return the indices of the `top` most salient sentences (None for all) by window. The keys are
    headings of the windows, counted from 1. Windows without such a sentence are left out."""
    shown = set(result.highest(len(result.sentences) if top is None else top))
    windows = {
        f"window {w}: sentences {lo + 1} to {hi}": [i for i in range(lo, hi) if i in shown]
        for w, (lo, hi) in enumerate(result.windows, start=1)
    }
    return {heading: indices for heading, indices in windows.items() if indices}


def caption(result: StorySalience) -> str:
    """Return the legend of stars and shades, with the notes on the scores."""
    legend = (
        f"{MARK} the most salient fifth by each operation; bars and shades go from the lowest score"
        f" of the story to the highest; sentences are highlighted by {result.primary_operation}."
    )
    return " ".join([legend] * result.is_comparable + result.notes_on(result.scores))


def _cell(text: str) -> str:
    """Return a text from outside on one line that is safe to print."""
    return for_terminal(one_line(text))


def bars_of(values: list[float]) -> list[str]:
    """Return a bar for each value, from the lowest to the highest of them; a space for NaN."""
    return [" " if math.isnan(share) else BARS[round(share * 7)] for share in shares(values)]


def to_table(result: StorySalience, top: int | None = None) -> Table:
    """Return a `rich` table of a story: one row per sentence, one column per operation, a heading
    per window. It can be read on dark and light terminals and without colour: bars grow with
    salience, and the most salient scores have a star and a coloured background. By the primary
    operation, the most salient sentences are bold, and the lower half is dim.

    Args:
        result: a result, from `score_stories`.
        top: show only this many sentences, the most salient, in story order.
    """
    table = _table([*result.scores, "sentence"])
    table.title, table.title_style = Text(_cell(result.title), "bold"), "bold"
    table.caption = Text(_cell(caption(result)), "table.caption")
    table.title_justify = table.caption_justify = "left"
    stars = {name: marked(result, name) for name in result.scores}
    bars = {name: bars_of(result.shaded(name)) for name in result.scores}
    ranks, main = result.rank(), stars[result.primary_operation]
    shown = partial(shown_score, dtype=result.dtype)
    for heading, indices in shown_windows(result, top).items():
        if len(result.windows) > 1:
            title = Text(heading, Style(dim=True, italic=True))
            table.add_row(*[""] * (len(result.scores) + 1), title)
        for i in indices:
            cells = [
                Text(f"{MARK} {shown(scores[i])} {bars[name][i]}", _STARRED)
                if i in stars[name]
                else Text(f"  {shown(scores[i])} {bars[name][i]}")
                for name, scores in result.scores.items()
            ]
            style = Style(bold=i in main, dim=ranks[i] > (len(result.sentences) + 1) / 2)
            table.add_row(str(i + 1), *cells, Text(_cell(result.sentences[i]), style))
        table.add_section()
    return table


def _table(columns: Sequence[str]) -> Table:
    """Return an empty table: a column of numbers, one for each score, and a wide one of text."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, expand=True)
    for name in ("#", *columns[:-1]):
        table.add_column(Text(_cell(name)), justify="right", no_wrap=True)
    table.add_column(columns[-1], ratio=1)
    return table


def book_text(result: BookSalience, top: int, console: Console) -> Iterator[str]:
    """Yield, as pieces of text, a table of contents with scores and bars, the `top` most salient
    sentences of each chapter in story order, and the notes, in the console's width and colours."""
    with console.capture() as captured:
        console.print(Text(f"{_cell(result.name)}: {result.extent}", _BOLD), soft_wrap=True)
        if result.levels != ("sentence",):
            console.print(_contents(result))
    yield _trimmed(captured.get())
    if "sentence" in result.levels:
        operation = result.shading["sentence"]
        compared = result.sentences.compared(operation)
        for chapter in result.chapters:
            inside = range(*result.sentences_of(chapter))
            highest = sorted(sorted(inside, key=lambda i: -compared[i])[:top])
            table = Table.grid(padding=(0, 2, 0, 0))
            for options in ({"justify": "right", "no_wrap": True},) * 2 + ({"ratio": 1},):
                table.add_column(**options)
            for i in highest:
                score = shown_score(result.sentences.scores[operation][i], result.dtype)
                table.add_row(str(i + 1), score, Text(_cell(result.sentences.texts[i])))
            with console.capture() as captured:
                console.print()
                console.print(Text(_cell(chapter.name), _BOLD), soft_wrap=True)
                console.print(table)
            yield _trimmed(captured.get())
    with console.capture() as captured:
        console.print()
        console.print(
            "Bars go from the lowest to the highest of the units that are compared; one alone has"
            " none."
        )
        for note in [*result.notes, *precision(result.dtype)]:
            console.print(Text(_cell(note)))
    yield _trimmed(captured.get())


def _trimmed(text: str) -> str:
    """Return lines without the spaces by which they are padded to the width of the console."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _contents(result: BookSalience) -> Table:
    """Return a table of the chapters of a book and their scenes, with scores and bars."""
    names = list(dict.fromkeys([*result.chapters.scores, *result.scenes.scores]))
    table = _table([*names, "chapter"])
    scenes = _with_bars(result.scenes, names, result.chapters.inside, result.dtype)
    everything = [(0, len(result.chapters))]
    for chapter, scores in zip(
        result.chapters, _with_bars(result.chapters, names, everything, result.dtype), strict=True
    ):
        table.add_row(str(chapter.index + 1), *scores, Text(_cell(chapter.name)))
        inside = range(*chapter.inside)
        if len(inside) > 1 and "scene" in result.levels:
            for number, scene in enumerate(inside, start=1):
                table.add_row("", *scenes[scene], Text(f"  scene {number}", Style(dim=True)))
    return table


def _with_bars(
    units: Scored, names: Sequence[str], groups: Sequence[Span], dtype: str | None
) -> list[list[str]]:
    """Return, for each unit, its score by each operation in `names` as text with a bar, empty if it
    has none. Bars compare the units of a group; `groups` are half-open ranges."""
    columns = []
    for name in names:
        if name not in units.scores:
            columns.append([""] * groups[-1][1])
            continue
        shaded = units.shaded(name)
        bars = [bar for lo, hi in groups for bar in bars_of(shaded[lo:hi])]
        scores = [shown_score(score, dtype) for score in units.scores[name]]
        columns.append([f"{score} {bar}" for score, bar in zip(scores, bars, strict=True)])
    return [list(row) for row in zip(*columns, strict=True)]
