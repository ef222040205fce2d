"""A queue of scoring jobs for the web page: one story or book at a time, in a thread, with progress
and cancellation. Those that would take too long are refused, with hints on what would be faster."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from itertools import chain
from threading import Condition, Thread

from narrative_twins.app.estimates import LoadedEncoder
from narrative_twins.app.jobs import Cancelled, Job, Request
from narrative_twins.encoder.story_encoder import StoryEncoder

logger = logging.getLogger(__name__)

MAX_WAITING = 4  # stories of a client
MAX_WAITING_ALL = 32  # stories of all clients; each takes one of the 40 threads of gradio


class ScoringQueue:
    """Scores the stories of any number of clients, one at a time. Clients take turns, so that many
    stories of one client do not hold up the others.

    Args:
        model: folder or Hub id of the encoder; None for the default encoder.
        patience: the longest estimated time of a story, in seconds; longer stories are refused.
        encoders: how many encoders are kept in memory besides that of `model`, for requests that
            name another.
    """

    def __init__(
        self, model: str | None = None, patience: float = 3600.0, encoders: int = 2
    ) -> None:
        self.model, self.patience, self.encoders = model, patience, encoders
        self._loaded: OrderedDict[str | None, LoadedEncoder] = OrderedDict()
        # Held to read or change the attributes below; notified when there is work for the thread.
        self._changed = Condition()
        self._waiting: OrderedDict[str, deque[Job]] = OrderedDict()
        self._current: Job | None = None
        self._thread: Thread | None = None
        self._closed = False

    def start(self, request: Request, client: str = "") -> Job:
        """Add a story or book to the queue, which scores it in a thread. Raises `ValueError` with a
        sentence for the client if it is too long, or if too many are waiting."""
        request.check()
        job = Job(request)
        with self._changed:
            self._drop_cancelled()
            if len(self._waiting.get(client, ())) >= MAX_WAITING:
                raise ValueError(
                    f"{MAX_WAITING} of your stories are waiting already; wait for them, or cancel"
                    " some."
                )
            if self._closed or sum(map(len, self._waiting.values())) >= MAX_WAITING_ALL:
                raise ValueError("Too many stories are waiting; try again later.")
            self._waiting.setdefault(client, deque()).append(job)
            if self._thread is None:
                self._thread = Thread(target=self._work, daemon=True)
                self._thread.start()
            self._changed.notify()
        return job

    def close(self) -> None:
        """Cancel all jobs, and wait until they end: a process that exits during a forward pass
        crashes."""
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
            job.result = job.request.run(job, self.load, self.patience)
        except Cancelled:
            job.phase = "Cancelled"
        except (OSError, ValueError, TypeError, MemoryError) as error:
            job.problem = _message(error)
        except Exception as error:
            logger.exception("a story or book could not be scored")
            job.problem = f"It can't be scored ({type(error).__name__}: {_message(error)})"
        finally:
            job.ended.set()

    def load(self, name: str | None = None) -> LoadedEncoder:
        """An encoder, from memory if it is there; None for that of the queue, which stays in
        memory. Raises errors as `StoryEncoder.from_pretrained`."""
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
