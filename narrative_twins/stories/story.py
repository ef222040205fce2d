"""Stories: the sentences of a text in order, their character spans, and the windows they are scored
in."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypeAlias

from narrative_twins.stories.books.book import Book
from narrative_twins.stories.splitting import (
    SPLITTERS,
    SplitFunction,
    Splitter,
    check_splitter,
    text_regions,
)
from narrative_twins.stories.values import all_text, as_int, is_blank, is_list
from narrative_twins.stories.windows import Span, even_windows

Windows: TypeAlias = (
    int | Literal["auto"] | Sequence[int] | Sequence[Sequence[int]] | Sequence[Sequence[str]]
)

AUTO_WINDOW = 7
"""Target size of the windows of `windows="auto"`, in sentences: five windows for a synopsis of 35
sentences."""
AUTO_SINGLE = 10
"""`windows="auto"` makes a single window of up to this many sentences."""

_COLUMN = "of a batch of rows pass a single column, such as batch['text'] or batch['story']"

_REPR = reprlib.Repr()
_REPR.maxlevel = 3


class StoryError(ValueError):
    """A story that can't be read or scored: `problem` is what is wrong, where in the story, and how
    to fix it; `index` is the index of the story in the input, counted from 0, if known. The message
    calls the first one "story 1".
    """

    def __init__(self, problem: str, index: int | None = None) -> None:
        super().__init__(problem, index)
        self.problem = problem
        self.index = index

    def __str__(self) -> str:
        return self.problem if self.index is None else f"story {self.index + 1}: {self.problem}"


@dataclass(frozen=True)
class Story:
    """A story, made by `Story.parse`.

    Attributes:
        sentences: the sentences in order, each exactly as in `text`.
        text: the original text; sentences given as a list are joined by one space.
        spans: the half-open character span of each sentence: `text[start:end] == sentence`.
        windows: half-open ranges of sentence indices that partition the story, in order.
        id: the id given with the story, if any.
    """

    sentences: tuple[str, ...]
    text: str = field(repr=False)
    spans: tuple[Span, ...] = field(repr=False)
    windows: tuple[Span, ...]
    id: str | int | None = None

    def __len__(self) -> int:
        return len(self.sentences)

    @classmethod
    def parse(
        cls, source: Any, windows: Windows = "auto", splitter: Splitter | None = None
    ) -> Story:
        """Make a story from any supported form.

        Args:
            source: raw text; a list of sentences; a list of lists of sentences (windows); a mapping
                with `"text"`, `"sentences"` (or `"story"`, as in the package's data sets) or both
                (the sentences are then located in the text) and optionally `"windows"`, `"id"`; or
                a `Story`, returned unchanged. A `StoryError` in the place of an unreadable story is
                raised. A `Book` is a text whose headings are known, and whose sentences end where
                its paragraphs do.
            windows: for a source without its own windows: `"auto"` (one window for up to ten
                sentences, otherwise windows of about seven), a number of even windows, the sizes of
                the windows, or the windows themselves as lists of sentences, lists of sentence
                indices or half-open `[lo, hi]` pairs.
            splitter: how raw text is split: `"sentences"` (default), `"lines"` or `"paragraphs"`,
                without headings (see `find_headings`), or a function from a text to its sentences.

        Raises:
            StoryError: the source is not a story or has an empty sentence, or the windows do not
                partition it.
        """
        if isinstance(source, Story):
            return source
        if isinstance(source, StoryError):
            raise source
        story_id: str | int | None = None
        text: str | Book | None = None
        if isinstance(source, Mapping):
            if (
                type(source).__name__ == "LazyBatch"
            ):  # of `datasets`; else mistaken for a story in windows
                raise StoryError(f"the story is a batch of several rows; {_COLUMN}")
            story_id, own_windows = _check_id(source.get("id")), source.get("windows")
            text = source.get("text")
            if text is not None and not isinstance(text, (str, Book)):
                raise StoryError(
                    f"'text' is {type(text).__name__}, not text; pass sentences as 'sentences';"
                    f" {_COLUMN}"
                )
            source = _text_or_sentences(source)
            if own_windows is not None and is_list(source) and all(map(is_list, source)):
                raise StoryError(
                    "the windows are given twice, by 'windows' and by a list of lists; remove one"
                    " of them"
                )
            windows = windows if own_windows is None else own_windows
        text = text.text if isinstance(text, Book) else text
        if isinstance(source, (str, Book)):
            text = source if isinstance(source, str) else source.text
            spans = sentence_spans(
                text, splitter, None if isinstance(source, str) else source.paragraphs
            )
            sentences = [text[start:stop] for start, stop in spans]
        else:
            sentences, sizes = _from_list(source)
            text = " ".join(sentences) if text is None else text
            spans = _locate(sentences, text)
            windows = windows if sizes is None else sizes
        return cls(tuple(sentences), text, tuple(spans), partition(sentences, windows), story_id)


def check_stories(stories: Any) -> None:
    """Raise a `TypeError` for input that is a single story or can't contain stories."""
    if isinstance(stories, (str, bytes, Mapping, Story)):
        raise TypeError("expected several stories, not a single one; put it in a list: [story]")
    if hasattr(stories, "columns") and hasattr(stories, "to_dict"):
        raise TypeError(
            "a table is not a list of stories; pass a column, table['text'], or"
            " table.to_dict('records')"
        )
    if not isinstance(stories, Iterable):
        raise TypeError(f"expected a story or several stories, not {type(stories).__name__}")


def partition(sentences: Sequence[str], windows: Windows) -> tuple[Span, ...]:
    """Convert windows in any form that `Story.parse` accepts to half-open ranges of sentence
    indices; raise a `StoryError` if they have another form, or do not cover every sentence exactly
    once and in order.
    """
    n = len(sentences)
    if isinstance(windows, str):
        if windows != "auto":
            raise StoryError(
                f"windows={shown_value(windows)} is invalid; use 'auto', a count, sizes or lists"
            )
        return even_windows(n, 1 if n <= AUTO_SINGLE else round(n / AUTO_WINDOW))
    count = as_int(windows)
    if count is not None:
        if not 1 <= count <= n:
            raise StoryError(
                f"windows={shown_value(count)} for {n} sentence(s); a count of windows goes from 1"
                f" to {n}"
            )
        return even_windows(n, count)
    if isinstance(windows, Iterable):
        spans = _parse_spans(list(windows), sentences)
        # No range may be empty, and each must start at the end of the previous range.
        if spans and spans[0][0] == 0 and spans[-1][1] == n and all(lo < hi for lo, hi in spans):
            if all(before[1] == after[0] for before, after in zip(spans, spans[1:], strict=False)):
                return tuple(spans)
    raise StoryError(
        f"windows={shown_value(windows)} does not partition the {n} sentence(s); every sentence"
        f" belongs to one window, in order: sizes that add up to {n}, or lists or [lo, hi] pairs"
        f" that run from 0 to {n} without a gap"
    )


def parse_windows(text: str) -> Windows:
    """Parse windows typed by a user: `auto`, a count, or sizes such as `7,7,6`; otherwise raise a
    `ValueError`."""
    if text == "auto":
        return "auto"
    try:
        sizes = [int(size) for size in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{text!r} is neither auto, a count such as 5, nor sizes such as 7,7,6"
        ) from None
    return sizes[0] if len(sizes) == 1 else sizes


def _text_or_sentences(source: Mapping[str, Any]) -> Any:
    sentences = next(
        (source[key] for key in ("sentences", "story") if is_list(source.get(key))), None
    )
    for found in (sentences, *map(source.get, ("sentences", "text", "story"))):
        if found is not None:
            return found
    windows = source.get("windows")
    if (
        isinstance(windows, Sequence)
        and windows
        and all(is_list(w) and all_text(w) for w in windows)
    ):
        return [sentence for window in windows for sentence in window]
    keys = ", ".join(map(shown_value, islice(source, 10))) or "none"
    raise StoryError(f"the mapping has no 'sentences', 'story' or 'text' (its keys: {keys})")


def _check_id(value: Any) -> str | int | None:
    if isinstance(value, str):
        check_unicode(value, "the id")
    elif value is not None and as_int(value) is None:
        raise StoryError(
            f"the id is {type(value).__name__}; an id is a text or a whole number; {_COLUMN}"
        )
    return value if value is None or isinstance(value, str) else as_int(value)


def sentence_spans(
    text: str, splitter: Splitter | None, regions: Sequence[Span] | None = None
) -> list[Span]:
    """The spans of the sentences of a text, each in one of the regions: default those that
    `text_regions` finds. Raises a `StoryError` if there is none, or if the splitter loses text."""
    check_unicode(text, "the text")
    if regions is None:
        split, regions = text_regions(text, splitter)
    else:
        check_splitter(splitter)
        split = splitter if callable(splitter) else SPLITTERS[splitter or "sentences"]
    spans = [span for region in regions for span in _split_region(text, region, split)]
    if not spans:
        raise StoryError("the story is empty; give it at least one sentence")
    return spans


def _split_region(text: str, span: Span, split: SplitFunction) -> list[Span]:
    start, region = span[0], text[slice(*span)]
    # Pieces of only white space and control characters are not sentences and are in no span.
    located = _locate(
        [trimmed for piece in split(region) if not is_blank(trimmed := str(piece).strip())], region
    )
    # A splitter may drop punctuation between sentences, but not letters or digits.
    edges = [0, *(edge for found in located for edge in found), len(region)]
    for lo, hi in zip(edges[::2], edges[1::2], strict=True):
        if any(map(str.isalnum, region[lo:hi])):
            raise StoryError(
                f"the splitter lost text at character {start + lo}: {region[lo:hi].strip()[:40]!r}"
            )
    return [(start + lo, start + hi) for lo, hi in located]


def _from_list(source: Any) -> tuple[list[str], list[int] | None]:
    """The sentences of a list, and the window sizes if it is a list of lists."""
    if not is_list(source):
        raise StoryError(
            f"a story is a text, a list of sentences or a mapping, not {type(source).__name__}"
        )
    items = list(source)
    if not items:
        raise StoryError("the story is empty; give it at least one sentence")
    if all(is_list(item) for item in items):
        sentences = [sentence for window in items for sentence in window]
        sizes: list[int] | None = [len(window) for window in items]
    else:
        sentences, sizes = items, None
    for i, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise StoryError(
                f"sentence {i} is {type(sentence).__name__}, not text: {shown_value(sentence)}"
            )
        if is_blank(sentence):
            raise StoryError(f"sentence {i} is empty or white space; leave it out")
        check_unicode(sentence, f"sentence {i}")
    return sentences, sizes


def _locate(sentences: Sequence[str], text: str) -> list[Span]:
    """The character span of each sentence in the text, searched for after the end of the previous
    one."""
    spans: list[Span] = []
    end = 0
    for sentence in sentences:
        start = text.find(sentence, end)
        if start < 0:
            raise StoryError(
                f"sentence {len(spans)} ({sentence[:60]!r}) is not in the text after character"
                f" {end}"
            )
        end = start + len(sentence)
        spans.append((start, end))
    return spans


def _parse_spans(windows: list[Any], sentences: Sequence[str]) -> list[Span]:
    """Ranges from window sizes, lists of sentences, lists of indices or pairs; an empty list for
    anything else."""
    sizes = [as_int(window) for window in windows]
    if not any(is_list(window) for window in windows):
        return (
            _from_sizes([size for size in sizes if size is not None]) if None not in sizes else []
        )
    if not all(is_list(window) and len(window) for window in windows):
        return []
    if all(all_text(window) for window in windows):
        equal = [sentence for window in windows for sentence in window] == list(sentences)
        return _from_sizes([len(window) for window in windows]) if equal else []
    rows = [[as_int(index) for index in window] for window in windows]
    flat = [index for row in rows for index in row]
    if None in flat:
        return []
    # Rows that together list all sentence indices in order are lists of indices; any other rows
    # must be pairs.
    if flat == list(range(len(sentences))):
        return _from_sizes([len(row) for row in rows])
    return (
        [(lo, hi) for lo, hi in rows if lo is not None and hi is not None]
        if {*map(len, rows)} == {2}
        else []
    )


def _from_sizes(sizes: list[int]) -> list[Span]:
    edges = [0]
    for size in sizes:
        edges.append(edges[-1] + size)
    return list(zip(edges, edges[1:], strict=False))


def shown_value(value: Any) -> str:
    """The first characters of any value, nested and long ones too, for a message."""
    try:
        text = _REPR.repr(value)
    except ValueError:  # an integer of thousands of digits
        text = type(value).__name__
    return text if len(text) <= 100 else f"{text[:97]}..."


def check_unicode(text: str, where: str) -> None:
    """Raise a `StoryError`, in which the text is called `where`, for a lone surrogate, which UTF-8
    can't encode."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise StoryError(
            f"{where} has a lone surrogate (U+{ord(text[error.start]):04X}) at character"
            f" {error.start}, half a character; repair it with text.encode('utf-16',"
            " 'surrogatepass').decode('utf-16', 'replace')"
        ) from None
