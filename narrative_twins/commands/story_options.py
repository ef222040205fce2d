"""Options of how commands read stories from files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from narrative_twins.books.reading import BOOK_FORMATS
from narrative_twins.books.story_files import read_story_files, skipped_files
from narrative_twins.commands.messages import tell
from narrative_twins.commands.signatures import Choices
from narrative_twins.stories.reading import ROWS, Document
from narrative_twins.stories.sentences import Splitter, check_splitter

FILES = (
    "A FILE is text, PDF, EPUB, Word or HTML (one story), JSON Lines (one per line), JSON, CSV,"
    " Parquet or a data set on the Hub (one per row), or a folder of these files; - or none is"
    " standard input."
)
INPUT_FORMATS = Choices(lambda: ["auto", *ROWS, *BOOK_FORMATS])


@dataclass(frozen=True)
class StoryFormat:
    """Options of how stories are read from files.

    Attributes:
        input_format: Format of the files (default: by their suffixes).
        column (NAME): Column or key of the stories in rows (default: text, story or a similar
            name).
        score_headings: Score headings as sentences (default: leave them out).
    """

    heading: ClassVar = "Stories"
    input_format: Annotated[str, INPUT_FORMATS] = "auto"
    column: str | None = None
    score_headings: bool = False

    def read(self, paths: Sequence[str]) -> Iterator[Document]:
        """Yield the stories in files and folders, see `read_story_files`. Tell the user which files
        of folders are not read."""
        if skipped := skipped_files(paths):
            tell(skipped)
        return read_story_files(paths, self.input_format, column=self.column)

    def splitter(self, name: Splitter | None) -> Splitter | None:
        """Return the splitter for `Story.parse`: `name`, or to score headings, its function."""
        return check_splitter(name) if self.score_headings else name
