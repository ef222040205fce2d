"""The scoring of the web page: one story or book at a time, in a thread, with progress and
cancellation. Those that would take too long are refused, with hints on what would be faster."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, TypeAlias

from narrative_twins.app.estimates import LoadedEncoder
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.books.result import BookSalience
from narrative_twins.salience.books.scoring import BookScorer, chapter_stories
from narrative_twins.salience.books.units import Level
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.options import Approximation, ScoringOptions, checked_options
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.books.reading import BOOK_FORMATS, book_of, printable_name
from narrative_twins.stories.splitting import SplitName
from narrative_twins.stories.story import Story

logger = logging.getLogger(__name__)

MAX_WAITING = 4  # stories of a client
MAX_WAITING_ALL = 32  # stories of all clients; each takes one of the 40 threads of gradio
MAX_CHARACTERS = 2_000_000  # of a story; browsers are slow to show more
MAX_BOOK = 10_000_000  # bytes of a book; in base64 they are less than `guard.MAX_BODY`
MAX_SENTENCES = 20_000  # of a book; browsers are slow to show more
MAX_ENCODERS = 2  # in memory, of those that requests name


def book_suffixes() -> tuple[str, ...]:
    """The suffixes of the books that the page takes: those that are read in bounded time."""
    bounded = (form for form in BOOK_FORMATS.values() if form.is_bounded)
    return tuple(suffix for form in bounded for suffix in form.suffixes)


@dataclass(eq=False)
class Job:
    """A story or book that is scored, or waits to be scored. Made by `ScoringQueue.start`.

    Attributes:
        client: who has asked for it.
        phase: the current step, for users to read; empty while it waits.
        share: how much of the scoring is done, from 0 to 1.
        seconds: the estimated time of the scoring.
        began: when the scoring began, by `time.monotonic`; 0 before.
        scored: the result, when it has ended.
    """

    client: str = ""
    phase: str = ""
    share: float = 0.0
    seconds: float = 0.0
    began: float = 0.0
    scored: Future[Any] = field(init=False)
    _stopped: Event = field(default_factory=Event)

    @property
    def stopped(self) -> bool:
        """Whether the job was cancelled."""
        return self._stopped.is_set()

    @property
    def seconds_left(self) -> float:
        """The remaining time: by the estimate at first, then by the speed so far."""
        spent = time.monotonic() - self.began
        return self.seconds - spent if self.share < 0.02 else spent / self.share * (1 - self.share)

    @property
    def result(self) -> Any:
        """The scores of a job that has ended. Raises `ValueError` with a sentence on why there are
        none."""
        if self.stopped or self.scored.cancelled():
            raise ValueError("Cancelled. The scoring has stopped.")
        error = self.scored.exception()
        if error is None:
            return self.scored.result()
        if isinstance(error, (OSError, ValueError, TypeError, MemoryError)):
            raise ValueError(_sentence(error))
        logger.error("a story or book could not be scored", exc_info=error)
        raise ValueError(f"It can't be scored ({type(error).__name__}: {_sentence(error)})")

    def stop(self) -> None:
        """Cancel the job; it ends after the current forward pass, or at once if it waits for its
        turn."""
        self._stopped.set()
        self.scored.cancel()

    def steps(self, pause: float) -> Iterator[None]:
        """Wait until the job ends or is cancelled: yields every `pause` seconds."""
        while not wait([self.scored], pause).done and not self.stopped:
            yield

    def begin(self, phase: str) -> None:
        """Begin a step. Raises `CancelledError` if the job was cancelled."""
        self.phase = phase
        self.update(0.0)

    def begin_scoring(self, seconds: float) -> None:
        """Begin the scoring, which will take about so many seconds."""
        self.seconds, self.began = seconds, time.monotonic()
        self.begin("Scoring")

    def update(self, share: float) -> None:
        """Set the share that is done. Raises `CancelledError` if the job was cancelled."""
        self.share = share
        if self.stopped:
            raise CancelledError


Scored: TypeAlias = StorySalience | BookSalience
Work: TypeAlias = Callable[[Job, "ScoringQueue"], Scored]
"""Scores a story or book by an encoder of the queue, and reports to the job how far it is. Errors
are those of the functions that score; also a `ValueError` if it would take longer than the patience
of the queue."""


class ScoringQueue:
    """Scores the stories of any number of clients, one at a time.

    Args:
        model: folder or Hub id of the encoder; None for the default encoder.
        patience: the longest estimated time of a story, in seconds; longer stories are refused.
    """

    def __init__(self, model: str | None = None, patience: float = 3600.0) -> None:
        self.model, self.patience = model, patience
        self._loaded: OrderedDict[str | None, LoadedEncoder] = OrderedDict()
        self._executor = ThreadPoolExecutor(1)
        self._lock = Lock()  # held to read or change the jobs
        self._jobs: list[Job] = []

    def jobs(self) -> list[Job]:
        """The jobs that have not ended, in their order: the first one is scored."""
        self._jobs = [job for job in self._jobs if not job.scored.done()]
        return list(self._jobs)

    def start(self, work: Work, client: str = "") -> Job:
        """Add a story or book to the queue, which scores it in a thread. Raises `ValueError` with a
        sentence for the client if too many are waiting."""
        job = Job(client)
        with self._lock:
            waiting = [other for other in self.jobs() if not other.scored.running()]
            if sum(other.client == client for other in waiting) >= MAX_WAITING:
                raise ValueError(
                    f"{MAX_WAITING} of your stories are waiting already; wait for them, or cancel"
                    " some."
                )
            if len(waiting) >= MAX_WAITING_ALL:
                raise ValueError("Too many stories are waiting; try again later.")
            job.scored = self._executor.submit(work, job, self)
            self._jobs.append(job)
        return job

    def waiting_before(self, job: Job) -> int:
        """How many stories are scored before a job that waits for its turn."""
        with self._lock:
            jobs = self.jobs()
            return jobs.index(job) if job in jobs else 0

    def close(self) -> None:
        """Cancel all jobs, and wait until they end: a process that exits during a forward pass
        crashes."""
        with self._lock:
            for job in self.jobs():
                job.stop()
        self._executor.shutdown(cancel_futures=True)

    def load(self, name: str | None = None) -> LoadedEncoder:
        """An encoder, from memory if it is there; None for that of the queue, which stays in
        memory. Raises errors as `StoryEncoder.from_pretrained`."""
        if name not in self._loaded:
            encoder = StoryEncoder.from_pretrained(self.model if name is None else name)
            self._loaded[name] = LoadedEncoder(encoder)
        self._loaded.move_to_end(name)
        others = [other for other in self._loaded if other is not None]
        for other in others[:-MAX_ENCODERS]:
            del self._loaded[other]
        return self._loaded[name]


def _sentence(error: BaseException) -> str:
    """The message of an error as one capitalized line of at most about 400 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = text if len(text) <= 400 else f"{text[:400].rsplit(' ', 1)[0]} …"
    return text[0].upper() + text[1:] + "." * text[-1].isalnum()


