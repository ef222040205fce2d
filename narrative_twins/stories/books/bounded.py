"""Books from strangers, read in a process of their own: it has a limit of time and of memory, and
can be ended at any moment."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress

from narrative_twins.stories.books.book import Book, Chapter
from narrative_twins.stories.books.reading import book_of, book_sentences

SECONDS = 60.0
"""The time that reading a book may take. A long novel takes some seconds."""
MEMORY = 2_000_000_000
"""Bytes that the process may have, code included, on systems that limit them (macOS does not)."""
MEMORY_HERE = 1_200_000_000
"""Bytes that a process may take for a book in `limited_memory`."""
_PAUSE = 0.1  # seconds between two questions whether the visitor still waits
_TOO_LARGE = "needs too much memory to be read; use the command `narrative-twins book`"


@contextmanager
def limited_memory() -> Iterator[None]:
    """Limit what this process takes in the block, where a book is read, to `MEMORY_HERE` bytes more
    than it has; on other systems than Linux there is no limit. It is for commands, as other threads
    have the same limit. Raises a `ValueError` that does not name the file if it is exceeded."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limits = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([used + MEMORY_HERE, *limits]), hard))
    try:
        yield
    except MemoryError:
        raise ValueError(
            f"needs more than {MEMORY_HERE / 1e9:.1f} GB of memory to be read; divide it into"
            " volumes"
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def read_bounded(
    name: str, data: bytes, check: Callable[[], None], seconds: float = SECONDS
) -> tuple[Book, int]:
    """Read the content of a file called `name`, see `book_of`, in a process; the book, and the
    number of its sentences.

    Args:
        name, data: see `book_of`.
        check: called several times a second; if it raises an exception, the process is ended.
        seconds: the time after which the process is ended.

    Raises:
        ValueError: the book can't be read within the limits; what is wrong with it.
    """
    deadline = time.monotonic() + seconds
    with (
        subprocess.Popen(
            # Without the working directory among the places of modules.
            [sys.executable, "-P", "-m", "narrative_twins.stories.books.bounded"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # In a session of its own, as Ctrl-C is for this process, which ends it.
            start_new_session=True,
        ) as process,
        ThreadPoolExecutor(1) as thread,
    ):
        try:
            sent = json.dumps(name).encode() + b"\n" + data
            answer = thread.submit(process.communicate, sent)
            while not wait([answer], _PAUSE).done:
                check()
                if time.monotonic() > deadline:
                    raise ValueError(
                        f"takes more than {seconds:.0f} seconds to be read; use the command"
                        " `narrative-twins book`"
                    )
        finally:
            process.kill()
        found, _ = answer.result()
    if process.returncode:
        raise ValueError(_TOO_LARGE)
    return _parsed(found)


def _parsed(answer: bytes) -> tuple[Book, int]:
    values = json.loads(answer)
    if problem := values.get("problem"):
        raise ValueError(problem)
    chapters = tuple(
        Chapter(heading and tuple(heading), tuple(map(tuple, paragraphs)), frozenset(breaks))
        for heading, paragraphs, breaks in values["chapters"]
    )
    return Book(values["text"], chapters, values["title"]), values["sentences"]


def _read(name: str, data: bytes) -> dict[str, object]:
    try:
        book = book_of(name, data)
        count = len(book_sentences(book))
    except MemoryError:
        return {"problem": _TOO_LARGE}
    except (ValueError, RecursionError) as error:
        return {"problem": str(error)}
    chapters = [(heading, spans, sorted(breaks)) for heading, spans, breaks in book.chapters]
    return {"text": book.text, "title": book.title, "chapters": chapters, "sentences": count}


def main() -> None:
    """Read the book on standard input, after a line with its name, and print it as JSON."""
    with suppress(ValueError):  # of macOS
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Also if the process that waits is killed.
    resource.setrlimit(resource.RLIMIT_CPU, (int(2 * SECONDS), int(2 * SECONDS)))
    name = json.loads(sys.stdin.buffer.readline())
    print(json.dumps(_read(name, sys.stdin.buffer.read())))


if __name__ == "__main__":
    main()
