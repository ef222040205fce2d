"""Splitting of raw text into sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias, TypeGuard

import syntok.segmenter

from narrative_twins.stories.headings import find_headings
from narrative_twins.stories.speech import REACH, in_english_marks, is_cue, is_tag
from narrative_twins.stories.windows import Span

SplitFunction: TypeAlias = Callable[[str], Iterable[str]]
SplitName: TypeAlias = Literal["sentences", "lines", "paragraphs"]
Splitter: TypeAlias = SplitName | SplitFunction
"""How raw text is split: by a name in `SPLITTERS`, without headings, or by a function, whose pieces
are all scored."""

SPLITTERS: dict[
    str, SplitFunction
] = {}  # the registry: functions by name; the first is the default

_BLANK_LINES = re.compile(r"\r?\n(?:[^\S\n]*\n)+")
# syntok knows these abbreviations, but not in capitals, as names are in screenplays and headlines.
_TITLE_IN_CAPITALS = re.compile(r"\b(?:MRS?|MS|DR|PROF|REV|CAPT|COL|GEN|LT|SGT)\.$")
_CLOSING = re.compile(r"\s?”+")
# Ends of Chinese and Japanese sentences, which no space follows. A quotation that ends there may be
# part of a longer sentence, so only another quotation ends it.
_IDEOGRAPHIC_END = re.compile(r"[。！？]+(?:(?![。！？”’」』）…，、])(?=\S)|[”」』]+(?=[“「『]))")


def split_sentences(text: str) -> list[str]:
    """The default splitter: `syntok`, with rules for the direct speech of stories.

    - A sentence is never split after a semicolon, nor after a title in capitals, as in `MRS.
      BENNET`.
    - Speech and the clause that says who spoke are one sentence: `"Stop!" I cried.`, `"Who's
      there?" Mr. Bennet asked.` A longer speech is split into sentences. See
      `narrative_twins.stories.speech.is_tag`.
    - The name of a character in a screenplay, such as `MARTA (V.O.)`, is one sentence with what
      comes after it.
    - `“...”`, `„...“`, `»...«`, `«...»` and `« ... »` are quotations, and an ellipsis may be one
      character.
    - Chinese and Japanese sentences end at 。！？ without a space.

    It needs no model and no network and takes linear time. `make splitters` compares it with
    alternatives.
    """
    marked = in_english_marks(text)
    spans: list[Span] = []
    for paragraph in syntok.segmenter.analyze(marked):
        for number, tokens in enumerate(paragraph):
            start, end = tokens[0].offset, tokens[-1].offset + len(tokens[-1].value)
            if number:
                before, stop = spans[-1]
                # syntok leaves a closing mark behind a space, as in French, to the next sentence.
                if closing := _CLOSING.match(marked, stop, end):
                    stop = closing.end()
                    start = max(start, stop)
                # It splits after a semicolon if a capital letter follows.
                is_open = marked[stop - 1] == ";" or is_cue(text[before:stop])
                is_open = is_open or bool(
                    _TITLE_IN_CAPITALS.search(text[max(before, stop - 6) : stop])
                )
                if is_open or is_tag(
                    text[max(before, stop - 10) : stop], text[stop : stop + REACH]
                ):
                    stop = end
                spans[-1] = (before, stop)
                start = max(start, stop)
            if text[start:end].strip():
                spans.append((start, end))
    return [sentence for start, end in spans for sentence in _ideographic(text[start:end].strip())]


def _ideographic(sentence: str) -> Iterator[str]:
    """A sentence of syntok, split where a Chinese or Japanese sentence ends."""
    start = 0
    for end in _IDEOGRAPHIC_END.finditer(sentence):
        yield sentence[start : end.end()].strip()
        start = end.end()
    yield sentence[start:].strip()


def split_lines(text: str) -> list[str]:
    """The lines of a text that are not blank, for verse and lists."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def split_paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, which blank lines separate."""
    return [paragraph.strip() for paragraph in _BLANK_LINES.split(text) if paragraph.strip()]


SPLITTERS |= {"sentences": split_sentences, "lines": split_lines, "paragraphs": split_paragraphs}


def is_split_name(name: object) -> TypeGuard[SplitName]:
    """Whether a value is the name of a splitter."""
    return isinstance(name, str) and name in SPLITTERS


def check_splitter(splitter: Any) -> None:
    """Raise a `TypeError` for what is neither None nor a splitter."""
    if (
        splitter is not None
        and not callable(splitter)
        and not (isinstance(splitter, str) and splitter in SPLITTERS)
    ):
        given = repr(splitter) if isinstance(splitter, str) else type(splitter).__name__
        names = ", ".join(map(repr, SPLITTERS))
        raise TypeError(
            f"a splitter is a function from a text to its sentences, or one of {names}; not {given}"
        )


def text_regions(text: str, splitter: Splitter | None) -> tuple[SplitFunction, list[Span]]:
    """The function that splits a text, and the spans to which it is applied, between which there
    are headings: the complete text if the splitter is a function, or if the text is nothing but
    headings."""
    check_splitter(splitter)
    if callable(splitter):
        return splitter, [(0, len(text))]
    headings = find_headings(text)
    edges = [0, *(edge for heading in headings for edge in heading), len(text)]
    regions = [
        (lo, hi)
        for lo, hi in zip(edges[::2], edges[1::2], strict=True)
        if any(map(str.isalnum, text[lo:hi]))
    ]
    return SPLITTERS[splitter or "sentences"], regions or [(0, len(text))]
