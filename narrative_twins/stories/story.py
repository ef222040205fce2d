"""Stories: the sentences of a text in order, their character spans, and their windows."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice, pairwise
from typing import Any, Literal, TypeAlias, TypeGuard

from narrative_twins.stories.headings import regions_between_headings
from narrative_twins.stories.sentences import (
    Span,
    SplitFunction,
    Splitter,
    check_splitter,
    is_blank,
    split_sentences,
)
from narrative_twins.stories.speech import with_cues
from narrative_twins.text import shown_value

Order: TypeAlias = tuple[int, ...]
"""Sentence indices in the order they are read."""
Windows: TypeAlias = int | Literal["auto"] | Sequence[int] | Sequence[Sequence[int]]
"""Windows of a story, see `Story.parse`."""

AUTO_WINDOW = 7
"""About how many sentences a window has with `windows="auto"`: five windows for 35 sentences."""
AUTO_SINGLE = 10
"""`windows="auto"` makes a single window of up to this many sentences."""

MAX_STORY = 8_000_000
"""Characters of a story; four times a long novel. Books may have more: each chapter is a story."""

_COLUMN = "of a batch of rows pass a single column, such as batch['text'] or batch['story']"
CONTENTS = {"sentences", "story", "text"}
NAME_COLUMNS = (
    *("id", "storyid", "docid", "documentid", "textid", "title", "storytitle", "storyname"),
    *("moviename", "movietitle", "filmtitle", "booktitle", "docname", "name", "filename"),
)
"""Columns with the name of a story, which becomes its id: the first that has a value. They are
written as `simple_name` has them, so that `story_id` and `Story ID` are `storyid`."""
_ROWS = (
    "its rows: to_dict('records') of pandas, to_dicts() of polars, to_pylist() of pyarrow,"
    " with_format(None) of a data set"
)
_DECODE = "decode them: data.decode('utf-8')"
_EMPTY = "the story is empty; give it at least one sentence"


class StoryError(ValueError):
    """A story that can't be read or scored. `problem` says what is wrong, where in the story, and
    how to fix it. `index` is the story's index in the input, or None; the message counts from 1."""

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
        text: the original text; for a list of sentences, these joined by one space.
        spans: the half-open character span of each sentence: `text[start:end] == sentence`.
        windows: half-open ranges of sentence indices that partition the story, in order.
        id: the id given with the story; None without one.
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
            source: raw text; a list of sentences; a list of windows, each a list of sentences; a
                mapping with `"text"`, `"sentences"` (or `"story"`, as in the package's data sets)
                or both (the sentences are then located in the text) and optionally `"windows"`,
                and an `"id"` or another of `NAME_COLUMNS`; a `Story`, returned unchanged; or a
                `StoryError`, which is raised. A `Book`, or another object with `text` and
                `paragraphs` (spans), is a text; each of its sentences lies in one paragraph.
            windows: for a source without windows: `"auto"` (one window for up to ten sentences,
                otherwise windows of about seven), the number of windows, which are of even size,
                the sizes of the windows, or half-open `[lo, hi]` pairs of sentence indices.
            splitter: how raw text is split: `"auto"` (default; also `"sentences"`), by the marks of
                every script; `"lines"`, `"paragraphs"` or the code of a language; all without
                headings; or a function from text to sentences.

        Raises:
            StoryError: the source is not a story, has an empty sentence or is a text of more than
                `MAX_STORY` characters, or the windows do not partition the sentences.

        Example:
            ```python
            from narrative_twins import Story

            story = Story.parse("Nadia ran. It rained. She fell. It was dark.", windows=2)
            assert story.windows == ((0, 2), (2, 4))
            ```
        """
        source = plain_row(source)
        if isinstance(source, Story):
            return source
        if isinstance(source, StoryError):
            raise source
        if is_table(source):
            raise StoryError(f"a story is not a table, {type(source).__name__}; pass {_ROWS}")
        story_id: str | int | None = None
        text: Any = None
        if isinstance(source, Mapping):
            name, text = name_column(source), source.get("text")
            story_id = None if name is None else _check_id(source[name])
            own_windows = source.get("windows")
            windows = windows if own_windows is None else own_windows
            source = _content(source)
        if _is_text(source):
            text = _plain_text(source)
            regions = None if isinstance(source, str) else source.paragraphs
            check_length(len(text))  # Splitting a longer one may take minutes.
            spans = sentence_spans(text, splitter, regions)
            sentences = [text[start:stop] for start, stop in spans]
        else:
            sentences, sizes = _from_list(source)
            check_length(sum(map(len, sentences)))
            text = " ".join(sentences) if text is None else _plain_text(text)
            spans = _locate(sentences, text)
            windows = sizes or windows
        ranges = partition(len(sentences), windows)
        return cls(tuple(sentences), text, tuple(spans), ranges, story_id)


def plain_row(source: Any) -> Any:
    """Convert a row of a table to a mapping: a named tuple, or a row of pandas or a database that
    has a column of stories. Return the value of a cell of pyarrow, and anything else unchanged."""
    if hasattr(source, "as_py"):
        return source.as_py()
    if hasattr(source, "_asdict"):
        return source._asdict()
    if isinstance(source, Mapping) or is_table(source):
        return source
    keys = source.keys() if hasattr(source, "keys") else ()
    return {key: source[key] for key in keys} if CONTENTS & set(keys) else source


def check_stories(stories: Any) -> None:
    """Raise a `TypeError` if `stories` is a single story, or can't contain stories."""
    if isinstance(stories, bytes):
        raise TypeError(f"expected a story or several stories, not bytes; {_DECODE}")
    if isinstance(plain_row(stories), (str, Mapping, Story)):
        raise TypeError("expected several stories, not a single one; put it in a list: [story]")
    if getattr(stories, "batch_sampler", None) is not None:  # each batch would be one story
        raise TypeError(
            "a DataLoader has batches of stories, not stories; pass its data set, loader.dataset"
        )
    if is_table(stories):
        raise TypeError(
            f"a table is not a list of stories; pass a column, table['text'], or {_ROWS}"
        )
    if not isinstance(stories, Iterable):
        raise TypeError(f"expected a story or several stories, not {type(stories).__name__}")


def check_length(characters: int) -> None:
    """Raise a `StoryError` if a story has more than `MAX_STORY` characters."""
    if characters > MAX_STORY:
        raise StoryError(
            f"the story has {characters:,} characters, more than the limit of {MAX_STORY:,}; divide"
            " it into stories, or score it as a book"
        )


def partition(count: int, windows: Windows) -> tuple[Span, ...]:
    """Return the windows of `count` sentences as half-open ranges. `windows` is in any form that
    `Story.parse` accepts. Raises a `StoryError` for any other form, and for windows that do not
    cover every sentence exactly once and in order."""
    if isinstance(windows, str) and windows == "auto":
        return even_windows(count, 1 if count <= AUTO_SINGLE else round(count / AUTO_WINDOW))
    number = _as_int(windows)
    if number is not None and 1 <= number <= count:
        return even_windows(count, number)
    rows = _ranges(windows)
    # The windows begin at 0, each where the one before ends, and end at the count.
    edges = [0, *(row[-1] for row in rows if row)]
    if edges[-1] == count and rows == list(pairwise(edges)) and edges == sorted(set(edges)):
        return tuple(pairwise(edges))
    raise StoryError(
        f"windows={shown_value(windows)} does not partition the {count} sentence(s); windows are"
        f" 'auto', a count from 1 to {count}, sizes that add up to {count}, or [lo, hi] pairs that"
        f" run from 0 to {count} without a gap"
    )


def _ranges(windows: Any) -> list[tuple[int, ...]]:
    """Return windows that are sizes as ranges; those that are lists, as tuples; others as `[]`."""
    sizes = _as_ints(windows)
    if sizes and min(sizes) > 0:
        return list(pairwise(accumulate(sizes, initial=0)))
    return [_as_ints(row) for row in windows] if _is_list(windows) else []


def even_windows(sentences: int, count: int) -> tuple[Span, ...]:
    """Return half-open ranges that divide sentences evenly: 5 into 2 are `((0, 2), (2, 5))`."""
    return tuple(pairwise(w * sentences // count for w in range(count + 1)))


def parse_windows(text: str) -> Windows:
    """Parse `auto`, a count of windows or sizes `7,7,6`. Raises a `ValueError` for other text."""
    if text == "auto":
        return "auto"
    try:
        sizes = [int(size) for size in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{text!r} is neither auto, a count such as 5, nor sizes such as 7,7,6"
        ) from None
    return sizes[0] if len(sizes) == 1 else sizes


def sentence_spans(
    text: str, splitter: Splitter | None, regions: Sequence[Span] | None = None
) -> list[Span]:
    """Return the spans of the sentences of a text, each within one of the `regions`, which are
    spans; by default the parts between headings, or the complete text if a function splits it.
    Raises a `StoryError` without a sentence, or if the splitter loses text."""
    check_unicode(text, "the text")
    split = check_splitter(splitter)
    if regions is None:
        regions = [(0, len(text))] if callable(splitter) else regions_between_headings(text)
    spans = [span for region in regions for span in _split_region(text, region, split)]
    if not spans:
        raise StoryError(_EMPTY)
    is_by_rules = getattr(split, "func", split) is split_sentences  # also of a language
    return with_cues(text, spans) if is_by_rules else spans


def check_unicode(text: str, where: str) -> None:
    """Raise a `StoryError` if a text has a lone surrogate; `where` names the text."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise StoryError(
            f"{where} has a lone surrogate (U+{ord(text[error.start]):04X}) at character"
            f" {error.start}, half a character; repair it with text.encode('utf-16',"
            " 'surrogatepass').decode('utf-16', 'replace')"
        ) from None


def _content(row: Mapping[str, Any]) -> Any:
    """Return the sentences in a mapping, or its text if it has no sentences. Raises a `StoryError`
    if it has neither, or has windows twice."""
    text = row.get("text")
    # Rows of `datasets` in a batch would be mistaken for windows.
    if type(row).__name__ == "LazyBatch" or not (text is None or _is_text(text)):
        raise StoryError(
            f"'text' is {type(text).__name__}, not text; pass sentences as 'sentences'; {_COLUMN}"
        )
    lists = [value for value in (row.get("sentences"), row.get("story")) if _is_list(value)]
    values = [*lists, row.get("sentences"), text, row.get("story")]
    content = next((value for value in values if value is not None), None)
    if content is None:
        keys = ", ".join(map(shown_value, islice(row, 10))) or "none"
        raise StoryError(f"the mapping has no 'sentences', 'story' or 'text' (its keys: {keys})")
    if row.get("windows") is not None and _has_windows(content):
        raise StoryError(
            "the windows are given twice, by 'windows' and by a list of lists; remove one of them"
        )
    return content


def _is_text(value: Any) -> bool:
    """Return whether a value is a text, or has `text` and `paragraphs` as a `Book` has."""
    return isinstance(value, str) or (hasattr(value, "paragraphs") and hasattr(value, "text"))


def _plain_text(source: Any) -> str:
    """Return a text that is a string, or in an object such as a `Book`."""
    return source if isinstance(source, str) else str(source.text)


def simple_name(column: Any) -> str:
    """Return the name of a column in small letters and digits only: `Story_ID` as `storyid`."""
    return "".join(filter(str.isalnum, str(column).lower()))


def name_column(row: Mapping[Any, Any]) -> Any:
    """Return the column of a row that has the name of its story: of `NAME_COLUMNS` the first with a
    text or a whole number in it, but `id` with any value; None without one."""
    columns = {simple_name(column): column for column in reversed(list(row))}
    for name in NAME_COLUMNS:
        value = plain_id(row[columns[name]]) if name in columns else None
        is_name = _as_int(value) is not None or (isinstance(value, str) and value != "")
        is_wrong = value is not None and not isinstance(value, str) and columns[name] == "id"
        if is_name or is_wrong:
            return columns[name]
    return None


def plain_id(value: Any) -> Any:
    """Return an id as it was before a table made it a float: a whole number as int, NaN as None;
    other values unchanged, also those that are no id."""
    if isinstance(value, int) or not hasattr(value, "is_integer"):
        return value
    return int(value) if value.is_integer() else None if value != value else value


def _check_id(value: Any) -> str | int | None:
    """Return the id of a story, a text or a whole number; None and NaN become None. Raises a
    `StoryError` for a value of another type."""
    if isinstance(value, str):
        check_unicode(value, "the id")
        return value
    value = plain_id(value)
    number = _as_int(value)
    if value is not None and number is None:
        raise StoryError(
            f"the id is {type(value).__name__}; an id is a text or a whole number; {_COLUMN}"
        )
    return number


def _from_list(source: Any) -> tuple[list[str], list[int] | None]:
    """Return the sentences in a list of sentences or of windows (lists of sentences), and the sizes
    of the windows, or None. Raises a `StoryError` for other values or empty sentences."""
    if not _is_list(source):
        hint = f"; {_DECODE}" if isinstance(source, bytes) else ""
        kind = type(source).__name__
        raise StoryError(f"a story is a text, a list of sentences or a mapping, not {kind}{hint}")
    sentences, sizes = list(source), None
    if _has_windows(sentences):
        sizes = [len(window) for window in sentences]
        sentences = [sentence for window in sentences for sentence in window]
    if not sentences:
        raise StoryError(_EMPTY)
    for i, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            kind = type(sentence).__name__
            raise StoryError(f"sentence {i} is {kind}, not text: {shown_value(sentence)}")
        if is_blank(sentence):
            raise StoryError(f"sentence {i} is empty or white space; leave it out")
        check_unicode(sentence, f"sentence {i}")
    return sentences, sizes


def _split_region(text: str, span: Span, split: SplitFunction) -> list[Span]:
    """Split the part `span` of a text; return the spans of the sentences in the text."""
    start, region = span[0], text[slice(*span)]
    # Pieces of only white space and control characters are not sentences and are in no span.
    pieces = (str(piece).strip() for piece in split(region))
    located = _locate([piece for piece in pieces if not is_blank(piece)], region)
    # A splitter may drop punctuation between sentences, but not letters or digits.
    edges = [0, *(edge for span in located for edge in span), len(region)]
    for lo, hi in zip(edges[::2], edges[1::2], strict=True):
        if any(map(str.isalnum, region[lo:hi])):
            lost = region[lo:hi].strip()[:40]
            raise StoryError(f"the splitter lost text at character {start + lo}: {lost!r}")
    return [(start + lo, start + hi) for lo, hi in located]


def _locate(sentences: Sequence[str], text: str) -> list[Span]:
    """Return the character span of each sentence in the text. The search for a sentence begins at
    the end of the sentence before. Raises a `StoryError` if a sentence is not there."""
    spans: list[Span] = []
    end = 0
    for i, sentence in enumerate(sentences):
        start = text.find(sentence, end)
        if start < 0:
            raise StoryError(
                f"sentence {i} ({sentence[:60]!r}) is not in the text after character {end}"
            )
        end = start + len(sentence)
        spans.append((start, end))
    return spans


def is_table(value: Any) -> bool:
    """Return whether `value` is a table of pandas, polars or pyarrow."""
    return hasattr(value, "columns") and (hasattr(value, "to_dict") or hasattr(value, "to_pylist"))


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    """Return whether `value` is an ordered collection (list, tuple, array, column), not text."""
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__getitem__"):
        return False
    # Also false for arrays without dimensions, which have no length.
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0


def _has_windows(value: Any) -> bool:
    """Return whether `value` is a list of windows, which are lists."""
    return _is_list(value) and len(value) > 0 and all(map(_is_list, value))


def _as_int(value: Any) -> int | None:
    """Return an int, or an integer of numpy, as int; None for anything else, also for a boolean."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _as_ints(values: Any) -> tuple[int, ...]:
    """Return the items of a list as int, -1 for an item that is no integer; `()` for no list."""
    numbers = map(_as_int, values) if _is_list(values) else ()
    return tuple(-1 if number is None else number for number in numbers)
