"""`narrative-twins score`: the salience of stories as text, data, pages or images."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os.path import getsize, isfile
from typing import TYPE_CHECKING, Annotated, Any

from narrative_twins.books.book import Book
from narrative_twins.books.gutenberg import is_of_gutenberg
from narrative_twins.books.story_files import count_story_files
from narrative_twins.commands.encoder_options import EncoderOptions
from narrative_twins.commands.files import check_input
from narrative_twins.commands.messages import shows_progress, tell
from narrative_twins.commands.output_options import ResultOutput
from narrative_twins.commands.resuming import is_complete, write_resumable
from narrative_twins.commands.scoring_options import scoring_options
from narrative_twins.commands.signatures import command
from narrative_twins.commands.story_options import FILES, StoryFormat
from narrative_twins.salience.options import ScoringOptions
from narrative_twins.salience.result import StorySalience
from narrative_twins.salience.wording import other_language, single_sentences, truncation
from narrative_twins.show.formats import result_data
from narrative_twins.stories.rows import Document
from narrative_twins.stories.story import Story, StoryError
from narrative_twins.writing import STDIN, JsonlLog, ResumeError, digest

if TYPE_CHECKING:
    from narrative_twins.encoder.story_encoder import StoryEncoder


_LONG = 200_000  # bytes of stories whose exact scores may take some minutes
_GUTENBERG = (
    "seems to be a book of Project Gutenberg; its header and licence are scored like sentences of"
    " the story, unless it is read as a book: narrative-twins book FILE"
)


@command(FILES)
def score(
    files: Sequence[str],
    form: StoryFormat,
    scoring: Annotated[ScoringOptions, scoring_options()],
    encoder: EncoderOptions,
    output: ResultOutput,
    *,
    resume: bool = False,
    quiet: bool = False,
) -> int:
    """Score every sentence of stories.

    Args:
        files ([FILE]...): the files of the stories.
        resume: Continue an interrupted run.
        quiet: Show no progress.
    """
    check_input(files)
    output.check(files, resume)
    if output.is_resumable and is_complete(output.out, resume):
        return 0
    shown = shows_progress(quiet)
    if shown and not scoring.one_pass and sum(map(getsize, filter(isfile, files))) > _LONG:
        tell("exact scores of long texts take long; --fast is quicker (docs/speed.md)")
    loaded = encoder.load()
    stories = StoryInput(files, form, replace(scoring, progress=shown))
    if not output.is_resumable:
        output.write(stories.results(loaded))
        return 1 if stories.problems else 0

    def rows(log: JsonlLog) -> Iterator[dict[str, Any]]:
        """Yield the results of the stories that are not in the log, as JSON data."""
        stories.done.extend(_digests(log))
        for result in stories.results(loaded):
            yield result_data(result, output.top)

    settings = {"score headings": form.score_headings, "top": output.top, **form.settings()}
    write_resumable(output.out, resume, encoder.settings(loaded, scoring) | settings, rows)
    return 1 if stories.problems else 0


def _digests(log: JsonlLog) -> Iterator[str]:
    """Yield the digest of each story in a log; raise a `ResumeError` for a row of another kind."""
    for number, row in enumerate(log.rows):
        try:
            yield digest([row.get("id"), row["sentences"], row["windows"]])
        except (KeyError, TypeError):
            raise log.error(number, "is not a result of this command") from None


class StoryInput:
    """The stories of some files, without the stories that an interrupted run has scored. Yields a
    `StoryError` in place of a story that can't be read, which the engine reports in order.

    Args:
        files: the names of the files; none for standard input.
        form: how stories are read from them.
        scoring: the options of scoring.

    Attributes:
        done: digests of the stories that an interrupted run has scored, in the order of the input.
        problems: how many stories could not be scored until now.
    """

    def __init__(self, files: Sequence[str], form: StoryFormat, scoring: ScoringOptions) -> None:
        self.files, self.form, self.scoring = list(files) or [STDIN], form, scoring
        self.splitter = form.splitter(scoring.splitter)
        self.done: deque[str] = deque()
        self.problems = 0
        # Of stories that are being scored: the document and the number in the input, and whether
        # stories that were scored earlier come after it.
        self._positions: dict[int, tuple[Document, int, bool]] = {}

    def __length_hint__(self) -> int:
        return max(0, count_story_files(self.files, self.form.input_format) - len(self.done))

    def __iter__(self) -> Iterator[Story | StoryError]:
        yielded, number = 0, -1
        for number, (document, story) in enumerate(self._parsed()):
            if self._is_next_done(story):
                self.done.popleft()
                continue
            self._positions[yielded] = document._replace(content=None), number, bool(self.done)
            yielded += 1
            yield story
        if self.done:
            raise ResumeError(
                f"can't resume: {len(self.done)} stories of the earlier run are not in the input,"
                " or not in that order; use the same input, or write to another file"
            )
        if number < 0:
            tell("there is no story in the input")

    def _parsed(self) -> Iterator[tuple[Document, Story | StoryError]]:
        """Yield each story with its document, and tell the user what was noticed in reading."""
        is_told = False
        for document in self.form.read(self.files):
            name, content = document.name, document.content
            source = StoryError(document.problem) if document.problem else content
            try:
                story = Story.parse(source, self.scoring.windows, self.splitter)
            except StoryError as error:
                yield document, error
                continue
            if not is_told and (is_told := is_of_gutenberg(story.text)):
                tell(f"{name}: {_GUTENBERG}")
            text = content.get("text") if isinstance(content, dict) else content
            for note in text.notes if isinstance(text, Book) else ():
                tell(f"{name}: {note}")
            yield document, story

    def _is_next_done(self, story: Story | StoryError) -> bool:
        """Return whether a story is the next one that the interrupted run has scored."""
        if not self.done or isinstance(story, StoryError):
            return False
        return self.done[0] == digest([story.id, story.sentences, story.windows])

    def results(self, encoder: StoryEncoder) -> Iterator[StorySalience]:
        """Yield results of the stories, as they are scored, with the `index` of the story in the
        whole input. A story that can't be scored is reported and skipped. Raises a `ResumeError` if
        the earlier run did not score a story that comes before stories that it scored."""
        from narrative_twins.salience.engine import CHECKED, outcomes

        # The engine, which could warn, does not know the file and the line of a story.
        warns = self.scoring.on_truncation == "warn"
        options = replace(self.scoring, on_error="skip")
        if warns:
            options = replace(options, on_truncation="ignore")
        tells_language = encoder.is_english and self.scoring.on_truncation != "ignore"
        is_told = False
        counts = Counter[bool]()  # by whether the story is a single sentence
        for outcome in outcomes(self, encoder, options):
            document, number, before_scored = self._positions.pop(outcome.index or 0)
            name = document.name
            if isinstance(outcome, StoryError):
                self.problems += 1
                tell(f"{name}: {outcome.problem}")
                continue
            if before_scored:
                raise ResumeError(f"can't resume: {name} is new; use the same input")
            if outcome.unsplit and not (is_told or outcome.truncated):
                is_told = True
                tell(f"{name}: the text {outcome.unsplit} (reported once)")
            if outcome.truncated and warns:
                warns = False
                words = truncation(outcome.context_tokens, outcome.cut_tokens)
                words = "; it ".join(filter(None, (words, outcome.unsplit)))
                tell(
                    f"{name}: the story {words} (reported once; another --model may read more at"
                    " once, --on-truncation ignore hides this)"
                )
            counts[len(outcome.sentences) == 1] += 1
            tells_language = tells_language and counts.total() <= CHECKED
            if tells_language and (note := other_language(outcome.sentences)):
                tells_language = False
                tell(f"{name}: the text {note} (reported once)")
            yield outcome.of_row(document, number)
        if note := single_sentences(counts[True], counts.total()):
            tell(note)
