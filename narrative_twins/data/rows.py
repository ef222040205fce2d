"""Checks of data rows, and their conversion from the supported forms to the columns of the
package's data sets. Errors name the file, the row, the problem and the fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, TypeAlias

from narrative_twins.stories.story import Story, StoryError
from narrative_twins.text import shown_value

Row: TypeAlias = dict[str, Any]
Cleaning: TypeAlias = Literal["full", "released"]
"""How the sentences of TRIPOD's table are cleaned, see `load_turning_points`."""

TWINS_COLUMNS = ("story", "twin", "negative", "negative_twin")
"""The columns of a row of narrative twins; all except the story may be missing or None."""

STORY_NAMES = ("story", "english_narrative")
TWIN_NAMES = ("twin", "narrative_twin", "translated_narrative_twin")
NEGATIVE_NAMES = ("negative", "negative_narrative")
NEGATIVE_TWIN_NAMES = ("negative_twin", "negative_narrative_twin")
TEXT_COLUMNS = (*STORY_NAMES, *TWIN_NAMES, *NEGATIVE_NAMES, *NEGATIVE_TWIN_NAMES)
"""The text columns of rows of narrative twins, in this package or as published; stories first."""

MIN_WINDOW = 3
"""Fewest sentences in a window of published rows, as in the paper on narrative twins."""


class RowError(ValueError):
    """An invalid row of data.

    Args:
        where: the file, the row (counted from 0) or its line, and its id, as far as they are known.
        problem: what is wrong, and how to fix it.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


class ShortWindowError(RowError):
    """The error of a row with too few sentences in a window of the story or the twin."""


# Checks of single columns. Each returns the checked content, or raises a RowError, in which `where`
# is the location of the row.


def find_column(row: Mapping[str, Any], *names: str) -> Any:
    """Return the content of the first of these columns that is not missing or None; else None."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def require_column(row: Mapping[str, Any], where: str, *names: str) -> Any:
    """Return the content of the first of these columns that has any. Raise RowError if none has."""
    content = find_column(row, *names)
    if content is None:
        others = f" (or {', '.join(map(repr, names[1:]))})" if names[1:] else ""
        columns = ", ".join(repr(name) for name in row if row[name] is not None) or "none"
        problem = f"no column {names[0]!r}{others}; the columns with content: {columns[:1000]}"
        raise RowError(where, problem)
    return content


def title_of(row: Mapping[str, Any]) -> str:
    """Return the `title` (or `storytitle`) of a row, or an empty text if it has none."""
    title = find_column(row, "title", "storytitle")
    return "" if title is None else str(title)


def is_nested(content: Any) -> bool:
    """Return whether the content of a column is a non-empty list of lists, such as windows."""
    is_list = isinstance(content, (list, tuple)) and bool(content)
    return is_list and all(isinstance(each, (list, tuple)) for each in content)


def check_list(
    content: Any, column: str, where: str, of: str, count: int | None = None
) -> list[Any]:
    """Return a list or tuple as a list. Raise RowError for other content, or for another length
    than the `count` of sentences, if given. `of` describes the elements: `"numbers of votes"`."""
    is_list = isinstance(content, (list, tuple))
    if is_list and count in (None, len(content)):
        return list(content)
    problem = f"is {type(content).__name__}; a list of {of} is needed"
    if is_list:
        problem = f"has {len(content)} {of} for {count} sentence(s); give each one"
    raise RowError(where, f"'{column}' {problem}")


def check_story(source: Any, column: str, where: str, windows: Any = 1) -> Story:
    """Parse the content `source` of a column by `Story.parse`; raise RowError if it is invalid."""
    try:
        return Story.parse(source, windows)
    except StoryError as error:
        raise RowError(where, f"'{column}': {error.problem}") from None


def check_sentences(content: Any, column: str, where: str) -> list[str]:
    """Return a list of sentences. Raise RowError for other content, or if a sentence is empty."""
    if is_nested(content) or isinstance(content, str):
        problem = "is a list of lists; a list of sentences is needed"
        if isinstance(content, str):
            problem = "is one text; split it into sentences (narrative_twins.split_sentences)"
        raise RowError(where, f"'{column}' {problem}")
    sentences = check_list(content, column, where, "sentences")
    return list(check_story(sentences, column, where).sentences)


def check_windows(content: Any, column: str, where: str) -> list[list[str]]:
    """Return windows, each a list of sentences (a plain list is one window), or raise RowError."""
    if not is_nested(content):
        return [check_sentences(content, column, where)]
    return [check_sentences(window, f"{column}[{w}]", where) for w, window in enumerate(content)]


