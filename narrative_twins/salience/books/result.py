"""The salience of a book: a tree of chapters, scenes and sentences, with ranks, an extract, plain
data, plots, and a table of contents in HTML that opens down to the sentences."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from narrative_twins.plots.shades import MAX_SENTENCES, PALE_DARK, STRONG_DARK, shades
from narrative_twins.plots.style import INK, PAGE, hex_color, one_line, shortened
from narrative_twins.salience.books.extract import BookExtract, extract
from narrative_twins.salience.books.units import (
    LEVELS,
    Level,
    Unit,
    chapter_data,
    chapters_of,
    compared,
    is_book_row,
    json_line,
    scores_of,
    sentences_of,
)
from narrative_twins.salience.operations import comparisons
from narrative_twins.salience.result import highest, listed, plotted, primary, ranks, saved_context
from narrative_twins.stories.splitting import Span

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
        return ranks(self.compared(level, operation))

    def top(self, k: int, level: Level | None = None, operation: str | None = None) -> list[Unit]:
        """The k most salient units of a level, by default the lowest that was scored; most salient
        first, ties in the order of the book."""
        level = level or self.levels[-1]
        units = self.units(level)
        return [units[i] for i in highest(self.compared(level, operation), k)]

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
            words: in place of `k`, the maximum number of words.

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
        level = level or self.levels[0]
        names = listed(self.operations(level) if operations is None else operations)
        return plotted(
            path,
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
            return primary(names)
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


def book_line(result: BookSalience) -> str:
    """The last line of a run: what is known when all chapters are scored."""
    return json_line(result.book_data())


def read_book_salience(path: str | os.PathLike[str]) -> BookSalience:
    """Read the saved salience of a book.

    Args:
        path: a file that `narrative-twins book` wrote as JSON or JSON Lines, or
            `BookSalience.to_dict` as JSON.

    Raises:
        ValueError: the file has no such result, or it is not complete.
        OSError: the file can't be read.
    """
    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file if line.strip()]
        if len(rows) == 1 and "chapters" in rows[0]:
            return BookSalience.from_dict(rows[0])
        if not rows or not is_book_row(rows[-1]):
            raise ValueError("the result of the book is not complete; resume the run by --resume")
        return BookSalience.from_dict(rows[-1] | {"chapters": rows[:-1]})
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None


def is_book_salience(path: str | os.PathLike[str]) -> bool:
    """Whether a file has the saved salience of a book, by the keys of its first line; False if it
    can't be read."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.loads(next((line for line in file if line.strip()), ""))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, Mapping) and ("chapters" in data or "scenes" in data)


@dataclass(frozen=True)
class Contents:
    """How a book is shown.

    Attributes:
        operations: by level the operation that shades it, for the levels that were scored.
        shown: the indices of the sentences that are shown; None for all.
        inline: colours in attributes, which are the same on light and dark pages, for notebooks
            that drop style sheets; otherwise the variables `--light` and `--dark` of elements of
            the class `unit`, for a style sheet.
    """

    operations: Mapping[Level, str]
    shown: Collection[int] | None = None
    inline: bool = False

    def chapters(self, chapters: Sequence[Unit]) -> Iterator[str]:
        """Each chapter as an element that opens."""
        styles = self._styles(chapters)
        for chapter, style in zip(chapters, styles, strict=True):
            scenes = chapter.children
            if len(scenes) == 1:
                inner = self._sentences(scenes[0])
            else:
                of_scenes = self._styles(scenes)
                inner = "".join(
                    self._opening(scene, f"scene {number}", style, self._sentences(scene))
                    for number, (scene, style) in enumerate(
                        zip(scenes, of_scenes, strict=True), start=1
                    )
                )
            yield self._opening(chapter, chapter.name, style, inner)

    def _opening(self, unit: Unit, name: str, style: str, inner: str) -> str:
        scores = f" <small>{escape(described(unit.scores))}</small>" if unit.scores else ""
        title = f"<bdi>{escape(one_line(name))}</bdi>"
        heading = f'<span class="unit {unit.level}"{style}>{title}</span>{scores}'
        if not inner:
            return f'<div class="closed">{heading}</div>\n'
        indent = ' style="margin-left:1.2em"' if self.inline else ""
        return f"<details{indent}><summary>{heading}</summary>{inner}</details>\n"

    def _sentences(self, scene: Unit) -> str:
        starts, parts, styles = (
            set(scene.paragraphs),
            list[str](),
            self._styles(scene.children, scene.windows),
        )
        for at, (sentence, style) in enumerate(zip(scene.children, styles, strict=True)):
            if self.shown is not None and sentence.index not in self.shown:
                continue
            parts.append("</p><p>" if parts and at in starts else " " if parts else "")
            title = escape(f"sentence {sentence.index + 1}: {described(sentence.scores)}")
            text = escape(one_line(sentence.text))
            parts.append(
                f'<span class="unit sentence" dir="auto"{style} title="{title}">{text}</span>'
            )
        return f"<p>{''.join(parts)}</p>" if parts else ""

    def _styles(self, units: Sequence[Unit], windows: Sequence[Span] | None = None) -> list[str]:
        """The style attribute of each unit, with its shade among these units; `windows` as for
        `compared`."""
        operation = self.operations.get(units[0].level) if units else None
        if operation is None:
            return [""] * len(units)
        scores = compared(units, operation, windows)
        light = shades(scores)
        if self.inline:
            own = f"color:{hex_color(INK)};padding:1px 2px"
            return [f' style="background:{hex_color(colour)};{own}"' for colour in light]
        dark = shades(scores, PALE_DARK, STRONG_DARK)
        return [
            f' style="--light:{hex_color(a)};--dark:{hex_color(b)}"'
            for a, b in zip(light, dark, strict=True)
        ]


def contents_cell(
    title: str, chapters: Sequence[Unit], contents: Contents, notes: Iterable[str]
) -> str:
    """A book for the output cell of a notebook."""
    below = "".join(f"<div><small>{escape(note)}</small></div>" for note in notes)
    return (
        f"<div><div><strong><bdi>{escape(title)}</bdi></strong></div>"
        '<div style="max-height:32em;overflow:auto;line-height:1.7">'
        f"{''.join(contents.chapters(chapters))}</div>"
        f"{below}</div>"
    )


def described(scores: Mapping[str, float]) -> str:
    """Scores on one line."""
    return " · ".join(f"{name} {score:.3f}" for name, score in scores.items())
