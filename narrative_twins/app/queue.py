"""Scoring for people who wait for it: one story at a time, in a thread that can be asked how far it is and be stopped;
what would take too long is refused with the cure."""

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

LONGEST = 2_000_000
"""Characters of a story; a page that shows more is no pleasure."""
MOST_TOKENS = 100_000_000
"""Tokens that are counted to tell how long a story takes: to count more would take long itself."""

_SAMPLE = [f"On day {n} Nadia walked to house number {n * 7} by the river and found nobody there." for n in range(16)]


@dataclass(frozen=True)
class ScoreRequest:
    """What to score, and how: see `score_stories`. `encoder` is a folder or Hub id, None for the queue's own."""

    text: str
    operations: Sequence[str]
    windows: Windows = "auto"
    encoder: str | None = None
    approximate: Approximation | None = None


@dataclass
class Job:
    """A story that is scored, or waits for it. Made by `ScoringQueue.start`.

    Attributes:
        request: what was asked for.
        phase: what is done now.
        share: how much of the scoring is done, from 0 to 1.
        seconds: how long the scoring will take, by the work there is; 0 until that is known.
        began: when the scoring began, by `time.monotonic`.
        result: the scores, once they are there.
        problem: or else what went wrong, in a sentence.
        ended: set when nothing more will happen.
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
        """Whether it was asked to stop."""
        return self._stopped.is_set()

    @property
    def seconds_left(self) -> float:
        """How long the scoring goes on: by the estimate at first, then by the pace so far."""
        spent = time.monotonic() - self.began
        return self.seconds - spent if self.share < 0.02 else spent / self.share * (1 - self.share)

    def stop(self) -> None:
        """Stop the computing, after the forward pass it is in."""
        self._stopped.set()

    def tell(self, share: float) -> None:
        """Take note of the share that is done.

        Raises:
            Cancelled: it was asked to stop.
        """
        self.share = share
        if self.stopped:
            raise Cancelled


class Cancelled(Exception):
    """Ends the scoring of a story that nobody waits for any more."""


@dataclass
class LoadedEncoder:
    """An encoder, and how many tokens it reads in a second."""

    encoder: StoryEncoder
    speed: float


class ScoringQueue:
    """Scores one story at a time for any number of people.

    Args:
        model: folder or Hub id of the encoder; None for the default one.
        patience: how many seconds a story may take, by the estimate.
        encoders: how many others are held in memory, for people who name one.
    """

    def __init__(self, model: str | None = None, patience: float = 3600.0, encoders: int = 2) -> None:
        self.model, self.patience, self.encoders = model, patience, encoders
        self._loaded: OrderedDict[str | None, LoadedEncoder] = OrderedDict()
        self._turn, self._door = Lock(), Lock()
        self._running: dict[Thread, Job] = {}

    def start(self, request: ScoreRequest) -> Job:
        """Begin to score a story, as soon as those before it are through."""
        job = Job(request)
        thread = Thread(target=self._work, args=(job,), daemon=True)
        with self._door:
            self._running = {one: other for one, other in self._running.items() if one.is_alive()}
            self._running[thread] = job
            thread.start()
        return job

    def close(self) -> None:
        """Stop all there is, and wait for it: a program that ends in the middle of a forward pass crashes."""
        with self._door:
            running = dict(self._running)
        for job in running.values():
            job.stop()
        for thread in running:
            thread.join()

    def _work(self, job: Job) -> None:
        try:
            while not self._turn.acquire(timeout=0.2):
                job.tell(0.0)
            try:
                job.result = self._score(job)
            finally:
                self._turn.release()
        except Cancelled:
            job.phase = "Cancelled"
        except (OSError, ValueError, TypeError, MemoryError) as error:
            job.problem = _sentence(error)
        except Exception as error:
            logger.exception("a story could not be scored")
            job.problem = f"The story can't be scored ({type(error).__name__}: {_sentence(error)})"
        finally:
            job.ended.set()

    def _score(self, job: Job) -> StorySalience:
        request = job.request
        if len(request.text) > LONGEST:
            raise ValueError(
                f"The text has {len(request.text):,} characters, and the page takes {LONGEST:,}; cut it into parts, or "
                "use the command `narrative-twins score`."
            )
        operations = resolve_operations(request.operations, one_pass=request.approximate is not None)
        job.phase = "Finding sentences"
        story = Story.parse(request.text, request.windows)
        job.tell(0.0)
        job.phase = "Loading the encoder"
        loaded = self.load(request.encoder)
        job.tell(0.0)
        job.phase = "Counting the work"
        job.seconds = self._seconds(loaded, operations, story, request.approximate)
        job.tell(0.0)
        job.phase, job.began = "Scoring", time.monotonic()
        (result,) = score_stories(
            [story],
            loaded.encoder,
            operations=operations,
            approximate=request.approximate,
            on_truncation="ignore",
            progress=job.tell,
        )
        return result

    def load(self, name: str | None = None) -> LoadedEncoder:
        """An encoder, held in memory as long as few others are asked for; that of the queue always.

        Raises:
            OSError, ValueError: as `StoryEncoder.from_pretrained`.
        """
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
        """How long a story takes.

        Raises:
            ValueError: longer than the queue's patience; names what would take less.
        """
        tokens = loaded.encoder.tokenize(story.sentences)
        # Windows that share a text have some of what stands round them read again.
        one_pass = 2 * tokens.size((0, len(story))) / loaded.speed
        if approximate is not None:
            return one_pass
        enough = min(MOST_TOKENS, int(loaded.speed * self.patience))

        def seconds(chosen: list[Operation], windows: Windows | None = None) -> float:
            spans = story.windows if windows is None else Story.parse(list(story.sentences), windows).windows
            asked = workload(chosen, tokens, spans, enough)
            return inf if asked > enough else asked / loaded.speed

        found = seconds(operations)
        if found < inf:
            return found
        others = [operation for operation in operations if operation.name != "shifting"]
        cures = []
        if (auto := seconds(operations, "auto")) < inf:
            cures.append(f"give it more windows ('auto' takes {format_duration(auto)})")
        if 0 < len(others) < len(operations) and (without := seconds(others)) < inf:
            cures.append(f"leave shifting out ({format_duration(without)})")
        cures.append(f"choose one pass ({format_duration(one_pass)}, approximate, without shifting)")
        longest = max(hi - lo for lo, hi in story.windows)
        raise ValueError(
            f"Windows of up to {longest:,} sentences take more than {format_duration(enough / loaded.speed)} to score "
            f"exactly on this machine; {', or '.join(cures)}."
        )


def format_duration(seconds: float) -> str:
    """A time as people say it, roughly."""
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return f"{round(seconds / size)} {unit}s"
        if seconds >= 0.9 * size:
            return f"1 {unit}"
    return f"{max(1, round(seconds))} second{'s' * (seconds >= 1.5)}"


def _speed(encoder: StoryEncoder) -> float:
    """How many tokens an encoder reads in a second: the best of a few tries, the first of which makes it warm."""
    seconds = inf
    for _ in range(3):
        began = time.perf_counter()
        list(score_stories([_SAMPLE], encoder, operations="deletion", windows=1, on_truncation="ignore"))
        seconds = min(seconds, time.perf_counter() - began)
    tokens, operations = encoder.tokenize(_SAMPLE), resolve_operations("deletion")
    return workload(operations, tokens, [(0, len(_SAMPLE))], MOST_TOKENS) / seconds


def _sentence(error: BaseException) -> str:
    """What an error says, in a line and with a capital, since it stands alone."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = text if len(text) <= 400 else f"{text[:400].rsplit(' ', 1)[0]} …"
    return text[0].upper() + text[1:] + "." * text[-1].isalnum()
