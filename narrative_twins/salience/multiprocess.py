"""Worker processes, which share tasks and end with the process that started them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import torch

_worker: dict[str, Any] = {}
"""In a worker process: the pickled function that starts it, its number, and then the function."""


def in_processes(
    start: Callable[[int], Callable[[Any], Any]], tasks: Iterable[Any], count: int
) -> Generator[Any, None, None]:
    """Yield the result of a function for each task, in the order of the tasks. The function runs in
    new processes on this machine, which share the threads of this one and end with the iterator.
    Two tasks per process are read ahead.

    Args:
        start: called in each process with its number, from 0; returns the function. `start`, tasks
            and results are pickled: their classes and functions must be importable by name.
        tasks: read in this process.
        count: how many processes.

    Raises:
        TypeError: `start` can't be pickled; raised at once.
        RuntimeError: a process ended, for example for lack of memory.
    """
    try:
        pickled = pickle.dumps(start)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise TypeError(
            f"several processes need what can be pickled: {error}; define operations in a module,"
            " not in a function or notebook, or use one process"
        ) from error
    return _pool_results(pickled, tasks, count)


def _pool_results(start: bytes, tasks: Iterable[Any], count: int) -> Generator[Any, None, None]:
    """Yield the results of `tasks` in order, computed by `count` processes. Each process unpickles
    `start`, calls it with the number of the process, and applies the returned function to tasks."""
    threads = max(1, torch.get_num_threads() // count)
    copies = _may_copy(threads)
    context = multiprocessing.get_context("fork" if copies else "spawn")
    if copies:  # tokenizers warn of copies, unless they are told what to do
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    numbers = context.SimpleQueue()
    for number in range(count):
        numbers.put(number)
    # The processes end when `ours` is closed, also if this process is killed.
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        count,
        context,
        initializer=_start_worker,
        initargs=(start, numbers, theirs, ours if copies else None, threads),
    )
    pending: deque[Future[Any]] = deque()
    try:
        for task in tasks:
            pending.append(pool.submit(_work, task))
            if len(pending) == 2 * count:
                yield _result(pending.popleft())
        while pending:
            yield _result(pending.popleft())
        pool.shutdown()
    except BrokenProcessPool:
        raise RuntimeError("a worker process ended, perhaps for lack of memory") from None
    finally:
        ours.close()
        pool.shutdown(cancel_futures=True)
        theirs.close()


def _may_copy(threads: int) -> bool:
    """Return whether new processes of so many threads can be copies of this one, which import
    nothing, like the workers of torch's DataLoader."""
    # Torch's threads and accelerators can't be copied, nor what another thread does at the moment,
    # as in a notebook or a server; tqdm's only looks at clocks.
    others = {thread.name for thread in threading.enumerate()} - {"MainThread", "tqdm_monitor"}
    alone = threads == 1 and not others
    return sys.platform == "linux" and alone and not torch.accelerator.is_available()


def _result(future: Future[Any]) -> Any:
    """Wait for the result of a task and return it."""
    while not wait([future], timeout=1).done:
        pass  # Windows can't interrupt a wait without an end
    return future.result()


def _start_worker(start: bytes, numbers: Any, parent: Any, copied: Any, threads: int) -> None:
    """Prepare this new worker process. It takes its number from the queue `numbers`, and ends when
    the other end of the pipe `parent` closes. `copied` is the copy of that end, if this process is
    a copy of the first. The first task unpickles `start`, and so raises its errors."""
    # The first process ends this one after Ctrl-C, and after Ctrl-Break on Windows.
    for name in {"SIGINT", "SIGBREAK"} & set(dir(signal)):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    if copied is not None:  # the other end of the pipe, which only the first process may hold
        copied.close()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = str(threads)  # for libraries that are not imported yet
    os.environ["RAYON_NUM_THREADS"] = str(threads)  # for tokenizers
    torch.set_num_threads(threads)
    _worker.update(start=start, number=numbers.get())


def _end_with(parent: Any) -> None:
    """End this process when the other end of the pipe `parent` is closed."""
    try:
        parent.recv()
    finally:
        os._exit(1)


def _work(task: Any) -> Any:
    """Return the result of a task, computed by the function of this worker process. An error that
    can't be pickled is raised as RuntimeError."""
    try:
        if "function" not in _worker:
            _worker["function"] = pickle.loads(_worker["start"])(_worker["number"])
        return _worker["function"](task)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            message = f"a worker process failed: {type(error).__name__}: {error}"
            raise RuntimeError(message) from error
        raise
