"""The salience of a book: a tree of chapters, scenes and sentences, with ranks, an extract, plain
data and plots."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from narrative_twins.plots.figures import salience_figure
from narrative_twins.plots.shades import MAX_SENTENCES
from narrative_twins.plots.style import PAGE, check_figure, one_line, save_figure, shortened
from narrative_twins.salience.books.contents import Contents, contents_cell
from narrative_twins.salience.books.extract import BookExtract, extract
from narrative_twins.salience.books.units import (
    LEVELS,
    Level,
    Unit,
    chapter_data,
    chapters_of,
    compared,
    scores_of,
    sentences_of,
)
from narrative_twins.salience.operations import comparisons
from narrative_twins.salience.result import PRIMARY_OPERATION
from narrative_twins.salience.saved import saved_context
from narrative_twins.stories.windows import Span

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class BookSalience:
    """The salience of the units of a book. Made by `score_book`.

    Attributes:
        title: the title of the book, if it is known.
        levels: the levels that were scored, from the highest.
        chapters: the chapters, with their scenes and the sentences of these.
        context_tokens: how many tokens the encoder reads at once, special tokens included; None if
            it is unknown.
        approximate: the approximation of the scores of sentences; None if they are exact.
    """

    title: str | None
    levels: tuple[Level, ...]
    chapters: tuple[Unit, ...] = field(repr=False)
    context_tokens: int | None = None
    approximate: str | None = None

    def __repr__(self) -> str:
        best = shortened(self.top(1, self.levels[0])[0].name, 40)
        name = shortened(self.name, 60)
        return f"<BookSalience {name}: {self.extent}; most salient {self.levels[0]}: {best}>"

    def _repr_html_(self) -> str:
        """The table of contents in a notebook, shaded, which opens down to the sentences."""
        notes, shown = [self.legend, *self.notes], None
        if len(self.units("sentence")) > MAX_SENTENCES:
            shown = {unit.index for unit in self.extract(MAX_SENTENCES)}
            notes.append(f"Of the sentences, the most salient {MAX_SENTENCES:,} are shown.")
        contents = Contents(self.shading, shown, inline=True)
        return contents_cell(f"{self.name}: {self.extent}", self.chapters, contents, notes)

    @property
    def shading(self) -> dict[Level, str]:
        """The operation that shades each level: the primary one."""
        return {level: self.primary_operation(level) for level in self.levels}

    @property
    def legend(self) -> str:
        """What the shades mean, as a sentence."""
        names = " and ".join(dict.fromkeys(self.shading.values()))
        return (
            f"Shaded by {names}: chapters within the book, scenes within a chapter, sentences"
            " within a scene."
        )

    @property
    def name(self) -> str:
        """The title on one line, otherwise "book"."""
        return one_line(self.title or "") or "book"

    @property
    def extent(self) -> str:
        """The numbers of units as text."""
        counts = [(level, len(self.units(level))) for level in LEVELS]
        return ", ".join(
            f"{count:,} {level}{'s' * (count > 1)}" for level, count in counts if count
        )

    @property
    def notes(self) -> list[str]:
        """Notes to show with the scores, one sentence each."""
        notes = []
        if above := [f"{level}s" for level in self.levels if level != "sentence"]:
            kind = f"The scores of {' and '.join(above)} are from one pass over the book"
            own = set(self.operations("sentence")) - set(self.operations(self.levels[0]))
            only = (
                f", where the order changes nothing: {', '.join(sorted(own))} is for sentences only"
                if own
                else ""
            )
            notes.append(f"{kind}{only}.")
        if "sentence" in self.levels and self.context_tokens is not None:
            notes.append(
                f"Sentences are read with up to {self.context_tokens:,} tokens of their chapter."
            )
        if self.approximate is not None:
            notes.append(f"The scores of sentences are approximate ({self.approximate}).")
        return notes + comparisons(
            dict.fromkeys(name for level in self.levels for name in self.operations(level))
        )

    def units(self, level: Level) -> list[Unit]:
        """All units of a level in the order of the book; no sentences if they were not scored."""
        if level not in LEVELS:
            raise ValueError(f"level {level!r} is unknown; choose from {', '.join(LEVELS)}")
        found = list(self.chapters)
        for _ in range(LEVELS.index(level)):
            found = [child for unit in found for child in unit.children]
        return found

    def operations(self, level: Level) -> list[str]:
        """The operations that were scored at a level."""
        units = self.units(level)
        return list(units[0].scores) if units else []

    def primary_operation(self, level: Level) -> str:
        """The default operation at a level: summarization if it was scored, otherwise the first; a
        `ValueError` if the level was not scored."""
        return self._operation(level, None)

    def scores_of(self, level: Level, operation: str | None = None) -> list[float]:
        """The scores of all units of a level, by default of its primary operation; a `ValueError`
        if it was not scored there."""
        name = self._operation(level, operation)
        return [unit.scores[name] for unit in self.units(level)]

    def compared(self, level: Level, operation: str | None = None) -> list[float]:
        """The scores of all units of a level as `rank` and `top` compare them, see
        `StorySalience.compared`."""
        return compared(self.units(level), self._operation(level, operation), self._windows(level))

    def rank(self, level: Level, operation: str | None = None) -> list[int]:
        """The rank of each unit of a level among all of them in the book by `compared`, in its
        order: 1 is the most salient, equal values share a rank."""
        values = -np.array(self.compared(level, operation))
        ranks: list[int] = (1 + np.searchsorted(np.sort(values), values)).tolist()
        return ranks

    def top(self, k: int, level: Level | None = None, operation: str | None = None) -> list[Unit]:
        """The k most salient units of a level, by default the lowest that was scored; most salient
        first, ties in the order of the book."""
        if k < 0:
            raise ValueError(f"top({k}): the number of units can't be negative")
        level = level or self.levels[-1]
        units, values = self.units(level), self.compared(level, operation)
        return [units[i] for i in sorted(range(len(units)), key=lambda i: -values[i])[:k]]

    def extract(
        self,
        k: int | None = None,
        operation: str | None = None,
        *,
        share: float | None = None,
        words: int | None = None,
    ) -> BookExtract:
        """The salient sentences of all parts of the book in story order, under the headings of
        their chapters.

        The length is spread over the book: each stretch of it has its part, and within that the
        most salient sentences are chosen.

        Args:
            k: how many sentences.
            operation: default the primary operation.
            share: in place of `k`, a share of the sentences: a number above 0, up to 1; at least
                one sentence. Default, if no length is given, a tenth.
            words: in place of `k`, at most so many words.

        Raises:
            ValueError: sentences or the operation were not scored, several lengths are given, or
                one is out of range.
        """
        name = self._operation("sentence", operation)
        return extract(self.title, self.chapters, name, k, share, words)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON: title, levels, context_tokens, approximate, the scores of chapters,
        and the chapters with the sentences, spans, windows and scores of their scenes."""
        return self.book_data() | {"chapters": [chapter_data(chapter) for chapter in self.chapters]}

    def book_data(self) -> dict[str, Any]:
        """The part of `to_dict` that is about the book as a whole."""
        return {
            "title": self.title,
            "levels": list(self.levels),
            "context_tokens": self.context_tokens,
            "approximate": self.approximate,
            "scores of chapters": scores_of(self.chapters),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BookSalience:
        """A result from plain data: the inverse of `to_dict`. Raises `ValueError` if the data are
        no result."""
        if (
            not isinstance(data, Mapping)
            or not isinstance(data.get("chapters"), list)
            or not data["chapters"]
        ):
            raise ValueError("this is no result of score_book: it has no list of 'chapters'")
        levels, scores = data.get("levels"), data.get("scores of chapters")
        if (
            not isinstance(levels, list)
            or not levels
            or levels != [level for level in LEVELS if level in levels]
        ):
            raise ValueError(f"this is no result of score_book: its 'levels' are {levels!r:.60}")
        context, _, approximate = saved_context(data)
        title = data.get("title")
        chapters = chapters_of(data["chapters"], scores)
        result = cls(
            title if isinstance(title, str) else None, tuple(levels), chapters, context, approximate
        )
        if missing := [level for level in result.levels if not result.operations(level)]:
            raise ValueError(f"this is no result of score_book: it has no scores of {missing[0]}s")
        return result

    def to_pandas(self) -> pandas.DataFrame:
        """A table with a row per unit of the levels that were scored, in the order of the book,
        larger units first: its level, the numbers of its chapter and scene (counted from 0 in the
        book), its index in the level, start, end, text or heading, and each operation, without a
        number where it was not scored."""
        import pandas

        names = dict.fromkeys(name for level in self.levels for name in self.operations(level))
        rows = []
        for chapter in self.chapters:
            for unit, scene in _units_of(chapter):
                if unit.level in self.levels:
                    start, end = unit.span
                    place = {
                        "level": unit.level,
                        "chapter": chapter.index,
                        "scene": scene,
                        "index": unit.index,
                    }
                    about = {"start": start, "end": end, "text": unit.text}
                    rows.append(place | about | {name: unit.scores.get(name) for name in names})
        return pandas.DataFrame(rows).astype({"scene": "Int64"} | dict.fromkeys(names, "float64"))

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        level: Level | None = None,
        operations: Iterable[str] | None = None,
        *,
        top: int = 3,
        width: float = PAGE,
        bare: bool = False,
    ) -> Figure:
        """Plot the scores of a level in the order of the book, one panel per operation; lines are
        interrupted where scores are not compared: between chapters for scenes, between windows for
        sentences.

        Args:
            path: also save the figure in this `.png` or `.svg` file.
            level: default the highest that was scored.
            operations: the operations to show; default all of this level.
            top, width, bare: as for `StorySalience.plot`.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
            ValueError: the level or an operation was not scored, or the suffix of the path is
                neither `.png` nor `.svg`.
            OSError: the file can't be written.
        """
        check_figure(path, width)
        level = level or self.levels[0]
        given = [operations] if isinstance(operations, str) else operations
        names = (
            self.operations(level)
            if given is None
            else [self._operation(level, name) for name in given]
        )
        if not names:
            raise ValueError(
                "no operation to plot; name a scored operation and level, or use None for all"
            )
        figure = salience_figure(
            [unit.name for unit in self.units(level)],
            self._windows(level),
            {name: self.scores_of(level, name) for name in names},
            {name: [unit.index for unit in self.top(top, level, name)] for name in names},
            title=f"{self.name}: {level}s",
            notes=self.notes,
            width=width,
            bare=bare,
            unit=level,
        )
        if path is not None:
            save_figure(figure, path)
        return figure

    def _windows(self, level: Level) -> list[Span]:
        """The ranges of the units of a level of which each was scored by itself."""
        if level == "chapter":
            return [(0, len(self.chapters))]
        if level == "scene":
            return [
                (chapter.children[0].index, chapter.children[-1].index + 1)
                for chapter in self.chapters
            ]
        return sentences_of(self.units("scene"))[1]

    def _operation(self, level: Level, name: str | None) -> str:
        """An operation of a level, by default the primary one; a `ValueError` if it was not scored
        there."""
        names = self.operations(level)
        if not names:
            raise ValueError(
                f"the level {level!r} was not scored; choose from {', '.join(self.levels)}"
            )
        if name is None:
            return PRIMARY_OPERATION if PRIMARY_OPERATION in names else names[0]
        if name not in names:
            why = ""
            if level != "sentence" and name in self.operations("sentence"):
                why = f" ({level}s are read one by one, so that moving them changes nothing)"
            raise ValueError(
                f"operation {name!r} was not scored for {level}s{why}; choose from"
                f" {', '.join(names)}"
            )
        return name


def _units_of(chapter: Unit) -> Iterable[tuple[Unit, int | None]]:
    """A chapter, then each of its scenes and the sentences of it, each with the index of the
    scene."""
    yield chapter, None
    for scene in chapter.children:
        yield scene, scene.index
        yield from ((sentence, scene.index) for sentence in scene.children)
