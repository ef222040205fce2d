"""A story as HTML for the output cell of a notebook. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from narrative_twins.plots.printable import one_line
from narrative_twins.plots.shades import shades
from narrative_twins.plots.style import INK, hex_color

MAX_SENTENCES = 2000
"""Notebooks keep what they show: a book in full would make them slow to open."""


def shaded_cell(
    sentences: Sequence[str],
    scores: list[float],
    descriptions: Sequence[str],
    *,
    title: str,
    notes: Iterable[str],
    strong: Iterable[int] = (),
    paragraphs: Iterable[int] = (),
) -> str:
    """The sentences of a story in its order, each shaded by its score. Text and background of a
    sentence both have colours of their own, so that it can be read on light and dark pages;
    everything else has the colours of the page. Styles are in attributes, since some notebooks drop
    style sheets.

    Args:
        sentences: the sentences.
        scores: one number per sentence, for the shades.
        descriptions: one text per sentence, shown while the pointer is on it.
        title, notes: text above and below the story.
        strong: the indices of bold sentences.
        paragraphs: the indices of sentences that begin a paragraph.
    """
    bold, breaks, colours, parts = set(strong), set(paragraphs), shades(scores), []
    for i, sentence in enumerate(sentences[:MAX_SENTENCES]):
        weight = ";font-weight:bold" if i in bold else ""
        style = f"background:{hex_color(colours[i])};color:{hex_color(INK)};padding:1px 2px{weight}"
        parts.append("<br><br>" if i in breaks else " " if i else "")
        parts.append(f'<span dir="auto" style="{style}" title="{escape(descriptions[i])}">')
        parts.append(f"{escape(one_line(sentence))}</span>")
    if (hidden := len(sentences) - MAX_SENTENCES) > 0:
        notes = [f"{hidden:,} more sentence{'s' * (hidden > 1)} not shown.", *notes]
    below = "".join(f"<div><small>{escape(note)}</small></div>" for note in notes)
    return (
        f"<div><div><strong><bdi>{escape(title)}</bdi></strong></div>"
        "<div"
        f' style="max-height:32em;overflow:auto;line-height:1.7">{"".join(parts)}</div>{below}</div>'
    )
