"""A table of a story for the terminal."""

from __future__ import annotations

from rich import box
from rich.style import Style
from rich.table import Table
from rich.text import Text

from narrative_twins.plots.printable import one_line
from narrative_twins.plots.shades import STRONG, shares
from narrative_twins.plots.style import INK, hex_color
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.highlights import (
    BARS,
    MARK,
    caption,
    marked,
    shown_sentences,
    window_title,
)


def to_table(result: StorySalience, top: int | None = None) -> Table:
    """A `rich` table of a story: one row per sentence, one column per operation, a heading per
    window. It can be read on dark and light terminals and without colour: bars grow with salience,
    and the most salient scores have a star and a coloured background. By the primary operation, the
    most salient sentences are bold, and the lower half is dim.

    Args:
        result: a result, from `score_stories`.
        top: show only this many sentences, the most salient by the primary operation, in story
            order.
    """
    table = Table(
        title=result.title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        expand=True,
    )
    table.caption, table.caption_justify, table.padding, table.pad_edge = (
        caption(result),
        "left",
        (0, 1, 0, 0),
        False,
    )
    table.add_column("#", justify="right", no_wrap=True)
    for name in result.scores:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("sentence", ratio=1)
    stars, shown = (
        {name: marked(result, name) for name in result.scores},
        shown_sentences(result, top),
    )
    bars = {
        name: [BARS[round(share * 7)] for share in shares(result.compared(name))]
        for name in result.scores
    }
    dimmed = {i for i, rank in enumerate(result.rank()) if rank > (len(result) + 1) / 2}
    for w, (lo, hi) in enumerate(result.windows):
        if shown.isdisjoint(range(lo, hi)):
            continue
        if len(result.windows) > 1:
            table.add_row(
                *[""] * (len(result.scores) + 1),
                Text(window_title(w, lo, hi), Style(dim=True, italic=True)),
            )
        for i in (i for i in range(lo, hi) if i in shown):
            row = [Text(str(i + 1))]
            for name, scores in result.scores.items():
                starred = i in stars[name]
                style = (
                    Style(bold=True, color=hex_color(INK), bgcolor=hex_color(STRONG))
                    if starred
                    else Style.null()
                )
                row.append(
                    Text(f"{MARK if starred else ' '} {scores[i]:.3f} {bars[name][i]}", style)
                )
            row.append(
                Text(
                    one_line(result.sentences[i]),
                    Style(bold=i in stars[result.primary_operation], dim=i in dimmed),
                )
            )
            table.add_row(*row)
        table.add_section()
    return table
