"""Jobs of the web page: what is scored, how far it is, and what came of it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Any, TypeAlias

from narrative_twins.app.estimates import LoadedEncoder

WAITING = "Waiting for its turn"
Load: TypeAlias = Callable[[str | None], LoadedEncoder]
"""Returns the encoder of a folder or Hub id, or that of the queue."""


class Request(ABC):
    """Something to score."""

    @abstractmethod
    def check(self) -> None:
        """Raise `ValueError` with a sentence for the user if it is too long to be read."""

    @abstractmethod
    def run(self, job: Job, load: Load, patience: float) -> Any:
        """Score it by an encoder that `load` returns, and tell the job how far it is. Errors are
        those of the functions that score; also a `ValueError` if it would take more than `patience`
        seconds."""


@dataclass
class Job:
    """A story or book that is scored, or waits to be scored. Made by `ScoringQueue.start`.

    Attributes:
        request: what to score.
        phase: the current step, for users to read.
        share: how much of the scoring is done, from 0 to 1.
        seconds: the estimated time of the scoring; 0 until it is known.
        began: when the scoring began, by `time.monotonic`; 0 before.
        result, problem: the scores, or an error message of one sentence, when the job has ended.
        ended: set when the job has ended.
    """

    request: Request
    phase: str = WAITING
    share: float = 0.0
    seconds: float = 0.0
    began: float = 0.0
    result: Any = None
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
        """Cancel the job; it ends after the current forward pass, or at once if it waits for its
        turn."""
        self._stopped.set()
        if self.phase == WAITING:
            self.ended.set()

    def steps(self, pause: float) -> Iterator[None]:
        """Wait until the job ends or is cancelled: yields every `pause` seconds."""
        while not self.ended.wait(pause) and not self.stopped:
            yield

    def begin(self, phase: str) -> None:
        """Begin a step. Raises `Cancelled` if the job was cancelled."""
        self.phase = phase
        self.update(0.0)

    def update(self, share: float) -> None:
        """Set the share that is done. Raises `Cancelled` if the job was cancelled."""
        self.share = share
        if self.stopped:
            raise Cancelled


class Cancelled(Exception):
    """Raised by `Job.update` to end the scoring of a cancelled job."""