def check_integers(values: Any, column: str, where: str, first: int, last: int) -> list[int]:
    """Return integers from `first` to `last`, if necessary from text, or raise RowError."""
    numbers = []
    for value in check_list(values, column, where, "whole numbers"):
        number = int(value) if isinstance(value, str) and value.isdecimal() else value
        if type(number) is not int or not first <= number <= last:
            needed = f"whole numbers from {first} to {last} are needed"
            raise RowError(where, f"'{column}' has {shown_value(value)}; {needed}")
        numbers.append(number)
    return numbers


def check_votes(votes: Any, column: str, count: int, where: str) -> list[int]:
    """Return the votes, one number for each of `count` sentences. Raise RowError if all are 0."""
    check_list(votes, column, where, "numbers of votes", count)
    checked = check_integers(votes, column, where, 0, 2**31 - 1)
    if not any(checked):
        raise RowError(where, f"'{column}' has no votes; at least one vote is needed")
    return checked


# Rows of narrative twins


def check_texts(row: Mapping[str, Any], where: str) -> list[str]:
    """Return the names of the text columns (`TEXT_COLUMNS`) of a row of twins. Raise RowError if
    there is no story, or a column is not a list of sentences or windows, or an object of such
    lists."""
    require_column(row, where, *STORY_NAMES)
    columns = [column for column in TEXT_COLUMNS if row.get(column) is not None]
    for column in columns:
        content = row[column]
        sections = content.items() if isinstance(content, Mapping) else [("", content)]
        for name, section in sections:
            check_windows(section, f"{column}[{name!r}]" if name else column, where)
    return columns


def check_twins_row(row: Mapping[str, Any], where: str) -> None:
    """Check that a row of narrative twins can be used for training.

    The columns are `story` and optionally `twin`, `negative` and `negative_twin`; others are
    ignored. A column is a list of windows or a list of sentences. A list of sentences is one window
    unless another column, for example `twin_windows` for `twin`, splits it into windows. That
    column has, for each sentence, a list of the windows that the sentence may belong to: usually
    one window, or none if the sentence is left out.

    Args:
        where: location of the row for error messages.

    Raises:
        RowError: a sentence is empty or not a string, or columns differ in their number of windows.
        ShortWindowError: a window has no sentence in one of the columns.
    """
    require_column(row, where, "story")
    count = 0  # of the windows of the story
    for column in TWINS_COLUMNS:
        content, windows_of = row.get(column), row.get(f"{column}_windows")
        if content is None:
            continue
        used = set(range(len(check_windows(content, column, where))))
        if windows_of is not None:
            if is_nested(content):
                raise RowError(where, f"'{column}' is a list of windows; remove '{column}_windows'")
            last = (len(content) if column == "story" else count) - 1
            name = f"{column}_windows"
            lists = check_list(windows_of, name, where, "lists of windows", len(content))
            used = {
                window
                for i, windows in enumerate(lists)
                for window in check_integers(windows, f"{name}[{i}]", where, 0, last)
            }
        if column == "story":
            count = max(used, default=0) + 1
        if windows_of is None and len(used) != count:
            problem = f"'{column}' has {len(used)} window(s) and 'story' {count}"
            raise RowError(where, f"{problem}; both need the same number")
        if empty := set(range(count)) - used:
            problem = f"no sentence of '{column}' is in window {min(empty)} of the story"
            raise ShortWindowError(where, f"{problem}; align one or use fewer windows")


def story_twins(row: Mapping[str, Any], where: str) -> Row:
    """Convert a row of a file to the columns of `load_story_twins`, except `id`. The row has
    `story`, `twin` (or `narrative_twin`) and optionally `negative`, `negative_twin` (or
    `negative_narrative_twin`), and `story_votes` and `negative_votes`, one number per sentence."""
    columns: Row = {
        "story": require_column(row, where, "story"),
        "twin": require_column(row, where, *TWIN_NAMES[:2]),
        "negative": row.get("negative"),
        "negative_twin": find_column(row, *NEGATIVE_TWIN_NAMES),
    }
    for column, content in columns.items():
        columns[column] = None if content is None else check_sentences(content, column, where)
    for column in ("story", "negative"):
        name, sentences = f"{column}_votes", len(columns[column] or ())
        votes = row.get(name)
        columns[name] = None if votes is None else check_votes(votes, name, sentences, where)
    return columns


