"""The salience of a book: ranks, an extract, plain data, a table of pandas and plots."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrative_twins.books.table import LEVELS, BookTable, Level, Unit, Units
from narrative_twins.plots.shades import shaded_cell
from narrative_twins.plots.style import PAGE
from narrative_twins.salience.operations import comparisons
from narrative_twins.salience.ranking import compared, extract_length, highest, shaded
from narrative_twins.salience.result import saved_scores
from narrative_twins.salience.wording import described, figure_of, other_similarity, precision
from narrative_twins.stories.language import language_of
from narrative_twins.stories.reading import rows_in
from narrative_twins.stories.sentences import Span
from narrative_twins.text import beside_english, counted, one_line, shortened

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

DEFAULT_SHARE = 1 / 10
"""The share of the sentences that is in an extract by default."""
_WRONG = "this is not a result of score_book"
_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
_LIST = re.compile(r"^(\d+(?=[.)])|(?=[-+=]))")


@dataclass(frozen=True)
class BookExtract:
    """Salient sentences of a book in story order, by `BookSalience.extract`; `print` shows them.

    Attributes:
        title: the title of the book; None if it is unknown.
        chapters: the chapters that have a sentence in the extract, each with its sentences.
    """

    title: str | None
    chapters: tuple[tuple[Unit, tuple[Unit, ...]], ...]

    def __len__(self) -> int:
        return sum(len(sentences) for _, sentences in self.chapters)

    def __iter__(self) -> Iterator[Unit]:
        return (sentence for _, sentences in self.chapters for sentence in sentences)

    def __str__(self) -> str:
        """Return the extract as text: chapters with their headings, one sentence per line."""
        parts = [[one_line(self.title)]] if self.title else []
        for chapter, sentences in self.chapters:
            heading = [one_line(chapter.text), ""] if chapter.text else []
            parts.append([*heading, *(one_line(sentence.text) for sentence in sentences)])
        return "\n\n".join("\n".join(lines) for lines in parts)

    def to_markdown(self) -> str:
        """Return the extract as Markdown: headings, and a paragraph per sentence."""
        parts = [f"# {_markdown(self.title)}"] if self.title else []
        for chapter, sentences in self.chapters:
            parts += [f"## {_markdown(chapter.text)}"] if chapter.text else []
            parts += [_markdown(sentence.text) for sentence in sentences]
        return "\n\n".join(parts) + "\n"


def _markdown(text: str) -> str:
    """Return a text on one line, with a backslash before each character of Markdown."""
    return _LIST.sub(r"\1\\", _MARKS.sub(r"\\\1", one_line(text)))


def spread(
    windows: Iterable[Span], lengths: Sequence[int], salience: Sequence[float], budget: int
) -> set[int]:
    """Select the most salient sentences of a book within a budget; return their indices.

    `lengths` and `salience` have a number for each sentence. The selection is spread over the book:
    from its beginning to the end of any of the `windows`, the selected lengths sum to at most the
    share of `budget` that this part has of all lengths. A window without room for any sentence is
    joined to the next, and sentences are selected from both.
    """
    total = sum(lengths)
    budget = min(budget, total)
    selected: set[int] = set()
    start = passed = used = 0
    shortest = total  # sentence of the stretch
    for lo, stop in windows:
        passed += sum(lengths[lo:stop])
        room = budget * passed // total - used
        shortest = min([shortest, *filter(None, lengths[lo:stop])])
        if room < shortest:
            continue  # without sorting a stretch that grows again and again
        for i in sorted(range(start, stop), key=lambda i: -salience[i]):
            if 0 < lengths[i] <= room:
                selected.add(i)
                room -= lengths[i]
                used += lengths[i]
        start, shortest = stop, total
    return selected


@dataclass
class BookSalience(BookTable):
    """The salience of the units of a book. Made by `score_book`.

    Attributes:
        title, chapters, scenes, sentences, left_out: see `BookTable`; without unscored sentences.
        levels: the levels that were scored, from the highest.
        context_tokens: how many tokens the encoder reads at once; None if it is unknown.
        approximate: the approximation of the scores of sentences; None if they are exact.
        dtype: the precision of the encoder, for example `"float32"`; None if it is unknown.
        similarity: how embeddings were compared, for example `"cosine"`; None if it is unknown.
    """

    levels: tuple[Level, ...] = ()
    context_tokens: int | None = None
    approximate: str | None = None
    dtype: str | None = None
    similarity: str | None = None

    def __repr__(self) -> str:
        best = shortened(self.top(1, self.levels[0])[0].name, 40)
        name = shortened(self.name, 60)
        return f"<BookSalience {name}: {self.extent}; most salient {self.levels[0]}: {best}>"

    def _repr_html_(self) -> str:
        """Return the units of the highest scored level, shaded, as HTML for a notebook."""
        units, name = self.at(self.levels[0]), self.shading[self.levels[0]]
        texts = [unit.name for unit in units]
        return shaded_cell(
            texts,
            shaded(units, name),
            [described(unit.scores, self.dtype) for unit in units],
            title=f"{beside_english(self.name)}: {self.extent}",
            language=language_of(" ".join(texts[:500])),
            notes=self.footer,
            paragraphs=range(len(units)),
        )

    @property
    def shading(self) -> dict[Level, str]:
        """The name of the primary operation of each scored level, by which units are shaded."""
        return {level: self.at(level).primary_operation for level in self.levels}

    @property
    def name(self) -> str:
        """The title on one line; `"book"` if it is unknown."""
        return one_line(self.title or "") or "book"

    @property
    def extent(self) -> str:
        """The numbers of units as text, such as `3 chapters, 4 scenes, 90 sentences`."""
        sizes = ((level, len(self.units(level))) for level in LEVELS)
        return ", ".join(counted(size, level) for level, size in sizes if size)

    @property
    def notes(self) -> list[str]:
        """Sentences that say how the units were scored, and what was left out of the book."""
        notes = []
        if above := [f"{level}s" for level in self.levels if level != "sentence"]:
            notes.append(f"The scores of {' and '.join(above)} are from one pass over the book.")
        if "sentence" in self.levels and self.context_tokens is not None:
            notes.append(
                f"Sentences are read with up to {self.context_tokens:,} tokens of their chapter."
            )
        if self.approximate is not None:
            notes.append(f"The scores of sentences are approximate ({self.approximate}).")
        notes += other_similarity(self.similarity)
        names = (name for level in self.levels for name in self.at(level).scores)
        return notes + comparisons(dict.fromkeys(names)) + self.left_out

    @property
    def footer(self) -> list[str]:
        """Sentences to show below shaded units: what shades mean, the notes and the precision."""
        names = " and ".join(dict.fromkeys(self.shading.values()))
        legend = (
            f"Shaded by {names}: chapters within the book, scenes within a chapter, sentences"
            " within a scene."
        )
        return [legend, *self.notes, *precision(self.dtype)]

    def at(self, level: Level) -> Units:
        """Return the units of a level, with the methods `scores_of` and `rank` of
        `StorySalience`. Scenes are compared within their chapter, sentences within their window.
        Raises a `ValueError` if the level was not scored."""
        if not self.units(level).scores:
            raise ValueError(
                f"level {level!r} was not scored; choose from {', '.join(self.levels)}"
            )
        return self.units(level)

    def top(self, k: int, level: Level | None = None, operation: str | None = None) -> list[Unit]:
        """Return the `k` most salient units of a level, by default the lowest that was scored. The
        most salient is first; ties are in the order of the book."""
        units = self.at(level or self.levels[-1])
        return [units[i] for i in highest(units, k, operation)]

    def extract(
        self,
        k: int | None = None,
        operation: str | None = None,
        *,
        share: float | None = None,
        words: int | None = None,
    ) -> BookExtract:
        """Return the salient sentences of all parts of the book, by chapter and in story order.
        Each part of the book gets a share of the length, for its most salient sentences.

        Args:
            k: how many sentences.
            operation: the operation to select by; default the primary one.
            share: in place of `k`, a share of the sentences, up to 1; a tenth if no length is set.
            words: in place of `k`, the maximum number of words.

        Raises:
            ValueError: sentences or the operation were not scored, or the length is invalid.
        """
        sentences = self.at("sentence")
        lengths = [1] * len(sentences)
        if words is None:
            budget = extract_length(len(lengths), k, share, DEFAULT_SHARE)
        elif k is None and share is None:
            budget, lengths = words, [len(text.split()) for text in sentences.texts]
        else:
            raise ValueError("choose a number of sentences, a share or a number of words")
        if budget < 1:
            raise ValueError(f"an extract has at least 1 sentence or word, not {budget}")
        selected = spread(sentences.windows, lengths, compared(sentences, operation), budget)
        if not selected:
            raise ValueError(f"no part of the book has a sentence of {words} words; allow more")
        chapters = []
        for chapter in self.chapters:
            inside = [i for i in range(*self.sentences_of(chapter)) if i in selected]
            if inside:
                chapters.append((chapter, tuple(sentences[i] for i in inside)))
        return BookExtract(self.title, tuple(chapters))

    def json(self) -> dict[str, Any]:
        """Return plain data: title, levels, context_tokens, approximate, dtype, similarity, left
        out, scores of chapters, and chapters with sentences, spans, windows and other scores."""
        return self.book_row() | {"chapters": [self.row(chapter) for chapter in self.chapters]}

    def book_row(self) -> dict[str, Any]:
        """Return the part of `json` that is about the book as a whole, without its chapters."""
        return {
            "title": self.title,
            "levels": list(self.levels),
            "context_tokens": self.context_tokens,
            "approximate": self.approximate,
            "dtype": self.dtype,
            "similarity": self.similarity,
            "left out": self.left_out,
            "scores of chapters": self.chapters.scores,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BookSalience:
        """Make a result from data of `json`. Raises a `ValueError` if the data are invalid."""
        result, what = cls(None), ""
        try:
            result.title, names = data["title"], data["levels"]
            result.levels = tuple(level for level in LEVELS if level in names)
            result.context_tokens, result.approximate = data["context_tokens"], data["approximate"]
            # Results that were saved without them have none.
            result.dtype, result.similarity = data.get("dtype"), data.get("similarity")
            result.left_out = list(map(str, data.get("left out", [])))
            for number, row in enumerate(data["chapters"], start=1):
                what = f"chapter {number}: "
                result.add(row)
                result.add_scores(row)
            what = ""
            scores = saved_scores(data["scores of chapters"], len(result.chapters))
            result.chapters.scores = scores
        except (KeyError, TypeError, ValueError) as error:
            problem = error if type(error) is ValueError else f"it has no valid {error}"
            raise ValueError(f"{_WRONG}: {what}{problem}") from None
        if not result._is_complete:
            raise ValueError(f"{_WRONG}: it has no scores of one of its 'levels'")
        return result

    @property
    def _is_complete(self) -> bool:
        """Whether all units of all levels have scores, and there is a level."""
        tables = [self.units(level) for level in LEVELS]
        scored = [bool(self.units(level).scores) for level in self.levels]
        fits = all(len(each) == len(t) for t in tables for each in t.scores.values())
        return bool(scored) and all(scored) and fits

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with a row per unit of the levels that were scored, level by level. Its
        columns are level, chapter and scene (indices in the book, from 0), index (in the level),
        start, end, text (of a sentence, or a heading), and the scores by each operation."""
        import pandas

        def outer(units: Units) -> list[int]:
            """Return the index in `units` of the container of each unit of the next lower level."""
            return [at for at, span in enumerate(units.inside) for _ in range(*span)]

        chapters, scenes = outer(self.chapters), outer(self.scenes)
        places: dict[str, list[tuple[int, int | None]]] = {
            "chapter": [(at, None) for at in range(len(self.chapters))],
            "scene": [(chapter, scene) for scene, chapter in enumerate(chapters)],
            "sentence": [(chapters[scene], scene) for scene in scenes],
        }
        rows = [
            {"level": level, "chapter": chapter, "scene": scene, "index": unit.index}
            | {"start": unit.span[0], "end": unit.span[1], "text": unit.text}
            | dict(unit.scores)
            for level in self.levels
            for (chapter, scene), unit in zip(places[level], self.at(level), strict=True)
        ]
        return pandas.DataFrame(rows).astype({"scene": "Int64"})

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
        """Plot the scores of a level in the order of the book, one panel per operation. Lines of
        scenes are interrupted between chapters, lines of sentences between windows.

        Args:
            path: also save the figure in this `.png` or `.svg` file.
            level: default the highest that was scored.
            operations: the operations to show; default all of this level.
            top, width, bare: as for `StorySalience.plot`, which lists the errors too.
        """
        level = level or self.levels[0]
        units = self.at(level)
        title, names = f"{beside_english(self.name)}: {level}s", [unit.name for unit in units]
        appearance: dict[str, Any] = {"top": top, "width": width, "bare": bare, "unit": level}
        appearance |= {"title": title, "notes": self.notes}
        return figure_of(units, path, operations, names, **appearance)


def read_book_salience(path: str | os.PathLike[str]) -> BookSalience:
    """Read the salience of a book from a file that `narrative-twins book` wrote, or from saved
    `BookSalience.json`. Raises a `ValueError` if the file has no complete result."""
    name = os.fspath(path)
    try:
        *chapters, book = [*_rows(name)] or [{}]
        if "levels" not in book:
            raise ValueError("the result of the book is not complete; resume the run by --resume")
        return BookSalience.from_dict({"chapters": chapters} | book)
    except OSError as error:
        raise ValueError(f"{name}: can't be read ({error.strerror}); check the name") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None


def is_book_salience(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like the saved salience of a book; False if it can't be read."""
    try:
        return not {"chapters", "scenes"}.isdisjoint(next(_rows(path), {}))
    except (OSError, ValueError):
        return False


def _rows(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Yield the object in each line of a file. Raises a `ValueError` if a line is no object."""
    with open(path, "rb") as file:
        for _, row, problem, *_ in rows_in(file, "", "jsonl"):
            if not isinstance(row, dict):
                raise ValueError(problem or "a line is not a JSON object")
            yield row
