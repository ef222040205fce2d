"""The scenes of the chapters of a book: between marked breaks, or runs of sentences where a text
has no marks."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from narrative_twins.stories.books.book import Book
from narrative_twins.stories.books.reading import BookSentence, book_sentences
from narrative_twins.stories.sentences import Span, Splitter

SCENE = 60
"""Sentences of a scene, about, where a text without marked breaks is divided; twice as many are
still one scene."""
BLOCK = 20
"""Sentences before and after a place whose words are compared."""

_WORD = re.compile(r"\w+")


class DividedChapter(NamedTuple):
    """A chapter of a book that has sentences.

    Attributes:
        chapter: its index in the chapters of the book.
        sentences: its sentences in order.
        scenes: half-open ranges of the indices of its sentences, which partition them.
    """

    chapter: int
    sentences: tuple[BookSentence, ...]
    scenes: tuple[Span, ...]


def divided_chapters(book: Book, splitter: Splitter | None = None) -> list[DividedChapter]:
    """The chapters of a book with their sentences and scenes; those without a sentence are left
    out.

    A marked break begins a scene. A chapter or scene of more than twice `SCENE` sentences is
    divided, see `scene_spans`.

    Args:
        book: the book.
        splitter: how a paragraph is split, see `Story.parse`.

    Raises:
        StoryError: there is no sentence, or the splitter loses text.
    """
    by_chapter: dict[int, list[BookSentence]] = {}
    for sentence in book_sentences(book, splitter):
        by_chapter.setdefault(sentence.chapter, []).append(sentence)
    return [
        DividedChapter(chapter, tuple(found), _scenes(book, chapter, found))
        for chapter, found in by_chapter.items()
    ]


def paragraph_starts(sentences: Sequence[BookSentence]) -> list[int]:
    """The indices of those of a chapter's sentences that are the first of their paragraphs."""
    return [
        i
        for i, sentence in enumerate(sentences)
        if not i or sentence.paragraph != sentences[i - 1].paragraph
    ]


def within(ordered: Sequence[int], lo: int, hi: int) -> Sequence[int]:
    """The ordered numbers from `lo` to below `hi`."""
    return ordered[bisect_left(ordered, lo) : bisect_left(ordered, hi)]


def _scenes(book: Book, chapter: int, sentences: Sequence[BookSentence]) -> tuple[Span, ...]:
    breaks = sorted(book.chapters[chapter].breaks)
    starts, begun = paragraph_starts(sentences), 0
    marked: list[int] = []
    for start in starts:
        # A paragraph without a sentence, after a break, leaves the break to the next one.
        passed = bisect_right(breaks, sentences[start].paragraph)
        if passed > begun and start:
            marked.append(start)
        begun = passed
    texts = [book.text[slice(*sentence.span)] for sentence in sentences]
    return scene_spans(texts, starts, marked)


def scene_spans(
    sentences: Sequence[str], paragraphs: Iterable[int], breaks: Iterable[int] = ()
) -> tuple[Span, ...]:
    """The scenes of some sentences, as half-open ranges of their indices.

    Runs between breaks that have more than twice `SCENE` sentences are divided evenly into scenes
    of about `SCENE`. Each border is then moved by up to a third of a scene to the beginning of the
    paragraph where the words before and after it have least in common. Lexical cohesion is measured
    as in Hearst 1997, "TextTiling: Segmenting Text into Multi-paragraph Subtopic Passages"
    (Computational Linguistics 23:1), by the cosine of the counts of words in two blocks; here words
    count less the more sentences have them, in place of a list of stop words, and the number of
    borders is given by the length, so that no scene is tiny or huge.

    Args:
        sentences: the sentences of a chapter.
        paragraphs: the indices of sentences that begin a paragraph.
        breaks: the indices of sentences that begin a scene for certain, without 0, in order.
    """
    starts = sorted(paragraphs)
    edges = [0, *breaks, len(sentences)]
    for lo, hi in zip(edges[:-1], edges[1:], strict=True):
        if hi - lo > 2 * SCENE:
            edges += _borders(sentences, lo, hi, starts)
    edges.sort()
    return tuple(zip(edges, edges[1:], strict=False))


def _borders(sentences: Sequence[str], lo: int, hi: int, starts: Sequence[int]) -> list[int]:
    """The borders of scenes within the sentences `[lo, hi)`."""
    words = [Counter(_WORD.findall(sentence.casefold())) for sentence in sentences[lo:hi]]
    spread = Counter(word for found in words for word in found)
    weights = {word: math.log(len(words) / count) for word, count in spread.items()}
    count = round(len(words) / SCENE)
    reach = len(words) // count // 3
    borders = []
    for number in range(1, count):
        even = number * len(words) // count
        near = within(starts, lo + even - reach, lo + even + reach + 1)
        places = [start - lo for start in near] or [even]
        common = {place: _cohesion(words, place, weights) for place in places}
        borders.append(lo + min(places, key=lambda place: (common[place], abs(place - even))))
    return borders


def _cohesion(words: Sequence[Counter[str]], place: int, weights: Mapping[str, float]) -> float:
    """The cosine of the weighted counts of words in the blocks before and after a place."""
    before, after = (
        Counter(word for found in block for word in found.elements())
        for block in (words[max(0, place - BLOCK) : place], words[place : place + BLOCK])
    )
    product = sum(
        count * after[word] * weights[word] ** 2 for word, count in before.items() if word in after
    )
    norms = [
        sum((count * weights[word]) ** 2 for word, count in block.items())
        for block in (before, after)
    ]
    return product / math.sqrt(norms[0] * norms[1]) if norms[0] * norms[1] else 0.0
