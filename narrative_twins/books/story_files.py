"""Files and folders with stories or books in them, read one after another."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain

from narrative_twins.books.compressed import plain_name, unreadable
from narrative_twins.books.reading import (
    BOOK_FORMATS,
    FORMATS_OF_ROWS,
    MAX_FILE,
    NOT_READ,
    book_format,
    book_of,
    opened,
)
from narrative_twins.stories.groups import grouped
from narrative_twins.stories.reading import (
    ROWS,
    Lines,
    cut_lines,
    document_of,
    guess_format,
    stories_in,
)
from narrative_twins.stories.rows import Document, RowColumns, story_in_row
from narrative_twins.text import counted, for_terminal, one_line, shortened
from narrative_twins.writing import STDIN

_SHOWN = 5  # names of files in a message


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
            if _is_story_file(os.path.join(path, name))
        ]
        files += [file for file in inside if os.path.isfile(file)] or [path]
    return files


def skipped_files(paths: Iterable[str]) -> str:
    """Return a sentence about the files in folders that `files_of` leaves out, except hidden ones;
    empty if there are none."""
    names: list[str] = []
    for path in paths:
        is_folder = path != STDIN and os.path.isdir(path) and os.access(path, os.R_OK)
        for name in sorted(os.listdir(path)) if is_folder else ():
            file = os.path.join(path, name)
            if os.path.isfile(file) and not name.startswith(".") and not _is_story_file(file):
                names.append(shortened(name, 40))
    if not names:
        return ""
    shown = ", ".join([*names[:_SHOWN], *["..."] * (len(names) > _SHOWN)])
    return f"{counted(len(names), 'file')} in folders not read: {shown}; name a file to read it"


def _is_story_file(path: str) -> bool:
    """Return whether a file in a folder is taken for stories by its name."""
    is_hidden = os.path.basename(path).startswith(".")
    return not is_hidden and plain_name(path).lower().endswith(_story_suffixes())


def _story_suffixes() -> tuple[str, ...]:
    """Return the suffixes of the files that `files_of` takes from a folder."""
    rows = (suffix for form in FORMATS_OF_ROWS.values() for suffix in form if suffix != ".rejects")
    books = (form.suffixes for name, form in BOOK_FORMATS.items() if name != "html")
    return (*rows, *chain(*books))


def read_story_files(
    paths: Iterable[str],
    input_format: str = "auto",
    named: bool | None = None,
    columns: RowColumns | None = None,
) -> Iterator[Document]:
    """Read the stories of some files, lazily and in bounded memory.

    One story is: a text or Markdown file, which is not searched for chapters; a file of another
    format in `BOOK_FORMATS`; a row of a table, of a JSON, JSON Lines or Parquet file, or of a data
    set on the Hub, all splits included. A story that can't be read is yielded as a problem.

    Args:
        paths: files, folders (see `files_of`) and ids of data sets on the Hub; `-`: standard input.
        input_format: the format, of books or of rows; `"auto"` selects by suffix, text if unknown.
            Standard input is JSON Lines if its first non-blank line begins with `{` or a JSON list.
        named: whether a text gets its file name as id; None: only if there are several files.
        columns: which columns of rows are read.
    """
    columns = columns or RowColumns()
    paths = files_of(paths)
    named = len(paths) > 1 if named is None else named
    for path in paths:
        is_parquet = book_format(plain_name(path)) == "parquet"
        if input_format == "auto" and (is_parquet or is_on_hub(path)):
            yield from _rows(path, columns)
            continue
        name = "standard input" if path == STDIN else for_terminal(path)
        try:
            for document in _documents(path, name, input_format, named, columns):
                yield document._replace(file=None if path == STDIN else name)
        except IsADirectoryError:
            suffixes = ", ".join(_story_suffixes())
            yield Document(name, None, f"is a folder without a story; put files in it ({suffixes})")
        except OSError as error:
            yield Document(name, None, unreadable(error))


def _documents(
    path: str, name: str, input_format: str, named: bool, columns: RowColumns
) -> Iterator[Document]:
    """Yield the book, the text or the rows of one file; `name` is its name in messages, and the id
    of a text or book if texts are `named`. Raises OSError if the file can't be read."""
    plain = plain_name(path)
    with opened(path) as file:
        lines: Lines = file
        form = input_format
        if form == "auto" and path == STDIN:
            form, lines = guess_format(cut_lines(file))
        elif form == "auto":
            # `book_of` says why a file that is not read is not.
            form = "refused" if plain.lower().endswith(tuple(NOT_READ)) else book_format(plain)
        if form == "refused" or (form in BOOK_FORMATS and form not in ("text", "markdown")):
            data = file.read(MAX_FILE + 1)
            documents = iter([document_of(name, book_of, plain, data, input_format)])
        else:
            documents = stories_in(lines, name, form, columns)
        for document in documents:
            if named and form not in ROWS and document.problem is None:
                document = document._replace(content={"id": name, "text": document.content})
            yield document


def count_story_files(paths: Iterable[str], input_format: str = "auto") -> int:
    """Estimate how many stories `read_story_files` yields; 0 if only parsing can show it."""
    count = 0
    for path in files_of(paths):
        form = book_format(path) if input_format == "auto" else input_format
        if form == "json" or not os.path.isfile(path) or plain_name(path) != path:
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


def _rows(path: str, columns: RowColumns) -> Iterator[Document]:
    """Yield the stories in the rows of a Parquet file or of a data set on the Hub."""
    # `datasets` and pyarrow take seconds to import.
    from narrative_twins.data.file_formats import read_records
    from narrative_twins.data.rows import RowError
    from narrative_twins.data.sources import source_files

    def records(file: str) -> Iterator[Document]:
        """Yield the rows of a file."""
        for number, record in enumerate(read_records(file, strict=False)):
            where, row = for_terminal(record.where), record.row
            is_bad = isinstance(row, RowError)
            yield Document(where, None if is_bad else row, row.problem if is_bad else None, number)

    try:
        for files in source_files(path).values():
            for file in files:
                name, rows = for_terminal(file), records(file)
                is_grouped = columns.group is not None
                stories = (
                    grouped(rows, columns, name)
                    if is_grouped
                    else (story_in_row(row, columns) for row in rows)
                )
                yield from (story._replace(file=name) for story in stories)
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
