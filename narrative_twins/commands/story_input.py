"""The stories to score, as commands read them from files."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tqdm.auto import tqdm

from narrative_twins.commands.rows import count_inputs, read_inputs
from narrative_twins.files import STDIN, ResumeError
from narrative_twins.salience.result import StorySalience, truncation
from narrative_twins.stories.books.plain import is_of_gutenberg
from narrative_twins.stories.language import is_foreign
from narrative_twins.stories.reading import InputFormat, story_digest
from narrative_twins.stories.splitting import Splitter
from narrative_twins.stories.story import Story, StoryError

_BOOK = (
    "seems to be a book of Project Gutenberg; its header and licence are scored like sentences of"
    " the story, unless it is read as a book: narrative-twins score FILE --level chapter,sentence"
)


class _Position(NamedTuple):
    """A story's position in the input, in words and as an index, and whether stories scored earlier
    come after it."""

    name: str
    number: int
    before_scored: bool


class StoryInput:
    """The stories of some files, without those that an interrupted run has scored.

    Stories that can't be read are yielded as errors, so that the engine reports them in order.

    Args:
        files: the files; none for standard input.
        input_format: the input format.
        windows: of stories that have none of their own.
        done: digests of the stories that are scored already, in the order of the input; see
            `story_digest`.
        splitter: how texts are split, see `Story.parse`.
        column: the column of the stories in tables, see `read_table`.
        hint: what to tell the user, once, if a text is not in English.

    Attributes:
        found: how many stories were found so far.
        problems: how many of them could not be scored.
        warn_of_truncation: whether to print a warning for the first story that is truncated.
    """

    def __init__(
        self,
        files: Sequence[str],
        input_format: InputFormat,
        windows: Any,
        done: Iterable[str] = (),
        splitter: Splitter | None = None,
        column: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.files, self.input_format, self.windows = list(files) or [STDIN], input_format, windows
        self.splitter, self.column, self.hint = splitter, column, hint
        self.done = deque(done)
        self.found = self.problems = 0
        self.warn_of_truncation = self._told_of_book = False
        self._positions: dict[int, _Position] = {}

    def __length_hint__(self) -> int:
        return max(0, count_inputs(self.files, self.input_format) - len(self.done))

    def __iter__(self) -> Iterator[Story | StoryError]:
        yielded = 0
        for name, content, problem in read_inputs(self.files, self.input_format, self.column):
            self.found += 1
            try:
                story: Story | StoryError = Story.parse(
                    StoryError(problem) if problem else content, self.windows, self.splitter
                )
            except StoryError as error:
                story = error
            if isinstance(story, Story):
                self._give_hints(name, story)
            if isinstance(story, Story) and self._is_done(story):
                continue
            self._positions[yielded] = _Position(
                name, self.found - 1, before_scored=bool(self.done)
            )
            yielded += 1
            yield story
        if self.done:
            raise ResumeError(
                f"can't resume: {len(self.done)} stories of the earlier run are not in the input,"
                " or not in that order; use the same input, or write to another file"
            )

    def _give_hints(self, name: str, story: Story) -> None:
        """Tell the user, once each, of a story that is not in English or is a book."""
        if self.hint and is_foreign(story.text):
            _tell(f"{name}: {self.hint}")
            self.hint = None
        if not self._told_of_book and is_of_gutenberg(story.text):
            _tell(f"{name}: {_BOOK}")
            self._told_of_book = True

    def _is_done(self, story: Story) -> bool:
        if not self.done or self.done[0] != story_digest(story.id, story.sentences, story.windows):
            return False
        self.done.popleft()
        return True

    def report(self, error: StoryError) -> None:
        """Print what is wrong with a story."""
        self.problems += 1
        position = self._positions.pop(error.index or 0)
        _tell(f"{position.name}: {error.problem}")

    def renumber(self, results: Iterable[StorySalience]) -> Iterator[StorySalience]:
        """Results with the index of their story in the whole input, scored stories included. Raises
        `ResumeError` if a story was not scored by the earlier run, but comes before stories that
        were."""
        for result in results:
            position = self._positions.pop(result.index)
            if position.before_scored:
                raise ResumeError(
                    f"can't resume: the earlier run did not have {position.name}; use the same"
                    " input, or write to another file"
                )
            if result.truncated and self.warn_of_truncation:
                self.warn_of_truncation = False
                words = truncation(result.context_tokens, result.cut_tokens)
                cure = "another --model may read more at once; --on-truncation ignore hides this"
                _tell(f"{position.name}: the story {words} (told once; {cure})")
            yield replace(result, index=position.number)


def _tell(message: str) -> None:
    """Print a message without breaking the progress bar."""
    tqdm.write(f"narrative-twins: {message}", file=sys.stderr)
