"""Extracts of books: salient sentences from all parts of a book, as text and Markdown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor

from narrative_twins.files import AtomicFile
from narrative_twins.plots.style import one_line
from narrative_twins.salience.books.units import Unit, compared, sentences_of
from narrative_twins.salience.result import extract_length

DEFAULT_SHARE = 1 / 10

FORMATS = {".txt": "text", ".md": "markdown"}
"""The formats of extracts by the suffix of the file."""

_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
_LIST = re.compile(r"^(\d+)([.)])|^([-+=])")


@dataclass(frozen=True)
class BookExtract:
    """Salient sentences of a book in story order, from `BookSalience.extract`. `print` shows them
    as text.

    Attributes:
        title: the title of the book, if it is known.
        chapters: the chapters of which there is a sentence, each with these.
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
            raise ValueError(
                f"{name}: an extract is written as {', '.join(FORMATS)}; name such a file"
            )
        with AtomicFile(name) as file:
            file.write(self.in_format(form))

    def in_format(self, form: str) -> str:
        """The extract in a format: `"text"` or `"markdown"`."""
        return self.to_markdown() if form == "markdown" else f"{self}\n"


def extract(
    title: str | None,
    chapters: Sequence[Unit],
    operation: str,
    k: int | None = None,
    share: float | None = None,
    words: int | None = None,
) -> BookExtract:
    """The extract of a book by an operation, see `BookSalience.extract`."""
    sentences, spans = sentences_of(scene for chapter in chapters for scene in chapter.children)
    if words is None:
        budget = extract_length(len(sentences), k, share, DEFAULT_SHARE)
    elif k is None and share is None:
        budget = words
    else:
        raise ValueError("choose one length: a number of sentences, a share, or a number of words")
    if budget < 1:
        raise ValueError(f"an extract has at least 1 sentence or word, not {budget}")
    windows = [sentences[lo:hi] for lo, hi in spans]
    values = compared(sentences, operation, spans)
    salience = {unit.index: value for unit, value in zip(sentences, values, strict=True)}
    chosen = _spread(windows, salience, budget, by_words=words is not None)
    if not chosen:
        raise ValueError(
            f"no stretch of the book has a sentence for an extract of {words} words; allow more"
        )
    found = []
    for chapter in chapters:
        units = tuple(
            unit for scene in chapter.children for unit in scene.children if unit.index in chosen
        )
        if units:
            found.append((chapter, units))
    return BookExtract(title, tuple(found), len(sentences))


def _spread(
    windows: Sequence[Sequence[Unit]], salience: Mapping[int, float], budget: int, by_words: bool
) -> set[int]:
    """The indices of the sentences of an extract, by their salience.

    At the end of each window, the share of the budget that may be used is the share of the book
    that has been passed. Windows that have no room for a sentence are joined to those after them,
    so that each sentence of a stretch can be the one that is chosen.
    """
    length = {
        unit.index: len(unit.text.split()) if by_words else 1
        for window in windows
        for unit in window
    }
    total, passed, used = sum(length.values()), 0, 0
    stretch: list[Unit] = []
    chosen: set[int] = set()
    for window in windows:
        stretch += window
        passed += sum(length[unit.index] for unit in window)
        room = floor(min(budget, total) * passed / total) - used if total else 0
        found = []
        for unit in sorted(stretch, key=lambda unit: -salience[unit.index]):
            if 0 < length[unit.index] <= room:
                room -= length[unit.index]
                found.append(unit.index)
        if found:
            chosen.update(found)
            used += sum(length[index] for index in found)
            stretch = []
    return chosen


def _markdown(text: str) -> str:
    """Text on one line in which no character is markup."""
    escaped = _MARKS.sub(r"\\\1", one_line(text))
    return _LIST.sub(
        lambda found: f"{found[1]}\\{found[2]}" if found[1] else f"\\{found[3]}", escaped
    )
