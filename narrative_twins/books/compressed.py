"""Compressed files: `.gz`, `.zst`, and `.zip` with one file inside. They are unpacked while they
are read, so that the limits of readers hold for what is unpacked."""

from __future__ import annotations

import errno
import gzip
import io
import os
import sys
import zipfile
from importlib import import_module
from typing import IO

_SUFFIXES = (".gz", ".zst", ".zip")


class UnpackingError(OSError):
    """Raised if a compressed file can't be unpacked. `strerror` says why, and what to do."""


def plain_name(path: str) -> str:
    """Return the name of a file without the suffix of compression, by which its format is known; of
    a `.zip` file, the name of the only file inside. Other names are returned unchanged."""
    stem, suffix = os.path.splitext(path)
    if suffix.lower() not in _SUFFIXES or not os.path.isfile(path):
        return path
    if suffix.lower() != ".zip":
        return stem
    try:
        with zipfile.ZipFile(path) as archive:
            return _only_name(archive)
    except (OSError, zipfile.BadZipFile):
        return path  # what is wrong is said when the file is opened


def open_plain(path: str) -> IO[bytes]:
    """Open a file for reading bytes, unpacked if it is compressed. Raises an `UnpackingError`,
    also while it is read, if it is damaged or can't be unpacked."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _SUFFIXES:
        return open(path, "rb")
    try:
        return io.BufferedReader(_Unpacked(_unpacked(path, suffix)))
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise UnpackingError(
            errno.EIO, f"it is damaged or encrypted ({error}); unpack it"
        ) from error


def _unpacked(path: str, suffix: str) -> IO[bytes]:
    """Return the stream of what is in a compressed file."""
    if suffix == ".gz":
        return io.BufferedReader(gzip.open(path))
    if suffix == ".zip":
        archive = zipfile.ZipFile(path)
        return archive.open(_only_name(archive))
    # In no extra, since without it all other files are read; from Python 3.14 a part of Python.
    name = "backports.zstd" if sys.version_info < (3, 14) else "compression.zstd"
    try:
        stream: IO[bytes] = import_module(name).open(path)
    except ImportError:
        problem = "this needs pip install backports.zstd; or unpack it by unzstd"
        raise UnpackingError(errno.ENOSYS, problem) from None
    return stream


def _only_name(archive: zipfile.ZipFile) -> str:
    """Return the name of the only file in an archive, apart from data of macOS."""
    names = [
        name
        for name in archive.namelist()
        if not name.endswith("/") and not name.startswith("__MACOSX/")
    ]
    if len(names) != 1:
        problem = f"it has {len(names):,} files inside; unpack it into a folder"
        raise UnpackingError(errno.EINVAL, problem)
    return names[0]


class _Unpacked(io.RawIOBase):
    """A stream that is unpacked. Each error is an `UnpackingError`."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read bytes into a buffer; return their number."""
        try:
            data = self._stream.read(len(buffer))
        except MemoryError:
            raise
        except Exception as error:  # what damaged files raise differs from library to library
            raise UnpackingError(errno.EIO, f"it is damaged ({error}); get it again") from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file, too."""
        self._stream.close()
        super().close()


def unreadable(error: OSError) -> str:
    """Return why a file can't be opened or read, for a message, and what to do."""
    if isinstance(error, UnpackingError):
        return f"can't be read: {error.strerror}"
    return f"can't be read ({error.strerror}); check the name"
