"""The scoring for the page and its endpoint: input is checked, one story or book is scored at a
time, and the last results are kept in memory."""

from __future__ import annotations

import os
import secrets
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, TypeAlias, get_args

from narrative_twins.books.reading import BOOK_FORMATS, read_book
from narrative_twins.books.result import BookSalience
from narrative_twins.books.scoring import score_book
from narrative_twins.books.table import BookTable, book_table
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.story import Story, StoryError, parse_windows

MAX_CHARACTERS = 2_000_000  # of a story or book; browsers are slow to show more
KEPT = 64  # results in memory, for downloads; older ones are dropped

Method: TypeAlias = Literal["one pass", "exact"]
ONE_PASS, EXACT = get_args(Method)
METHODS: dict[str, Literal["one-pass"] | None] = {ONE_PASS: "one-pass", EXACT: None}
"""The values of the option `approximate`, by their names on the page."""
ERRORS = (ValueError, TypeError, OSError)  # of input that can't be scored
CANCELLED = "the scoring was cancelled"


class Job:
    """A story or book that waits, is scored, or has been scored.

    Attributes:
        owner: who can cancel it.
        step: what is done now, such as `Chapter 12 of 40`; empty if the work has one step.
        share: the share of the work that is done, from 0 to 1.
    """

    def __init__(self, owner: str) -> None:
        self.owner, self.step, self.share = owner, "", 0.0
        self.is_cancelled = False
        self.future: Future[Any] = Future()
        self._began: float | None = None  # the time of the first report

    @property
    def is_done(self) -> bool:
        """Whether there is a result or an error. A cancelled job is done at once, although the
        encoder may still be at work on it."""
        return self.is_cancelled or self.future.done()

    def result(self) -> Any:
        """Return the result. Raises the error of the scoring; a `ValueError` if cancelled."""
        if self.is_cancelled:
            raise ValueError(CANCELLED)
        return self.future.result()

    def reach(self, share: float, step: str = "") -> None:
        """Report that a share of the work is done. Raises a `ValueError` if the job is
        cancelled."""
        if self.is_cancelled:
            raise ValueError(CANCELLED)
        self._began = self._began or time.monotonic()
        self.share, self.step = share, step

    @property
    def seconds_left(self) -> float | None:
        """The estimated seconds until the end; None while there is too little to tell."""
        spent = 0.0 if self._began is None else time.monotonic() - self._began
        return spent * (1 - self.share) / self.share if spent > 2 and self.share > 0.01 else None


