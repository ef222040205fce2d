"""The scoring of the web page: what visitors ask for, checked; and a queue that scores one story or
book at a time, in a thread, with progress, a limit of time and cancellation."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any, Literal, TypeAlias, get_args

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.books.result import BookSalience
from narrative_twins.salience.books.scoring import BookScorer, chapter_stories
from narrative_twins.salience.engine import format_duration, score_stories
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.options import Approximation
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.books.reading import BOOK_FORMATS, book_of, printable_name
from narrative_twins.stories.sentences import SplitName
from narrative_twins.stories.story import Story, parse_windows

logger = logging.getLogger(__name__)

MAX_WAITING = 4  # stories of a client
MAX_WAITING_ALL = 32  # stories of all clients; each takes one of the 40 threads of gradio
MAX_CHARACTERS = 2_000_000  # of a story; browsers are slow to show more
MAX_BOOK = 10_000_000  # bytes of a book; in base64 they are less than `guard.MAX_BODY`
MAX_SENTENCES = 20_000  # of a book; browsers are slow to show more
MAX_ENCODERS = 2  # in memory, of those that requests name
MIN_SHARE = 0.02  # of the scoring that must be done to tell how long the rest will take

Method: TypeAlias = Literal["one pass", "exact"]
ONE_PASS, EXACT = get_args(Method)
METHODS: dict[str, Approximation | None] = {ONE_PASS: "one-pass", EXACT: None}
"""What the page calls the option `approximate`, and its values."""


def book_suffixes() -> tuple[str, ...]:
    """The suffixes of the books that the page takes: those that are read in bounded time."""
    bounded = (form for form in BOOK_FORMATS.values() if form.is_bounded)
    return tuple(suffix for form in bounded for suffix in form.suffixes)


def without_one_pass() -> list[str]:
    """The names of the operations that have exact scores only."""
    return [name for name, operation in OPERATIONS.items() if not operation.has_one_pass]


class Job:
    """A story or book that is scored, or waits to be scored. Made by `ScoringQueue.start`.

    Attributes:
        client: who has asked for it.
        patience: the maximum time of the scoring, in seconds.
        phase: the current step, for users to read; empty while it waits.
        share: how much of this step is done, from 0 to 1.
        began: when this step began, by `time.monotonic`.
        stopped: whether it was cancelled.
        scored: the result, when it has ended.
    """

    scored: Future[Any]

    def __init__(self, client: str, patience: float) -> None:
        self.client, self.patience = client, patience
        self.phase, self.share, self.began, self.stopped = "", 0.0, 0.0, False

    @property
    def seconds_left(self) -> float | None:
        """The remaining time of the scoring, by its speed so far; None if too little is done."""
        if self.share < MIN_SHARE:
            return None
        return (time.monotonic() - self.began) * (1 / self.share - 1)

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
        self.stopped = True
        self.scored.cancel()

    def steps(self, pause: float) -> Iterator[None]:
        """Wait until the job ends or is cancelled: yields every `pause` seconds."""
        while not wait([self.scored], pause).done and not self.stopped:
            yield

    def begin(self, phase: str) -> None:
        """Begin a step. Raises errors as `update`."""
        self.phase, self.began = phase, time.monotonic()
        self.update(0.0)

    def update(self, share: float) -> None:
        """Set the share that is done. Raises `CancelledError` if the job was cancelled, and
        `ValueError` if this step takes too long."""
        self.share = share
        if self.stopped:
            raise CancelledError
        spent = time.monotonic() - self.began
        # After a part of the time, since a forward pass can be slow at first.
        if spent > self.patience / 10 and spent + (self.seconds_left or 0.0) > self.patience:
            raise ValueError(
                f"This takes more than {format_duration(self.patience)} to score on this machine;"
                " use more windows, leave out shifting, choose one pass, or use the command."
            )


def _sentence(error: BaseException) -> str:
    """The message of an error as one capitalized line of at most about 400 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = text if len(text) <= 400 else f"{text[:400].rsplit(' ', 1)[0]} …"
    return text[0].upper() + text[1:] + "." * text[-1].isalnum()


Work: TypeAlias = Callable[[Job, "ScoringQueue"], StorySalience | BookSalience]
"""Scores a story or book by an encoder of the queue, and reports to the job how far it is. Errors
are those of the functions that score, and those of `Job.update`."""


