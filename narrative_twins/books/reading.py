"""Formats of books, and the reading of a file as a book or as one of many files of stories."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import IO, NamedTuple

from narrative_twins.books.blocks import Book
from narrative_twins.books.docx import docx_book
from narrative_twins.books.epub import epub_book
from narrative_twins.books.markup import html_book, markdown_book
from narrative_twins.books.text_and_pdf import pdf_book, plain_book
from narrative_twins.extras import check_extra
from narrative_twins.stories.reading import (
    ROWS,
    Document,
    Lines,
    cut_lines,
    decode,
    document_of,
    guess_format,
    stories_in,
    story_in_column,
)
from narrative_twins.stories.story import StoryError
from narrative_twins.text import for_terminal, one_line
from narrative_twins.writing import STDIN

_FORMATS_OF_ROWS = ROWS | {"parquet": (".parquet",)}
MAX_FILE = 256_000_000
"""Bytes of the largest file that is read as a book, with its pictures."""
NOT_READ = {
    **dict.fromkeys(
        (".fb2", ".mobi", ".azw", ".azw3", ".lit", ".doc", ".rtf", ".odt"),
        "convert it to EPUB, for example by ebook-convert of Calibre",
    ),
    **dict.fromkeys(
        (".srt", ".vtt", ".ass"), "convert it to text without time codes, for example by ffmpeg"
    ),
}
"""Suffixes of files that would be read as text with all their markup, and what to do instead."""


class BookFormat(NamedTuple):
    """A format of books. Commands, readers of stories and the web page take all `BOOK_FORMATS`.

    Attributes:
        suffixes: the suffixes of file names, in lower case.
        read: returns the book in the content of a file; raises `ValueError` for an invalid one.
        extra: the extra of this package with the libraries for the format; None without one.
    """

    suffixes: tuple[str, ...]
    read: Callable[[bytes], Book]
    extra: str | None = None


BOOK_FORMATS = {
    "text": BookFormat((".txt", ".text", ".fountain"), lambda data: plain_book(decode(data))),
    "markdown": BookFormat((".md", ".markdown"), lambda data: markdown_book(decode(data)), "books"),
    "html": BookFormat((".html", ".htm", ".xhtml"), html_book, "books"),
    "epub": BookFormat((".epub",), epub_book, "books"),
    "docx": BookFormat((".docx",), docx_book, "books"),
    "pdf": BookFormat((".pdf",), pdf_book, "books"),
}
"""The registry of formats by name. Files of unknown suffixes are text."""


def read_book(path: str | os.PathLike[str], input_format: str = "auto") -> Book:
    """Read a book from a file.

    - Plain text in UTF-8: a paragraph is the lines up to a blank line, or each line if most text is
      in lines longer than `WRAPPED` of `text_and_pdf`. Headings are found by `find_headings`. The
      header and the licence of Project Gutenberg are left out.
    - HTML, and Markdown as the HTML it is converted to: `h1` to `h6` are headings. Navigation,
      asides, notes, captions, page numbers, hidden elements and paragraphs of links are left out.
    - EPUB 2 and 3: the documents in reading order. A chapter without a heading gets its heading
      from the table of contents. Left out are documents that are not in the reading order, and
      covers, indexes and the like, as the book declares them.
    - Word (docx): paragraphs with an outline level, such as in the styles `Heading 1` to
      `Heading 9`, are headings. Notes, comments, deleted text and text boxes are left out.
    - PDF: its text, as plain text. Two columns that are drawn line by line are read across.
    - Breaks between scenes are lines of marks (`* * *`, `#`, `---`) and `<hr>`. So are, where they
      are rare, more blank lines than usual in text, and empty paragraphs in other formats.

    No other file is opened, and nothing is unpacked to disk. Limits are `MAX_FILE`, and in the
    modules `zip_archive`, `markup` and `text_and_pdf`.

    Args:
        path: the file.
        input_format: a name in `BOOK_FORMATS`; `"auto"` selects by suffix, text if unknown.

    Raises:
        StoryError: the file can't be read or has no text; the message says what to do.
    """
    name = os.fspath(path)
    try:
        with _opened(name) as file:
            return book_of(name, file.read(MAX_FILE + 1), input_format)
    except OSError as error:
        problem = f"can't be read ({error.strerror}); check the name"
        raise StoryError(f"{for_terminal(name)}: {problem}") from error
    except ValueError as error:
        raise StoryError(f"{for_terminal(name)}: {error}") from error


def _opened(path: str) -> AbstractContextManager[IO[bytes]]:
    """Open a file for reading bytes; `-` is standard input, which is not closed."""
    return nullcontext(sys.stdin.buffer) if path == STDIN else open(path, "rb")


def book_of(name: str, data: bytes, input_format: str = "auto") -> Book:
    """Return the book in `data`, the content of the file `name`, as `read_book` does. Raises a
    `ValueError` whose message does not repeat the name."""
    if input_format == "auto":
        if (suffix := os.path.splitext(name)[1].lower()) in NOT_READ:
            raise ValueError(f"is {suffix}, which is not read; {NOT_READ[suffix]}")
        input_format = book_format(name)
    if input_format not in BOOK_FORMATS:
        names = ", ".join(BOOK_FORMATS)
        raise ValueError(f"is no book but {input_format!r}; use one of the formats {names}")
    if len(data) > MAX_FILE:
        raise ValueError(f"has more than {MAX_FILE:,} bytes; divide it into volumes")
    form = BOOK_FORMATS[input_format]
    try:
        if form.extra is not None:
            check_extra(form.extra)
        return form.read(data)
    except ImportError as error:  # says what to install
        raise ValueError(f"is {input_format}: {error}; or convert it to plain text") from None


def book_format(name: str) -> str:
    """Return the format of a file by its suffix: a name in `BOOK_FORMATS` or `_FORMATS_OF_ROWS`."""
    suffix = os.path.splitext(name)[1].lower()
    formats = {key: form.suffixes for key, form in BOOK_FORMATS.items()} | _FORMATS_OF_ROWS
    return next((key for key, suffixes in formats.items() if suffix in suffixes), "text")


def files_of(paths: Iterable[str]) -> list[str]:
    """Return the paths, with each folder replaced by the files with stories in it, sorted by name.
    Hidden files, files in subfolders, and HTML pages, which may be output of this package, are left
    out. The path of a folder without such files is kept."""
    files: list[str] = []
    for path in paths:
        is_folder = path != STDIN and os.path.isdir(path) and os.access(path, os.R_OK)
        inside = [
            os.path.join(path, name)
            for name in (sorted(os.listdir(path)) if is_folder else ())
            if name.lower().endswith(_story_suffixes()) and not name.startswith(".")
        ]
        files += [file for file in inside if os.path.isfile(file)] or [path]
    return files


def _story_suffixes() -> tuple[str, ...]:
    """Return the suffixes of the files that `files_of` takes from a folder."""
    rows = (suffix for form in _FORMATS_OF_ROWS.values() for suffix in form if suffix != ".rejects")
    books = (form.suffixes for name, form in BOOK_FORMATS.items() if name != "html")
    return (*rows, *chain(*books))


def read_story_files(
    paths: Iterable[str],
    input_format: str = "auto",
    named: bool | None = None,
    column: str | None = None,
) -> Iterator[Document]:
    """Read the stories of some files, lazily and in bounded memory.

    One story is: a text or Markdown file, which is not searched for chapters; a book in HTML, EPUB,
    Word or PDF; a row of a table, of a JSON, JSON Lines or Parquet file, or of a data set on the
    Hub, all splits included. A story that can't be read is yielded as a problem.

    Args:
        paths: files, folders (see `files_of`) and ids of data sets on the Hub; `-`: standard input.
        input_format: the format, of books or of rows; `"auto"` selects by suffix, text if unknown.
            Standard input is JSON Lines if its first non-blank line begins with `{` or a JSON list.
        named: whether a text gets its file name as id; None: only if there are several files.
        column: the column (in JSON the key) of the stories, see `story_in_column`.
    """
    paths = files_of(paths)
    named = len(paths) > 1 if named is None else named
    is_auto = input_format == "auto"
    for path in paths:
        form = book_format(path) if is_auto else input_format
        if is_auto and (form == "parquet" or is_on_hub(path)):
            yield from _rows(path, column)
            continue
        is_other = is_auto and path.lower().endswith(tuple(NOT_READ))
        is_book = is_other or (form in BOOK_FORMATS and form not in ("text", "markdown"))
        name = "standard input" if path == STDIN else for_terminal(path)
        try:
            with _opened(path) as file:
                lines: Lines = file
                if is_auto and path == STDIN:
                    form, lines = guess_format(cut_lines(file))
                if is_book:
                    data = file.read(MAX_FILE + 1)
                    documents = iter([document_of(name, book_of, path, data, input_format)])
                else:
                    documents = stories_in(lines, name, form, column)
                for document in documents:
                    if named and form not in ROWS and document.problem is None:
                        document = document._replace(content={"id": name, "text": document.content})
                    yield document
        except IsADirectoryError:
            suffixes = ", ".join(_story_suffixes())
            yield Document(name, None, f"is a folder without a story; put files in it ({suffixes})")
        except OSError as error:
            yield Document(name, None, f"can't be read ({error.strerror}); check the name")


def count_story_files(paths: Iterable[str], input_format: str = "auto") -> int:
    """Estimate how many stories `read_story_files` yields; 0 if only parsing can show it."""
    count = 0
    for path in files_of(paths):
        form = book_format(path) if input_format == "auto" else input_format
        if form == "json" or not os.path.isfile(path):
            return 0
        if form == "parquet":
            from narrative_twins.data.file_formats import count_rows
            from narrative_twins.data.rows import RowError

            try:
                count += count_rows(path)
            except RowError:  # it is reported when the file is read
                return 0
        elif form in ROWS:
            with open(path, "rb") as file:
                # The first line of a table names its columns.
                lines = sum(1 for line in cut_lines(file) if line.strip())
                count += max(0, lines - (form == "csv"))
        else:
            count += 1
    return count


def _rows(path: str, column: str | None) -> Iterator[Document]:
    """Yield the stories in the rows of a Parquet file or of a data set on the Hub."""
    # `datasets` and pyarrow take seconds to import.
    from narrative_twins.data.file_formats import read_records
    from narrative_twins.data.rows import RowError
    from narrative_twins.data.sources import source_files

    try:
        for files in source_files(path).values():
            for file in files:
                for record in read_records(file, strict=False):
                    where, row = for_terminal(record.where), record.row
                    if isinstance(row, RowError):
                        yield Document(where, None, row.problem)
                    else:
                        yield document_of(where, story_in_column, row, column)
    except RowError as error:
        yield Document(for_terminal(error.where), None, error.problem)
    except (OSError, ValueError) as error:
        problem = f"can't be loaded: {one_line(error)}"
        yield Document(for_terminal(path), None, problem)


def is_on_hub(path: str) -> bool:
    """Return whether a path names a data set on the Hub, by `hf://...` or by an id. A path whose
    folder exists, or which ends in a suffix such as `.txt`, names a local file."""
    if path.startswith("hf://"):
        return True
    local = path == STDIN or os.path.exists(path) or os.path.isdir(os.path.dirname(path))
    if local or "/" not in path or os.path.splitext(path)[1][1:].isalpha():
        return False

    from narrative_twins.data.sources import HUB_ID

    return bool(HUB_ID.fullmatch(path))
