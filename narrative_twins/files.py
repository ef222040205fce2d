"""Files that appear only when they are complete, and files that an interrupted run can resume."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import sys
from collections.abc import Collection, Mapping
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

_VERSION = metadata.version("narrative_twins")

STDIN = "-"
"""The file name for standard input or standard output."""


class AtomicFile:
    """A file that is written as `NAME.part` and renamed to `NAME` when it is complete.

    Standard output, named pipes and devices are written directly. The part file is locked, so that
    two processes can't write the same file. If the file can't be written, an `OSError` is raised
    before anything is written.

    Args:
        path: the file, or `-` for standard output.
        keep: after an error keep the part file; rename the part file of an earlier run to
            `NAME.part.old`.
        resume: append to the part file (or to the complete file) of an earlier run instead of
            starting over.
        sync: make each `write` wait until the data is on disk.
    """

    def __init__(
        self, path: str, keep: bool = False, resume: bool = False, sync: bool = False
    ) -> None:
        self.keep, self.resume, self.sync = keep, resume, sync
        self.path = path if path == STDIN else os.path.realpath(path)
        self.part = part_path(self.path)
        self.is_regular = path != STDIN and (
            os.path.isfile(self.path) or not os.path.exists(self.path)
        )
        if os.path.isdir(self.path):
            raise IsADirectoryError(f"{path} is a folder; name a file in it")
        if self.is_regular and not os.path.isdir(os.path.dirname(self.path)):
            raise FileNotFoundError(f"the folder of {path} does not exist; create it first")
        self._descriptor = -1
        self._reopened_size: int | None = None

    def __enter__(self) -> AtomicFile:
        if self.path == STDIN:
            return self
        if not self.is_regular:
            self._descriptor = os.open(self.path, os.O_WRONLY)
            return self
        if self.resume and not os.path.exists(self.part) and os.path.exists(self.path):
            self._reopened_size = os.path.getsize(self.path)
            self._rename(self.path, self.part)
        self._open()
        if not self.resume and self.keep and os.path.getsize(self.part):
            # Keep the old part file locked until the new one is. Windows has no locks, and can't
            # rename an open file.
            earlier = self._descriptor
            if sys.platform == "win32":
                os.close(earlier)
            self._rename(self.part, f"{self.part}.old")
            self._open()
            if sys.platform != "win32":
                os.close(earlier)
        elif not self.resume:
            os.ftruncate(self._descriptor, 0)
        # Remove an incomplete last line, which a power failure may leave.
        os.ftruncate(self._descriptor, _end_of_last_line(self._descriptor))
        os.lseek(self._descriptor, 0, os.SEEK_END)
        return self

    def write(self, piece: str | bytes) -> None:
        """Append text or bytes. Raises `OSError` with the name of the file, for example if no space
        is left."""
        try:
            if self.path == STDIN:
                write_stdout(piece)
                return
            data = memoryview(piece.encode("utf-8") if isinstance(piece, str) else piece)
            while data:
                data = data[os.write(self._descriptor, data) :]
            if self.sync and self.is_regular:
                os.fsync(self._descriptor)
        except BrokenPipeError:
            raise
        except OSError as error:
            name = (
                self.part
                if self.is_regular
                else "standard output"
                if self.path == STDIN
                else self.path
            )
            raise OSError(f"{name} can't be written: {error.strerror}") from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.path == STDIN:
            return
        # A later `write` must fail: the number of the closed descriptor may be reused for another
        # file.
        descriptor, self._descriptor = self._descriptor, -1
        try:
            if sys.platform == "win32":
                os.close(descriptor)  # an open file can't be renamed
            if self.is_regular:
                self._complete(kind is None)
        finally:
            # The part file is locked until it has its name; then another run may begin.
            if sys.platform != "win32":
                os.close(descriptor)

    def _complete(self, succeeded: bool) -> None:
        """Rename the part file, or remove it after an error unless it is kept."""
        if succeeded:
            if os.path.exists(self.path):
                os.chmod(self.part, os.stat(self.path).st_mode & 0o7777)
            self._rename(self.part, self.path)
        elif not self.keep:
            os.unlink(self.part)
        elif self._reopened_size == os.path.getsize(self.part):
            # Nothing was added to a file that was complete, so restore its name.
            self._rename(self.part, self.path)

    def _open(self) -> None:
        """Open the part file and lock it. Links are not followed, since what they lead to would be
        overwritten."""
        while True:
            try:
                self._descriptor = os.open(
                    self.part, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666
                )
            except OSError as error:
                if not os.path.islink(self.part):
                    raise
                raise FileExistsError(f"{self.part} is a symbolic link; remove it first") from error
            try:
                lock(self._descriptor, self.part)
                found = os.fstat(self._descriptor)
                if found.st_nlink > 1 or not stat.S_ISREG(found.st_mode):
                    raise FileExistsError(
                        f"{self.part} is also another file (a hard link); remove it first"
                    )
                if os.path.samestat(found, os.lstat(self.part)):
                    return
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(self._descriptor)
                raise
            # Another run has completed and renamed the file before it was locked here.
            os.close(self._descriptor)

    def _rename(self, source: str, target: str) -> None:
        os.replace(source, target)


def lock(descriptor: int, path: str) -> None:
    """Lock an open file or folder until it is closed or the process ends, except on Windows. Raises
    `FileExistsError` if another run has locked it."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileExistsError(
            f"{path} is being written by another run; wait until it ends"
        ) from None


