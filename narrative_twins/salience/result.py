"""The result of scoring one story: the salience of every sentence, with ranks and plain data."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from narrative_twins.plots.shades import shaded_cell
from narrative_twins.plots.style import PAGE
from narrative_twins.salience.operations import comparisons
from narrative_twins.salience.ranking import MARKED, Scored, extract_length, highest, marked, shaded
from narrative_twins.salience.wording import (
    described,
    figure_of,
    other_similarity,
    precision,
    truncation,
    very_long_sentence,
)
from narrative_twins.stories.language import language_of
from narrative_twins.stories.rows import Document
from narrative_twins.stories.sentences import Span
from narrative_twins.stories.story import Story
from narrative_twins.text import beside_english, counted, one_line, shortened, shown_value

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from narrative_twins.salience.options import ScoringOptions

_PARAGRAPH = re.compile(r"\n\s*\n|\r\s*\r")


@dataclass(frozen=True)
class SalientSentence:
    """A sentence of a story with its index and score."""

    index: int
    sentence: str
    score: float


class Extract(list[SalientSentence]):
    """The salient sentences of a story in story order, from `StorySalience.extract`. `str` and
    `print` make text of them, with one sentence per line."""

    def __str__(self) -> str:
        return "\n".join(one_line(sentence.sentence) for sentence in self)


_DATA: dict[str, Callable[[StorySalience], Any]] = {
    "sentences": lambda result: list(result.sentences),
    "spans": lambda result: [list(span) for span in result.spans],
    "windows": lambda result: [list(window) for window in result.windows],
    "scores": lambda result: {name: list(values) for name, values in result.scores.items()},
    "truncated": lambda result: result.truncated,
    "context_tokens": lambda result: result.context_tokens,
    "cut_tokens": lambda result: result.cut_tokens,
    "approximate": lambda result: result.approximate,
    "dtype": lambda result: result.dtype,
    "similarity": lambda result: result.similarity,
}
"""For each key of `StorySalience.json`, a function that returns its value."""


RESULT_KEYS = frozenset({"id", "file", "row", "rows", *_DATA, "top", "error"})
"""The keys of saved results, with those of rows of a corpus; all others are columns of the user."""


@dataclass(frozen=True, eq=False)
class StorySalience(Scored, Mapping[str, Any]):
    """The salience of every sentence of a story, from `score_stories` and the pipeline: a mapping
    with the keys of `json`, such as `result["scores"]`, and methods that compare and show scores.

    Attributes:
        story: the story as it was scored.
        scores: by operation, one float per sentence in story order; higher is more salient. Scores
            of an operation are comparable within a window.
        context_tokens: how many tokens the encoder reads at once; None for a baseline.
        cut_tokens: the largest number of the story's tokens that were not read with a window.
        approximate: the approximation, `"one-pass"`; None if exact.
        index: index of the story in the input, counted from 0; stories that have no result count.
        dtype: the precision of the encoder, such as `"float32"`; None for a baseline or if unknown.
        similarity: the option of scoring, such as `"cosine"`; None for a baseline or if unknown.
        row: the row of the story in its file, counted from 0; rows that have no result count. Of a
            story of several rows, the first. Without a file, `index`.
        file: the name of the file; None without one, and for standard input.
        rows: for a story of several rows, the row of each sentence; else empty.
        kept: columns of the row that are kept with the scores; of a story of several rows, lists.
    """

    story: Story
    scores: Mapping[str, list[float]]
    context_tokens: int | None = None
    cut_tokens: int = 0
    approximate: str | None = None
    index: int = 0
    dtype: str | None = None
    similarity: str | None = None
    row: int = -1
    file: str | None = None
    rows: tuple[int, ...] = ()
    kept: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.row < 0:
            object.__setattr__(self, "row", self.index)

    @classmethod
    def unscored(cls, story: Story, options: ScoringOptions) -> StorySalience:
        """Return a result in which all scores are 0, for the engine to fill in."""
        scores = {operation.name: [0.0] * len(story.sentences) for operation in options.operations}
        return cls(story, scores, approximate=options.approximate, similarity=options.similarity)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], index: int = 0) -> StorySalience:
        """Make a result of plain `data` as returned by `json`, for example from a line of JSON
        Lines; further keys are in `kept`. `index` is the index of the story in the input, counted
        from 0; it is also the row of data without one. Plain data lack the text between sentences;
        in `story.text` it is spaces. Raises ValueError if the data are not a result."""
        if not isinstance(data, Mapping):
            raise ValueError(f"this is not a result, but {type(data).__name__}")
        data = _as_lists(data)
        for key in ("sentences", "spans", "windows", "scores"):
            if key not in data:
                raise ValueError(f"this is not a result: it has no {key!r}; score the story first")
        story = _story_of(data)
        scores = saved_scores(data["scores"], len(story))
        context, cut = data.get("context_tokens"), data.get("cut_tokens", 0)
        if not scores or not isinstance(context, int | None) or not isinstance(cut, int):
            raise ValueError("this is not a result: it has no scores, or numbers of tokens")
        row, *rows = _rows_of(data, index)
        kept = {str(key): data[key] for key in data if key not in RESULT_KEYS}
        place: dict[str, Any] = {"index": index, "row": row, "rows": tuple(rows), "kept": kept}
        # Results that were saved without a dtype or a similarity have None.
        keys = ("approximate", "dtype", "similarity", "file")
        texts: dict[str, Any] = {key: str(data[key]) for key in keys if data.get(key) is not None}
        return cls(story, scores, context, cut, **texts, **place)

    def of_row(self, document: Document, index: int) -> StorySalience:
        """Return this result with the row, the file and the kept columns of the document that the
        story is from, and the index of the story in the input."""
        at, file, rows = document.row, document.file, document.rows
        return replace(self, index=index, row=at, file=file, rows=rows, kept=document.kept)

    def __getitem__(self, key: str) -> Any:
        return _DATA[key](self) if key in _DATA else self._place[key]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._place, *_DATA])

    @property
    def _place(self) -> dict[str, Any]:
        """What says which story this is, by key: its id, file and row or rows if it has them, and
        the columns that are kept."""
        ids = {} if self.story.id is None else {"id": self.story.id}
        files = {} if self.file is None else {"file": self.file}
        rows = {"rows": list(self.rows)} if self.rows else {}
        return {**ids, **files, "row": self.row, **rows, **self.kept}

    def __len__(self) -> int:
        return len(list(iter(self)))

    def json(self) -> dict[str, Any]:
        """Return plain data for JSON and Parquet: id and file if there are, row, rows of a story of
        several, the columns that are kept, sentences, spans, windows, scores, truncated,
        context_tokens, cut_tokens, approximate, dtype, similarity."""
        return dict(self)

    def __repr__(self) -> str:
        best = ", ".join(str(index + 1) for index in highest(self, 3))
        name = shortened(self.name, 60, both_ends=True)
        by = self.primary_operation
        return f"<StorySalience {name}: {self.extent}; most salient by {by}: {best}>"

    def _repr_html_(self) -> str:
        """Return the story as HTML for a notebook, shaded by the primary operation. The scores of a
        sentence appear when the pointer is on it."""
        name = self.primary_operation
        edges = zip(self.spans, self.spans[1:], strict=False)
        gaps = [self.story.text[end:start] for (_, end), (start, _) in edges]
        shades = f"Shaded by {name}; bold: the most salient fifth. " if self.is_comparable else ""
        legend = f"{shades}Point at a sentence for its scores."
        return shaded_cell(
            self.sentences,
            shaded(self, name),
            self.descriptions(name),
            title=self.title,
            language=language_of(self.story.text),
            notes=[legend, *self.notes_on([name])],
            strong=marked(self, name),
            paragraphs=[i for i, gap in enumerate(gaps, start=1) if _PARAGRAPH.search(gap)],
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences in story order."""
        return self.story.sentences

    @property
    def spans(self) -> tuple[Span, ...]:
        """The half-open character span of each sentence in the text of the story."""
        return self.story.spans

    @property
    def windows(self) -> tuple[Span, ...]:  # type: ignore[override]
        """The windows, as half-open ranges of sentence indices."""
        return self.story.windows

    @property
    def truncated(self) -> bool:
        """Whether any window was read without a part of the story."""
        return self.cut_tokens > 0

    @property
    def name(self) -> str:
        """The id of the story on one line; without an id, its number: `story 1 of a.csv` for the
        row 0 of a file, or `story 1`."""
        story_id = "" if self.story.id is None else one_line(str(self.story.id))
        return story_id or f"story {self.row + 1}{self._of_file}"

    @property
    def extent(self) -> str:
        """The numbers of sentences and windows, such as `12 sentences, 2 windows`."""
        return f"{counted(len(self.sentences), 'sentence')}, {counted(len(self.windows), 'window')}"

    @property
    def title(self) -> str:
        """The name of the story and its extent, such as `story 1: 12 sentences, 2 windows`. After
        the id is the row: `Salt (row 0 of films.csv): 12 sentences, 2 windows`."""
        has_place = self.file is not None and self.story.id not in (None, self.file)
        place = f" (row {self.row}{self._of_file})" if has_place else ""
        return f"{beside_english(self.name)}{place}: {self.extent}"

    @property
    def _of_file(self) -> str:
        """The last part of the name of the file, as ` of a.csv`; empty without a file."""
        return "" if self.file is None else f" of {one_line(os.path.basename(self.file))}"

    @property
    def notes(self) -> list[str]:
        """Notes to show with the scores, one sentence each: on windows of one sentence,
        approximation, a similarity other than cosine, truncation and missing full stops."""
        notes = []
        if any(hi - lo == 1 for lo, hi in self.windows):
            what = "story" if len(self.sentences) == 1 else "window"
            notes.append(
                f"A {what} of one sentence has nothing to compare it with, so no star and no bar."
            )
        if self.approximate is not None:
            notes.append(f"The scores are approximate ({self.approximate}).")
        notes += other_similarity(self.similarity)
        if self.truncated:
            notes.append(f"The story {truncation(self.context_tokens, self.cut_tokens)}.")
        return notes + [f"The text {self.unsplit}."] * bool(self.unsplit)

    @property
    def unsplit(self) -> str:
        """For a story with a very long sentence, perhaps for lack of full stops: the problem and
        its cure, to follow "The text": `has a sentence of 5,000 characters, ...`. Else empty."""
        return very_long_sentence(self.sentences)

    def notes_on(self, operations: Iterable[str]) -> list[str]:
        """Return notes to show with scores by these operations, one sentence each: how the scores
        are compared, then `notes`, then the dtype."""
        compared = comparisons(operations) if self.is_comparable else []
        return [*compared, *self.notes, *precision(self.dtype)]

    def top(self, k: int, operation: str | None = None) -> list[SalientSentence]:
        """Return the k most salient sentences (all if there are fewer) with their scores, most
        salient first by `compared`, ties in story order."""
        scores = self.scores_of(operation)
        indices = highest(self, k, operation)
        return [SalientSentence(i, self.sentences[i], scores[i]) for i in indices]

    def extract(
        self, k: int | None = None, operation: str | None = None, *, share: float | None = None
    ) -> Extract:
        """Return the `top` sentences in story order; `print` shows them as text, one per line.
        Raises ValueError for both `k` and `share`, a bad value, or an operation that was not
        scored.

        Args:
            k: how many; all if there are fewer.
            operation: default the primary operation.
            share: instead of `k`, a share of the sentences, above 0 and at most 1; at least one
                sentence is returned. Default, without `k`, a fifth.
        """
        count = extract_length(len(self.sentences), k, share, default=MARKED)
        return Extract(sorted(self.top(count, operation), key=lambda sentence: sentence.index))

    def descriptions(self, operation: str | None = None) -> list[str]:
        """Return a line for each sentence, with its number, its rank by an operation, and its
        scores by all operations."""
        name = operation or self.primary_operation
        values = [
            described(dict(zip(self.scores, scores, strict=True)), self.dtype)
            for scores in zip(*self.scores.values(), strict=True)
        ]
        return [
            f"Sentence {i} of {len(self.sentences)}, rank {rank} by {name}: {scores}"
            for i, (rank, scores) in enumerate(zip(self.rank(name), values, strict=True), start=1)
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with a row per sentence: the sentence, start and end of its span, its
        window (counted from 0), and its score by each operation."""
        import pandas

        window = [w for w, (lo, hi) in enumerate(self.windows) for _ in range(lo, hi)]
        starts, ends = zip(*self.spans, strict=True)
        columns = {"sentence": self.sentences, "start": starts, "end": ends, "window": window}
        return pandas.DataFrame(columns | dict(self.scores))

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        operations: Iterable[str] | None = None,
        *,
        top: int = 3,
        width: float = PAGE,
        bare: bool = False,
    ) -> Figure:
        """Plot the scores in story order, one panel per operation, with window borders and the most
        salient sentences. Returns the figure.

        Args:
            path: also save the figure in this `.png` or `.svg` file.
            operations: the operations to show; default all that were scored.
            top: how many sentences per panel to number and quote below: at most 10, if they fit.
            width: in inches; about 3.3 for a column, 7 for a page.
            bare: show the panels only, without title, sentences and notes.

        Raises:
            ImportError: matplotlib is not installed.
            ValueError: an operation was not scored, or the path does not end in `.png` or `.svg`.
            OSError: the file can't be written.
        """
        appearance: dict[str, Any] = {"title": self.title, "notes": self.notes, "bare": bare}
        appearance |= {"top": top, "width": width}
        return figure_of(self, path, operations, self.sentences, **appearance)


def _rows_of(data: Mapping[str, Any], index: int) -> list[int]:
    """Return the row of a saved result, `index` if it has none, and the rows of its sentences."""
    rows = [data.get("row", index), *(data.get("rows") or ())]
    if not all(isinstance(row, int) for row in rows):
        raise ValueError("this is not a result: its row is not a number")
    return rows


def saved_scores(scores: Any, count: int) -> dict[str, list[float]]:
    """Return scores by operation from plain data, as lists of floats. Raises ValueError unless each
    operation has `count` finite numbers, one for each unit."""
    if not isinstance(scores, Mapping):
        raise ValueError("'scores' does not have a list of numbers for each operation")
    for name, values in scores.items():
        numbers = values if isinstance(values, list | tuple) else ()
        is_valid = all(type(each) in (int, float) and math.isfinite(each) for each in numbers)
        if not is_valid or len(numbers) != count:
            raise ValueError(f"the scores of {shown_value(name)} are not {count} finite number(s)")
    return {str(name): list(values) for name, values in scores.items()}


def _as_lists(value: Any) -> Any:
    """Turn arrays and tensors, at any depth of a value, into lists: `{"spans": array([[0, 4]])}` →
    `{"spans": [[0, 4]]}`. All else is unchanged, but tuples become lists too."""
    if isinstance(value, Mapping):
        return {key: _as_lists(each) for key, each in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    return [_as_lists(each) for each in value] if isinstance(value, list | tuple) else value


def _story_of(data: Mapping[str, Any]) -> Story:
    """Return the story of a saved result: its sentences at their spans, with spaces between them.
    Raises ValueError if the spans do not fit the sentences."""
    text = ""
    try:
        for sentence, (start, _) in zip(data["sentences"], data["spans"], strict=True):
            text = text.ljust(start) + sentence
    except (TypeError, ValueError) as error:
        raise ValueError(f"'spans' do not fit 'sentences': {error}") from None
    keys = ("id", "sentences", "windows")
    story = Story.parse({key: data.get(key) for key in keys} | {"text": text})
    if list(map(list, story.spans)) != data["spans"]:
        raise ValueError("'spans' do not fit 'sentences'")
    return story
