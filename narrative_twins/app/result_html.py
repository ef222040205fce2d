"""Results as HTML for the page, from `templates/parts.html`."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from narrative_twins.books.result import BookSalience
from narrative_twins.plots.shades import PALE_DARK, STRONG_DARK, shades, shares
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.ranking import shaded
from narrative_twins.salience.result import StorySalience
from narrative_twins.salience.wording import shown_score
from narrative_twins.show.formats import FORMATS, book_formats
from narrative_twins.show.pages import book_contents, templates
from narrative_twins.show.terminal import marked
from narrative_twins.text import for_terminal

WIDTH, HEIGHT = 600, 80  # of the curve, as in the template
SHARE = 0.05  # of the sentences of a book that are in its extract


def part(name: str, *values: Any) -> str:
    """Return the HTML that the macro `name` of `parts.html` makes of `values`, escaping them."""
    macro = getattr(templates("narrative_twins.app").get_template("parts.html").module, name)
    return str(macro(*values))


def shaded_text(result: StorySalience, operation: str) -> str:
    """Return the text of a story as HTML, with its line breaks. Each sentence is a `span` of class
    `sentence`, in the most salient fifth also of class `top`. CSS variables of the span, `--light`
    and `--dark`, are its shades by `operation`; `data-scores` has its rank and scores."""
    text, end, sentences = displayed(result.story.text), 0, []
    scores, top = shaded(result, operation), marked(result, operation)
    light, dark = shades(scores), shades(scores, PALE_DARK, STRONG_DARK)
    descriptions = result.descriptions(operation)
    for i, (start, stop) in enumerate(result.spans):
        gap, sentence = text[end:start], text[start:stop]
        sentences.append((gap, sentence, light[i], dark[i], i in top, descriptions[i]))
        end = stop
    return part("shaded", operation, sentences, text[end:])


def salience_curve(result: StorySalience, operation: str) -> str:
    """Return the curve of a story's scores by an operation, in story order, as HTML with SVG.
    Window borders are vertical lines."""
    scores, n = result.scores[operation], len(result.sentences)
    best, shown = scores.index(max(scores)), partial(shown_score, dtype=result.dtype)
    meaning = f", {OPERATIONS[operation].meaning}" if operation in OPERATIONS else ""
    caption = (
        f"Salience by {operation}{meaning}: highest at sentence {best + 1} of {n}"
        f" ({shown(scores[best])})"
    )
    heights = [HEIGHT - 6 - share * (HEIGHT - 12) for share in shares(scores)]
    points = [(f"{(i + 0.5) * WIDTH / n:.1f}", f"{y:.1f}") for i, y in enumerate(heights)]
    borders = [f"{lo * WIDTH / n:.1f}" for lo, _ in result.windows[1:]]
    return part("curve", caption, shown(max(scores)), shown(min(scores)), points, borders, n)


def story_reading(result: StorySalience, operation: str, key: str) -> str:
    """Return a story's result as HTML: the curve and the shaded text by an operation, an extract of
    the most salient fifth of the sentences, and links to download the result by its key."""
    extract = displayed(str(result.extract(max(1, len(marked(result, operation))), operation)))
    html = part("advice_on", operation) + salience_curve(result, operation)
    html += shaded_text(result, operation) + part("legend") + part("extract", extract)
    return html + part("downloads", key, downloads(result))


def book_reading(result: BookSalience, key: str) -> str:
    """Return the result of a book as HTML: the shaded table of contents, an extract if sentences
    are scored, and links to download the result by its key."""
    notes = " ".join([f"{result.extent}.", *result.footer])
    contents = part("book", result, book_contents(result), notes)
    if "sentence" in result.levels:
        contents += part("extract", displayed(str(result.extract(share=SHARE))))
    return contents + part("downloads", key, downloads(result))


def displayed(text: str) -> str:
    """Return a text of the same length that HTML can show, with line feeds for carriage returns."""
    return for_terminal(text.replace("\r\n", " \n").replace("\r", "\n"))


def downloads(result: StorySalience | BookSalience) -> list[str]:
    """Return the names of the installed formats in which a result can be downloaded."""
    names = []
    for name in book_formats() if isinstance(result, BookSalience) else FORMATS:
        with suppress(ImportError):
            FORMATS[name].check()
            names += [name] if FORMATS[name].download else []
    return names
