"""HTML for the web page: a story with each sentence shaded by salience, its curve, and its most
salient sentences. All text is escaped."""

from __future__ import annotations

import unicodedata
from html import escape

from narrative_twins.plots.shades import PALE_DARK, STRONG_DARK, shades, shares
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.terminal import marked

WIDTH, HEIGHT = 600, 80  # of the SVG curve, in its own units


def shaded_text(result: StorySalience, operation: str | None = None) -> str:
    """The text of a story as HTML, with its paragraphs and line breaks. The text content is
    `displayed(result.story.text)`; each sentence is a `span` of the class `sentence`, the most
    salient fifth also of the class `top`. Scores are in `data-scores`, and shades for light and
    dark pages in the variables `--light` and `--dark`, for a style sheet to show. The tab key
    reaches the first sentence only; a script moves the focus from there. Raises `ValueError` if the
    operation was not scored."""
    name = result.primary_operation if operation is None else operation
    descriptions, stars = result.descriptions(name), marked(result, name)
    scores = result.compared(name)
    colours = list(zip(shades(scores), shades(scores, PALE_DARK, STRONG_DARK), strict=True))
    text, end, parts = displayed(result.story.text), 0, []
    for i, (start, stop) in enumerate(result.spans):
        light, dark = colours[i]
        description = escape(descriptions[i])
        parts.append(
            f'{escape(text[end:start])}<span class="sentence{" top" * (i in stars)}"'
            f' tabindex="{-(i > 0)}" style="--light:rgb{light};--dark:rgb{dark}"'
            f' data-scores="{description}"'
            f' aria-description="{description}">{escape(text[start:stop])}</span>'
        )
        end = stop
    label = escape(f"The story, shaded by {name}")
    return (
        '<div class="shaded" role="group"'
        f' aria-label="{label}">{"".join(parts)}{escape(text[end:])}</div>'
    )


def salience_curve(result: StorySalience, operation: str | None = None) -> str:
    """The scores of a story as a curve in story order, with a vertical line at each window border,
    as HTML with SVG."""
    name = result.primary_operation if operation is None else operation
    scores = result.scores[name]
    best = scores.index(max(scores))
    meaning = f", {OPERATIONS[name].meaning}" if name in OPERATIONS else ""
    caption = (
        f"Salience by {name}{meaning}: highest at sentence {best + 1} of {len(result)}"
        f" ({scores[best]:.3f})"
    )
    positions = [(i + 0.5) * WIDTH / len(result) for i in range(len(result))]
    heights = [HEIGHT - 6 - share * (HEIGHT - 12) for share in shares(scores)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(positions, heights, strict=True))
    rules = "".join(
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT}" class="rule"/>'
        for x in (lo * WIDTH / len(result) for lo, _ in result.windows[1:])
    )
    # A dot per sentence; in a long story they would hide the line.
    dots = "".join(
        f'<path d="M{x:.1f} {y:.1f}h0" class="dot"/>'
        for x, y in zip(positions, heights, strict=True)
    )
    return (
        '<figure class="curve"><div class="plot"><span class="title">salience</span><span'
        f' class="values">{_values(scores)}</span><svg viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' preserveAspectRatio="none" role="img" aria-label="{escape(caption)}">{rules}<polyline'
        f' points="{line}"/>{dots * (len(result) <= 100)}</svg><div'
        f' class="numbers">{_numbers(len(result))}</div><span'
        f' class="below">sentence</span></div><figcaption>{escape(caption)}.</figcaption></figure>'
    )


def _values(scores: list[float]) -> str:
    """The labels of the vertical axis: the lowest and the highest score, as HTML."""
    ends = sorted({f"{value:.3f}" for value in (min(scores), max(scores))}, key=float)
    return "".join(f"<span>{end}</span>" for end in ends)


def _numbers(sentences: int) -> str:
    """The labels of the horizontal axis: the first sentence, and multiples of 1, 2 or 5 times a
    power of ten, so that there are about six, as HTML."""
    steps = (factor * 10**power for power in range(19) for factor in (1, 2, 5))
    step = next(step for step in steps if sentences < 7 * step)
    numbers = [1, *(number for number in range(step, sentences + 1, step) if number > 1)]
    return "".join(
        f'<span style="left:{(i - 0.5) * 100 / sentences:.2f}%">{i}</span>' for i in numbers
    )


def salient_list(result: StorySalience, k: int, operation: str | None = None) -> str:
    """The k most salient sentences in story order, with their numbers and scores, as an HTML
    list."""
    name = result.primary_operation if operation is None else operation
    chosen = sorted(result.top(k, name), key=lambda sentence: sentence.index)
    items = "".join(
        f'<li value="{sentence.index + 1}" dir="auto">{escape(displayed(sentence.sentence))} '
        f'<span class="score">{sentence.score:.3f}</span></li>'
        for sentence in chosen
    )
    return f'<ol class="salient">{items}</ol>'


def displayed(text: str) -> str:
    """A text as HTML can show it, of the same length: tabs and line feeds stay; a carriage return
    is a space before a line feed, otherwise a line feed; other control characters and lone
    surrogates are U+FFFD."""
    text = text.replace("\r\n", " \n").replace("\r", "\n")
    return "".join(
        (
            char
            if char in "\t\n" or unicodedata.category(char) not in ("Cc", "Cs")
            else "\N{REPLACEMENT CHARACTER}"
        )
        for char in text
    )
