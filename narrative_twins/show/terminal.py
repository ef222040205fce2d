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
from narrative_twins.plots.style import INK
from narrative_twins.salience import ranking
from narrative_twins.salience.ranking import Scored
from narrative_twins.salience.result import StorySalience
from narrative_twins.salience.wording import precision, shown_score
from narrative_twins.stories.sentences import Span
from narrative_twins.text import beside_english, one_line

MARK = "★"
BARS = "▁▂▃▄▅▆▇█"
TOP = 3
"""How many sentences of each chapter of a book are shown as text."""

_ASCII = str.maketrans("★─━│…·▁▂▃▄▅▆▇█", "*--|.|12345678")
_BOLD = Style(bold=True)
_STARRED = Style(bold=True, color=INK, bgcolor=hex_color(STRONG))


def in_encoding(text: str, encoding: str) -> str:
    """Return `text` unchanged if `encoding` has all its characters. Otherwise, ASCII characters
    replace stars, bars and lines, and `?` replaces other characters that `encoding` lacks."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text


def marked(result: StorySalience, operation: str) -> set[int]:
    """Return the indices of the sentences with a star, the most salient fifth by an operation."""
    return set(ranking.marked(result, operation))


def shown_windows(result: StorySalience, top: int | None) -> dict[str, list[int]]:
    """Return by window the indices of the `top` most salient sentences of a story (None: all). Keys
    are headings: `window 1: sentences 1 to 7`. Windows without such a sentence are left out."""
    shown = set(ranking.highest(result, len(result.sentences) if top is None else top))
    windows = {
        f"window {w}: sentences {lo + 1} to {hi}": [i for i in range(lo, hi) if i in shown]
        for w, (lo, hi) in enumerate(result.windows, start=1)
    }
    return {heading: indices for heading, indices in windows.items() if indices}


def caption(result: StorySalience) -> str:
    """Return the text below a story: what stars and shades mean, and notes on the scores."""
    legend = (
        f"{MARK} the most salient fifth by each operation; bars and shades go from the lowest score"
        f" of the story to the highest; sentences are highlighted by {result.primary_operation}."
    )
    return " ".join([legend] * result.is_comparable + result.notes_on(result.scores))


def bars_of(values: list[float]) -> list[str]:
    """Return a bar per value: `▁` for the lowest up to `█` for the highest; a space for NaN."""
    return [" " if math.isnan(share) else BARS[round(share * 7)] for share in shares(values)]


def to_table(result: StorySalience, top: int | None = None) -> Table:
    """Return a `rich` table of a story: a row per sentence, a column per operation, a heading per
    window. Bars grow with salience; the most salient scores have a star and a coloured background.
    The most salient sentences by the primary operation are bold; the less salient half is dim.

    Args:
        result: a result, from `score_stories`.
        top: how many sentences to show, the most salient ones in story order; None for all.
    """
    table = _table([*result.scores, "sentence"])
    table.title, table.title_style = Text(one_line(result.title), "bold"), "bold"
    table.caption = Text(one_line(caption(result)), "table.caption")
    table.title_justify = table.caption_justify = "left"
    stars = {name: marked(result, name) for name in result.scores}
    bars = {name: bars_of(ranking.shaded(result, name)) for name in result.scores}
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
            table.add_row(str(i + 1), *cells, Text(one_line(result.sentences[i]), style))
        table.add_section()
    return table


def _table(columns: Sequence[str]) -> Table:
    """Return an empty table: a column of numbers, then `columns`, the last one wide, for text."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, expand=True)
    for name in ("#", *columns[:-1]):
        table.add_column(Text(one_line(name)), justify="right", no_wrap=True)
    table.add_column(columns[-1], ratio=1)
    return table


def book_text(result: BookSalience, top: int, console: Console) -> Iterator[str]:
    """Yield a book's result as text in pieces: a table of contents with scores and bars, the `top`
    most salient sentences of each chapter in story order, and notes. `console` sets the width."""
    with console.capture() as captured:
        console.print(
            Text(f"{beside_english(one_line(result.name))}: {result.extent}", _BOLD), soft_wrap=True
        )
        if result.levels != ("sentence",):
            console.print(_contents(result))
    yield _trimmed(captured.get())
    if "sentence" in result.levels:
        operation = result.shading["sentence"]
        compared = ranking.compared(result.sentences, operation)
        for chapter in result.chapters:
            inside = range(*result.sentences_of(chapter))
            highest = sorted(sorted(inside, key=lambda i: -compared[i])[:top])
            table = Table.grid(padding=(0, 2, 0, 0))
            for options in ({"justify": "right", "no_wrap": True},) * 2 + ({"ratio": 1},):
                table.add_column(**options)
            for i in highest:
                score = shown_score(result.sentences.scores[operation][i], result.dtype)
                table.add_row(str(i + 1), score, Text(one_line(result.sentences.texts[i])))
            with console.capture() as captured:
                console.print()
                console.print(Text(one_line(chapter.name), _BOLD), soft_wrap=True)
                console.print(table)
            yield _trimmed(captured.get())
    with console.capture() as captured:
        console.print()
        console.print(
            "Bars go from the lowest to the highest of the units that are compared; one alone has"
            " none."
        )
        for note in [*result.notes, *precision(result.dtype)]:
            console.print(Text(one_line(note)))
    yield _trimmed(captured.get())


def _trimmed(text: str) -> str:
    """Return a text without the spaces at the ends of its lines."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _contents(result: BookSalience) -> Table:
    """Return a table of the chapters of a book, each with its scenes, with scores and bars."""
    names = list(dict.fromkeys([*result.chapters.scores, *result.scenes.scores]))
    table = _table([*names, "chapter"])
    scenes = _with_bars(result.scenes, names, result.chapters.inside, result.dtype)
    everything = [(0, len(result.chapters))]
    for chapter, scores in zip(
        result.chapters, _with_bars(result.chapters, names, everything, result.dtype), strict=True
    ):
        table.add_row(str(chapter.index + 1), *scores, Text(one_line(chapter.name)))
        inside = range(*chapter.inside)
        if len(inside) > 1 and "scene" in result.levels:
            for number, scene in enumerate(inside, start=1):
                table.add_row("", *scenes[scene], Text(f"  scene {number}", Style(dim=True)))
    return table


def _with_bars(
    units: Scored, names: Sequence[str], groups: Sequence[Span], dtype: str | None
) -> list[list[str]]:
    """Return a list per unit: for each operation in `names` the score with a bar, `0.123 ▆`, or an
    empty text without a score. Bars compare the units of each range in `groups`."""
    columns = []
    for name in names:
        if name not in units.scores:
            columns.append([""] * groups[-1][1])
            continue
        shaded = ranking.shaded(units, name)
        bars = [bar for lo, hi in groups for bar in bars_of(shaded[lo:hi])]
        scores = [shown_score(score, dtype) for score in units.scores[name]]
        columns.append([f"{score} {bar}" for score, bar in zip(scores, bars, strict=True)])
    return [list(row) for row in zip(*columns, strict=True)]