def story_work(
    text: str, split: SplitName, options: ScoringOptions, encoder: str | None = None
) -> Work:
    """The scoring of a text, split into sentences, lines or paragraphs.

    Args:
        text, split: the text, and the units to score.
        options: of `score_stories`; the windows, for example.
        encoder: folder or Hub id; None for that of the queue.

    Raises:
        ValueError: the text is too long, or the options contradict each other.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"The text has {len(text):,} characters, more than the limit of {MAX_CHARACTERS:,};"
            " split it, or use the command `narrative-twins score`."
        )

    def work(job: Job, queue: ScoringQueue) -> StorySalience:
        checked = checked_options({**options, "on_truncation": "ignore", "progress": job.update})
        job.begin(f"Splitting into {split}")
        story = Story.parse(text, checked["windows"], split)
        job.begin("Loading the encoder")
        loaded = queue.load(encoder)
        job.begin("Estimating the time")
        job.begin_scoring(loaded.seconds(story, checked, queue.patience))
        (result,) = score_stories([story], loaded.encoder, **checked)
        return result

    return work


def book_work(
    name: str, data: bytes, levels: Sequence[Level], approximate: Approximation | None
) -> Work:
    """The scoring of a book by the encoder of the queue: the name and content of a file, and
    arguments of `score_book`. Raises `ValueError` if the file is too long, or no book."""
    suffixes = book_suffixes()
    if not name.lower().endswith(suffixes):
        raise ValueError(
            f"{printable_name(name)} is none of {', '.join(suffixes)}; convert it, or use the"
            " command `narrative-twins book`."
        )
    if len(data) > MAX_BOOK:
        raise ValueError(
            f"The book has more than {MAX_BOOK:,} bytes; use the command `narrative-twins score`."
        )

    def work(job: Job, queue: ScoringQueue) -> BookSalience:
        job.begin("Reading the book")
        try:
            book = book_of(name, data)
            stories = chapter_stories(book)
        except ValueError as error:
            raise ValueError(f"{printable_name(name)}: {error}") from error
        sentences = sum(map(len, stories))
        if sentences > MAX_SENTENCES:
            raise ValueError(
                f"The book has {sentences:,} sentences, more than the limit of {MAX_SENTENCES:,};"
                " use the command `narrative-twins book`."
            )
        job.begin("Loading the encoder")
        loaded = queue.load(None)
        scorer = BookScorer.of(loaded.encoder, levels, approximate=approximate)
        job.begin("Estimating the time")
        job.begin_scoring(loaded.book_seconds(scorer, stories, queue.patience))
        chapters = scorer.chapters(book, progress=lambda done: job.update(done / sentences))
        return scorer.result(book, chapters)

    return work
