"""Files that appear only when they are complete, and logs by which a later run is resumed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

STDIN = "-"
"""The file name for standard input or standard output."""

_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?=[. ]|$)", re.IGNORECASE)
_LONGEST_NAME = 50


def file_name(text: str) -> str:
    """Return a name for a file or folder that is made from any text, such as an id, and is legal on
    Linux, Windows and macOS. A legal name in lower case is returned unchanged. Other names end in
    `~` and a digest of the text, so that different texts have different names, even where the file
    system ignores case.

    Example:
        ```python
        from narrative_twins.writing import file_name

        assert file_name("film_0-train") == "film_0-train"
        assert file_name("What is 2:1?") == "What_is_2_1~2b89b866"
        ```
    """
    plain = unicodedata.normalize("NFKC", text)
    name = re.sub(r"[^\w.-]+", "_", plain)[:_LONGEST_NAME].strip("._-")
    name = _RESERVED.sub(r"_\g<0>", name)
    return name if name and name == text == plain.casefold() else f"{name}~{digest(text)[:8]}"


class Output:
    """What `atomic_write` yields: a binary file, or standard output if `file` is None. `path` is
    the name of the file in errors."""

    def __init__(self, file: BinaryIO | None, path: str) -> None:
        self._file, self._name = file, "standard output" if file is None else path

    def write(self, piece: str | bytes) -> None:
        """Append bytes, or text in UTF-8 (on standard output in the terminal's encoding)."""
        try:
            if self._file is not None:
                append(self._file, piece.encode() if isinstance(piece, str) else piece)
            elif isinstance(piece, str):
                sys.stdout.write(piece)
                sys.stdout.flush()
            else:
                sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            if self._file is None and error.errno == errno.EINVAL:
                raise BrokenPipeError from error  # as Windows reports it
            raise OSError(f"{self._name} can't be written: {error.strerror}") from error


def append(file: BinaryIO, data: bytes) -> None:
    """Write all of `data` to a file that is open without a buffer. Tests replace this function."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an `OSError` if the file `path` can't be written; a check to make before long work."""
    if path == STDIN:
        return
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    if os.path.isfile(path):
        with open(path, "r+b"):
            pass  # Windows refuses it while the file is open in a spreadsheet, for example
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise FileNotFoundError(f"the folder of {path} does not exist; create it first")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Output]:
    """Write a file that appears only when it is complete. The `with` block writes a temporary file,
    which is renamed to `path` at the end of the block. After an error, `path` is unchanged.

    Args:
        path: the file; `-` for standard output. Standard output and devices are written directly.

    Raises:
        OSError: the file can't be written; the message names it.

    Example:
        ```python
        from narrative_twins.writing import atomic_write

        with atomic_write("scores.csv") as file:
            file.write("story,score\\n")
        ```
    """
    check_writable(path)
    target = os.path.realpath(path)
    if path == STDIN:
        yield Output(None, STDIN)
    elif os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb", buffering=0) as device:
            yield Output(device, str(path))
    else:
        # Two processes that write the same file have different parts; the last one wins.
        part = f"{target}.{os.getpid()}.part"
        try:
            with open(part, "wb", buffering=0) as file:
                yield Output(file, str(path))
            if os.path.exists(target):
                shutil.copymode(target, part)
            os.replace(part, target)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise


class ResumeError(ValueError):
    """Raised if a run can't be resumed because its log does not fit the options or the input."""


