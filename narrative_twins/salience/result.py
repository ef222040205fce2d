"""The result of scoring one story: the salience of every sentence, with ranks, plain data and plots."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from narrative_twins.plots.figures import salience_figure
from narrative_twins.plots.printable import one_line
from narrative_twins.plots.style import PAGE, check_figure, save_figure
from narrative_twins.stories.story import Story
from narrative_twins.stories.windows import Span

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

PRIMARY_OPERATION = "summarization"
"""The default operation when only one is shown: it agrees best with human annotators."""


@dataclass(frozen=True)
class SalientSentence:
    """A sentence of a story with its index and score."""

    index: int
    sentence: str
    score: float


@dataclass(frozen=True)
class StorySalience:
    """The salience of every sentence of a story. Made by `score_stories`.

    Attributes:
        story: the story as it was scored.
        scores: by operation, one float per sentence in story order; higher is more salient. Scores of an operation are
            comparable within a window.
        context_tokens: how many tokens the encoder reads at once, special tokens included; None for a baseline.
        cut_tokens: the largest number of the story's tokens that did not fit the context together with a window.
        approximate: the approximation, for example `"one-pass"` or `"max_shifts=2"`; None if the scores are exact.
        index: index of the story in the input, counted from 0.
    """

    story: Story
    scores: Mapping[str, list[float]]
    context_tokens: int | None = None
    cut_tokens: int = 0
    approximate: str | None = None
    index: int = 0

    def __len__(self) -> int:
        return len(self.story)

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
        return f"{sentences:,} sentence{'s' * (sentences > 1)}, {windows:,} window{'s' * (windows > 1)}"

    @property
    def title(self) -> str:
        """The name of the story and its extent."""
        return f"{self.name}: {self.extent}"

    @property
    def notes(self) -> list[str]:
        """Notes to show with the scores, if they are approximate or the story was truncated; one sentence each."""
        notes = [] if self.approximate is None else [f"The scores are approximate ({self.approximate})."]
        if self.truncated:
            notes.append(
                f"The story was truncated: it does not fit the encoder's context of {self.context_tokens} tokens, and "
                f"up to {self.cut_tokens} of its tokens were not read together with a window."
            )
        return notes

    @property
    def primary_operation(self) -> str:
        """The default operation of `rank` and `top`: summarization if it was scored, otherwise the first."""
        return PRIMARY_OPERATION if PRIMARY_OPERATION in self.scores else next(iter(self.scores))

    def scores_of(self, operation: str | None = None) -> list[float]:
        """The scores of an operation in story order; a `ValueError` if it was not scored."""
        name = self.primary_operation if operation is None else operation
        if name not in self.scores:
            raise ValueError(f"operation {name!r} was not scored; choose from {', '.join(self.scores)}")
        return self.scores[name]

    def rank(self, operation: str | None = None) -> list[int]:
        """The rank of each sentence in story order: 1 is the most salient, equal scores share a rank."""
        values = -np.array(self.scores_of(operation))
        ranks: list[int] = (1 + np.searchsorted(np.sort(values), values)).tolist()
        return ranks

    def top(self, k: int, operation: str | None = None) -> list[SalientSentence]:
        """The k most salient sentences (all if there are fewer), most salient first, ties in story order."""
        if k < 0:
            raise ValueError(f"top({k}): the number of sentences can't be negative")
        values = self.scores_of(operation)
        order = sorted(range(len(values)), key=lambda i: -values[i])
        return [SalientSentence(i, self.sentences[i], values[i]) for i in order[:k]]

    def to_dict(self) -> dict[str, Any]:
        """Plain data: sentences, spans, windows, scores, truncated, context_tokens, cut_tokens, approximate, and the id
        if the story has one."""
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
        """A table with a row per sentence and the columns sentence, start, end, window and each operation."""
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
        """Plot the scores in story order, one panel per operation, with window borders and the most salient sentences.

        Args:
            path: also save the figure in this `.png` or `.svg` file.
            operations: the operations to show; default all that were scored.
            top: how many sentences of each panel are numbered and quoted below; at most 10, or as many as fit.
            width: in inches; about 3.3 for a column, 7 for a page.
            bare: show the panels only, without title, sentences and notes.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
            ValueError: an operation was not scored, or the suffix of the path is neither `.png` nor `.svg`.
            OSError: the file can't be written.
        """
        check_figure(path, width)
        names = [operations] if isinstance(operations, str) else list(self.scores if operations is None else operations)
        if not names:
            raise ValueError("no operation to plot; name a scored operation, or use None for all")
        figure = salience_figure(
            self.sentences,
            self.windows,
            {name: self.scores_of(name) for name in names},
            {name: [sentence.index for sentence in self.top(top, name)] for name in names},
            title=self.title,
            notes=self.notes,
            width=width,
            bare=bare,
        )
        if path is not None:
            save_figure(figure, path)
        return figure
