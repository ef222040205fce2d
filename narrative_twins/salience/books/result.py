"""The salience of a book: a tree of chapters, scenes and sentences, with ranks, an extract, plain
data, plots, and a table of contents in HTML that opens down to the sentences."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from narrative_twins.files import AtomicFile
from narrative_twins.plots.shades import (
    MAX_SENTENCES,
    PALE_DARK,
    STRONG_DARK,
    hex_color,
    notebook_cell,
    shades,
)
from narrative_twins.plots.style import INK, PAGE, one_line, shortened
from narrative_twins.salience.operations import comparisons
from narrative_twins.salience.result import (
    Scored,
    counted,
    described,
    extract_length,
    precision,
    saved_scores,
)
from narrative_twins.stories.reading import MAX_DOCUMENT
from narrative_twins.stories.sentences import Span

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

Level: TypeAlias = Literal["chapter", "scene", "sentence"]

LEVELS: tuple[Level, ...] = get_args(Level)

Row: TypeAlias = dict[str, Any]
"""A chapter as plain data, for JSON: its heading, span and scenes, with the scores of these and of
their sentences, but without its own, which need all chapters."""

DEFAULT_SHARE = 1 / 10

FORMATS = {".txt": "text", ".md": "markdown"}
"""The formats of extracts by the suffix of the file."""

_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
_LIST = re.compile(r"^(\d+(?=[.)])|(?=[-+=]))")

_WRONG = "this is not a result of score_book"
_PIECE = 1 << 16  # characters of a line that are read before the rest


@dataclass(frozen=True, slots=True)
class Unit:
    """A chapter, a scene or a sentence of a book.

    Attributes:
        level: which of these it is.
        index: its index among all units of this level in the book, counted from 0.
        span: its characters in the text of the book; those of a chapter begin after the heading.
        text: the text of a sentence; the heading of a chapter on one line; empty without one, and
            for scenes.
        scores: by operation; of a chapter within the book, of a scene within its chapter, of a
            sentence within its window. Empty if the level was not scored.
        children: the scenes of a chapter, the sentences of a scene; no sentences if they were not
            scored.
        windows: of a scene the windows of its sentences, as half-open ranges of indices of
            `children`.
        paragraphs: of a scene the indices of `children` that begin a paragraph.
    """

    level: Level
    index: int
    span: Span
    text: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    children: tuple[Unit, ...] = field(default=(), repr=False)
    windows: tuple[Span, ...] = field(default=(), repr=False)
    paragraphs: tuple[int, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The heading of a chapter or the text of a sentence; otherwise the level and the number,
        as `scene 3`."""
        return self.text or f"{self.level} {self.index + 1}"


class UnitScores(Scored):
    """The scores of some units of one level, in order.

    Args:
        units: the units.
        windows: ranges of them, each of which was scored by itself; by default all together.
    """

    def __init__(self, units: Iterable[Unit], windows: Sequence[Span] | None = None) -> None:
        self.units = list(units)
        self.windows = windows or [(0, len(self.units))]
        self.scores = {
            name: [unit.scores[name] for unit in self.units]
            for name in (self.units[0].scores if self.units else ())
        }

    @classmethod
    def of_children(cls, parents: Iterable[Unit]) -> UnitScores:
        """The scores of the scenes of chapters, or of the sentences of scenes."""
        units: list[Unit] = []
        windows: list[Span] = []
        for parent in parents:
            own = parent.windows or [(0, len(parent.children))]
            windows += [(len(units) + lo, len(units) + hi) for lo, hi in own]
            units += parent.children
        return cls(units, windows)


def row_of(chapter: Unit) -> Row:
    """A chapter as plain data, without its own scores."""
    scenes = [
        {
            "span": list(scene.span),
            "sentences": [sentence.text for sentence in scene.children],
            "spans": [list(sentence.span) for sentence in scene.children],
            "windows": [list(window) for window in scene.windows],
            "paragraphs": list(scene.paragraphs),
            "scores": UnitScores(scene.children).scores,
        }
        for scene in chapter.children
    ]
    return {
        "heading": chapter.text or None,
        "span": list(chapter.span),
        "scenes": scenes,
        "scores of scenes": UnitScores(chapter.children).scores,
    }


