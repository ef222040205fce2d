"""What the web page can be asked to score: a story, or a book."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from narrative_twins.app.jobs import Job, Load, Request
from narrative_twins.salience.books.result import BookSalience
from narrative_twins.salience.books.scoring import BookScorer, chapter_stories
from narrative_twins.salience.books.units import Level
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.operations import resolve_operations
from narrative_twins.salience.options import Approximation
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.books.reading import BOOK_FORMATS, book_of, printable_name
from narrative_twins.stories.splitting import SplitName
from narrative_twins.stories.story import Story, Windows

MAX_CHARACTERS = 2_000_000  # of a story; browsers are slow to show more
MAX_BOOK = 10_000_000  # bytes of a book; in base64 they are less than `guard.MAX_BODY`
MAX_SENTENCES = 20_000  # of a book; browsers are slow to show more


def book_suffixes() -> tuple[str, ...]:
    """The suffixes of the books that the page takes: those that are read in bounded time."""
    bounded = (form for form in BOOK_FORMATS.values() if form.is_bounded)
    return tuple(suffix for form in bounded for suffix in form.suffixes)


@dataclass(frozen=True)
class ScoreRequest(Request):
    """A story to score: the arguments of `score_stories`, and what the text is split into.
    `encoder` is a folder or Hub id, None for that of the queue."""

    text: str
    operations: Sequence[str]
    windows: Windows = "auto"
    encoder: str | None = None
    approximate: Approximation | None = None
    split: SplitName = "sentences"

    def check(self) -> None:
        """See `Request.check`."""
        if len(self.text) > MAX_CHARACTERS:
            raise ValueError(
                f"The text has {len(self.text):,} characters, more than the limit of"
                f" {MAX_CHARACTERS:,}; split it, or use the command `narrative-twins score`."
            )

    def run(self, job: Job, load: Load, patience: float) -> StorySalience:
        """See `Request.run`."""
        operations = resolve_operations(self.operations, one_pass=self.approximate is not None)
        job.begin(f"Splitting into {self.split}")
        story = Story.parse(self.text, self.windows, self.split)
        job.begin("Loading the encoder")
        loaded = load(self.encoder)
        job.begin("Estimating the time")
        job.seconds = loaded.seconds(operations, story, self.approximate, patience)
        job.begin("Scoring")
        job.began = time.monotonic()
        (result,) = score_stories(
            [story],
            loaded.encoder,
            operations=operations,
            approximate=self.approximate,
            on_truncation="ignore",
            progress=job.update,
        )
        return result


@dataclass(frozen=True)
class BookRequest(Request):
    """A book to score, by the encoder of the queue: the content of a file, and arguments of
    `score_book`."""

    name: str
    data: bytes = field(repr=False)
    levels: Sequence[Level]
    approximate: Approximation | None = "one-pass"

    def check(self) -> None:
        """See `Request.check`."""
        if not self.name.lower().endswith(book_suffixes()):
            raise ValueError(
                f"{printable_name(self.name)} is none of {', '.join(book_suffixes())}; convert it, or"
                " use the command `narrative-twins score --level`."
            )
        if len(self.data) > MAX_BOOK:
            raise ValueError(
                f"The book has more than {MAX_BOOK:,} bytes; use the command `narrative-twins"
                " score`."
            )

    def run(self, job: Job, load: Load, patience: float) -> BookSalience:
        """See `Request.run`."""
        job.begin("Reading the book")
        try:
            book = book_of(self.name, self.data)
            stories = chapter_stories(book)
        except ValueError as error:
            raise ValueError(f"{printable_name(self.name)}: {error}") from error
        sentences = sum(map(len, stories))
        if sentences > MAX_SENTENCES:
            raise ValueError(
                f"The book has {sentences:,} sentences, more than the limit of {MAX_SENTENCES:,};"
                " use the command `narrative-twins score --level`."
            )
        job.begin("Loading the encoder")
        loaded = load(None)
        scorer = BookScorer.of(loaded.encoder, self.levels, approximate=self.approximate)
        job.begin("Estimating the time")
        job.seconds = loaded.book_seconds(scorer, stories, patience)
        job.begin("Scoring")
        job.began = time.monotonic()
        return scorer.result(
            book, scorer.chapters(book, progress=lambda done: job.update(done / sentences))
        )
