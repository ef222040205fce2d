"""The stories that commands read: files, folders, standard input, and rows of data sets.

`datasets` and pyarrow take seconds to import, so functions import them when such a source is given.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from narrative_twins.books.plain import is_of_gutenberg
from narrative_twins.books.reading import BOOK_FORMATS, read_story_files, story_suffixes
from narrative_twins.commands.options import Choices, option_group, tell, valued
from narrative_twins.salience.result import StorySalience, truncation
from narrative_twins.stories.reading import (
    ROWS,
    Document,
    count_stories,
    document_of,
    files_of,
    story_digest,
    story_in_column,
)
from narrative_twins.stories.sentences import SPLITTERS, Splitter
from narrative_twins.stories.story import Story, StoryError
from narrative_twins.writing import STDIN, ResumeError, for_terminal

if TYPE_CHECKING:
    from narrative_twins.encoder.story_encoder import StoryEncoder
    from narrative_twins.salience.options import ScoringOptions

SUFFIXES = (*story_suffixes(), ".parquet")

_GUTENBERG = (
    "seems to be a book of Project Gutenberg; its header and licence are scored like sentences of"
    " the story, unless it is read as a book: narrative-twins book FILE"
)

files_argument = click.argument("files", nargs=-1, metavar="[FILE]...")
FILES = (
    "A FILE is text, PDF, EPUB, Word or HTML (one story), JSON Lines (one per line), JSON, CSV,"
    " Parquet or a data set on the Hub (one per row), or a folder of these files; - or none is"
    " standard input."
)


@dataclass(frozen=True)
class StoryFormat:
    """How stories are found in files.

    Attributes:
        input_format: the format of the files.
        column: the column of the stories in tables and other rows, see `read_story_files`.
        score_headings: whether headings are sentences.
    """

    input_format: str = "auto"
    column: str | None = None
    score_headings: bool = False

    def splitter(self, name: Splitter | None) -> Splitter | None:
        """The splitter of this name for `Story.parse`."""
        if not self.score_headings:
            return name
        return SPLITTERS[name if isinstance(name, str) else next(iter(SPLITTERS))]


INPUT_FORMAT = valued(
    None,
    "Format of the files (default: by their suffixes).",
    type=Choices(lambda: ["auto", *ROWS, *BOOK_FORMATS]),
    default="auto",
)
story_options = option_group(
    "form",
    "Stories",
    {
        "input_format": INPUT_FORMAT,
        "column": valued(
            "NAME", "Column or key of the stories in rows (default: text, story or a similar name)."
        ),
        "score_headings": {
            "is_flag": True,
            "help": "Score headings as sentences (default: leave them out).",
        },
    },
    StoryFormat,
)


class StoryInput:
    """The stories of some files, without those that an interrupted run has scored.

    Stories that can't be read are yielded as errors, so that the engine reports them in order.

    Args:
        files: the files; none for standard input.
        form: how stories are found in them.
        scoring: the options of scoring, of which `windows` and `splitter` are used here.
        done: digests of the stories that are scored already, in the order of the input; see
            `story_digest`.

    Attributes:
        problems: how many stories could not be scored so far.
    """

    def __init__(
        self,
        files: Sequence[str],
        form: StoryFormat,
        scoring: ScoringOptions,
        done: Iterable[str] = (),
    ) -> None:
        self.files, self.form = list(files) or [STDIN], form
        self.windows, self.splitter = scoring.windows, form.splitter(scoring.splitter)
        self.done, self.problems = deque(done), 0
        # Of stories that are being scored: the name and the number in the input, and whether
        # stories that were scored earlier come after it.
        self._positions: dict[int, tuple[str, int, bool]] = {}

    def __length_hint__(self) -> int:
        return max(0, count_inputs(self.files, self.form.input_format) - len(self.done))

    def __iter__(self) -> Iterator[Story | StoryError]:
        yielded, number = 0, -1
        is_told = False
        for number, (name, content, problem) in enumerate(read_inputs(self.files, self.form)):
            story: Story | StoryError
            source = StoryError(problem) if problem else content
            try:
                story = parsed = Story.parse(source, self.windows, self.splitter)
            except StoryError as error:
                story = error
            else:
                if not is_told and is_of_gutenberg(parsed.text):
                    is_told = True
                    tell(f"{name}: {_GUTENBERG}")
                digest = story_digest(parsed.id, parsed.sentences, parsed.windows)
                if self.done and self.done[0] == digest:
                    self.done.popleft()
                    continue
            self._positions[yielded] = name, number, bool(self.done)
            yielded += 1
            yield story
        if self.done:
            raise ResumeError(
                f"can't resume: {len(self.done)} stories of the earlier run are not in the input,"
                " or not in that order; use the same input, or write to another file"
            )
        if number < 0:
            tell("there is no story in the input")

    def results(self, encoder: StoryEncoder, options: ScoringOptions) -> Iterator[StorySalience]:
        """Score the stories, lazily; those that can't be scored are reported and skipped. Results
        have the index of their story in the whole input. Raises `ResumeError` if a story was not
        scored by the earlier run, but comes before stories that were."""
        from narrative_twins.salience.engine import score_stories

        def report(error: StoryError) -> None:
            self.problems += 1
            tell(f"{self._positions.pop(error.index or 0)[0]}: {error.problem}")

        # The engine, which could warn, does not know the file and the line of a story.
        warns = options.on_truncation == "warn"
        on_truncation: Any = "ignore" if warns else options.on_truncation
        options = replace(options, on_error=report, on_truncation=on_truncation)
        for result in score_stories(self, encoder, options):
            name, number, before_scored = self._positions.pop(result.index)
            if before_scored:
                raise ResumeError(f"can't resume: {name} is new; use the same input")
            if result.truncated and warns:
                warns = False
                words = truncation(result.context_tokens, result.cut_tokens)
                tell(
                    f"{name}: the story {words} (reported once; another --model may read more at"
                    " once, --on-truncation ignore hides this)"
                )
            yield replace(result, index=number)


def read_inputs(paths: Sequence[str], form: StoryFormat = StoryFormat()) -> Iterator[Document]:
    """As `read_story_files`, but a path may also be a Parquet file, the Hub id of a data set or a
    path on the Hub, with a story in each row, in any form that `Story.parse` accepts; all splits of
    a data set, in the order of their files."""
    paths = files_of(paths, SUFFIXES)
    for path in paths:
        if form.input_format == "auto" and has_rows(path):
            yield from _rows(path, form.column)
        else:
            yield from read_story_files([path], form.input_format, len(paths) > 1, form.column)


def count_inputs(paths: Sequence[str], input_format: str = "auto") -> int:
    """As `count_stories`, for `read_inputs`."""
    paths = files_of(paths, SUFFIXES)
    tables: list[str] = []
    files: list[str] = []
    for path in paths:
        (tables if input_format == "auto" and has_rows(path) else files).append(path)
    stories = count_stories(files, input_format)
    if not tables or (files and not stories) or not all(map(os.path.isfile, tables)):
        return 0 if tables else stories

    from narrative_twins.data.records import count_rows
    from narrative_twins.data.rows import RowError

    try:
        return stories + sum(map(count_rows, tables))
    except RowError:  # it is reported when the file is read
        return 0


def _rows(path: str, column: str | None) -> Iterator[Document]:
    from narrative_twins.data.records import read_records
    from narrative_twins.data.rows import RowError
    from narrative_twins.data.sources import source_files

    try:
        for files in source_files(path).values():
            for file in files:
                for record in read_records(file):
                    where = for_terminal(record.where)
                    yield document_of(where, story_in_column, record.row, column)
    except RowError as error:
        yield Document(for_terminal(error.where), None, error.problem)
    except (OSError, ValueError) as error:
        problem = f"can't be loaded: {' '.join(str(error).split())}"
        yield Document(for_terminal(path), None, problem)


def has_rows(path: str) -> bool:
    """Whether a path is a Parquet file or on the Hub."""
    return path.lower().endswith(".parquet") or is_on_hub(path)


def is_on_hub(path: str) -> bool:
    """Whether a path is meant for the Hub: `hf://...`, or an id. A file in a folder that exists, or
    whose name ends in a suffix such as `.txt`, is a local file whose name is wrong."""
    if path.startswith("hf://"):
        return True
    local = path == STDIN or os.path.exists(path) or os.path.isdir(os.path.dirname(path))
    if local or "/" not in path or os.path.splitext(path)[1][1:].isalpha():
        return False

    from narrative_twins.data.sources import HUB_ID

    return bool(HUB_ID.fullmatch(path))
