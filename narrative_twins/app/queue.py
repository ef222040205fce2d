"""A queue of scoring jobs for the web page: one story at a time, in a thread, with progress and cancellation. Stories
that would take too long are refused, with hints on what would be faster."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from threading import Condition, Event, Thread

from narrative_twins.app.estimates import LoadedEncoder
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.operations import resolve_operations
from narrative_twins.salience.plans import Approximation
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.splitting import SplitName
from narrative_twins.stories.story import Story, Windows

logger = logging.getLogger(__name__)

MAX_CHARACTERS = 2_000_000  # of a story; browsers are slow to show more
MAX_WAITING = 4  # stories of a client
MAX_WAITING_ALL = 32  # stories of all clients; each takes one of the 40 threads of gradio
_WAITING = "Waiting for its turn"


@dataclass(frozen=True)
class ScoreRequest:
    """What to score: the arguments of `score_stories`, and what the text is split into. `encoder` is a folder or Hub
    id, None for that of the queue."""

    text: str
    operations: Sequence[str]
    windows: Windows = "auto"
    encoder: str | None = None
    approximate: Approximation | None = None
    split: SplitName = "sentences"


@dataclass
class Job:
    """A story that is scored, or waits to be scored. Made by `ScoringQueue.start`.

    Attributes:
        request: what to score.
        phase: the current step, for users to read.
        share: how much of the scoring is done, from 0 to 1.
        seconds: the estimated time of the scoring; 0 until it is known.
        began: when the scoring began, by `time.monotonic`; 0 before.
        result, problem: the scores, or an error message of one sentence, when the job has ended.
        ended: set when the job has ended.
    """

    request: ScoreRequest
    phase: str = _WAITING
    share: float = 0.0
    seconds: float = 0.0
    began: float = 0.0
    result: StorySalience | None = None
    problem: str | None = None
    ended: Event = field(default_factory=Event)
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

    def stop(self) -> None:
        """Cancel the job; it ends after the current forward pass, or at once if it waits for its turn."""
        self._stopped.set()
        if self.phase == _WAITING:
            self.ended.set()

    def steps(self, pause: float) -> Iterator[None]:
        """Wait until the job ends or is cancelled: yields every `pause` seconds."""
        while not self.ended.wait(pause) and not self.stopped:
            yield

    def update(self, share: float) -> None:
        """Set the share that is done. Raises `Cancelled` if the job was cancelled."""
        self.share = share
        if self.stopped:
            raise Cancelled


class Cancelled(Exception):
    """Raised by `Job.update` to end the scoring of a cancelled job."""


class ScoringQueue:
    """Scores the stories of any number of clients, one at a time. Clients take turns, so that many stories of one
    client do not hold up the others.

    Args:
        model: folder or Hub id of the encoder; None for the default encoder.
        patience: the longest estimated time of a story, in seconds; longer stories are refused.
        encoders: how many encoders are kept in memory besides that of `model`, for requests that name another.
    """

    def __init__(self, model: str | None = None, patience: float = 3600.0, encoders: int = 2) -> None:
        self.model, self.patience, self.encoders = model, patience, encoders
        self._loaded: OrderedDict[str | None, LoadedEncoder] = OrderedDict()
        # Held to read or change the attributes below; notified when there is work for the thread.
        self._changed = Condition()
        self._waiting: OrderedDict[str, deque[Job]] = OrderedDict()
        self._current: Job | None = None
        self._thread: Thread | None = None
        self._closed = False

    def start(self, request: ScoreRequest, client: str = "") -> Job:
        """Add a story to the queue, which scores it in a thread. Raises `ValueError` with a sentence for the client if
        the story is too long, or if too many stories are waiting."""
        if len(request.text) > MAX_CHARACTERS:
            raise ValueError(
                f"The text has {len(request.text):,} characters, more than the limit of {MAX_CHARACTERS:,}; split "
                "it, or use the command `narrative-twins score`."
            )
        job = Job(request)
        with self._changed:
            self._drop_cancelled()
            if len(self._waiting.get(client, ())) >= MAX_WAITING:
                raise ValueError(f"{MAX_WAITING} of your stories are waiting already; wait for them, or cancel some.")
            if self._closed or sum(map(len, self._waiting.values())) >= MAX_WAITING_ALL:
                raise ValueError("Too many stories are waiting; try again later.")
            self._waiting.setdefault(client, deque()).append(job)
            if self._thread is None:
                self._thread = Thread(target=self._work, daemon=True)
                self._thread.start()
            self._changed.notify()
        return job

    def close(self) -> None:
        """Cancel all jobs, and wait until they end: a process that exits during a forward pass crashes."""
        with self._changed:
            self._closed = True
            for job in (self._current, *chain.from_iterable(self._waiting.values())):
                if job is not None:
                    job.stop()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        """Score stories until the queue is closed."""
        while (job := self._next()) is not None:
            self._run(job)

    def _next(self) -> Job | None:
        """Wait for the next job; None if the queue is closed."""
        with self._changed:
            self._current = None
            while not self._closed:
                self._drop_cancelled()
                if self._waiting:
                    client, jobs = self._waiting.popitem(last=False)
                    self._current = jobs.popleft()
                    if jobs:
                        self._waiting[client] = jobs  # after all other clients
                    return self._current
                self._changed.wait()
            return None

    def _drop_cancelled(self) -> None:
        for client, jobs in list(self._waiting.items()):
            kept = deque(job for job in jobs if not job.stopped)
            if kept:
                self._waiting[client] = kept
            else:
                del self._waiting[client]

    def _run(self, job: Job) -> None:
        try:
            job.update(0.0)
            job.result = self._score(job)
        except Cancelled:
            job.phase = "Cancelled"
        except (OSError, ValueError, TypeError, MemoryError) as error:
            job.problem = _message(error)
        except Exception as error:
            logger.exception("a story could not be scored")
            job.problem = f"The story can't be scored ({type(error).__name__}: {_message(error)})"
        finally:
            job.ended.set()

    def _score(self, job: Job) -> StorySalience:
        request = job.request
        operations = resolve_operations(request.operations, one_pass=request.approximate is not None)
        job.phase = f"Splitting into {request.split}"
        story = Story.parse(request.text, request.windows, request.split)
        job.update(0.0)
        job.phase = "Loading the encoder"
        loaded = self.load(request.encoder)
        job.update(0.0)
        job.phase = "Estimating the time"
        job.seconds = loaded.seconds(operations, story, request.approximate, self.patience)
        job.update(0.0)
        job.phase, job.began = "Scoring", time.monotonic()
        (result,) = score_stories(
            [story],
            loaded.encoder,
            operations=operations,
            approximate=request.approximate,
            on_truncation="ignore",
            progress=job.update,
        )
        return result

    def load(self, name: str | None = None) -> LoadedEncoder:
        """An encoder, from memory if it is there; None for that of the queue, which stays in memory. Raises errors as
        `StoryEncoder.from_pretrained`."""
        if name not in self._loaded:
            encoder = StoryEncoder.from_pretrained(self.model if name is None else name)
            self._loaded[name] = LoadedEncoder(encoder)
        self._loaded.move_to_end(name)
        others = [other for other in self._loaded if other is not None]
        for other in others[: -self.encoders]:
            del self._loaded[other]
        return self._loaded[name]


def _message(error: BaseException) -> str:
    """The message of an error as one capitalized line of at most about 400 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = text if len(text) <= 400 else f"{text[:400].rsplit(' ', 1)[0]} …"
    return text[0].upper() + text[1:] + "." * text[-1].isalnum()