def chapters_of(rows: Sequence[Row], scores: Mapping[str, Any]) -> tuple[Unit, ...]:
    """The chapters of a book from their rows and scores; a `ValueError` if these are no such
    data."""
    own = list(_of_each(scores, len(rows)))
    scene_numbers, sentence_numbers = count(), count()

    def scene_of(scene: Row, its_scores: Mapping[str, float]) -> Unit:
        texts, windows = scene["sentences"], tuple(map(_span, scene["windows"]))
        if [i for lo, hi in windows for i in range(lo, hi)] != list(range(len(texts))):
            raise ValueError("the windows do not partition the sentences")
        children = tuple(
            Unit("sentence", next(sentence_numbers), _span(span), text, found)
            for text, span, found in zip(
                texts, scene["spans"], _of_each(scene["scores"], len(texts)), strict=True
            )
        )
        span, starts = _span(scene["span"]), tuple(scene["paragraphs"])
        return Unit("scene", next(scene_numbers), span, "", its_scores, children, windows, starts)

    chapters = []
    for number, row in enumerate(rows):
        try:
            of_scenes = _of_each(row["scores of scenes"], len(row["scenes"]))
            scenes = tuple(map(scene_of, row["scenes"], of_scenes))
            span, heading = _span(row["span"]), row["heading"] or ""
            chapters.append(Unit("chapter", number, span, heading, own[number], scenes))
        except (KeyError, TypeError, ValueError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else error
            raise ValueError(
                f"chapter {number + 1} is not a result of score_book: {what}"
            ) from None
    return tuple(chapters)


def _of_each(scores: Mapping[str, Any], count: int) -> Iterator[dict[str, float]]:
    """The scores of each of some units, from lists by operation."""
    found = saved_scores(scores, count)
    return ({name: values[i] for name, values in found.items()} for i in range(count))


def _span(value: Sequence[int]) -> Span:
    lo, hi = value
    return lo, hi


@dataclass(frozen=True)
class BookExtract:
    """Salient sentences of a book in story order, from `BookSalience.extract`. `print` shows them
    as text.

    Attributes:
        title: the title of the book, if it is known.
        chapters: the chapters that have a sentence in the extract, each with its sentences.
        sentences: how many sentences the book has.
    """

    title: str | None
    chapters: tuple[tuple[Unit, tuple[Unit, ...]], ...]
    sentences: int

    def __len__(self) -> int:
        return sum(len(sentences) for _, sentences in self.chapters)

    def __iter__(self) -> Iterator[Unit]:
        return (sentence for _, sentences in self.chapters for sentence in sentences)

    def __repr__(self) -> str:
        return (
            f"<BookExtract: {len(self):,} of {self.sentences:,} sentences, {len(self.chapters):,}"
            " chapters>"
        )

    def __str__(self) -> str:
        """The extract as text: chapters with their headings, one sentence per line."""
        parts = [[one_line(self.title)]] if self.title else []
        for chapter, sentences in self.chapters:
            heading = [one_line(chapter.text), ""] if chapter.text else []
            parts.append([*heading, *(one_line(sentence.text) for sentence in sentences)])
        return "\n\n".join("\n".join(lines) for lines in parts)

    def to_markdown(self) -> str:
        """The extract as Markdown: headings, and a paragraph per sentence."""
        parts = [f"# {_markdown(self.title)}"] if self.title else []
        for chapter, sentences in self.chapters:
            parts += [f"## {_markdown(chapter.text)}"] if chapter.text else []
            parts += [_markdown(sentence.text) for sentence in sentences]
        return "\n\n".join(parts) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the extract into a file: text (`.txt`) or Markdown (`.md`), by its suffix. Raises
        `ValueError` for another suffix, and `OSError` if the file can't be written."""
        name = os.fspath(path)
        form = FORMATS.get(os.path.splitext(name)[1].lower())
        if form is None:
            raise ValueError(f"{name}: an extract is written as {', '.join(FORMATS)}")
        with AtomicFile(name) as file:
            file.write(self.in_format(form))

    def in_format(self, form: str) -> str:
        """The extract in a format: `"text"` or `"markdown"`."""
        return self.to_markdown() if form == "markdown" else f"{self}\n"


def spread(
    windows: Iterable[Span], lengths: Sequence[int], salience: Sequence[float], budget: int
) -> set[int]:
    """The indices of the sentences of an extract, by their salience, spread over the book.

    At the end of each window, the share of the budget that may be used is the share of the book
    that has been passed. Windows that have no room for a sentence are joined to those after them,
    so that any sentence of a stretch can be chosen.
    """
    total = sum(lengths)
    budget = min(budget, total)
    chosen: set[int] = set()
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
                chosen.add(i)
                room -= lengths[i]
                used += lengths[i]
        start, shortest = stop, total
    return chosen


def _markdown(text: str) -> str:
    """Text on one line in which no character is markup."""
    escaped = _MARKS.sub(r"\\\1", one_line(text))
    return _LIST.sub(r"\1\\", escaped)


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
        dtype: the precision in which the encoder was run, for example `"float32"`; None if it is
            unknown.
    """

    title: str | None
    levels: tuple[Level, ...]
    chapters: tuple[Unit, ...] = field(repr=False)
    context_tokens: int | None = None
    approximate: str | None = None
    dtype: str | None = None

    def __repr__(self) -> str:
        best = shortened(self.top(1, self.levels[0])[0].name, 40)
        name = shortened(self.name, 60)
        return f"<BookSalience {name}: {self.extent}; most salient {self.levels[0]}: {best}>"

    def _repr_html_(self) -> str:
        """The table of contents in a notebook, shaded, which opens down to the sentences."""
        notes, shown = self.footer, None
        if len(self.units("sentence")) > MAX_SENTENCES:
            shown = {unit.index for unit in self.extract(MAX_SENTENCES)}
            notes.append(f"Of the sentences, the most salient {MAX_SENTENCES:,} are shown.")
        contents = "".join(self.contents(shown, inline=True))
        return notebook_cell(f"{self.name}: {self.extent}", contents, notes)

    @property
    def shading(self) -> dict[Level, str]:
        """The operation that shades each level: the primary one."""
        return {level: self.at(level).primary_operation for level in self.levels}

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
        return counted({level: len(self.units(level)) for level in LEVELS})

    @property
    def notes(self) -> list[str]:
        """Notes to show with the scores, one sentence each."""
        notes = []
        if above := [f"{level}s" for level in self.levels if level != "sentence"]:
            notes.append(f"The scores of {' and '.join(above)} are from one pass over the book.")
        if "sentence" in self.levels and self.context_tokens is not None:
            notes.append(
                f"Sentences are read with up to {self.context_tokens:,} tokens of their chapter."
            )
        if self.approximate is not None:
            notes.append(f"The scores of sentences are approximate ({self.approximate}).")
        names = (name for level in self.levels for name in self.at(level).scores)
        return notes + comparisons(dict.fromkeys(names))

    @property
    def footer(self) -> list[str]:
        """The legend, the notes and the dtype, one sentence each, to show with the contents."""
        return [self.legend, *self.notes, *precision(self.dtype)]

    def contents(self, shown: Collection[int] | None = None, inline: bool = False) -> Iterator[str]:
        """The table of contents as HTML, one element per chapter; see `Contents`."""
        return Contents(self.shading, self.dtype, shown, inline).chapters(self.chapters)

    def units(self, level: Level) -> list[Unit]:
        """All units of a level in the order of the book; no sentences if they were not scored."""
        if level not in LEVELS:
            raise ValueError(f"level {level!r} is unknown; choose from {', '.join(LEVELS)}")
        units = list(self.chapters)
        for _ in range(LEVELS.index(level)):
            units = [child for unit in units for child in unit.children]
        return units

    def at(self, level: Level) -> UnitScores:
        """The scores of a level, with `scores_of`, `rank` and `compared` as `StorySalience` has
        them; scenes are compared within their chapter and sentences within their window. Raises
        `ValueError` if the level was not scored."""
        if not any(unit.scores for unit in self.units(level)):
            raise ValueError(
                f"level {level!r} was not scored; choose from {', '.join(self.levels)}"
            )
        if level == LEVELS[0]:
            return UnitScores(self.chapters)
        return UnitScores.of_children(self.units(LEVELS[LEVELS.index(level) - 1]))

    def top(self, k: int, level: Level | None = None, operation: str | None = None) -> list[Unit]:
        """The k most salient units of a level, by default the lowest that was scored; most salient
        first, ties in the order of the book."""
        scored = self.at(level or self.levels[-1])
        return [scored.units[i] for i in scored.highest(k, operation)]

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
        scored = self.at("sentence")
        lengths = [1] * len(scored.units)
        if words is None:
            budget = extract_length(len(lengths), k, share, DEFAULT_SHARE)
        elif k is None and share is None:
            budget, lengths = words, [len(unit.text.split()) for unit in scored.units]
        else:
            raise ValueError("choose a number of sentences, a share or a number of words")
        if budget < 1:
            raise ValueError(f"an extract has at least 1 sentence or word, not {budget}")
        chosen = spread(scored.windows, lengths, scored.compared(operation), budget)
        if not chosen:
            raise ValueError(f"no part of the book has a sentence of {words} words; allow more")
        chapters = []
        for chapter in self.chapters:
            inside = UnitScores.of_children(chapter.children).units
            if units := tuple(unit for unit in inside if unit.index in chosen):
                chapters.append((chapter, units))
        return BookExtract(self.title, tuple(chapters), len(lengths))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON: title, levels, context_tokens, approximate, dtype, the scores of
        chapters, and the chapters with the sentences, spans, windows and scores of their scenes."""
        return self.book_row() | {"chapters": [row_of(chapter) for chapter in self.chapters]}

    def book_row(self) -> dict[str, Any]:
        """The part of `to_dict` that is about the book as a whole."""
        return {
            "title": self.title,
            "levels": list(self.levels),
            "context_tokens": self.context_tokens,
            "approximate": self.approximate,
            "dtype": self.dtype,
            "scores of chapters": UnitScores(self.chapters).scores,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BookSalience:
        """A result from plain data: the inverse of `to_dict`. Raises `ValueError` if the data are
        no result."""
        try:
            levels = tuple(level for level in LEVELS if level in data["levels"])
            chapters = chapters_of(data["chapters"], data["scores of chapters"])
            # Results that were saved without a dtype have none.
            settings = data["context_tokens"], data["approximate"], data.get("dtype")
            result = cls(data["title"], levels, chapters, *settings)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{_WRONG}: it has no valid {error}") from None
        if not levels or not all(result.units(level)[0].scores for level in levels):
            raise ValueError(f"{_WRONG}: it has no scores of one of its 'levels'")
        return result

    def to_pandas(self) -> pandas.DataFrame:
        """A table with a row per unit of the levels that were scored, in the order of the book,
        larger units first: its level, the numbers of its chapter and scene (counted from 0 in the
        book), its index in the level, start, end, text or heading, and each operation, without a
        number where it was not scored."""
        import pandas

        rows = []
        for chapter in self.chapters:
            inside = [
                (scene, unit) for scene in chapter.children for unit in (scene, *scene.children)
            ]
            for scene, unit in [(None, chapter), *inside]:
                if unit.level in self.levels:
                    place = {"chapter": chapter.index, "scene": scene and scene.index}
                    about = {"start": unit.span[0], "end": unit.span[1], "text": unit.text}
                    rows.append(
                        {"level": unit.level, **place, "index": unit.index, **about, **unit.scores}
                    )
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
        scored = self.at(level)
        return scored.figure(
            path,
            operations,
            [unit.name for unit in scored.units],
            top=top,
            width=width,
            title=f"{self.name}: {level}s",
            notes=self.notes,
            bare=bare,
            unit=level,
        )


def read_book_salience(path: str | os.PathLike[str]) -> BookSalience:
    """Read the saved salience of a book.

    Args:
        path: a file that `narrative-twins book` wrote as JSON or JSON Lines, or
            `BookSalience.to_dict` as JSON.

    Raises:
        ValueError: the file can't be read, has no such result, or it is not complete.
    """
    name = os.fspath(path)
    try:
        *chapters, book = [json.loads(line) for line in _lines(name)] or [{}]
        if "levels" not in book:
            raise ValueError("the result of the book is not complete; resume the run by --resume")
        return BookSalience.from_dict({"chapters": chapters} | book)
    except OSError as error:
        raise ValueError(f"{name}: can't be read ({error.strerror}); check the name") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None


def is_book_salience(path: str | os.PathLike[str]) -> bool:
    """Whether a file has the saved salience of a book, by the keys of its first line; False if it
    can't be read."""
    try:
        data = json.loads(next(_lines(path), ""))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, Mapping) and ("chapters" in data or "scenes" in data)


def _lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """The lines of a file of JSON objects that are not blank. Raises `ValueError` for another one
    and for a longer one than a JSON document may be, before it is read to its end."""
    with open(path, encoding="utf-8") as file:
        while line := file.readline(_PIECE):
            if line.strip() and not line.lstrip().startswith("{"):
                raise ValueError("a line is not a JSON object")
            if not line.endswith("\n"):
                line += file.readline(MAX_DOCUMENT)
            if len(line) > MAX_DOCUMENT:
                raise ValueError(f"a line has more than {MAX_DOCUMENT:,} characters")
            if line.strip():
                yield line


@dataclass(frozen=True)
class Contents:
    """How a book is shown.

    Attributes:
        operations: by level the operation that shades it, for the levels that were scored.
        dtype: the dtype of the scores, which decides on their decimals.
        shown: the indices of the sentences that are shown; None for all.
        inline: colours in attributes, which are the same on light and dark pages, for notebooks
            that drop style sheets; otherwise the variables `--light` and `--dark` of elements of
            the class `unit`, for a style sheet.
    """

    operations: Mapping[Level, str]
    dtype: str | None = None
    shown: Collection[int] | None = None
    inline: bool = False

    def chapters(self, chapters: Sequence[Unit]) -> Iterator[str]:
        """Each chapter as an element that opens."""
        for chapter, style in zip(chapters, self._styles(chapters), strict=True):
            scenes = chapter.children
            inner = [self._sentences(scene) for scene in scenes]
            if len(scenes) > 1:
                inner = [
                    self._opening(scene, f"scene {number}", its_style, sentences)
                    for number, (scene, its_style, sentences) in enumerate(
                        zip(scenes, self._styles(scenes), inner, strict=True), start=1
                    )
                ]
            yield self._opening(chapter, chapter.name, style, "".join(inner))

    def _opening(self, unit: Unit, name: str, style: str, inner: str) -> str:
        scores = (
            f" <small>{escape(described(unit.scores, self.dtype))}</small>" if unit.scores else ""
        )
        title = f"<bdi>{escape(one_line(name))}</bdi>"
        heading = f'<span class="unit {unit.level}"{style}>{title}</span>{scores}'
        if not inner:
            return f'<div class="closed">{heading}</div>\n'
        indent = ' style="margin-left:1.2em"' if self.inline else ""
        return f"<details{indent}><summary>{heading}</summary>{inner}</details>\n"

    def _sentences(self, scene: Unit) -> str:
        parts: list[str] = []
        styles = self._styles(scene.children, scene.windows)
        for at, (sentence, style) in enumerate(zip(scene.children, styles, strict=True)):
            if self.shown is not None and sentence.index not in self.shown:
                continue
            if parts:
                parts.append("</p><p>" if at in scene.paragraphs else " ")
            scores = described(sentence.scores, self.dtype)
            title = escape(f"sentence {sentence.index + 1}: {scores}")
            text = escape(one_line(sentence.text))
            parts.append(
                f'<span class="unit sentence" dir="auto"{style} title="{title}">{text}</span>'
            )
        return f"<p>{''.join(parts)}</p>" if parts else ""

    def _styles(self, units: Sequence[Unit], windows: Sequence[Span] | None = None) -> list[str]:
        """The style attribute of each unit, with its shade among these units."""
        operation = self.operations.get(units[0].level) if units else None
        if operation is None:
            return [""] * len(units)
        scores = UnitScores(units, windows).shaded(operation)
        light = map(hex_color, shades(scores))
        if self.inline:
            own = f"color:{INK};padding:1px 2px"
            return [f' style="background:{colour};{own}"' for colour in light]
        dark = map(hex_color, shades(scores, PALE_DARK, STRONG_DARK))
        return [f' style="--light:{a};--dark:{b}"' for a, b in zip(light, dark, strict=True)]