class ScoringQueue:
    """Scores the stories of any number of clients, one at a time.

    Args:
        model: folder or Hub id of the encoder; None for the default encoder.
        patience: the maximum time of a story, in seconds. The scoring of a longer one is stopped
            when its time can be estimated.
    """

    def __init__(self, model: str | None = None, patience: float = 3600.0) -> None:
        self.model, self.patience = model, patience
        self._executor = ThreadPoolExecutor(1)
        self._lock = Lock()  # held to read or change the jobs
        self._jobs: list[Job] = []
        self.named = lru_cache(MAX_ENCODERS)(StoryEncoder.from_pretrained)
        """The encoders that visitors name."""

    @cached_property
    def own(self) -> StoryEncoder:
        """The encoder of the queue, loaded when it is first asked for."""
        return StoryEncoder.from_pretrained(self.model)

    def jobs(self) -> list[Job]:
        """The jobs that have not ended, in their order: the first one is scored."""
        self._jobs = [job for job in self._jobs if not job.scored.done()]
        return list(self._jobs)

    def start(self, work: Work, client: str = "") -> Job:
        """Add a story or book to the queue, which scores it in a thread. Raises `ValueError` with a
        sentence for the client if too many are waiting."""
        job = Job(client, self.patience)
        with self._lock:
            waiting = [other.client for other in self.jobs() if not other.scored.running()]
            if waiting.count(client) >= MAX_WAITING:
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


def story_work(
    text: str,
    operations: Sequence[str] | None = None,
    windows: str = "auto",
    method: str = ONE_PASS,
    split: SplitName = "sentences",
    encoder: str | None = None,
) -> Work:
    """The scoring of a story, with the settings of the page.

    Args:
        text: the story.
        operations: by default all that the method has.
        windows: as `parse_windows` reads them.
        method: one of `METHODS`.
        split: the units to score.
        encoder: folder or Hub id; None for that of the queue.

    Raises:
        ValueError: the input is invalid; the message is a sentence for the visitor.
    """
    if not text.strip():
        raise ValueError("There is no story yet: paste one, or open a text file.")
    if len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"The text has {len(text):,} characters, more than the limit of {MAX_CHARACTERS:,};"
            " split it, or use the command `narrative-twins score`."
        )
    if operations is not None and not operations:
        raise ValueError("Choose at least one operation.")
    approximate = METHODS[method]
    exact_only = [name for name in without_one_pass() if name in (operations or ())]
    if approximate is not None and exact_only:
        raise ValueError(
            f"There is no one-pass form of {', '.join(exact_only)}: choose exact scores, or leave"
            " it out."
        )
    try:
        chosen = parse_windows(windows.strip() or "auto")
    except ValueError as error:
        raise ValueError(f"Windows: {error}.") from None
    # Joins pairs of surrogates, and replaces lone ones, which encoders and browsers can't read.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def work(job: Job, queue: ScoringQueue) -> StorySalience:
        job.begin(f"Splitting into {split}")
        story = Story.parse(text, chosen, split)
        job.begin("Loading the encoder")
        loaded = queue.own if encoder is None else queue.named(encoder)
        job.begin("Scoring")
        (result,) = score_stories(
            [story],
            loaded,
            operations=operations,
            approximate=approximate,
            on_truncation="ignore",
            progress=job.update,
        )
        return result

    return work


def book_work(book: str, levels: Sequence[str], method: str) -> Work:
    """The scoring of a book by the encoder of the queue.

    Args:
        book: the name of a file and, in base64 on the next line, its content.
        levels: the levels to score, see `score_book`.
        method: one of `METHODS`, for sentences.

    Raises:
        ValueError: the input is invalid; the message is a sentence for the visitor.
    """
    name, _, content = book.partition("\n")
    if not name:
        raise ValueError("There is no book yet: open a file.")
    if not levels:
        raise ValueError("Choose at least one level.")
    suffixes = book_suffixes()
    if not name.lower().endswith(suffixes):
        raise ValueError(
            f"{printable_name(name)} is none of {', '.join(suffixes)}; convert it, or use the"
            " command `narrative-twins book`."
        )
    try:
        data = base64.b64decode(content, validate=True)
    except ValueError:
        raise ValueError("Only a part of the file arrived; open it again.") from None
    if len(data) > MAX_BOOK:
        raise ValueError(
            f"The book has more than {MAX_BOOK:,} bytes; use the command `narrative-twins book`."
        )
    approximate = METHODS[method]

    def work(job: Job, queue: ScoringQueue) -> BookSalience:
        job.begin("Reading the book")
        try:
            found = book_of(name, data)
            sentences = sum(map(len, chapter_stories(found)))
        except ValueError as error:
            raise ValueError(f"{printable_name(name)}: {error}") from error
        if sentences > MAX_SENTENCES:
            raise ValueError(
                f"The book has {sentences:,} sentences, more than the limit of {MAX_SENTENCES:,};"
                " use the command `narrative-twins book`."
            )
        job.begin("Scoring")
        scorer = BookScorer.of(queue.own, levels, approximate=approximate)
        rows = scorer.rows(found, progress=lambda done: job.update(done / sentences))
        return scorer.result(found, rows)

    return work
