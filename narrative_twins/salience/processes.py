"""A function of a task, such as the scoring of some stories, applied to many tasks by several
processes; its results are in the order of the tasks."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, TypeAlias

Function: TypeAlias = Callable[[Any], Any]
"""A function of a task."""

_NO_TASK = object()
_THREADS = "OMP_NUM_THREADS"


class _Outcome(NamedTuple):
    """The result of a task; or the traceback of its error, and the error itself if it can be
    pickled."""

    result: Any = None
    traceback: str | None = None
    error: Exception | None = None

    @classmethod
    def of(cls, function: Function, task: Any) -> _Outcome:
        try:
            return cls(function(task))
        except Exception as error:
            try:
                return cls(None, traceback.format_exc(), pickle.loads(pickle.dumps(error)))
            except Exception:
                return cls(None, traceback.format_exc())

    def get(self) -> Any:
        """The result; raises the error."""
        if self.error is not None:
            raise self.error
        if self.traceback is not None:
            raise RuntimeError(f"a worker process failed:\n{self.traceback}")
        return self.result


class WorkerProcesses:
    """New processes on this machine, which end with the iterator of `map`.

    Args:
        start: is called in each process with its number, and returns the function. It and the
            results are pickled, so what they consist of must be found by name in a module.
        count: how many processes. They share the threads that this process uses.

    Raises:
        TypeError: `start` can't be pickled.
    """

    def __init__(self, start: Callable[[int], Function], count: int) -> None:
        self.count = count
        try:
            self._start = pickle.dumps(start)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise TypeError(
                f"several processes need what can be pickled: {error}; define operations in a"
                " module, not in a function or notebook, or use one process"
            ) from error

    def map(self, tasks: Iterable[Any]) -> Generator[Any, None, None]:
        """The results of the tasks, in order; a few tasks are read ahead. Raises errors of the
        function, and RuntimeError if a process ends, for example for lack of memory."""
        threads = max(1, _threads() // self.count)
        workers: list[_Worker] = []
        try:
            workers += (_Worker(self._start, number, threads) for number in range(self.count))
            yield from _in_order(iter(tasks), workers)
        finally:
            for worker in workers:
                worker.end()


def _threads() -> int:
    """How many threads this process uses: those of torch, unless the encoder runs without it."""
    if "torch" in sys.modules:
        return int(sys.modules["torch"].get_num_threads())
    given = os.environ.get(_THREADS, "")
    return int(given) if given.isdecimal() else os.cpu_count() or 1


class _Worker:
    """A worker process and the connection to it."""

    def __init__(self, start: bytes, number: int, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=_work, args=(theirs, start, number, threads), daemon=True
        )
        self.process.start()
        theirs.close()

    def send(self, task: Any) -> None:
        try:
            self.connection.send(task)
        except ConnectionError as error:
            raise self._ended() from error

    def receive(self) -> _Outcome:
        try:
            outcome: _Outcome = self.connection.recv()
            return outcome
        except (EOFError, ConnectionError) as error:
            raise self._ended() from error

    def _ended(self) -> RuntimeError:
        self.process.join(timeout=10)
        code = self.process.exitcode
        return RuntimeError(
            f"a worker process ended (exit code {code}), perhaps for lack of memory; use fewer"
            " processes"
        )

    def end(self) -> None:
        """End the process, whatever it does."""
        self.connection.close()
        self.process.terminate()
        self.process.join()


def _in_order(tasks: Iterator[Any], workers: list[_Worker]) -> Iterator[Any]:
    """The results of tasks by some worker processes."""
    idle = {worker.connection: worker for worker in workers}
    busy: dict[
        Any, tuple[_Worker, int]
    ] = {}  # by connection: the process and the number of its task
    done: dict[int, _Outcome] = {}  # of tasks that come after one that is not done
    sent = yielded = 0
    while True:
        # A process without a task waits for one, so sending can't block.
        while (
            idle
            and sent - yielded < 2 * len(workers)
            and (task := next(tasks, _NO_TASK)) is not _NO_TASK
        ):
            connection, worker = idle.popitem()
            worker.send(task)
            busy[connection] = worker, sent
            sent += 1
        if yielded in done:
            yield done.pop(yielded).get()
            yielded += 1
        elif busy:
            for ready in wait(list(busy)):
                worker, number = busy.pop(ready)
                done[number] = worker.receive()
                idle[worker.connection] = worker
        else:
            return


def _work(connection: Connection, start: bytes, number: int, threads: int) -> None:
    """The loop of a worker process, until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one after Ctrl-C
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit()
    )  # so that what libraries clean up at exit is cleaned up
    os.environ[_THREADS] = str(threads)  # of libraries that are not imported yet
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    ready = _Outcome.of(lambda number: pickle.loads(start)(number), number)
    try:
        while True:
            task = connection.recv()
            connection.send(ready if ready.traceback else _Outcome.of(ready.result, task))
    except (EOFError, ConnectionError):
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is ending already