def window_twins(
    row: Mapping[str, Any], where: str, windows: int, min_window: int | None = None
) -> Row:
    """Convert a row of a file to the columns of `load_window_twins`, except `id`. Plain lists of
    sentences are split into `windows` even windows. The row has one of these forms:

    - `title`, and `story`, `twin` and `negative` as lists of windows.
    - The published form: `english_narrative` and `translated_narrative_twin` as lists of sentences,
      `alignment` (pairs of a sentence of the story and a sentence of the twin), and
      `negative_narrative`, an object of `section_1`, `section_2` and so on.
    - The columns of `load_window_twins`.

    Raises ShortWindowError if a window of the story or the twin has fewer than `min_window`
    sentences. A `min_window` of None is `MIN_WINDOW` in the published form, and no minimum in
    others.
    """
    story = require_column(row, where, *STORY_NAMES)
    twin = require_column(row, where, "twin", "translated_narrative_twin")
    windows_of = row.get("twin_windows")
    is_unaligned = windows_of is None and not is_nested(twin)
    as_published = is_unaligned and not is_nested(story)
    least = min_window or (MIN_WINDOW if as_published else 0)
    if least and not is_nested(story) and len(check_sentences(story, "story", where)) < windows:
        problem = f"'story' has {len(story)} sentence(s), too few for {windows} windows"
        raise ShortWindowError(where, problem)
    story = _to_windows(story, "story", where, windows)
    negative = _negative_windows(row, where, windows)
    if is_unaligned:
        twin = check_sentences(twin, "twin", where)
        pairs = require_column(row, where, "alignment", "twin_windows")
        windows_of = twin_windows(_check_alignment(pairs, story, twin, where), story, len(twin))
    content = {"story": story, "twin": twin, "twin_windows": windows_of, "negative": negative}
    try:
        check_twins_row(content, where)
    except ShortWindowError as error:
        raise (error if least else RowError(where, error.problem)) from None
    if windows_of is None:
        windows_of = [[w] for w, window in enumerate(twin) for _ in window]
        twin = list(chain(*twin))
    _check_least(least, where, story=[*map(len, story)], twin=window_sizes(windows_of, len(story)))
    points = row.get("turning_points")
    if points is not None:
        points = check_integers(points, "turning_points", where, 0, sum(map(len, story)) - 1)
    content |= {"twin": twin, "twin_windows": windows_of}
    return {"title": title_of(row), **content, "turning_points": points}


def _negative_windows(row: Mapping[str, Any], where: str, windows: int) -> list[list[str]] | None:
    """Return the windows of the distractor, from a list of sentences or windows, or an object of
    sections; None if the row has none."""
    negative = find_column(row, *NEGATIVE_NAMES)
    if negative is None:
        return None
    if isinstance(negative, Mapping):
        names = [f"section_{number}" for number in range(1, len(negative) + 1)]
        if set(names) != set(negative):
            fix = "name them 'section_1', 'section_2' and so on"
            sections = ", ".join(map(repr, negative))[:1000]
            raise RowError(where, f"'negative' has the sections {sections}; {fix}")
        negative = [negative[name] for name in names]
    return _to_windows(negative, "negative", where, windows)


def _check_least(least: int, where: str, **sizes_of: Sequence[int]) -> None:
    """Raise ShortWindowError if a window has fewer than `least` sentences. `sizes_of` has the
    numbers of sentences in the windows of each column."""
    for column, sizes in sizes_of.items():
        if (size := min(sizes)) < least:
            window = f"window {sizes.index(size)} of '{column}'"
            raise ShortWindowError(where, f"{window} has {size} sentence(s), fewer than {least}")


def _to_windows(content: Any, column: str, where: str, windows: int) -> list[list[str]]:
    """Return a list of windows, or a list of sentences split into `windows` even windows."""
    if is_nested(content):
        return check_windows(content, column, where)
    story = check_story(check_sentences(content, column, where), column, where, windows)
    return [list(story.sentences[lo:hi]) for lo, hi in story.windows]


def _check_alignment(
    pairs: Any, story: Sequence[Sequence[str]], twin: Sequence[str], where: str
) -> Iterable[tuple[int, int]]:
    """Return an alignment as pairs of indices of sentences, of `story` (counted across its windows)
    and of `twin`. Raise RowError if a pair is invalid."""
    pairs = check_list(pairs, "alignment", where, "pairs")
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            problem = f"'alignment' has {shown_value(pair)}, which is not a pair of sentences"
            raise RowError(where, f"{problem}, of the story and the twin")
    last = sum(map(len, story)) - 1
    of_story = check_integers([i for i, _ in pairs], "alignment (story)", where, 0, last)
    of_twin = check_integers([j for _, j in pairs], "alignment (twin)", where, 0, len(twin) - 1)
    return zip(of_story, of_twin, strict=True)