class Scoring:
    """Scores the stories and books of the page with one encoder, one at a time, in the order in
    which they were asked for. Methods may be called by several threads.

    Args:
        model: name, folder or Hub id of the encoder; None for the default encoder.
        max_sentences: how many sentences may be scored exactly; 500 take minutes on a laptop.
    """

    def __init__(
        self, model: str | None = None, max_sentences: int = 500, base_folder: str | None = None
    ) -> None:
        self.encoder = StoryEncoder.from_pretrained(model, base_folder=base_folder)
        self.max_sentences = max_sentences
        self.results: OrderedDict[str, StorySalience | BookSalience] = OrderedDict()
        """The last results by their keys."""
        self.jobs: list[Job] = []
        """Those that are not done: the first is scored, the others wait."""
        self._worker = ThreadPoolExecutor(1)

    def score_story(
        self,
        owner: str,
        text: str,
        operations: list[str] | None = None,
        windows: str = "auto",
        method: Method = "one pass",
        split: str = "sentences",
        language: str = "",
    ) -> Job:
        """Return a job whose result is the `StorySalience` of a story. It raises `ERRORS` if the
        input is not valid.

        Args:
            owner: who can cancel the job.
            text, operations, windows, split: see `Story.parse` and `ScoringOptions`.
            method: one of `METHODS`.
            language: the code of another language than English, by which sentences are split.
        """

        def score(job: Job) -> StorySalience:
            """Check the story, and score it."""
            if not isinstance(text, str) or not text.strip():
                raise ValueError("there is no story yet: paste one")
            if operations == []:
                raise ValueError("choose at least one operation")
            # Joins pairs of surrogates, and replaces lone ones, which encoders and browsers can't
            # read.
            clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            splitter = str(language or "").strip().lower() if split == "sentences" else ""
            sizes = parse_windows(str(windows).strip() or "auto")
            story = Story.parse(clean, sizes, splitter or split)
            approximate = self._approximation(method, clean, len(story))
            options: Any = {"operations": operations, "approximate": approximate}
            (result,) = score_stories(
                [story], self.encoder, on_truncation="ignore", progress=job.reach, **options
            )
            return result

        return self._submit(owner, score)

    def score_book(
        self, owner: str, path: str | None, levels: list[Any], method: Method = "one pass"
    ) -> Job:
        """Return a job whose result is the `BookSalience` of the book in the file `path` at
        `levels`. Other arguments, and errors: see `score_story`."""

        def score(job: Job) -> BookSalience:
            """Read the book, and score it."""
            if path is None or not path.lower().endswith(book_suffixes()):
                raise ValueError(f"open a book first: {', '.join(book_suffixes())}")
            if not levels:
                raise ValueError("choose at least one level")
            job.step = "Reading the file"
            try:
                book = read_book(path)
                table = book_table(book)
            except StoryError as error:
                folder = os.path.join(os.path.dirname(path), "")
                raise ValueError(str(error).replace(folder, "")) from None
            approximate = self._approximation(method, book.text, len(table.sentences))
            reach = _by_chapter(job, table)
            reach(0)
            options: Any = {"approximate": approximate, "on_truncation": "ignore"}
            return score_book(table, self.encoder, levels=levels, progress=reach, **options)

        return self._submit(owner, score)

    def _submit(self, owner: str, score: Callable[[Job], Any]) -> Job:
        """Return a job that waits for its turn, and whose result `score` returns."""
        job = Job(owner)

        def work() -> Any:
            """Score, unless the job was cancelled while it waited."""
            try:
                if job.is_cancelled:
                    raise ValueError(CANCELLED)
                return score(job)
            finally:
                self.jobs.remove(job)

        self.jobs.append(job)
        job.future = self._worker.submit(work)
        return job

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

    def ahead(self, job: Job) -> list[Job]:
        """Return the jobs that are scored before `job`; none if it is being scored or is done."""
        jobs = [*self.jobs]
        before = jobs[: jobs.index(job)] if job in jobs else []
        return [each for each in before if not each.is_cancelled]

    def cancel(self, owner: str) -> None:
        """Cancel the jobs of an owner. The encoder stops at the end of its forward pass."""
        for job in [*self.jobs]:
            job.is_cancelled |= job.owner == owner

    def close(self) -> None:
        """Cancel all jobs for good, and wait for the current forward pass to end."""
        for job in [*self.jobs]:
            job.is_cancelled = True
        self._worker.shutdown()

    def keep(self, result: StorySalience | BookSalience) -> str:
        """Keep a result, and return its key, a random text. Only the last `KEPT` results stay."""
        key = secrets.token_urlsafe(12)
        self.results[key] = result
        while len(self.results) > KEPT:
            self.results.popitem(last=False)
        return key


def _by_chapter(job: Job, table: BookTable) -> Callable[[float], None]:
    """Return a function that reports to a job how many sentences of a book are scored."""
    ends = [table.sentences_of(chapter)[1] for chapter in table.chapters]

    def reach(done: float) -> None:
        """Report the share of the book, and the chapter that is being scored."""
        number = min(bisect_right(ends, done) + 1, len(ends))
        job.reach(done / ends[-1], f"Chapter {number} of {len(ends)}")

    return reach


def book_suffixes() -> tuple[str, ...]:
    """Return the suffixes of books that the page reads: not PDF, which may take long to read."""
    bounded = (form for name, form in BOOK_FORMATS.items() if name != "pdf")
    return tuple(suffix for form in bounded for suffix in form.suffixes)
