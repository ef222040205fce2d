"""Files that appear only when they are complete, and files that an interrupted run can resume."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from narrative_twins.writing import STDIN as STDIN
from narrative_twins.writing import ResumeError as ResumeError
from narrative_twins.writing import difference as difference
from narrative_twins.writing import digest as digest
from narrative_twins.writing import digest_of_files as digest_of_files
from narrative_twins.writing import for_terminal as for_terminal

_VERSION = metadata.version("narrative_twins")


class AtomicFile:
    """A file that is written as `NAME.part` and renamed to `NAME` when it is complete.

    Standard output, named pipes and devices are written directly. The part file is locked, so that
    two processes can't write the same file. If the file can't be written, an `OSError` is raised
    before anything is written.

    Args:
        path: the file, or `-` for standard output.
        follow: if `path` is a link, replace the file that it points to. False for files whose names
            are derived from the name of another: there a link is refused, since somebody else may
            have put it there. A link in place of the part file is always refused.
    """

    def __init__(self, path: str, *, follow: bool = True) -> None:
        if not follow:
            if os.path.islink(path):
                raise FileExistsError(f"{path} is a symbolic link; remove it first")
            check_regular(path)
        # A folder is refused below.
        self.is_regular = path != STDIN and (
            not os.path.exists(path) or os.path.isfile(path) or os.path.isdir(path)
        )
        if not self.is_regular:
            # The name is kept: `/dev/stdout` may be a link to a pipe, which has no path.
            self.path = path
        elif follow:
            self.path = os.path.realpath(path)
            if os.path.islink(self.path):
                raise FileExistsError(f"{path} is a symbolic link to itself; remove it first")
        else:
            # Only the folder is resolved: a link that is put there later is replaced, not followed.
            folder, name = os.path.split(path)
            self.path = os.path.join(os.path.realpath(folder), name)
        self.part = f"{self.path}.part"
        if os.path.isdir(self.path):
            raise IsADirectoryError(f"{path} is a folder; name a file in it")
        if self.is_regular and not os.path.isdir(os.path.dirname(self.path)):
            raise FileNotFoundError(f"the folder of {path} does not exist; create it first")
        self._descriptor = -1

    def __enter__(self) -> AtomicFile:
        if self.is_regular:
            self._begin()
        elif self.path != STDIN:
            self._descriptor = os.open(self.path, os.O_WRONLY)
        return self

    def write(self, piece: str | bytes) -> None:
        """Append text or bytes. Raises `OSError` with the name of the file, for example if no space
        is left."""
        data = memoryview(piece.encode() if isinstance(piece, str) else piece)
        try:
            if self.path == STDIN and isinstance(piece, str):
                sys.stdout.write(piece)
            elif self.path == STDIN:
                sys.stdout.buffer.write(data)
            else:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            if self.path == STDIN:
                sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            name = self.part if self.is_regular else self.path
            name = "standard output" if self.path == STDIN else name
            raise OSError(f"{name} can't be written: {error.strerror}") from error

    def write_row(self, row: Mapping[str, Any]) -> None:
        """Append a row of JSON data as a line."""
        self.write(json.dumps(row, ensure_ascii=False) + "\n")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.path == STDIN:
            return
        # A later `write` must fail: the number of the closed descriptor may be reused for another
        # file.
        descriptor, self._descriptor = self._descriptor, -1
        try:
            if self.is_regular and kind is None:
                self._complete()
            elif self.is_regular:
                self._keep_or_remove()
        finally:
            # The part file is locked until it has its name; then another run may begin.
            os.close(descriptor)

    def _begin(self) -> None:
        self._descriptor = self._open()
        os.ftruncate(self._descriptor, 0)

    def _complete(self) -> None:
        if os.path.exists(self.path):
            os.chmod(self.part, os.lstat(self.path).st_mode & 0o7777)
        self._rename(self.part, self.path)

    def _keep_or_remove(self) -> None:
        """Called after an error."""
        os.unlink(self.part)

    def _open(self) -> int:
        """Open the part file and lock it."""
        while True:
            if os.path.islink(self.part):
                raise FileExistsError(f"{self.part} is a symbolic link; remove it first")
            descriptor = os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            try:
                lock(descriptor, self.part)
                if os.fstat(descriptor).st_nlink > 1:
                    raise FileExistsError(f"{self.part} is a link to a file; remove it first")
                check_regular(self.part)
                if os.path.samestat(os.fstat(descriptor), os.lstat(self.part)):
                    return descriptor
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(descriptor)
                raise
            # Another run completed and renamed the file before it was locked here.
            os.close(descriptor)

    def _rename(self, source: str, target: str) -> None:
        os.replace(source, target)


def check_regular(path: str) -> None:
    """Refuse a pipe or a device in place of a file whose name is made from that of another: opening
    it may block for ever. Raises `FileExistsError`."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise FileExistsError(f"{path} is not a file; remove it first")