class JsonlLog:
    """A log of rows in JSON Lines, with which an interrupted run is resumed. If there are settings,
    the first line of the log is `{"settings": {...}}`.

    The `with` block opens the log for appending, removes an incomplete last line, and locks the log
    by the file `PATH.lock`, so that no second run writes to the log.

    Args:
        path: the file of the log.
        settings: everything that the rows depend on, as JSON data by name. The version of the
            package is added. None if the rows depend on no settings.
        resume: whether to continue an existing log; if False, an existing log is an error.

    Attributes:
        rows: the rows of the earlier run; empty if there is none.

    Raises:
        ResumeError: a log exists but `resume` is False, its settings differ, or a line is invalid.

    Example:
        ```python
        from narrative_twins.writing import JsonlLog

        with JsonlLog("answers.jsonl", {"model": "large"}) as log:
            log.append({"id": 1, "answer": "yes"})
        assert JsonlLog("answers.jsonl", {"model": "large"}).rows == [{"id": 1, "answer": "yes"}]
        ```
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: Mapping[str, Any] | None = None,
        resume: bool = True,
    ) -> None:
        self.path = os.fspath(path)
        check_writable(self.path)
        # Through JSON, to compare them with settings that were read from a file.
        self.settings: dict[str, Any] | None = None
        if settings is not None:
            version = metadata.version("narrative_twins")
            self.settings = json.loads(json.dumps({"narrative_twins": version, **settings}))
        lines = _complete_lines(self.path)
        if lines and not resume:
            raise ResumeError(
                f"{self.path} has the results of an interrupted run; continue it with --resume, or"
                " delete the file"
            )
        self.rows = [self._row(number, line) for number, line in enumerate(lines, start=1)]
        self._is_new = not lines
        if self.rows and self.settings is not None:
            self._check_settings(self.rows.pop(0))

    def __enter__(self) -> JsonlLog:
        self._lock = FileLock(f"{self.path}.lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise FileExistsError(
                f"{self.path} is being written by another run; wait until it ends"
            ) from None
        try:
            self._file = open(self.path, "ab", buffering=0)
            self._file.truncate(Path(self.path).read_bytes().rfind(b"\n") + 1)
            if self._is_new and self.settings is not None:
                self.append({"settings": self.settings})
        except BaseException:
            self._lock.release()
            raise
        return self

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a row as one line. Raises an `OSError` that names the file."""
        line = json.dumps(row, ensure_ascii=False) + "\n"
        Output(self._file, self.path).write(line.encode("utf-8", "surrogatepass"))

    def __exit__(self, *_: object) -> None:
        self._file.close()
        # Before another run can lock it. Windows does not delete an open file, and there filelock
        # does it when it releases the lock.
        with suppress(OSError):
            os.unlink(self._lock.lock_file)
        self._lock.release()

    def complete(self, path: str | os.PathLike[str]) -> None:
        """Copy the rows to `path`, and delete the log. To be called after the `with` block."""
        with atomic_write(path) as file, open(self.path, "rb") as log:
            if self.settings is not None:
                log.readline()
            for line in log:
                file.write(line)
        os.unlink(self.path)

    def error(self, row: int, problem: str) -> ResumeError:
        """Return a `ResumeError` that names the line of `rows[row]` and its `problem`."""
        line = row + 1 + (self.settings is not None)
        return ResumeError(f"can't resume {self.path}: line {line} {problem}")

    def _row(self, number: int, line: str) -> dict[str, Any]:
        """Parse a line of JSON into a row. `number`, counted from 1, names the line in errors."""
        try:
            return dict(json.loads(line))
        except (TypeError, ValueError, RecursionError):
            raise ResumeError(
                f"can't resume {self.path}: line {number} is not a row of this command"
            ) from None

    def _check_settings(self, first: Mapping[str, Any]) -> None:
        """Raise a `ResumeError` if `first`, the first row, has other settings or none."""
        earlier = first.get("settings")
        if not isinstance(earlier, dict):
            raise ResumeError(f"can't resume {self.path}: it does not begin with the settings")
        if changed := difference(earlier, self.settings or {}):
            raise ResumeError(
                f"can't resume {self.path}: it was started with {changed}; use the same options, or"
                " write to another file"
            )


def difference(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the changes of settings as text, such as `seed 1 (now 2)`; empty if there are none."""
    changed = (name for name in {**earlier, **now} if earlier.get(name) != now.get(name))
    return ", ".join(
        f"{name} {json.dumps(earlier.get(name))} (now {json.dumps(now.get(name))})"
        for name in changed
    )


def _complete_lines(path: str) -> list[str]:
    """Return the lines of a file without an incomplete last line; empty if there is no file."""
    if not os.path.exists(path):
        return []
    data = Path(path).read_bytes()
    # Not `splitlines`, which also splits at other line breaks that JSON strings may contain.
    try:
        return data[: data.rfind(b"\n") + 1].decode("utf-8", "surrogatepass").split("\n")[:-1]
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ResumeError(f"{path}, line {line} is not in UTF-8; delete the file") from None


def digest(content: Any) -> str:
    """Return a hash of JSON data as 32 hex digits. The order of keys does not change the hash."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def digest_of_files(path: str | Path, suffixes: Collection[str] = ()) -> str:
    """Return a hash, as 12 hex digits, of a file's content, or of the names and contents of all
    files in a folder. If there are `suffixes`, such as `.csv`, other files do not count."""
    total, root = hashlib.sha256(), Path(path)
    files = [root] if root.is_file() else sorted(file for file in root.rglob("*") if file.is_file())
    for file in files:
        if not suffixes or file.suffix in suffixes:
            total.update(file.relative_to(root).as_posix().encode("utf-8", "replace"))
            with open(file, "rb") as content:
                total.update(hashlib.file_digest(content, "sha256").digest())
    return total.hexdigest()[:12]
