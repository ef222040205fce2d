"""Extracts of books: salient sentences from all parts of a book, as text and Markdown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from narrative_twins.files import AtomicFile
from narrative_twins.plots.style import one_line
from narrative_twins.salience.books.units import Unit
from narrative_twins.stories.sentences import Span

DEFAULT_SHARE = 1 / 10

FORMATS = {".txt": "text", ".md": "markdown"}
"""The formats of extracts by the suffix of the file."""

_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
_LIST = re.compile(r"^(\d+(?=[.)])|(?=[-+=]))")


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
