"""Stories as they are found in files, and files that are no text."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Any, NamedTuple


class Document(NamedTuple):
    """A story in a file: its name for messages, and its content, or the problem if it can't be
    read."""

    name: str
    content: Any
    problem: str | None = None


PDF = b"%PDF-"
OFFICE = b"\xd0\xcf\x11\xe0"
"""Older documents of office programs, and newer ones with a password, begin with it."""

_SAVE = "open it in its program and save it as plain text in UTF-8"
# By the first bytes of a file.
_KINDS = {
    PDF: "is PDF; name it .pdf, or pass --input-format pdf",
    b"PK\x03\x04": "is a ZIP archive; unpack it, and name the folder or the files in it",
    b"\x1f\x8b": "is compressed by gzip; unpack it with `gunzip`",
    b"PAR1": "is Parquet; name it .parquet",
    b"\x89PNG": "is an image; recognize its text first",
    b"\xff\xd8\xff": "is an image; recognize its text first",
    b"GIF8": "is an image; recognize its text first",
    OFFICE: f"is a document of an office program; {_SAVE}",
    b"{\\rtf": f"is rich text (RTF); {_SAVE}",
}
# Documents that are ZIP archives inside.
_ARCHIVES = {
    ".docx": "is a document (Word); read it with --input-format docx",
    ".epub": "is a book (EPUB); read it with --input-format epub",
    ".odt": f"is a document (OpenDocument); {_SAVE}",
    ".pages": f"is a document (Pages); {_SAVE}",
}
_TEXT_WITH_ZEROS = (b"\xff\xfe", b"\xfe\xff")  # UTF-16, for which there is a better message
HEAD = 1024
"""Bytes of a file by which it is recognized."""


def why_not_text(name: str, head: bytes) -> str | None:
    """What is wrong with a file called `name` whose first bytes are no text, and the cure;
    otherwise None."""
    problem = _ARCHIVES.get(PurePath(name).suffix.lower())
    if problem is not None and head.startswith(b"PK"):
        return problem
    for start, kind in _KINDS.items():
        if head.startswith(start):
            return kind
    if b"\0" in head and not head.startswith(_TEXT_WITH_ZEROS):
        return "is a binary file, not text; convert it to plain text in UTF-8"
    return None


def decode(name: str, data: bytes) -> Document:
    """The text of a file in UTF-8, or the problem."""
    try:
        return Document(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        where = f"byte {error.start} (0x{data[error.start]:02x})"
        likely = "UTF-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "WINDOWS-1252"
        return Document(
            name,
            None,
            f"is not UTF-8 at {where}; convert it, perhaps with `iconv -f {likely} -t UTF-8`",
        )


def printable_name(name: str) -> str:
    """A file name for messages: not all are valid text, and terminals obey control characters."""
    text = os.fsencode(name).decode("utf-8", "replace")
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
