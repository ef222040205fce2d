"""The colours of sentences by their scores, the same in the terminal, on pages and in notebooks;
and a story as HTML for the output cell of a notebook."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from html import escape
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from narrative_twins.plots.style import INK
from narrative_twins.text import counted, one_line

Colour: TypeAlias = tuple[int, int, int]

PALE, STRONG = (0xFF, 0xFF, 0xFF), (0xF2, 0x9E, 0x4C)
"""Background of the least and the most salient sentence; text has a contrast of at least 7.5."""
PALE_DARK, STRONG_DARK = (0x21, 0x1E, 0x1B), (0x94, 0x50, 0x0F)
"""The same on a dark page, for light text, with a contrast of at least 5 to 1."""

STEPS = 9
"""On pages, shades are the steps from 0, the pale colour, to this one, the strong colour."""

MAX_SENTENCES = 2000
"""Sentences shown in a notebook, which saves its output: a whole book would make it slow to
open."""


def hex_color(colour: Colour) -> str:
    """Return a colour, such as `(27, 27, 31)`, in the notation of CSS and matplotlib: `#1b1b1f`."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def shares(scores: list[float]) -> NDArray[np.float64]:
    """Scale scores, shape (n,): the lowest to 0, the highest to 1, equal scores to 0; NaN stays."""
    values = np.asarray(scores, np.float64)
    low = float(np.fmin.reduce(values, initial=np.nan))
    high = float(np.fmax.reduce(values, initial=np.nan))
    return (values - low) / (high - low if high > low else 1.0)


def shades(scores: list[float], pale: Colour = PALE, strong: Colour = STRONG) -> list[Colour]:
    """Return a colour per score, from `pale` (the lowest, and NaN) to `strong` (the highest)."""
    share = np.nan_to_num(shares(scores))
    colours = np.outer(1 - share, pale) + np.outer(share, strong)
    return [(int(red), int(green), int(blue)) for red, green, blue in np.rint(colours)]


def steps(scores: list[float]) -> list[int]:
    """Return the step of the shade of each score, from 0 to `STEPS`; 0 for NaN."""
    return [round(share * STEPS) for share in np.nan_to_num(shares(scores)).tolist()]


def palette(pale: Colour = PALE, strong: Colour = STRONG) -> list[str]:
    """Return the colours of the steps from 0 to `STEPS`, in the notation of CSS."""
    return list(map(hex_color, shades(list(map(float, range(STEPS + 1))), pale, strong)))


def shaded_cell(
    sentences: Sequence[str],
    scores: list[float],
    descriptions: Sequence[str],
    *,
    title: str,
    language: str,
    notes: Iterable[str],
    strong: Container[int] = (),
    paragraphs: Container[int] = (),
) -> str:
    """Return a story as HTML: the title, the sentences, each shaded by its score, and the notes. A
    description per sentence is shown while the pointer is on the sentence. Sentences with an index
    in `strong` are bold; sentences with an index in `paragraphs` begin a paragraph. `language` is
    the code of the language of the sentences, or empty.

    Sentences have colours for text and background, which can be read on light and dark pages.
    Styles are in attributes, since some notebooks drop style sheets.
    """
    colours, parts = map(hex_color, shades(scores)), []
    for i, (sentence, colour) in enumerate(zip(sentences[:MAX_SENTENCES], colours, strict=False)):
        weight = ";font-weight:bold" if i in strong else ""
        style = f"background:{colour};color:{INK};padding:1px 2px{weight}"
        parts.append("<br><br>" if i in paragraphs else " " if i else "")
        parts.append(f'<span style="{style}" title="{escape(descriptions[i])}">')
        parts.append(f"{escape(one_line(sentence))}</span>")
    if (hidden := len(sentences) - MAX_SENTENCES) > 0:
        notes = [f"{counted(hidden, 'more sentence')} not shown.", *notes]
    below = "".join(f"<div><small>{escape(note)}</small></div>" for note in notes)
    # A long story scrolls within its cell.
    style = "max-height:32em;overflow:auto;line-height:1.7"
    return (
        f"<div><div><strong><bdi>{escape(title)}</bdi></strong></div>"
        f'<div dir="auto" lang="{language}" style="{style}">{"".join(parts)}</div>{below}</div>'
    )