def twin_windows(
    pairs: Iterable[tuple[int, int]], story: Sequence[Sequence[str]], count: int
) -> list[list[int]]:
    """Return, for each of the `count` sentences of a twin, the windows of the story that the
    sentence is aligned to. `story` is a list of windows, and `pairs` have the index of a sentence
    of the story, counted through its windows, and the index of a sentence of the twin."""
    window_of = [w for w, window in enumerate(story) for _ in window]
    windows_of: list[set[int]] = [set() for _ in range(count)]
    for i, j in pairs:
        windows_of[j].add(window_of[i])
    return [sorted(windows) for windows in windows_of]


def window_sizes(windows_of: Sequence[Sequence[int]], windows: int) -> list[int]:
    """Return the number of sentences in each of `windows` windows. `windows_of` has, for each
    sentence, the windows that the sentence may belong to: `[[0], [0, 1]]`, 2 → `[2, 1]`."""
    return [sum(w in indices for indices in windows_of) for w in range(windows)]


# Film synopses


def turning_points(
    row: Mapping[str, Any], where: str, windows: int, cleaning: Cleaning = "full"
) -> Row:
    """Convert a row of a file to the columns of `load_turning_points`, except `id`. The row has
    `story` (or `sentences`) and five `turning_points`. Empty sentences are dropped."""
    if cleaning == "released":
        if row.get("released") is None:
            problem = "cleaning='released' is for TRIPOD's table (.csv); leave it out"
            raise RowError(where, problem)
        row = {**row, "sentences": row["released"]}
    sentences, points = synopsis(row, where)
    if len(points) != 5:
        raise RowError(where, f"{len(points)} turning points; five are needed")
    spans = check_story(sentences, "story", where, windows).windows
    return {"story": sentences, "windows": list(map(list, spans)), "turning_points": points}


def synopsis(row: Mapping[str, Any], where: str) -> tuple[list[str], list[int]]:
    """Return the sentences of a row that are not empty, and the indices of its `turning_points`
    among the returned sentences. Raise RowError if a turning point is an empty sentence."""
    content = require_column(row, where, "story", "sentences")
    sentences = check_list(content, "story", where, "sentences")
    numbers = require_column(row, where, "turning_points")
    points = check_integers(numbers, "turning_points", where, 0, len(sentences) - 1)
    kept = [i for i, text in enumerate(sentences) if not isinstance(text, str) or text.strip()]
    if empty := set(points) - set(kept):
        problem = f"the turning point {min(empty)} is an empty sentence; choose another"
        raise RowError(where, problem)
    story = check_sentences([sentences[i] for i in kept], "story", where)
    return story, [kept.index(point) for point in points]


TRIPLE_COLUMNS = ("anchor_text", "text_a", "text_b", "text_a_is_closer")
"""The columns of a triple of stories as published."""


def is_triple(row: Any) -> bool:
    """Return whether a row has the columns of a triple of stories, one of which may be missing."""
    return isinstance(row, Mapping) and (
        len(row.keys() & set(TRIPLE_COLUMNS[:3])) > 1
        or {"anchor", "positive", "negative"} <= row.keys()
    )


def triple(row: Mapping[str, Any], where: str) -> Row:
    """Convert a row to a triple: an `anchor`, the `positive`, which is nearer to it, and the
    `negative`. Raises RowError if a text is missing, or which is nearer."""
    columns = {"anchor": "anchor", "positive": "positive", "negative": "negative"}
    if "anchor_text" in row:
        closer = row.get("text_a_is_closer")
        if closer not in (True, False):
            raise RowError(
                where, f"text_a_is_closer is {shown_value(closer)}; it must be true or false"
            )
        nearest, other = ("text_a", "text_b") if closer else ("text_b", "text_a")
        columns = {"anchor": "anchor_text", "positive": nearest, "negative": other}
    texts = {name: row.get(column) for name, column in columns.items()}
    for name, text in texts.items():
        if not isinstance(text, str) or not text.strip():
            raise RowError(where, f"{columns[name]} is {shown_value(text)}; it must be a text")
    return texts
