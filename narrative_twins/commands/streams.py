"""Standard streams, of which some may be closed: `<&-` in a shell closes standard input."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any, NoReturn


class ClosedStream(io.RawIOBase):
    """A standard stream that is closed: to read from it or to write to it raises an `OSError`."""

    def __init__(self, title: str) -> None:
        self.title = title

    def readable(self) -> bool:
        """Return True, so that reading is tried and raises the error."""
        return True

    writable = readable

    def readinto(self, data: Any) -> NoReturn:
        """Raise an `OSError`."""
        raise OSError(errno.EBADF, f"{self.title} is closed")

    write = readinto


def prepare_streams() -> None:
    """Replace standard streams that are closed, which are None in Python: an error says so when one
    is used. Messages for a closed standard error are lost. Characters that a terminal lacks, as
    those of Windows do, are replaced in what is printed."""
    for name, title in (("stdin", "standard input"), ("stdout", "standard output")):
        if getattr(sys, name) is None:
            _fill_descriptor()
            stream: Any = ClosedStream(title)
            setattr(sys, name, io.TextIOWrapper(stream, encoding="utf-8", write_through=True))
    if sys.stderr is None:
        _fill_descriptor()
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _fill_descriptor() -> None:
    """Open the lowest descriptor, which is the stream's, or else the next file would get it, and
    with it what libraries print."""
    os.open(os.devnull, os.O_RDWR)


def discard_output() -> None:
    """Discard what standard output still holds. When the reader of a pipe has stopped reading,
    Python would report at exit that it can't write this."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
