"""The part of the web page that scores books, independent of gradio: user input in, changes of the
page out."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from html import escape

from narrative_twins.app.jobs import Job
from narrative_twins.app.page import (
    BOOK_DOWNLOADS,
    NO_RESULT,
    ONE_PASS,
    Page,
    Parts,
    Visitor,
    copied,
    links,
    problem,
    status,
)
from narrative_twins.app.requests import BookRequest
from narrative_twins.salience.books.contents import Contents
from narrative_twins.salience.books.levels import check_levels
from narrative_twins.salience.books.result import BookSalience

SHARE = 5
"""The percentage of the sentences that is in the extract at first."""


class BookPage:
    """Handles the events of the page for books: methods take user input, and return or yield
    changes of the page.

    Args:
        page: whose queue scores the books, and which keeps their results.
    """

    def __init__(self, page: Page) -> None:
        self.page = page

    def score(
        self, visitor: Visitor, file: str, levels: Sequence[str], method: str
    ) -> Iterator[Parts]:
        """Score a book: yields its progress, and in the end the results or an error message. `file`
        is the name of a file and, in base64 on the next line, its content."""
        yield from self.page.run(visitor, lambda: _request(file, levels, method), self._finished)

    def extract(self, token: str, share: float) -> Parts:
        """Show an extract of so many percent of the sentences."""
        result = self.page.results.get(token)
        if not isinstance(result, BookSalience):
            return {"status": problem(NO_RESULT)}
        return {"extract": _extract(result, share)}

    def _finished(self, job: Job, result: BookSalience) -> Parts:
        token = self.page.keep(result)
        notes = " ".join([f"{result.extent}.", result.legend, *result.notes])
        contents = "".join(Contents(result.shading).chapters(result.chapters))
        return {
            "status": status(f"{result.extent}."),
            "token": token,
            "contents": (
                f'<h2><bdi>{escape(result.name)}</bdi></h2><div class="contents">{contents}</div>'
                f'<p class="hint">{escape(notes)}</p>'
            ),
            "downloads": links(token, BOOK_DOWNLOADS),
            "share": SHARE,
            "extract": _extract(result, SHARE),
        }


def _request(file: str, levels: Sequence[str], method: str) -> BookRequest:
    """What to score. Raises `ValueError` with a sentence on what is wrong with the input."""
    name, _, content = file.partition("\n")
    if not name:
        raise ValueError("There is no book yet: open a file.")
    if not levels:
        raise ValueError("Choose at least one level.")
    try:
        data = base64.b64decode(content, validate=True)
    except ValueError:
        raise ValueError("The file did not arrive whole; open it again.") from None
    return BookRequest(name, data, check_levels(levels), "one-pass" if method == ONE_PASS else None)


def _extract(result: BookSalience, share: float) -> str:
    if "sentence" not in result.levels:
        return '<p class="hint">An extract needs the level of sentences.</p>'
    return copied(str(result.extract(share=share / 100)))