def write_stdout(piece: str | bytes) -> None:
    """Write text or bytes to standard output at once. Raises `OSError` if it is closed."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed")
    if isinstance(piece, str):
        sys.stdout.write(piece)
    else:
        sys.stdout.buffer.write(piece)
    sys.stdout.flush()


class ResumeError(ValueError):
    """A run can't be resumed with these options or this input."""


class ResumableFile(AtomicFile):
    """A file of lines that an interrupted run can resume, with the settings of the run in a JSON
    file beside it: `NAME.part.run` during the run, then `NAME.run`.

    Args:
        path: the file, or `-` for standard output, which can't be resumed.
        settings: all options that the lines depend on, as JSON data by name; the version of the
            package is added.
        resume: resume an earlier run, if there is one.
        sync: see `AtomicFile`.

    Attributes:
        lines: the complete lines of the earlier run; empty if there is none or `resume` is not set.

    Raises:
        ResumeError: the settings of the earlier run differ or are missing.
    """

    def __init__(
        self, path: str, settings: Mapping[str, Any], resume: bool = False, sync: bool = False
    ) -> None:
        super().__init__(path, keep=True, resume=resume, sync=sync)
        # Convert to JSON types (tuples to lists), to compare them with settings read from a file.
        self.settings: dict[str, Any] = json.loads(
            json.dumps({"narrative_twins": _VERSION, **settings})
        )
        self.lines: list[str] = complete_lines(path) if resume and self.is_regular else []
        if self.lines:
            self._check(path)

    def __enter__(self) -> ResumableFile:
        super().__enter__()
        if self.is_regular:
            with AtomicFile(run_path(self.part)) as file:
                file.write(json.dumps(self.settings, indent=1) + "\n")
        return self

    def _check(self, path: str) -> None:
        earlier = run_settings(path)
        if earlier is None:
            raise ResumeError(
                f"can't resume {path}: its settings ({run_path(path)}) are missing; start over"
            )
        if found := difference(earlier, self.settings):
            raise ResumeError(
                f"can't resume {path}: it was started with {found}; use the same options, or write"
                " to another file"
            )

    def _rename(self, source: str, target: str) -> None:
        super()._rename(source, target)
        if os.path.exists(run_path(source)):
            os.replace(run_path(source), run_path(target))


def difference(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The settings of an earlier run that differ from those of now, in words; empty if none
    does."""
    changed = (name for name in {**earlier, **now} if earlier.get(name) != now.get(name))
    return ", ".join(
        f"{name} {json.dumps(earlier.get(name))} (now {json.dumps(now.get(name))})"
        for name in changed
    )


def run_settings(path: str) -> dict[str, Any] | None:
    """The settings of the run that wrote a `ResumableFile`, complete or not; None if missing."""
    part, path = part_path(path), os.path.realpath(path)
    # The settings file is renamed last, so a crash in between leaves it under the name of before.
    settings = read_settings(run_path(part))
    is_known = settings is not None or os.path.exists(part) and os.path.exists(path)
    return settings if is_known else read_settings(run_path(path))


def read_settings(path: str) -> dict[str, Any] | None:
    """Read the settings file of a run; None if it is missing or invalid."""
    try:
        with open(path, encoding="utf-8") as file:
            settings = json.load(file)
    except (OSError, ValueError):
        return None
    return settings if isinstance(settings, dict) else None


def complete_lines(path: str) -> list[str]:
    """The lines of a file, or of its part file if there is one, without an incomplete last line."""
    part = part_path(path)
    existing = part if os.path.exists(part) else path
    if not os.path.exists(existing):
        return []
    with open(existing, "rb") as file:
        data = file.read()
    # Not `splitlines`, which also splits at other line breaks that JSON strings may contain.
    return data[: data.rfind(b"\n") + 1].decode("utf-8").split("\n")[:-1]


def paths_written(path: str) -> list[str]:
    """The paths that a `ResumableFile` or an `AtomicFile` may write, rename or replace."""
    part = part_path(path)
    files = [os.path.realpath(path), part, f"{part}.old"]
    return [*files, *map(run_path, files), part_path(run_path(part))]


def _end_of_last_line(descriptor: int, chunk: int = 1 << 20) -> int:
    """The position after the last line break of an open file; 0 if it has none."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - chunk)
        os.lseek(descriptor, start, os.SEEK_SET)
        found = os.read(descriptor, end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def digest_of_files(path: str | Path, suffixes: Collection[str] = ()) -> str:
    """A short digest of a file, or of the files in a folder with their names; only of those with
    `suffixes`, if any."""
    digest, root = hashlib.sha256(), Path(path)
    files = [root] if root.is_file() else sorted(file for file in root.rglob("*") if file.is_file())
    for file in files:
        if not suffixes or file.suffix in suffixes:
            digest.update(file.relative_to(root).as_posix().encode("utf-8", "replace"))
            with open(file, "rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:12]


def part_path(path: str) -> str:
    """The path of an `AtomicFile` until it is complete."""
    return f"{os.path.realpath(path)}.part"


def run_path(path: str) -> str:
    """The path of the settings of a `ResumableFile`."""
    return f"{path}.run"
