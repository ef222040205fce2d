"""Story files in, result files out: every unreadable piece is reported where it stands, files are written whole."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeAlias

STDIN = "-"
"""The name that stands for standard input, and for standard output where a result goes."""

StoryKey: TypeAlias = tuple[str, tuple[tuple[int, int], ...]]


class WholeFile:
    """A file that appears under its name only when it is complete; until then it is `NAME.part`.

    Each `write` reaches the file as one piece, so that a part file never ends inside one. The part file of a broken run
    is removed unless `keep` is set; with `resume` an earlier one is continued, else it is put aside as `NAME.part.old`.
    What is no plain file (standard output, a named pipe, a device) is written as it comes.

    Args:
        path: the file, or `-` for standard output.
        keep: leave the part file behind if something goes wrong.
        resume: continue the part file (or the finished file) instead of beginning anew.
        durable: each piece is on the disk, whatever happens to the machine, when `write` returns; and a second process
            that would write the same file is refused.

    Raises:
        OSError: no file can be written there; said before anything is.
    """

    def __init__(self, path: str, keep: bool = False, resume: bool = False, durable: bool = False) -> None:
        self.keep, self.resume, self.durable = keep, resume, durable
        self.path = path if path == STDIN else os.path.realpath(path)
        self.part = part_of(self.path)
        self.plain = path != STDIN and (os.path.isfile(self.path) or not os.path.exists(self.path))
        if os.path.isdir(self.path):
            raise IsADirectoryError(f"{path} is a folder; name a file in it")
        if self.plain and not os.path.isdir(os.path.dirname(self.path)):
            raise FileNotFoundError(f"the folder of {path} does not exist; make it first")
        self._descriptor = -1

    def __enter__(self) -> WholeFile:
        if self.path == STDIN:
            return self
        if not self.plain:
            self._descriptor = os.open(self.path, os.O_WRONLY)
            return self
        if self.resume and not os.path.exists(self.part) and os.path.exists(self.path):
            os.replace(self.path, self.part)
        self._open()
        if not self.resume and self.keep and os.path.getsize(self.part):
            # The lock on it lasts until there is one on the new file; Windows has none, and renames no open file.
            earlier = self._descriptor
            if sys.platform == "win32":
                os.close(earlier)
            os.replace(self.part, f"{self.part}.old")
            self._open()
            if sys.platform != "win32":
                os.close(earlier)
        elif not self.resume:
            os.ftruncate(self._descriptor, 0)
        with open(self.part, "rb") as file:
            # A line cut short (by a loss of power) is written anew.
            os.ftruncate(self._descriptor, file.read().rfind(b"\n") + 1)
        os.lseek(self._descriptor, 0, os.SEEK_END)
        return self

    def write(self, piece: str | bytes) -> None:
        """Write one piece: a line, a row, a section, or the bytes of a picture."""
        if self.path == STDIN:
            if isinstance(piece, str):
                sys.stdout.write(piece)
            else:
                sys.stdout.buffer.write(piece)
            sys.stdout.flush()
            return
        data = piece.encode("utf-8") if isinstance(piece, str) else piece
        while data:
            data = data[os.write(self._descriptor, data) :]
        if self.durable and self.plain:
            os.fsync(self._descriptor)

    def _open(self) -> None:
        """Open the part file; a durable one is kept from other processes until it is closed, where the system can."""
        self._descriptor = os.open(self.part, os.O_RDWR | os.O_CREAT, 0o666)
        if not self.durable or sys.platform == "win32":
            return
        import fcntl

        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise FileExistsError(f"{self.part} is being written by another run; wait for it to end") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path != STDIN:
            # Its number may soon stand for another file, which nobody is to write into who is late.
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)
        if not self.plain:
            return
        if kind is None:
            if os.path.exists(self.path):
                os.chmod(self.part, os.stat(self.path).st_mode & 0o7777)
            os.replace(self.part, self.path)
        elif not self.keep:
            os.unlink(self.part)


def part_of(path: str) -> str:
    """Where a `WholeFile` is as long as it is not whole."""
    return f"{os.path.realpath(path)}.part"


def whole_lines(path: str) -> list[str]:
    """The whole lines of a JSON Lines file, finished or not."""
    part = part_of(path)
    found = part if os.path.exists(part) else path
    if not os.path.exists(found):
        return []
    with open(found, "rb") as file:
        data = file.read()
    # Not splitlines: other line breaks may stand inside a JSON text.
    return data[: data.rfind(b"\n") + 1].decode("utf-8").split("\n")[:-1]


def story_key(name: str | int | None, sentences: Sequence[str], windows: Iterable[Sequence[int]]) -> StoryKey:
    """What tells a story of an interrupted run from the others: a digest of its name and sentences, and its windows."""
    told = json.dumps([name, list(sentences)]).encode("ascii")
    return hashlib.sha256(told).hexdigest(), tuple((lo, hi) for lo, hi in windows)


def check_begun(path: str, begun: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Refuse to go on with other options than a run was begun with.

    Raises:
        ValueError: names the first that differs.
    """
    for what, value in asked.items():
        if begun[what] != value:
            raise ValueError(
                f"can't resume {path}: it was begun with {what} {begun[what]}, not {value}; go on with the same "
                "options, or write elsewhere"
            )
