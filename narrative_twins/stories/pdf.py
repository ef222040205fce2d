"""The text of PDF files, by `pypdf`."""

from __future__ import annotations

import io
import re

from narrative_twins.extras import check_extra

# A word that is divided at the end of a line.
_DIVIDED = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_A-Z])")


def pdf_text(data: bytes) -> str:
    """The text of a PDF file, without page numbers and with divided words joined. Raises a
    `ValueError` that says what is wrong with the file, or which library is missing."""
    try:
        check_extra("pdf")
        from pypdf import PdfReader
    except ImportError as error:
        raise ValueError(
            f"is PDF; {error}; or convert it to text first, for example with `pdftotext`"
        ) from None

    try:
        reader = PdfReader(io.BytesIO(data))
        is_locked = reader.is_encrypted and not reader.decrypt("")
        pages = [] if is_locked else [_without_number(page.extract_text()) for page in reader.pages]
    except Exception as error:  # what damaged files raise is not documented
        problem = (
            f"can't be read as PDF ({type(error).__name__}: {error}); convert it to text first"
        )
        raise ValueError(problem) from error
    if is_locked:
        raise ValueError("is encrypted; save it without a password")
    # A sentence may go on over the page.
    text = _DIVIDED.sub("", "\n".join(page for page in pages if page))
    if not any(map(str.isalnum, text)):
        raise ValueError("is PDF without text, perhaps of scanned pages; recognize the text first")
    return text


def _without_number(page: str) -> str:
    """The text of a page without a first or last line that is only a number."""
    lines = page.strip().split("\n")
    for at in (0, -1):
        if lines and lines[at].strip().isdecimal():
            del lines[at]
    return "\n".join(lines)
