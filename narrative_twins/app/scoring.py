"""The scoring for the page and its endpoint: input is checked, one story or book is scored at a
time, and the last results are kept in memory."""

from __future__ import annotations

import os
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Literal, TypeAlias, get_args

from narrative_twins.books.reading import BOOK_FORMATS, read_book
from narrative_twins.books.result import BookSalience
from narrative_twins.books.scoring import score_book
from narrative_twins.books.table import book_table
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.story import Story, StoryError, parse_windows

MAX_CHARACTERS = 2_000_000  # of a story or book; browsers are slow to show more
KEPT = 64  # results in memory, for downloads and other shades; older ones are dropped

Method: TypeAlias = Literal["one pass", "exact"]
ONE_PASS, EXACT = get_args(Method)
METHODS: dict[str, Literal["one-pass"] | None] = {ONE_PASS: "one-pass", EXACT: None}
"""The values of the option `approximate`, by their names on the page."""
ERRORS = (ValueError, TypeError, OSError)  # of input that can't be scored


class Scoring:
    """Scores the stories and books of the page with one encoder, one at a time. Methods may be
    called by several threads. A session is a page in a browser, or a client of the endpoint.

    Args:
        model: folder or Hub id of the encoder; None for the default encoder.
        max_sentences: how many sentences may be scored exactly; 500 take minutes on a laptop.
    """

    def __init__(self, model: str | None = None, max_sentences: int = 500) -> None:
        self.encoder = StoryEncoder.from_pretrained(model)
        self.max_sentences = max_sentences
        self.results: OrderedDict[str, StorySalience | BookSalience] = OrderedDict()
        """The last results by their keys."""
        self._lock = Lock()  # held while something is scored
        self._session = ""  # for which it is scored; empty when it is cancelled

    def score_story(
        self,
        session: str,
        progress: Callable[[float], Any],
        text: str,
        operations: list[str] | None = None,
        windows: str = "auto",
        method: Method = "one pass",
        split: str = "sentences",
    ) -> StorySalience:
        """Score a story.

        Args:
            session: the session that can cancel the scoring.
            progress: called with the share of the work that is done, from 0 to 1.
            text, operations, windows, split: see `Story.parse` and `ScoringOptions`.
            method: one of `METHODS`.

        Raises:
            ERRORS: the input is not valid, or the scoring was cancelled.
        """
        if not isinstance(text, str) or not text.strip():
            raise ValueError("there is no story yet: paste one")
        if operations == []:
            raise ValueError("choose at least one operation")
        # Joins pairs of surrogates, and replaces lone ones, which encoders and browsers can't read.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        story = Story.parse(text, parse_windows(str(windows).strip() or "auto"), split)
        approximate = self._approximation(method, text, len(story))
        options: Any = {"operations": operations, "approximate": approximate}
        with self._turn(session, progress) as update:
            (result,) = score_stories(
                [story], self.encoder, on_truncation="ignore", progress=update, **options
            )
        return result

    def score_book(
        self,
        session: str,
        progress: Callable[[float], Any],
        path: str | None,
        levels: list[Any],
        method: Method = "one pass",
    ) -> BookSalience:
        """Score the book in the file `path` at `levels`. Other arguments: see `score_story`."""
        if path is None or not path.lower().endswith(book_suffixes()):
            raise ValueError(f"open a book first: {', '.join(book_suffixes())}")
        if not levels:
            raise ValueError("choose at least one level")
        try:
            book = read_book(path)
            table = book_table(book)
        except StoryError as error:
            folder = os.path.join(os.path.dirname(path), "")
            raise ValueError(str(error).replace(folder, "")) from None
        count = len(table.sentences)
        approximate = self._approximation(method, book.text, count)
        with self._turn(session, progress, count) as update:
            return score_book(
                table, self.encoder, levels=levels, approximate=approximate, progress=update
            )

    def _approximation(self, method: str, text: str, sentences: int) -> Literal["one-pass"] | None:
        """Return the option `approximate` for a method of the page. Raises a `ValueError` for an
        unknown method, too long a text, or too many sentences for exact scores."""
        if method not in tuple(METHODS):
            raise ValueError(f"the method is none of {', '.join(METHODS)}")
        if len(text) > MAX_CHARACTERS:
            raise ValueError(
                f"the text has {len(text):,} characters, more than the limit of {MAX_CHARACTERS:,};"
                " divide it, or use the command line"
            )
        if method == EXACT and sentences > self.max_sentences:
            raise ValueError(
                f"there are {sentences:,} sentences, and at most {self.max_sentences:,} are scored"
                " exactly here; choose one pass, or use the command line"
            )
        return METHODS[method]

    @contextmanager
    def _turn(
        self, session: str, progress: Callable[[float], Any], total: int = 1
    ) -> Iterator[Callable[[float], None]]:
        """Wait until nothing else is scored. Yield a function to call with the work done so far,
        from 0 to `total`. This function raises a `ValueError` if the scoring has been cancelled."""

        def update(done: float) -> None:
            """Report the work done so far; raise a `ValueError` if the scoring was cancelled."""
            if self._session != session:
                raise ValueError("the scoring was cancelled")
            progress(done / total)

        with self._lock:
            self._session = session
            yield update

    def cancel(self, session: str) -> None:
        """Stop the scoring for a session, if any, at the end of the current forward pass."""
        # Of clients that wait for their turn gradio takes the event out of the queue.
        if self._session == session:
            self._session = ""

    def close(self) -> None:
        """Stop all scoring for good, and wait for the current forward pass to end."""
        self._session = ""
        self._lock.acquire()

    def keep(self, result: StorySalience | BookSalience) -> str:
        """Keep a result, and return its key, a random text. Only the last `KEPT` results stay."""
        key = secrets.token_urlsafe(12)
        self.results[key] = result
        while len(self.results) > KEPT:
            self.results.popitem(last=False)
        return key


def book_suffixes() -> tuple[str, ...]:
    """Return the suffixes of books that the page reads: not PDF, which may take long to read."""
    bounded = (form for name, form in BOOK_FORMATS.items() if name != "pdf")
    return tuple(suffix for form in bounded for suffix in form.suffixes)
