"""Bounded reading of ZIP archives that can't be trusted. Nothing is unpacked to disk."""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from narrative_twins.books.markup import parse_xml
from narrative_twins.text import shortened

MAX_MEMBERS = 10_000
"""Files in an archive, at most."""
MAX_UNPACKED = 64_000_000
"""Bytes of the files of an archive that are read, counted while they are unpacked."""
_ENTRY = b"PK\1\2"  # the beginning of an entry in the list of files


class Archive:
    """The files in a ZIP archive with the content `data`. All errors are a `ValueError`.

    Attributes:
        names: the names of all files.
        problems: the error messages of parts that `try_to` could not read.
    """

    def __init__(self, data: bytes) -> None:
        # Counted before the list of files is read, which could fill the memory.
        if data.count(_ENTRY) > MAX_MEMBERS:
            raise ValueError(
                f"has more than {MAX_MEMBERS:,} files inside; remove those that are not of the book"
            )
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except Exception as error:  # what damaged archives raise is not documented
            problem = f"is not a complete ZIP archive inside ({error}); get it again"
            raise ValueError(problem) from None
        self.names, self.problems = self._zip.namelist(), list[str]()
        self._left = MAX_UNPACKED
        alike = {name.replace("\\", "/").casefold(): name for name in self.names}
        self._names = alike | {name: name for name in self.names}

    def __contains__(self, name: str) -> bool:
        return self._names.get(name) == name

    def name(self, name: str) -> str:
        """Return the name of a file as the archive writes it, whatever the case and the direction
        of slashes; `name` itself if there is no such file."""
        return self._names.get(name) or self._names.get(name.casefold(), name)

    def try_to(self, read: Callable[..., Any], *args: Any) -> Any:
        """Return `read(*args)`, an optional part of a book. If `read` raises a `ValueError`, add
        its message to `problems` and return None, except if `MAX_UNPACKED` is exceeded."""
        try:
            return read(*args)
        except ValueError as error:
            if self._left < 0:
                raise
            self.problems.append(str(error))
            return None

    def optional(self, name: str) -> Any:
        """Return the root of an XML file; an empty element if the file is missing or unreadable."""
        tree = self.try_to(self.parsed, name) if name in self else None
        return parse_xml(b"<none/>") if tree is None else tree

    def parsed(self, name: str, parse: Callable[..., Any] = parse_xml, *args: Any) -> Any:
        """Return `parse(content, *args)` of a file, by default the root element of XML. Raises a
        `ValueError` that names the file if it is missing or can't be parsed."""
        if (name := self.name(name)) not in self:
            raise ValueError(f"has no file {shortened(name, 80)} inside; get it again")
        try:
            return parse(self._unpacked(name), *args)
        except ValueError as error:
            raise ValueError(f"can't be read: its file {shortened(name, 80)} {error}") from None

    def _unpacked(self, name: str) -> bytes:
        """Return the content of a file. Raises a `ValueError` if it is damaged or too large."""
        # Other methods can't be unpacked bit by bit.
        if self._zip.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("is not compressed by deflate; pack it again")
        try:
            with self._zip.open(name) as file:
                data = file.read(self._left + 1)
        except Exception as error:
            raise ValueError(f"can't be unpacked ({error}); get it again") from None
        self._left -= len(data)
        if self._left < 0:
            most = f"more than {MAX_UNPACKED:,} bytes unpacked"
            raise ValueError(f"has with those before it {most}; divide the book into volumes")
        return data


def inner_path(base: str, reference: str) -> tuple[str, str]:
    """Return the name of the file in an archive to which a reference in the file `base` leads, and
    the fragment, empty without one: `../c.html#d` in `a/b.html` leads to `("c.html", "d")`. Raises
    a `ValueError` for an address, or for a path that leads above the top of the archive."""
    try:
        parts = urlsplit(reference.strip().replace("\\", "/"))
    except ValueError:
        parts = urlsplit("invalid:")
    path = unquote(parts.path)
    name = posixpath.normpath(posixpath.join(posixpath.dirname(base), path)) if path else base
    name = name.lstrip("/")
    is_outside = parts.scheme or parts.netloc or "\0" in path
    if is_outside or name.split("/")[0] == "..":
        raise ValueError(
            f"refers to {shortened(reference, 80)}, which is not in the file; get it again"
        )
    return name, unquote(parts.fragment)
