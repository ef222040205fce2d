"""Results as self-contained HTML pages, which load nothing from elsewhere: stories, a book, and the
pages of a report. They are made from the files in `templates/`, in which all text is escaped."""

from __future__ import annotations

import base64
import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from narrative_twins.plots.shades import shades
from narrative_twins.plots.style import hex_color, one_line, shortened
from narrative_twins.salience.books.result import BookSalience, Contents
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.terminal import MARK, caption, marked, shown_sentences, window_title
from narrative_twins.stories.splitting import find_headings

_PIECES = 500
"""How many parts of a template are joined to a piece of a page: about 10,000 characters."""


@cache
def templates(package: str = "narrative_twins.show") -> Environment:
    """The templates of a package, which escape all text that is not `Markup`."""
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
    """An HTML page without scripts and external resources, in pieces. Results are read lazily, and
    `top` limits the sentences of each story as in `to_table`."""
    return page(
        "stories.html",
        "Narrative salience",
        results=results,
        section=lambda result: Markup(section(result, top)),
    )


def book_html(result: BookSalience) -> Iterator[str]:
    """A page with the table of contents of a book, shaded by salience, that opens down to the
    sentences, in pieces. It has no scripts, and is light or dark as the reader's system is."""
    chapters = map(Markup, Contents(result.shading).chapters(result.chapters))
    return page("book.html", f"{result.name}: narrative salience", result=result, chapters=chapters)


def page(template: str, title: str, *, script: str = "", **values: Any) -> Iterator[str]:
    """A page from a template, in pieces; arguments as `page_head`, and the values of the
    template."""
    stream = templates().get_template(template).stream(**_head(title, script=script), **values)
    stream.enable_buffering(_PIECES)
    return stream


def page_head(title: str, style: str = "", script: str = "") -> str:
    """The beginning of a page, up to its first heading. Its content security policy forbids
    browsers to load external resources, and to run any script but `script`.

    Args:
        title: any text; it is escaped and shortened.
        style: CSS of this page, added to the common CSS.
        script: the text of the script that the page will contain; none by default.
    """
    return templates().get_template("head.html").render(_head(title, style, script)) + "\n"


def _head(title: str, style: str = "", script: str = "") -> dict[str, str]:
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return {
        "title": shortened(title, 120),
        "style": Markup(style),
        "script": Markup(script),
        "allowed_script": Markup(f"'sha256-{digest}'" if script else "'none'"),
    }


def section(
    result: StorySalience, top: int | None = None, level: int = 2, between: str = ""
) -> str:
    """One story as HTML: a heading of the given level, the HTML in `between`, and a table of the
    sentences; `top` limits them as in `to_table`."""
    shown = shown_sentences(result, top)
    windows = [
        {
            "title": window_title(w, lo, hi) if len(result.windows) > 1 else "",
            "sentences": [i for i in range(lo, hi) if i in shown],
        }
        for w, (lo, hi) in enumerate(result.windows)
    ]
    text = templates().get_template("section.html")
    return text.render(
        result=result,
        level=level,
        between=Markup(between),
        main=result.primary_operation,
        windows=[window for window in windows if window["sentences"]],
        # An excerpt of the most salient sentences has no headings.
        headings=_headings(result) if len(shown) == len(result) else {},
        meanings={
            name: OPERATIONS[name].meaning if name in OPERATIONS else "" for name in result.scores
        },
        colours={
            name: list(map(hex_color, shades(result.compared(name)))) for name in result.scores
        },
        stars={name: marked(result, name) for name in result.scores},
        mark=MARK,
        caption=caption(result),
    )


def _headings(result: StorySalience) -> dict[int, list[str]]:
    """The headings of the story that are in no sentence, by the index of the sentence after
    them."""
    found: dict[int, list[str]] = {}
    for lo, hi in find_headings(result.story.text):
        after = bisect_left(result.spans, (lo, 0))
        if (after == len(result) or hi <= result.spans[after][0]) and (
            not after or result.spans[after - 1][1] <= lo
        ):
            found.setdefault(after, []).append(one_line(result.story.text[lo:hi]))
    return found


def report_page(
    result: StorySalience, top: int | None, curves: str, previous: str, following: str
) -> Iterator[str]:
    """The page of a story in a report, in pieces.

    Args:
        result, top: as for `section`.
        curves: the curves of the story as SVG, or why there are none.
        previous, following: the names of the pages before and after it; empty for none.
    """
    svg = Markup(curves) if curves.startswith("<svg") else ""
    between = templates().get_template("report_curves.html").render(svg=svg, problem=curves)
    story = Markup(section(result, top, level=1, between=between))
    return page(
        "report_page.html", result.name, story=story, previous=previous, following=following
    )


def report_index(rows: Iterable[Mapping[str, Any]], count: int, left_out: int) -> Iterator[str]:
    """The index of a report, in pieces: a complete list of stories without JavaScript, which
    JavaScript can search and sort.

    Args:
        rows: for each story its `position`, `page`, `name`, number of `sentences`, `first` words,
            whether it is `truncated`, and its `top` sentence.
        count, left_out: the number of rows, and of stories that could not be scored.
    """
    script = files("narrative_twins.show").joinpath("templates/index.js").read_text("utf-8")
    return page(
        "report_index.html",
        "Narrative salience",
        script=script,
        rows=rows,
        count=count,
        left_out=left_out,
    )
