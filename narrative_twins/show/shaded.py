"""A story shaded in its own layout: paragraphs and line breaks stay, every sentence on the colour of its salience, with
its scores beside it for the pointer and the keyboard. Every text is data: it is escaped."""

from __future__ import annotations

import unicodedata
from html import escape

from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.highlights import marked, shades, shares

WIDTH, HEIGHT = 600, 80
"""Of the curve, in units of its own."""


def shaded_text(result: StorySalience, operation: str | None = None) -> str:
    """The text of a story as HTML. Its text content is `displayed(result.story.text)`; each sentence is a `span` of the
    class `sentence`, the most salient fifth of the class `top`, too. Scores stand in `data-scores` for a style sheet to
    show. The first sentence is reached by tab, the others are for a script to go to.

    Raises:
        ValueError: the operation was not scored.
    """
    name = result.primary_operation if operation is None else operation
    ranks = result.rank(name)
    colours, stars = shades(result.scores[name]), marked(result, name)
    text, end, parts = displayed(result.story.text), 0, []
    for i, (start, stop) in enumerate(result.spans):
        own = " · ".join(f"{each} {scores[i]:.3f}" for each, scores in result.scores.items())
        told = escape(f"Sentence {i + 1} of {len(result)}, rank {ranks[i]} by {name}: {own}")
        parts.append(
            f'{escape(text[end:start])}<span class="sentence{" top" * (i in stars)}" tabindex="{-(i > 0)}" '
            f'style="background:rgb{colours[i]}" data-scores="{told}" aria-description="{told}">'
            f"{escape(text[start:stop])}</span>"
        )
        end = stop
    label = escape(f"The story, shaded by {name}")
    return f'<div class="shaded" role="group" aria-label="{label}">{"".join(parts)}{escape(text[end:])}</div>'


def salience_curve(result: StorySalience, operation: str | None = None) -> str:
    """The scores of a story as a line, in story order, with a rule where a window begins: SVG to stand in a page."""
    name = result.primary_operation if operation is None else operation
    (best,) = result.top(1, name)
    meaning = f", {OPERATIONS[name].meaning}" if name in OPERATIONS else ""
    told = f"Salience by {name}{meaning}: highest at sentence {best.index + 1} of {len(result)} ({best.score:.3f})"
    places = [(i + 0.5) * WIDTH / len(result) for i in range(len(result))]
    heights = [HEIGHT - 6 - share * (HEIGHT - 12) for share in shares(result.scores[name])]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(places, heights, strict=True))
    rules = "".join(
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT}" class="rule"/>'
        for x in (lo * WIDTH / len(result) for lo, _ in result.windows[1:])
    )
    # Points wide enough to be seen; on a long story they would hide the line.
    dots = "".join(f'<path d="M{x:.1f} {y:.1f}h0" class="dot"/>' for x, y in zip(places, heights, strict=True))
    return (
        f'<figure class="curve"><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(told)}">{rules}<polyline points="{line}"/>{dots * (len(result) <= 100)}</svg>'
        f"<figcaption>{escape(told)}.</figcaption></figure>"
    )


def salient_list(result: StorySalience, k: int, operation: str | None = None) -> str:
    """The k most salient sentences, in story order and with their numbers, as a list in HTML."""
    name = result.primary_operation if operation is None else operation
    chosen = sorted(result.top(k, name), key=lambda one: one.index)
    items = "".join(
        f'<li value="{one.index + 1}" dir="auto">{escape(displayed(one.sentence))} '
        f'<span class="score">{one.score:.3f}</span></li>'
        for one in chosen
    )
    return f'<ol class="salient">{items}</ol>'


def displayed(text: str) -> str:
    """A text with as many characters as pages of HTML can show: tabs and line feeds stay, a carriage return is a space
    before a line feed and else a line feed, other control characters and lone surrogates are U+FFFD."""
    text = text.replace("\r\n", " \n").replace("\r", "\n")
    return "".join(
        char if char in "\t\n" or unicodedata.category(char) not in ("Cc", "Cs") else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )
