"""The scoring of the web page: what visitors ask for, checked; and a queue that scores one story or
book at a time, in a thread, with progress, a limit of time and cancellation."""

from __future__ import annotations

import base64
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from functools import cached_property, lru_cache
from itertools import islice
from threading import RLock
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.books.result import BookSalience
from narrative_twins.salience.books.scoring import BookScorer, chapter_stories
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.operations import resolve_operations
from narrative_twins.salience.options import Approximation
from narrative_twins.salience.progress import format_duration
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.books.bounded import read_bounded
from narrative_twins.stories.books.reading import BOOK_FORMATS, printable_name
from narrative_twins.stories.sentences import SplitName
from narrative_twins.stories.story import Story, StoryError, Window, parse_windows

logger = logging.getLogger(__name__)

MAX_WAITING = 4  # stories of a client
MAX_WAITING_ALL = 32  # stories of all clients; each takes one of the 40 threads of gradio
MAX_CHARACTERS = 2_000_000  # of a story; browsers are slow to show more
MAX_BOOK = 10_000_000  # bytes of a book; in base64 they are less than `guard.MAX_BODY`
MAX_SENTENCES = 20_000  # of a story or book, by default; browsers are slow to show more
MAX_READERS = 2  # books that are read at a time, each with its limits of time and memory
MAX_ENCODERS = 2  # in memory, of those that requests name
SHORT = 100_000  # characters that are read for a story that is scored before longer ones: seconds
MAX_COUNTED = 1_000_000  # sentences that are counted to estimate how much is read
MEASURED = 1.0  # seconds of scoring from which its speed is measured
MIN_SHARE = 0.02  # of the scoring that must be done to tell how long the rest will take

Method: TypeAlias = Literal["one pass", "exact"]
ONE_PASS, EXACT = get_args(Method)
METHODS: dict[str, Approximation | None] = {ONE_PASS: "one-pass", EXACT: None}
"""What the page calls the option `approximate`, and its values."""


def book_suffixes() -> tuple[str, ...]:
    """The suffixes of the books that the page takes: those that are read in bounded time."""
    bounded = (form for form in BOOK_FORMATS.values() if form.is_bounded)
    return tuple(suffix for form in bounded for suffix in form.suffixes)


class Job:
    """A story or book that is scored, or waits to be scored. Made by `ScoringQueue.start`.

    Attributes:
        queue: the queue that it is in.
        client: who has asked for it.
        work: scores it; None until the input is read.
        phase: the current step, for users to read; empty while it waits.
        share: how much of this step is done, from 0 to 1.
        began: when this step began, by `time.monotonic`, later by the time that the job has stood
            aside since.
        stopped: whether it was cancelled.
        scored: the result, when it has ended.
    """

    def __init__(self, queue: ScoringQueue, client: str = "") -> None:
        self.queue, self.client = queue, client
        self.work: Work | None = None
        self.phase, self.share, self.began, self.stopped = "", 0.0, 0.0, False
        self.scored: Future[Any] = Future()
        self._aside, self._resumed = 0.0, 0.0  # how long it stood aside last, and until when

    @property
    def characters(self) -> float:
        """Roughly how many characters are read to score it."""
        return self.work.characters if self.work is not None else 0.0

    @property
    def is_short(self) -> bool:
        """Whether it is scored before longer ones."""
        return self.characters <= SHORT

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

    def run(self) -> None:
        """Score it in this thread, unless it was cancelled."""
        if self.work is None or not self.scored.set_running_or_notify_cancel():
            return
        try:
            self.scored.set_result(self.work.score(self))
        except BaseException as error:
            self.scored.set_exception(error)

    def read(self, read: Callable[[Job], Work]) -> None:
        """Read its input in this thread; an error is that of its result."""
        try:
            work = read(self)
        except BaseException as error:
            if self.scored.set_running_or_notify_cancel():
                self.scored.set_exception(error)
        else:
            self.phase, self.work = "", work

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
        """Set the share that is done; short jobs are scored before a long one continues. Raises
        `CancelledError` if the job was cancelled, and `ValueError` if this step takes too long."""
        self.share = share
        if self.stopped:
            raise CancelledError
        spent, patience = time.monotonic() - self.began, self.queue.patience
        # After a part of the time, since a forward pass can be slow at first.
        if spent > patience / 10 and spent + (self.seconds_left or 0.0) > patience:
            raise ValueError(
                f"This takes more than {format_duration(patience)} to score on this machine;"
                " use more windows, leave out shifting, choose one pass, or use the command."
            )
        if spent > MEASURED and share > MIN_SHARE:
            self.queue.pace = spent / (share * self.characters)
        if not self.is_short:
            self._step_aside()

    def _step_aside(self) -> None:
        """Score the short jobs that wait now, in this thread: the encoder is used by one thread
        only. A job is scored at least half of the time, however many short ones come."""
        now = time.monotonic()
        if now - self._resumed < self._aside:
            return
        short = [other for other in self.queue.waiting() if other.is_short]
        for other in short:
            other.run()
        if short:
            self._resumed = time.monotonic()
            self._aside = self._resumed - now
            self.began += self._aside


def _sentence(error: BaseException | str) -> str:
    """A message as one capitalized line of at most about 400 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = text if len(text) <= 400 else f"{text[:400].rsplit(' ', 1)[0]} …"
    return text[0].upper() + text[1:] + "." * text[-1].isalnum()


class Work(NamedTuple):
    """What is done for a job.

    Attributes:
        score: scores the story or book, and reports to the job how far it is. Errors are those of
            the functions that score, and those of `Job.update`.
        characters: roughly how many characters are read, see `characters_read`.
    """

    score: Callable[[Job], StorySalience | BookSalience]
    characters: float


class ScoringQueue:
    """Scores the stories of any number of clients, one at a time. Those that take seconds are
    scored before longer ones, also when the scoring of a longer one has begun: it stands aside
    after a forward pass.

    Args:
        model: folder or Hub id of the encoder; None for the default encoder.
        patience: the maximum time of a story, in seconds. The scoring of a longer one is stopped
            when its time can be estimated.
        max_sentences: the maximum number of sentences of a story or book.
    """

    def __init__(
        self, model: str | None = None, patience: float = 3600.0, max_sentences: int = MAX_SENTENCES
    ) -> None:
        self.model, self.patience, self.max_sentences = model, patience, max_sentences
        self.pace: float | None = None  # the seconds per character that was read, once measured
        self._executor, self._readers = ThreadPoolExecutor(1), ThreadPoolExecutor(MAX_READERS)
        self._lock = RLock()  # held to read or change the jobs
        self._jobs: list[Job] = []
        self.named = lru_cache(MAX_ENCODERS)(StoryEncoder.from_pretrained)
        """The encoders that visitors name."""

    @cached_property
    def own(self) -> StoryEncoder:
        """The encoder of the queue, loaded when it is first asked for."""
        return StoryEncoder.from_pretrained(self.model)

    def jobs(self) -> list[Job]:
        """The jobs that have not ended, in the order in which they will: those that are scored,
        short ones, long ones."""
        with self._lock:
            self._jobs = [job for job in self._jobs if not job.scored.done()]
            jobs = list(self._jobs)
        return sorted(jobs, key=lambda job: (not job.scored.running(), not job.is_short))

    def waiting(self) -> list[Job]:
        """The jobs that can be scored next, in their order."""
        return [job for job in self.jobs() if job.work is not None and not job.scored.running()]

    def start(
        self, read: Callable[[Job], Work], client: str = "", *, in_thread: bool = False
    ) -> Job:
        """Read a story or book, and add it to the queue, which scores it in another thread. Errors
        of both are those of `Job.result`.

        Args:
            read: reads and checks the input.
            client: who has asked for it.
            in_thread: read it in a thread too, which takes long; as soon as the job is cancelled,
                `Job.update` raises an error there.

        Raises:
            ValueError: too many are waiting; the message is a sentence for the client.
        """
        job = Job(self, client)
        with self._lock:
            others = [other.client for other in self.jobs() if not other.scored.running()]
            if others.count(client) >= MAX_WAITING:
                raise ValueError(
                    f"{MAX_WAITING} of your stories are waiting already; wait for them, or cancel"
                    " some."
                )
            if len(others) >= MAX_WAITING_ALL:
                raise ValueError("Too many stories are waiting; try again later.")
            self._jobs.append(job)
        if in_thread:
            self._readers.submit(self._read, job, read)
        else:
            self._read(job, read)
        return job

    def _read(self, job: Job, read: Callable[[Job], Work]) -> None:
        job.read(read)
        self._executor.submit(self._score_next)

    def _score_next(self) -> None:
        # One call for each job: it may be scored by that of another one.
        for job in self.waiting()[:1]:
            job.run()

    def before(self, job: Job) -> list[Job]:
        """The jobs that are scored before one that waits; a short one waits for no long one."""
        jobs = [other for other in self.jobs() if not other.stopped and other.work is not None]
        first = jobs[: jobs.index(job)] if job in jobs else []
        return [other for other in first if other.is_short or not job.is_short]

    def seconds_left(self, job: Job) -> float | None:
        """The remaining time of a job, and of those before it if it waits, by the speed so far;
        None if that is not known yet."""
        total = 0.0
        for each in [*([] if job.phase else self.before(job)), job]:
            left = each.seconds_left
            if left is None and self.pace is not None and each.work is not None:
                left = self.pace * each.characters
            if left is None:
                return None
            total += left
        return total

    def close(self) -> None:
        """Cancel all jobs, and wait until they end: a process that exits during a forward pass
        crashes."""
        for job in self.jobs():
            job.stop()
        self._readers.shutdown(cancel_futures=True)
        self._executor.shutdown(cancel_futures=True)


def characters_read(
    stories: Sequence[Story], options: Mapping[str, Any], context_tokens: int | None
) -> float:
    """Roughly how many characters the encoder reads to score some stories, by their first windows.

    Args:
        stories: the stories.
        options: the options `operations` and `approximate` of scoring.
        context_tokens: how many tokens the encoder reads at once, if that is limited.
    """
    total = sum(len(sentence) for story in stories for sentence in story.sentences)
    if options["approximate"] is not None:
        return 2.0 * total  # with the text around windows
    sentences = sum(map(len, stories))
    most = math.inf if context_tokens is None else 4 * context_tokens * sentences / total
    windows = ((len(story), *window) for story in stories for window in story.windows)
    read = scored = 0
    for count, lo, hi in islice(windows, 20):
        size = max(hi - lo, int(min(count, most)))
        start = max(0, min(lo, count - size))
        window = Window(start, lo, hi, start + size)
        scored += window.size
        for operation in resolve_operations(options["operations"]):
            for order in operation.orders(window):
                read += len(order)
                if read > MAX_COUNTED:
                    return read / scored * total
    return read / scored * total


def story_work(
    job: Job,
    text: str,
    operations: Sequence[str] | None = None,
    windows: str = "auto",
    method: str = ONE_PASS,
    split: SplitName = "sentences",
    encoder: str | None = None,
) -> Work:
    """The scoring of a story, with the settings of the page.

    Args:
        job: the job that it is for.
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
    try:
        chosen = parse_windows(windows.strip() or "auto")
    except ValueError as error:
        raise ValueError(f"Windows: {error}.") from None
    # Joins pairs of surrogates, and replaces lone ones, which encoders and browsers can't read.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        story = Story.parse(text, chosen, split)
    except StoryError as error:
        raise ValueError(_sentence(error)) from None
    queue = job.queue
    _check_length(queue, "story", len(story), "score")
    options: Any = {"operations": operations, "approximate": approximate}

    def score(job: Job) -> StorySalience:
        job.begin("Loading the encoder")
        loaded = queue.own if encoder is None else queue.named(encoder)
        job.begin("Scoring")
        (result,) = score_stories(
            [story], loaded, on_truncation="ignore", progress=job.update, **options
        )
        return result

    return Work(score, characters_read([story], options, queue.own.context_tokens))


def _check_length(queue: ScoringQueue, kind: str, sentences: int, command: str) -> None:
    if sentences > queue.max_sentences:
        raise ValueError(
            f"The {kind} has {sentences:,} sentences, more than the limit of"
            f" {queue.max_sentences:,}; use the command `narrative-twins {command}`."
        )


def book_work(job: Job, book: str, levels: Sequence[str], method: str) -> Work:
    """The scoring of a book by the encoder of the queue. It is read by `read_bounded` until the job
    is cancelled.

    Args:
        job: the job that it is for.
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
    job.begin("Reading the book")
    try:
        found, sentences = read_bounded(name, data, lambda: job.update(0.0))
    except ValueError as error:
        raise ValueError(f"{printable_name(name)}: {error}") from None
    queue = job.queue
    _check_length(queue, "book", sentences, "book")
    options: Any = {"operations": None, "approximate": METHODS[method]}

    def score(job: Job) -> BookSalience:
        job.begin("Scoring")
        scorer = BookScorer.of(queue.own, levels, **options)
        rows = scorer.rows(found, progress=lambda done: job.update(done / sentences))
        return scorer.result(found, rows)

    return Work(score, characters_read(chapter_stories(found), options, queue.own.context_tokens))
