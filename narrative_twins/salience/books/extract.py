"""Extracts of books: salient sentences from all parts of a book, as text and Markdown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from narrative_twins.files import AtomicFile
from narrative_twins.plots.style import one_line
from narrative_twins.salience.books.units import Unit, UnitScores
from narrative_twins.salience.result import extract_length
from narrative_twins.stories.splitting import Span

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
    sentences: UnitScores,
    operation: str | None = None,
    k: int | None = None,
    share: float | None = None,
    words: int | None = None,
) -> BookExtract:
    """The extract of a book by an operation, from the scores of its sentences, see
    `BookSalience.extract`."""
    total = len(sentences.units)
    if words is None:
        budget = extract_length(total, k, share, DEFAULT_SHARE)
        lengths = [1] * total
    elif k is None and share is None:
        budget = words
        lengths = [len(unit.text.split()) for unit in sentences.units]
    else:
        raise ValueError("choose one length: a number of sentences, a share, or a number of words")
    if budget < 1:
        raise ValueError(f"an extract has at least 1 sentence or word, not {budget}")
    chosen = _spread(sentences.windows, lengths, sentences.compared(operation), budget)
    if not chosen:
        raise ValueError(
            f"no stretch of the book has a sentence for an extract of {words} words; allow more"
        )
    found = []
    for chapter in chapters:
        of_chapter = UnitScores.of_children(chapter.children).units
        if units := tuple(unit for unit in of_chapter if unit.index in chosen):
            found.append((chapter, units))
    return BookExtract(title, tuple(found), total)


def _spread(
    windows: Iterable[Span], lengths: Sequence[int], salience: Sequence[float], budget: int
) -> set[int]:
    """The indices of the sentences of an extract, by their salience.

    At the end of each window, the share of the budget that may be used is the share of the book
    that has been passed. Windows that have no room for a sentence are joined to those after them,
    so that any sentence of a stretch can be chosen.
    """
    total = sum(lengths)
    budget = min(budget, total)
    chosen: set[int] = set()
    start = passed = used = 0
    for lo, stop in windows:
        passed += sum(lengths[lo:stop])
        room = budget * passed // total - used
        before = used
        for i in sorted(range(start, stop), key=lambda i: -salience[i]):
            if 0 < lengths[i] <= room:
                chosen.add(i)
                room -= lengths[i]
                used += lengths[i]
        if used > before:
            start = stop
    return chosen


def _markdown(text: str) -> str:
    """Text on one line in which no character is markup."""
    escaped = _MARKS.sub(r"\\\1", one_line(text))
    return _LIST.sub(
        lambda found: f"{found[1]}\\{found[2]}" if found[1] else f"\\{found[3]}", escaped
    )
