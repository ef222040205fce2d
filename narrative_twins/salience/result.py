"""The result of scoring one story: the salience of every sentence, with ranks, plain data and
plots."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from narrative_twins.plots.figures import salience_figure
from narrative_twins.plots.shades import shaded_cell
from narrative_twins.plots.style import PAGE, check_figure, one_line, save_figure, shortened
from narrative_twins.salience.operations import compared_scores, comparisons
from narrative_twins.salience.saved import saved_context, saved_scores, saved_story
from narrative_twins.stories.story import Story
from narrative_twins.stories.windows import Span

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

PRIMARY_OPERATION = "summarization"
"""The default operation when only one is shown: it agrees best with human annotators."""

_PARAGRAPH = re.compile(r"\n\s*\n|\r\s*\r")


@dataclass(frozen=True)
class SalientSentence:
    """A sentence of a story with its index and score."""

    index: int
    sentence: str
    score: float


class Extract(list[SalientSentence]):
    """The salient sentences of a story in story order, from `StorySalience.extract`; as text, by
    `str` or `print`, one per line."""

    def __str__(self) -> str:
        return "\n".join(one_line(sentence.sentence) for sentence in self)


@dataclass(frozen=True)
class StorySalience:
    """The salience of every sentence of a story. Made by `score_stories`.

    Attributes:
        story: the story as it was scored.
        scores: by operation, one float per sentence in story order; higher is more salient. Scores
            of an operation are comparable within a window.
        context_tokens: how many tokens the encoder reads at once, special tokens included; None for
            a baseline.
        cut_tokens: the largest number of the story's tokens that did not fit the context together
            with a window.
        approximate: the approximation, for example `"one-pass"` or `"max_shifts=2"`; None if the
            scores are exact.
        index: index of the story in the input, counted from 0.
    """

    story: Story
    scores: Mapping[str, list[float]]
    context_tokens: int | None = None
    cut_tokens: int = 0
    approximate: str | None = None
    index: int = 0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], index: int = 0) -> StorySalience:
        """A result from plain data: the inverse of `to_dict`, for example of a line of JSON Lines.
        The text between sentences is not part of these data; in `story.text` it is spaces.

        Args:
            data: as from `to_dict`; further keys are ignored.
            index: index of the story in the input, counted from 0.

        Raises:
            ValueError: the data are no result.
        """
        story = saved_story(data)
        return cls(story, saved_scores(data, len(story)), *saved_context(data), index)

    def __len__(self) -> int:
        return len(self.story)

    def __repr__(self) -> str:
        best = ", ".join(str(sentence.index + 1) for sentence in self.top(3))
        name = shortened(self.name, 60, both_ends=True)
        return (
            f"<StorySalience {name}: {self.extent}; most salient by {self.primary_operation}:"
            f" {best}>"
        )

    def _repr_html_(self) -> str:
        """The story in a notebook: shaded by the primary operation, with the scores of the sentence
        at the pointer."""
        name = self.primary_operation
        edges = zip(self.spans, self.spans[1:], strict=False)
        gaps = [self.story.text[end:start] for (_, end), (start, _) in edges]
        return shaded_cell(
            self.sentences,
            self.compared(name),
            self.descriptions(name),
            title=self.title,
            notes=[
                f"Shaded by {name}; bold: the most salient fifth. Point at a sentence for its"
                " scores."
            ]
            + self.notes_on([name]),
            strong=[sentence.index for sentence in self.extract()],
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
    def windows(self) -> tuple[Span, ...]:
        """The windows, as half-open ranges of sentence indices."""
        return self.story.windows

    @property
    def truncated(self) -> bool:
        """Whether any window was read without a part of the story."""
        return self.cut_tokens > 0

    @property
    def name(self) -> str:
        """The id of the story on one line, otherwise "story" and its number, counted from 1."""
        story_id = "" if self.story.id is None else one_line(str(self.story.id))
        return story_id or f"story {self.index + 1}"

    @property
    def extent(self) -> str:
        """The numbers of sentences and windows as text."""
        sentences, windows = len(self), len(self.windows)
        return (
            f"{sentences:,} sentence{'s' * (sentences > 1)}, {windows:,}"
            f" window{'s' * (windows > 1)}"
        )

    @property
    def title(self) -> str:
        """The name of the story and its extent."""
        return f"{self.name}: {self.extent}"

    @property
    def notes(self) -> list[str]:
        """Notes to show with the scores, if they are approximate or the story was truncated; one
        sentence each."""
        notes = (
            []
            if self.approximate is None
            else [f"The scores are approximate ({self.approximate})."]
        )
        if self.truncated:
            notes.append(f"The story {truncation(self.context_tokens, self.cut_tokens)}.")
        return notes

    @property
    def primary_operation(self) -> str:
        """The default operation of `rank` and `top`: summarization if it was scored, otherwise the
        first."""
        return PRIMARY_OPERATION if PRIMARY_OPERATION in self.scores else next(iter(self.scores))

    def scores_of(self, operation: str | None = None) -> list[float]:
        """The scores of an operation in story order; a `ValueError` if it was not scored."""
        name = self.primary_operation if operation is None else operation
        if name not in self.scores:
            raise ValueError(
                f"operation {name!r} was not scored; choose from {', '.join(self.scores)}"
            )
        return self.scores[name]

    def compared(self, operation: str | None = None) -> list[float]:
        """The scores of an operation as `rank`, `top`, stars and shades compare them over the
        story, see `Operation.compared`: for disruption with account of the place in a window,
        otherwise as `scores_of`.
        """
        name = self.primary_operation if operation is None else operation
        return compared_scores(name, self.scores_of(name), self.windows)

    def notes_on(self, operations: Iterable[str]) -> list[str]:
        """`notes`, after those on how scores of these operations are compared; one sentence
        each."""
        return [*comparisons(operations), *self.notes]

    def rank(self, operation: str | None = None) -> list[int]:
        """The rank of each sentence in story order by `compared`: 1 is the most salient, equal
        values share a rank."""
        values = -np.array(self.compared(operation))
        ranks: list[int] = (1 + np.searchsorted(np.sort(values), values)).tolist()
        return ranks

    def top(self, k: int, operation: str | None = None) -> list[SalientSentence]:
        """The k most salient sentences (all if there are fewer) with their scores, most salient
        first, ties in story order. See `compared`."""
        if k < 0:
            raise ValueError(f"top({k}): the number of sentences can't be negative")
        scores, values = self.scores_of(operation), self.compared(operation)
        order = sorted(range(len(values)), key=lambda i: -values[i])
        return [SalientSentence(i, self.sentences[i], scores[i]) for i in order[:k]]

    def extract(
        self, k: int | None = None, operation: str | None = None, *, share: float | None = None
    ) -> Extract:
        """The most salient sentences, those of `top`, in story order; `print` shows them as text,
        one per line.

        Args:
            k: how many; all if there are fewer.
            operation: default the primary operation.
            share: in place of `k`, a share of the sentences: a number above 0, up to 1; at least
                one sentence. Default, without `k`, a fifth.

        Raises:
            ValueError: both `k` and `share` are given, one of them is out of range, or the
                operation was not scored.
        """
        if k is not None and share is not None:
            raise ValueError(
                f"extract({k}, share={share}): choose a number or a share of sentences, not both"
            )
        if share is not None and not 0 < share <= 1:
            raise ValueError(f"share={share}: a share of sentences is above 0, and at most 1")
        count = max(1, round(len(self) * (share or 1 / 5))) if k is None else k
        return Extract(sorted(self.top(count, operation), key=lambda sentence: sentence.index))

    def descriptions(self, operation: str | None = None) -> list[str]:
        """For each sentence a line with its number, its rank by an operation, and its scores by all
        of them."""
        name = self.primary_operation if operation is None else operation
        ranks, lines = self.rank(name), []
        for i, rank in enumerate(ranks):
            values = " · ".join(f"{each} {scores[i]:.3f}" for each, scores in self.scores.items())
            lines.append(f"Sentence {i + 1} of {len(self)}, rank {rank} by {name}: {values}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Plain data: sentences, spans, windows, scores, truncated, context_tokens, cut_tokens,
        approximate, and the id if the story has one."""
        start = {} if self.story.id is None else {"id": self.story.id}
        return start | {
            "sentences": list(self.sentences),
            "spans": [list(span) for span in self.spans],
            "windows": [list(window) for window in self.windows],
            "scores": {name: list(values) for name, values in self.scores.items()},
            "truncated": self.truncated,
            "context_tokens": self.context_tokens,
            "cut_tokens": self.cut_tokens,
            "approximate": self.approximate,
        }

    def to_pandas(self) -> pandas.DataFrame:
        """A table with a row per sentence and the columns sentence, start, end, window and each
        operation."""
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
        salient sentences.

        Args:
            path: also save the figure in this `.png` or `.svg` file.
            operations: the operations to show; default all that were scored.
            top: how many sentences of each panel are numbered and quoted below; at most 10, or as
                many as fit.
            width: in inches; about 3.3 for a column, 7 for a page.
            bare: show the panels only, without title, sentences and notes.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
            ValueError: an operation was not scored, or the suffix of the path is neither `.png` nor
                `.svg`.
            OSError: the file can't be written.
        """
        check_figure(path, width)
        names = (
            [operations]
            if isinstance(operations, str)
            else list(self.scores if operations is None else operations)
        )
        if not names:
            raise ValueError("no operation to plot; name a scored operation, or use None for all")
        figure = salience_figure(
            self.sentences,
            self.windows,
            {name: self.scores_of(name) for name in names},
            {name: [sentence.index for sentence in self.top(top, name)] for name in names},
            title=self.title,
            notes=self.notes_on(names),
            width=width,
            bare=bare,
        )
        if path is not None:
            save_figure(figure, path)
        return figure


def truncation(context_tokens: int | None, cut_tokens: int) -> str:
    """What happened to a truncated story, in words that follow its name."""
    return (
        f"is longer than the {context_tokens} tokens that the encoder reads at once, so its windows"
        f" were scored with a part of the story only: without up to {cut_tokens:,} of its tokens"
    )
