"""A queue of scoring jobs for the web page: one story at a time, in threads, with progress and cancellation. Stories
that would take too long are refused, with hints on what would be faster."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from threading import Event, Lock, Thread

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.operations import Operation, resolve_operations
from narrative_twins.salience.plans import Approximation, workload
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.story import Story, Windows

logger = logging.getLogger(__name__)

MAX_CHARACTERS = 2_000_000  # of a story; browsers are slow to show more
MAX_COUNTED_TOKENS = 100_000_000  # a larger workload is not counted further, since counting takes time too
_SAMPLE = [f"On day {n} Nadia walked to house number {n * 7} by the river and found nobody there." for n in range(16)]


@dataclass(frozen=True)
class ScoreRequest:
    """What to score: the arguments of `score_stories`. `encoder` is a folder or Hub id, None for that of the queue."""

    text: str
    operations: Sequence[str]
    windows: Windows = "auto"
    encoder: str | None = None
    approximate: Approximation | None = None


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
    phase: str = "Waiting for its turn"
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
        """Cancel the job; it ends after the current forward pass."""
        self._stopped.set()

    def update(self, share: float) -> None:
        """Set the share that is done. Raises `Cancelled` if the job was cancelled."""
        self.share = share
        if self.stopped:
            raise Cancelled


class Cancelled(Exception):
    """Raised by `Job.update` to end the scoring of a cancelled job."""


@dataclass
class LoadedEncoder:
    """An encoder, and its speed in tokens per second."""

    encoder: StoryEncoder
    speed: float


class ScoringQueue:
    """Scores the stories of any number of users, one at a time.

    Args:
        model: folder or Hub id of the encoder; None for the default encoder.
        patience: the longest estimated time of a story, in seconds; longer stories are refused.
        encoders: how many encoders are kept in memory besides that of `model`, for requests that name another.
    """

    def __init__(self, model: str | None = None, patience: float = 3600.0, encoders: int = 2) -> None:
        self.model, self.patience, self.encoders = model, patience, encoders
        self._loaded: OrderedDict[str | None, LoadedEncoder] = OrderedDict()
        # `_scoring` is held while a story is scored, `_starting` while `_running` is changed or copied.
        self._scoring, self._starting = Lock(), Lock()
        self._running: dict[Thread, Job] = {}

    def start(self, request: ScoreRequest) -> Job:
        """Start a job in a thread, which waits until no other story is being scored."""
        job = Job(request)
        thread = Thread(target=self._run, args=(job,), daemon=True)
        with self._starting:
            self._running = {old: old_job for old, old_job in self._running.items() if old.is_alive()}
            self._running[thread] = job
            thread.start()
        return job

    def close(self) -> None:
        """Cancel all jobs, and wait until they end: a process that exits during a forward pass crashes."""
        with self._starting:
            running = dict(self._running)
        for job in running.values():
            job.stop()
        for thread in running:
            thread.join()

    def _run(self, job: Job) -> None:
        try:
            # Wakes up now and then to see whether the job was cancelled.
            while not self._scoring.acquire(timeout=0.2):
                job.update(0.0)
            try:
                job.result = self._score(job)
            finally:
                self._scoring.release()
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
        if len(request.text) > MAX_CHARACTERS:
            raise ValueError(
                f"The text has {len(request.text):,} characters, more than the limit of {MAX_CHARACTERS:,}; split "
                "it, or use the command `narrative-twins score`."
            )
        operations = resolve_operations(request.operations, one_pass=request.approximate is not None)
        job.phase = "Splitting into sentences"
        story = Story.parse(request.text, request.windows)
        job.update(0.0)
        job.phase = "Loading the encoder"
        loaded = self.load(request.encoder)
        job.update(0.0)
        job.phase = "Estimating the time"
        job.seconds = self._seconds(loaded, operations, story, request.approximate)
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
            self._loaded[name] = LoadedEncoder(encoder, _speed(encoder))
        self._loaded.move_to_end(name)
        others = [other for other in self._loaded if other is not None]
        for other in others[: -self.encoders]:
            del self._loaded[other]
        return self._loaded[name]

    def _seconds(
        self, loaded: LoadedEncoder, operations: list[Operation], story: Story, approximate: Approximation | None
    ) -> float:
        """The estimated time of a story. Raises `ValueError` with faster alternatives if it is above `patience`."""
        tokens = loaded.encoder.tokenize(story.sentences)
        # Windows fill at most half of the context and are read with the text around them: twice the story, or less.
        one_pass = 2 * tokens.count_tokens((0, len(story))) / loaded.speed
        if approximate is not None:
            return one_pass
        limit = min(MAX_COUNTED_TOKENS, int(loaded.speed * self.patience))

        def seconds(chosen: list[Operation], windows: Windows | None = None) -> float:
            spans = story.windows if windows is None else Story.parse(list(story.sentences), windows).windows
            work = workload(chosen, tokens, spans, limit)
            return inf if work > limit else work / loaded.speed

        exact = seconds(operations)
        if exact < inf:
            return exact
        others = [operation for operation in operations if operation.name != "shifting"]
        hints = []
        if (auto := seconds(operations, "auto")) < inf:
            hints.append(f"use more windows ('auto' takes {format_duration(auto)})")
        if 0 < len(others) < len(operations) and (without := seconds(others)) < inf:
            hints.append(f"leave out shifting ({format_duration(without)})")
        hints.append(f"choose one pass ({format_duration(one_pass)}, approximate, without shifting)")
        longest = max(hi - lo for lo, hi in story.windows)
        raise ValueError(
            f"Windows of up to {longest:,} sentences take more than {format_duration(limit / loaded.speed)} to score "
            f"exactly on this machine; {', or '.join(hints)}."
        )


def format_duration(seconds: float) -> str:
    """A time in words, rounded, such as `2 minutes`."""
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return f"{round(seconds / size)} {unit}s"
        if seconds >= 0.9 * size:
            return f"1 {unit}"
    return f"{max(1, round(seconds))} second{'s' * (seconds >= 1.5)}"


def _speed(encoder: StoryEncoder) -> float:
    """The tokens per second of an encoder: the best of three runs, the first of which is a warm-up."""
    seconds = inf
    for _ in range(3):
        began = time.perf_counter()
        list(score_stories([_SAMPLE], encoder, operations="deletion", windows=1, on_truncation="ignore"))
        seconds = min(seconds, time.perf_counter() - began)
    tokens, operations = encoder.tokenize(_SAMPLE), resolve_operations("deletion")
    return workload(operations, tokens, [(0, len(_SAMPLE))], MAX_COUNTED_TOKENS) / seconds


def _message(error: BaseException) -> str:
    """The message of an error as one capitalized line of at most about 400 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = text if len(text) <= 400 else f"{text[:400].rsplit(' ', 1)[0]} …"
    return text[0].upper() + text[1:] + "." * text[-1].isalnum()
