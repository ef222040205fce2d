"""Bounded reading of ZIP archives from strangers, such as EPUB and Word files: nothing is unpacked
to disk."""

from __future__ import annotations

import io
import lzma
import posixpath
import struct
import zipfile
import zlib
from typing import Any
from urllib.parse import unquote, urlsplit

from narrative_twins.stories.books.book import printable_name
from narrative_twins.stories.books.html import parse_xml

MAX_MEMBERS = 10_000
"""Files in an archive."""
MAX_MEMBER = 32_000_000
"""Bytes of an unpacked file, counted while it is unpacked."""
MAX_UNPACKED = 64_000_000
"""Bytes of all files of an archive that are unpacked."""

_ENTRY = b"PK\1\2"  # the beginning of an entry in the list of files
ARCHIVE_ERRORS = (
    ValueError,
    RuntimeError,
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
)
"""Raised for archives that are damaged, password-protected, or compressed by an unsupported
method."""


class Archive:
    """The files in a ZIP archive. Raises a `ValueError` that says what is wrong with it, here and
    when it is read.

    Args:
        data: the archive.
    """

    def __init__(self, data: bytes) -> None:
        # Counted before the list of files is read, which could fill the memory.
        if data.count(_ENTRY) > MAX_MEMBERS:
            raise ValueError(
                f"has more than {MAX_MEMBERS:,} files inside; remove those that are not of the book"
            )
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except ARCHIVE_ERRORS as error:
            problem = f"is not a complete ZIP archive inside ({error}); get it again"
            raise ValueError(problem) from None
        self._members = {info.filename: info for info in self._zip.infolist()}
        self._left = MAX_UNPACKED

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str) -> bytes:
        """The content of a file in the archive."""
        info = self._members.get(name)
        if info is None:
            raise ValueError(f"has no file {shown_name(name)} inside; get it again")
        where = f"its file {shown_name(name)}"
        if info.flag_bits & 1:
            raise ValueError(f"is encrypted ({where}); save it without a password")
        # Other methods can't be unpacked bit by bit.
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"can't be read: {where} is not compressed by deflate; pack it again")
        limit = min(MAX_MEMBER, self._left)
        try:
            with self._zip.open(info) as file:
                data = file.read(limit + 1)
        except ARCHIVE_ERRORS as error:
            raise ValueError(f"can't be read: {where} is damaged ({error}); get it again") from None
        self._left -= len(data)
        if len(data) > limit:
            most = f"{MAX_MEMBER:,}" if limit == MAX_MEMBER else f"{MAX_UNPACKED:,} (of all files)"
            raise ValueError(
                f"is too large: {where} has more than {most} bytes unpacked; divide it into volumes"
            )
        return data

    def xml(self, name: str, or_html: bool = False) -> Any:
        """The root element of an XML file in the archive; with `or_html`, one with errors is read
        as HTML. The errors name the file."""
        data = self.read(name)
        try:
            return parse_xml(data, or_html)
        except ValueError as error:
            raise ValueError(f"can't be read: its file {shown_name(name)} {error}") from None


def inner_path(base: str, reference: str) -> tuple[str, str]:
    """The name in an archive, and the fragment, of a reference in the file `base` of the archive.
    Raises a `ValueError` for one that leads out of it: an address, an absolute path, one with
    backslashes or above the top.
    """
    outside = ValueError(
        f"refers to {shown_name(reference)}, which is not in the file; get it again"
    )
    try:
        parts = urlsplit(reference.strip())
    except ValueError:
        raise outside from None
    path = unquote(parts.path)
    name = posixpath.normpath(posixpath.join(posixpath.dirname(base), path)) if path else base
    if parts.scheme or parts.netloc or path.startswith("/") or {"\\", "\0"} & set(path):
        raise outside
    if name.split("/")[0] == "..":
        raise outside
    return name, unquote(parts.fragment)


def shown_name(name: str | None) -> str:
    """A name from an archive for messages: short, and without control characters."""
    shown = printable_name(str(name))
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
