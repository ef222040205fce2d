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
"""The operation that stands for salience where one must be chosen: it agrees best with human readers."""


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
        scores: by operation, one float a sentence in story order; higher is more salient. Scores are comparable
            within a window and an operation.
        context_tokens: how many tokens the encoder reads at once, special tokens included; None for a scorer without a
            context, such as a baseline.
        cut_tokens: how many of the story's tokens did not fit into the context together with a window, at most; 0 if
            every window was read with the whole story.
        approximate: the approximation, such as `"one-pass"` or `"max_shifts=2"`; None if the scores are exact.
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
        """The half-open character span of each sentence in the original text."""
        return self.story.spans

    @property
    def windows(self) -> tuple[Span, ...]:
        """The windows as half-open ranges of sentence indices."""
        return self.story.windows

    @property
    def truncated(self) -> bool:
        """Whether a window was not read together with the whole story."""
        return self.cut_tokens > 0

    @property
    def name(self) -> str:
        """The name of the story on one line: its id, otherwise its number, counted from 1."""
        named = "" if self.story.id is None else one_line(str(self.story.id))
        return named or f"story {self.index + 1}"

    @property
    def extent(self) -> str:
        """The number of sentences and windows, in words."""
        sentences, windows = len(self), len(self.windows)
        return f"{sentences:,} sentence{'s' * (sentences > 1)}, {windows:,} window{'s' * (windows > 1)}"

    @property
    def title(self) -> str:
        """The name of the story and its extent."""
        return f"{self.name}: {self.extent}"

    @property
    def notes(self) -> list[str]:
        """Notes for readers of the scores, one sentence each: whether they are approximate, whether the story was
        truncated."""
        notes = [] if self.approximate is None else [f"The scores are approximate ({self.approximate})."]
        if self.truncated:
            notes.append(
                f"The story was truncated: it does not fit the encoder's context of {self.context_tokens} tokens, and "
                f"up to {self.cut_tokens} of its tokens were not read together with a window."
            )
        return notes

    @property
    def primary_operation(self) -> str:
        """The operation that `rank` and `top` use by default: summarization if it was scored, otherwise the first."""
        return PRIMARY_OPERATION if PRIMARY_OPERATION in self.scores else next(iter(self.scores))

    def scores_of(self, operation: str | None = None) -> list[float]:
        """The scores of an operation, in story order.

        Raises:
            ValueError: the operation was not scored.
        """
        name = self.primary_operation if operation is None else operation
        if name not in self.scores:
            raise ValueError(f"operation {name!r} was not scored; there are {', '.join(self.scores)}")
        return self.scores[name]

    def rank(self, operation: str | None = None) -> list[int]:
        """Rank of each sentence in story order: 1 is the most salient, equal scores share a rank."""
        values = -np.array(self.scores_of(operation))
        ranks: list[int] = (1 + np.searchsorted(np.sort(values), values)).tolist()
        return ranks

    def top(self, k: int, operation: str | None = None) -> list[SalientSentence]:
        """The k most salient sentences (all if there are fewer), most salient first, ties in story order."""
        if k < 0:
            raise ValueError(f"top({k}): k is a number of sentences and can't be negative")
        values = self.scores_of(operation)
        order = sorted(range(len(values)), key=lambda i: -values[i])
        return [SalientSentence(i, self.sentences[i], values[i]) for i in order[:k]]

    def to_dict(self) -> dict[str, Any]:
        """Plain data: sentences, spans, windows, scores, truncated, context_tokens, cut_tokens, approximate, and the id
        if the story has one."""
        named = {} if self.story.id is None else {"id": self.story.id}
        return named | {
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
        """One row per sentence, with columns for sentence, start, end, window and each operation."""
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
            path: also save the figure there; the suffix `.png` or `.svg` selects the format.
            operations: the operations to show; default all that were scored.
            top: how many sentences of each panel are numbered, with their first words below; at most 10, or as many as
                fit.
            width: in inches; 3.3 is about a column, 7 a page.
            bare: the panels only, without title, sentences and notes.

        Returns:
            A matplotlib `Figure`.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
            ValueError: an operation was not scored, or the suffix of the path is neither `.png` nor `.svg`.
            OSError: no file can be written there.
        """
        check_figure(path, width)
        names = [operations] if isinstance(operations, str) else list(self.scores if operations is None else operations)
        if not names:
            raise ValueError("no operation to plot; name one that was scored, or None for all")
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
