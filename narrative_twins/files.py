"""Files that appear only when they are complete, and runs that can be resumed."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Collection, Mapping
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

_VERSION = metadata.version("narrative_twins")

STDIN = "-"
"""The file name that stands for standard input, and for standard output where results are written."""


class AtomicFile:
    """A file that appears under its name only when it is complete; until then it is `NAME.part`.

    Each `write` appends one piece as a whole, so a part file never ends inside a piece. After an error the part file is
    removed, unless `keep` is set. With `resume` an earlier part file is continued; otherwise it is renamed to
    `NAME.part.old`. While it is written it is locked, so that two processes can't write the same file. Standard output,
    named pipes and devices have no part file: they are written directly.

    Args:
        path: the file, or `-` for standard output.
        keep: leave the part file behind after an error.
        resume: continue the part file (or the complete file) instead of starting over.
        sync: `write` returns when the piece is on disk, whatever happens to the machine.

    Raises:
        OSError: no file can be written there; raised before anything is written.
    """

    def __init__(self, path: str, keep: bool = False, resume: bool = False, sync: bool = False) -> None:
        self.keep, self.resume, self.sync = keep, resume, sync
        self.path = path if path == STDIN else os.path.realpath(path)
        self.part = part_path(self.path)
        self.is_regular = path != STDIN and (os.path.isfile(self.path) or not os.path.exists(self.path))
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
            # The lock on the old part file is held until the new one is locked. Windows has no locks, and can't rename
            # a file that is open.
            earlier = self._descriptor
            if sys.platform == "win32":
                os.close(earlier)
            self._rename(self.part, f"{self.part}.old")
            self._open()
            if sys.platform != "win32":
                os.close(earlier)
        elif not self.resume:
            os.ftruncate(self._descriptor, 0)
        with open(self.part, "rb") as file:
            # A line that was cut off, by a power failure for example, is written again.
            os.ftruncate(self._descriptor, file.read().rfind(b"\n") + 1)
        os.lseek(self._descriptor, 0, os.SEEK_END)
        return self

    def write(self, piece: str | bytes) -> None:
        """Append one piece: a line, a row, a section, or the bytes of an image."""
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
        if self.sync and self.is_regular:
            os.fsync(self._descriptor)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path != STDIN:
            # The number of a closed descriptor may be reused for another file, which a late write must not reach.
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)
        if not self.is_regular:
            return
        if kind is None:
            if os.path.exists(self.path):
                os.chmod(self.part, os.stat(self.path).st_mode & 0o7777)
            self._rename(self.part, self.path)
        elif not self.keep:
            os.unlink(self.part)
        elif self._reopened_size == os.path.getsize(self.part):
            # Nothing was added to the complete file, so it is complete again.
            self._rename(self.part, self.path)

    def _open(self) -> None:
        """Open the part file, and lock it if the system has locks."""
        self._descriptor = os.open(self.part, os.O_RDWR | os.O_CREAT, 0o666)
        if sys.platform == "win32":
            return
        import fcntl

        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise FileExistsError(f"{self.part} is being written by another run; wait until it ends") from None

    def _rename(self, source: str, target: str) -> None:
        os.replace(source, target)


class ResumeError(ValueError):
    """A run can't be resumed with these options or this input; says what differs."""


class ResumableFile(AtomicFile):
    """A file of lines that an interrupted run can be continued from, with the settings of the run beside it.

    The settings, with the version of the package, are a JSON file: `NAME.part.run` while the run lasts, `NAME.run`
    afterwards.

    Args:
        path: the file, or `-` for standard output, which can't be resumed.
        settings: all options that the lines depend on, as JSON data by name.
        resume: continue an earlier run, if there is one.
        sync: see `AtomicFile`.

    Attributes:
        lines: the complete lines of the run that is resumed; empty otherwise.

    Raises:
        ResumeError: the earlier run had other settings, or they are not known.
        OSError: as `AtomicFile`.
    """

    def __init__(self, path: str, settings: Mapping[str, Any], resume: bool = False, sync: bool = False) -> None:
        super().__init__(path, keep=True, resume=resume, sync=sync)
        # As JSON has them: tuples are lists.
        self.settings: dict[str, Any] = json.loads(json.dumps({"narrative_twins": _VERSION, **settings}))
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
        begun = run_settings(path)
        if begun is None:
            raise ResumeError(f"can't resume {path}: its settings ({run_path(path)}) are missing; start over")
        asked = self.settings
        differences = [
            f"{name} {json.dumps(begun.get(name))} (now {json.dumps(asked.get(name))})"
            for name in {**begun, **asked}
            if begun.get(name) != asked.get(name)
        ]
        if differences:
            raise ResumeError(
                f"can't resume {path}: it was started with {', '.join(differences)}; use the same options, or write to "
                "another file"
            )

    def _rename(self, source: str, target: str) -> None:
        super()._rename(source, target)
        if os.path.exists(run_path(source)):
            os.replace(run_path(source), run_path(target))


def run_settings(path: str) -> dict[str, Any] | None:
    """The settings of the run that wrote a `ResumableFile`, complete or not; None if they are not known."""
    part = part_path(path)
    # The run file is renamed last, so after a crash in between the complete file has the settings of its part.
    found = read_settings(run_path(part))
    return found if found is not None or os.path.exists(part) else read_settings(run_path(os.path.realpath(path)))


def read_settings(path: str) -> dict[str, Any] | None:
    """The settings in a file from `run_path`; None if there are none."""
    try:
        with open(path, encoding="utf-8") as file:
            settings = json.load(file)
    except (OSError, ValueError):
        return None
    return settings if isinstance(settings, dict) else None


def complete_lines(path: str) -> list[str]:
    """The complete lines of a file of lines, or of its part file if there is one; a last line cut off is left out."""
    part = part_path(path)
    found = part if os.path.exists(part) else path
    if not os.path.exists(found):
        return []
    with open(found, "rb") as file:
        data = file.read()
    # Not splitlines, since a JSON text may contain other line breaks.
    return data[: data.rfind(b"\n") + 1].decode("utf-8").split("\n")[:-1]


def digest_of_files(path: str | Path, suffixes: Collection[str] = ()) -> str:
    """A short digest of a file, or of the files in a folder with their names.

    Args:
        path: the file or folder.
        suffixes: only files with these suffixes; none for all.
    """
    digest, root = hashlib.sha256(), Path(path)
    files = [root] if root.is_file() else sorted(file for file in root.rglob("*") if file.is_file())
    for file in files:
        if not suffixes or file.suffix in suffixes:
            digest.update(file.relative_to(root).as_posix().encode("utf-8", "replace"))
            with open(file, "rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:12]


def part_path(path: str) -> str:
    """Where an `AtomicFile` is written until it is complete."""
    return f"{os.path.realpath(path)}.part"


def run_path(path: str) -> str:
    """Where the settings of a `ResumableFile` are kept."""
    return f"{path}.run"
