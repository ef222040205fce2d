"""Stories and books as self-contained HTML pages, which load nothing from elsewhere. They are
rendered from the files in `templates/`, in which all text is escaped."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from narrative_twins.books.result import BookSalience
from narrative_twins.books.table import LEVELS, Level
from narrative_twins.plots.shades import PALE_DARK, STRONG_DARK, hex_color, shades
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.ranking import shaded
from narrative_twins.salience.result import StorySalience
from narrative_twins.salience.wording import described, shown_score
from narrative_twins.show.terminal import MARK, caption, marked, shown_windows
from narrative_twins.stories.headings import find_headings
from narrative_twins.text import one_line, shortened

_PIECES = 500
"""How many parts of a template are joined to a piece of a page: about 10,000 characters."""


@cache
def templates(package: str = "narrative_twins.show") -> Environment:
    """Return the jinja environment of a package's templates. All text but `Markup` is escaped."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["one_line"] = one_line
    return environment


def to_html(results: Iterable[StorySalience], top: int | None = None) -> Iterator[str]:
    """Yield an HTML page of results in pieces, without scripts and external resources. Results are
    read lazily. For each story the `top` most salient sentences are shown (None: all)."""
    sections = (Markup(section(result, top)) for result in results)
    return page("stories.html", "Narrative salience", sections=sections)


def book_html(result: BookSalience) -> Iterator[str]:
    """Yield an HTML page of a book, in pieces and without scripts: the table of contents, shaded by
    salience. Chapters open to show their scenes and sentences."""
    title, chapters = f"{result.name}: narrative salience", book_contents(result)
    return page("book.html", title, result=result, chapters=chapters)


def book_contents(result: BookSalience) -> Iterator[Markup]:
    """Yield each chapter of a book as an HTML element of the table of contents, which opens to show
    scenes and sentences. Shades are the CSS variables `--light` and `--dark` of class `unit`."""
    scenes = result.scenes
    values: dict[str, Any] = {
        "result": result,
        "starts": set(result.sentences.starts),
        "styles": {level: _styles(result, level) for level in LEVELS},
        "described": partial(described, dtype=result.dtype),
    }
    template = templates().get_template("chapter.html")
    for chapter in result.chapters:
        inside = scenes[slice(*chapter.inside)]
        yield Markup(template.render(chapter=chapter, scenes=inside, **values))


def _styles(result: BookSalience, level: Level) -> list[Markup]:
    """Return an HTML attribute `style` with the shade of each unit of a level, empty without
    scores. Shades compare the chapters of the book, scenes of a chapter or sentences of a scene."""
    units = result.units(level)
    if level not in result.levels:
        return [Markup("")] * len(units)
    scores, styles = shaded(units, result.shading[level]), list[Markup]()
    groups = [units.windows, result.chapters.inside, result.scenes.inside][LEVELS.index(level)]
    for lo, hi in groups:
        light, dark = shades(scores[lo:hi]), shades(scores[lo:hi], PALE_DARK, STRONG_DARK)
        colours = [tuple(map(hex_color, pair)) for pair in zip(light, dark, strict=True)]
        styles += [Markup(f' style="--light:{a};--dark:{b}"') for a, b in colours]
    return styles


def page(template: str, title: str, **values: Any) -> Iterator[str]:
    """Return a page in pieces, rendered from a template with `values`; `title` may be any text."""
    stream = templates().get_template(template).stream(title=shortened(title, 120), **values)
    stream.enable_buffering(_PIECES)
    return stream


def section(result: StorySalience, top: int | None = None) -> str:
    """Return a story as HTML: a heading and a table of its sentences, `top` as in `to_table`."""
    windows, names = shown_windows(result, top), list(result.scores)
    is_excerpt = sum(map(len, windows.values())) < len(result.sentences)
    return (
        templates()
        .get_template("section.html")
        .render(
            result=result,
            main=result.primary_operation,
            windows=windows,
            # An excerpt of the most salient sentences has no headings.
            headings={} if is_excerpt else _headings(result),
            meanings={name: OPERATIONS[name].meaning for name in names if name in OPERATIONS},
            colours={name: list(map(hex_color, shades(shaded(result, name)))) for name in names},
            stars={name: marked(result, name) for name in names},
            mark=MARK,
            shown=partial(shown_score, dtype=result.dtype),
            caption=caption(result),
        )
    )


def _headings(result: StorySalience) -> dict[int, list[str]]:
    """Return the headings that are in no sentence, by the index of the sentence that follows."""
    headings: dict[int, list[str]] = {}
    for lo, hi in find_headings(result.story.text):
        after = bisect_left(result.spans, (lo, 0))
        if (after == len(result.sentences) or hi <= result.spans[after][0]) and (
            not after or result.spans[after - 1][1] <= lo
        ):
            headings.setdefault(after, []).append(one_line(result.story.text[lo:hi]))
    return headings
