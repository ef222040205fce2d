"""Options of how commands read stories from files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Annotated, Any, ClassVar

from narrative_twins.books.reading import BOOK_FORMATS
from narrative_twins.books.story_files import read_story_files, skipped_files
from narrative_twins.commands.messages import tell
from narrative_twins.commands.signatures import Choices
from narrative_twins.salience.result import RESULT_KEYS
from narrative_twins.stories.reading import ROWS
from narrative_twins.stories.rows import Document, RowColumns
from narrative_twins.stories.sentences import Splitter, check_splitter

FILES = (
    "A FILE is text, PDF, EPUB, Word, OpenDocument, TEI or HTML (one story), JSON Lines (one per"
    " line), JSON, CSV, Parquet or a data set on the Hub (one per row), or a folder of these files;"
    " - or none is standard input."
)


_CSV = ("story", "index", "window", "start", "end", "sentence")
"""Columns of CSV that results have not."""


def _names(text: str) -> tuple[str, ...]:
    """Parse names of columns, separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


INPUT_FORMATS = Choices(lambda: ["auto", *ROWS, *BOOK_FORMATS])


@dataclass(frozen=True)
class StoryFormat:
    """Options of how stories are read from files.

    Attributes:
        input_format: Format of the files (default: by their suffixes).
        column (NAME): Column or key of the stories in rows (default: text, story or a similar
            name).
        id_column (NAME): Column of the names of the stories (default: id, title or a similar name).
        keep (A,B): Columns to write beside the scores.
        group (NAME): Make one story of all rows with the same value in this column; each row is a
            sentence.
        order (NAME): Column by which the sentences of a --group are sorted (default: sentence_id or
            a similar name), or row for the order of the file.
        score_headings: Score headings as sentences (default: leave them out).
    """

    heading: ClassVar = "Stories"
    input_format: Annotated[str, INPUT_FORMATS] = "auto"
    column: str | None = None
    id_column: str | None = None
    keep: Annotated[tuple[str, ...], _names] | None = None
    group: str | None = None
    order: str | None = None
    score_headings: bool = False

    def __post_init__(self) -> None:
        if reserved := [name for name in self.keep or () if name in (*RESULT_KEYS, *_CSV)]:
            raise ValueError(f"--keep {reserved[0]}: scores have a column of this name; rename it")
        if self.group is not None and self.id_column is not None:
            raise ValueError("--group names the stories, so --id-column does not apply")
        if self.order is not None and self.group is None:
            raise ValueError("--order sorts the sentences of a --group; name its column")

    @cached_property
    def columns(self) -> RowColumns:
        """Which columns of rows are read. The user is told, once, which names were chosen."""
        names = self.column, self.id_column, self.keep or (), self.group, self.order
        return RowColumns(*names, say=cache(tell))

    def settings(self) -> dict[str, Any]:
        """Return the options that the rows of results depend on, as JSON data by name, to compare
        runs by."""
        keep = list(self.keep or ())
        return {"column": self.column, "id column": self.id_column, "keep": keep} | {
            "group": self.group,
            "order": self.order,
        }

    def read(self, paths: Sequence[str]) -> Iterator[Document]:
        """Yield the stories in files and folders, see `read_story_files`. Tell the user which files
        of folders are not read."""
        if skipped := skipped_files(paths):
            tell(skipped)
        return read_story_files(paths, self.input_format, columns=self.columns)

    def splitter(self, name: Splitter | None) -> Splitter | None:
        """Return the splitter for `Story.parse`: `name`, or to score headings, its function."""
        return check_splitter(name) if self.score_headings else name