def lock(descriptor: int, path: str) -> None:
    """Lock an open file or folder until it is closed or the process ends. Raises `FileExistsError`
    if another run has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileExistsError(
            f"{path} is being written by another run; wait until it ends"
        ) from None


class ResumableFile(AtomicFile):
    """A file of lines that an interrupted run can resume, with the settings of the run in a JSON
    file next to it: `NAME.part.run` during the run, then `NAME.run`.

    An interrupted run leaves its complete lines in the part file. A new run renames them to
    `NAME.part.old`, a resumed one appends to them, or to those of the complete file.

    Args:
        path: the file, or `-` for standard output, which can't be resumed.
        settings: all options that the lines depend on, as JSON data by name; the version of the
            package is added. None if the lines depend on none: then there is no settings file.
        resume: resume an earlier run, if there is one.
        sync: make each `write` wait until the data is on disk.
        follow: see `AtomicFile`.

    Attributes:
        lines: the complete lines of the earlier run; empty if there is none or `resume` is not set.

    Raises:
        ResumeError: the settings of the earlier run differ or are missing.
    """

    def __init__(
        self,
        path: str,
        settings: Mapping[str, Any] | None = None,
        resume: bool = False,
        sync: bool = False,
        *,
        follow: bool = True,
    ) -> None:
        super().__init__(path, follow=follow)
        self.resume, self.sync, self.has_settings = resume, sync, settings is not None
        # Convert to JSON types (tuples to lists), to compare them with settings read from a file.
        self.settings: dict[str, Any] = json.loads(
            json.dumps({"narrative_twins": _VERSION, **(settings or {})})
        )
        self.lines: list[str] = complete_lines(self.path) if resume and self.is_regular else []
        self._reopened_size: int | None = None
        if not self.lines or not self.has_settings:
            return
        earlier = run_settings(path)
        if earlier is None:
            missing = f"its settings ({run_path(path)}) are missing"
            raise ResumeError(f"can't resume {path}: {missing}; start over")
        if found := difference(earlier, self.settings):
            fix = "use the same options, or write to another file"
            raise ResumeError(f"can't resume {path}: it was started with {found}; {fix}")

    def rows(self) -> list[dict[str, Any]]:
        """The lines of the earlier run as JSON objects; raises `ResumeError` for another line."""
        found = []
        for number, line in enumerate(self.lines, start=1):
            try:
                found.append(dict(json.loads(line)))
            except (TypeError, ValueError, RecursionError):
                raise self.not_resumable(number, "is not a row of this command") from None
        return found

    def not_resumable(self, number: int, problem: str) -> ResumeError:
        """The error for a line of the earlier run that this run would not have written."""
        return ResumeError(f"can't resume {self.path}: line {number} {problem}")

    def write(self, piece: str | bytes) -> None:
        """Append text or bytes, see `AtomicFile.write`."""
        super().write(piece)
        if self.sync and self.is_regular:
            os.fsync(self._descriptor)

    def _begin(self) -> None:
        if self.resume and not os.path.exists(self.part) and os.path.exists(self.path):
            self._reopened_size = os.path.getsize(self.path)
            self._rename(self.path, self.part)
        self._descriptor = self._open()
        if not self.resume and os.path.getsize(self.part):
            # The old part file stays locked until the new one is.
            earlier = self._descriptor
            self._rename(self.part, f"{self.part}.old")
            self._descriptor = self._open()
            os.close(earlier)
        # Remove an incomplete last line, which a power failure may leave.
        with open(self._descriptor, "rb", closefd=False) as file:
            end = file.read().rfind(b"\n") + 1
        os.ftruncate(self._descriptor, end)
        os.lseek(self._descriptor, end, os.SEEK_SET)
        if self.has_settings:
            with AtomicFile(run_path(self.part), follow=False) as file:
                file.write(json.dumps(self.settings, indent=1) + "\n")

    def _keep_or_remove(self) -> None:
        if self._reopened_size == os.path.getsize(self.part):
            # Nothing was added to a file that was complete, so restore its name.
            self._rename(self.part, self.path)

    def _rename(self, source: str, target: str) -> None:
        super()._rename(source, target)
        if self.has_settings and os.path.exists(run_path(source)):
            os.replace(run_path(source), run_path(target))


def run_settings(path: str) -> dict[str, Any] | None:
    """The settings of the run that wrote a `ResumableFile`, complete or not; None if missing."""
    # Settings are renamed after the file, so a crash in between leaves them under the other name;
    # those of the part file are always of the latest run.
    paths = (part_path(path), os.path.realpath(path))
    found = map(read_settings, map(run_path, paths))
    return next((settings for settings in found if settings is not None), None)


def read_settings(path: str) -> dict[str, Any] | None:
    """Read the settings file of a run; None if it is missing or invalid."""
    if not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            settings = json.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    return settings if isinstance(settings, dict) else None


def complete_lines(path: str) -> list[str]:
    """The lines of a file, or of its part file if there is one, without an incomplete last line.
    Raises `ResumeError` if they are not text, `FileExistsError` if it is a pipe or a device."""
    part = part_path(path)
    existing = part if os.path.exists(part) else path
    if not os.path.exists(existing):
        return []
    check_regular(existing)
    data = Path(existing).read_bytes()
    # Not `splitlines`, which also splits at other line breaks that JSON strings may contain.
    try:
        return data[: data.rfind(b"\n") + 1].decode("utf-8").split("\n")[:-1]
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ResumeError(
            f"{existing}, line {line} is not in UTF-8, so the file is damaged; remove it first"
        ) from None


def paths_written(path: str) -> list[str]:
    """The paths that a `ResumableFile` or an `AtomicFile` may write, rename or replace."""
    part = part_path(path)
    files = [os.path.realpath(path), part, f"{part}.old"]
    return [*files, *map(run_path, files), f"{run_path(part)}.part"]


def part_path(path: str) -> str:
    """The path of an `AtomicFile` until it is complete."""
    return f"{os.path.realpath(path)}.part"


def run_path(path: str) -> str:
    """The path of the settings of a `ResumableFile`."""
    return f"{path}.run"
