"""Conversion of rows from the supported formats to the columns of the package's data sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from narrative_twins.data.labels import (
    HIGHLIGHTS,
    LABEL_COLUMNS,
    check_votes,
    label_column,
    read_labels,
)
from narrative_twins.data.rows import (
    STORY_NAMES,
    RowError,
    ShortWindowError,
    check_integers,
    check_list,
    check_sentences,
    check_twins_row,
    check_windows,
    find_column,
    is_nested,
    require_column,
    to_integers,
)
from narrative_twins.stories.story import Story, StoryError, partition
from narrative_twins.stories.windows import Span

Row = dict[str, Any]

MIN_WINDOW = 3
"""Fewest sentences in a window of published rows, as in the paper on narrative twins."""


def story_twins(row: Mapping[str, Any], where: str) -> Row:
    """Convert a row of short stories: `story`, `twin` (or `narrative_twin`) and optionally
    `negative`, `negative_twin` (or `negative_narrative_twin`), and `story_votes` and
    `negative_votes`, the votes for each of their sentences.
    """
    story = check_sentences(require_column(row, where, "story"), "story", where)
    negative = find_column(row, "negative")
    negative_twin = find_column(row, "negative_twin", "negative_narrative_twin")
    return {
        "story": story,
        "twin": check_sentences(
            require_column(row, where, "twin", "narrative_twin"), "twin", where
        ),
        "negative": None if negative is None else check_sentences(negative, "negative", where),
        "negative_twin": (
            None
            if negative_twin is None
            else check_sentences(negative_twin, "negative_twin", where)
        ),
        "story_votes": _votes(row, "story_votes", len(story), where),
        "negative_votes": _votes(row, "negative_votes", len(negative or ()), where),
    }


def _votes(row: Mapping[str, Any], column: str, sentences: int, where: str) -> list[int] | None:
    votes = find_column(row, column)
    return None if votes is None else check_votes(votes, column, sentences, where)


def window_twins(
    row: Mapping[str, Any], where: str, windows: int, min_window: int | None = None
) -> Row:
    """Convert a row of longer stories; those that are plain lists of sentences are split into
    `windows` even windows.

    The row has `title`, `story`, `twin` and `negative` as lists of windows, and `key`, for each
    window of the story the index of its turning point within it; or, as published,
    `english_narrative`, `translated_narrative_twin`, `alignment` (pairs of a sentence of the story
    and a sentence of the twin) and `negative_narrative`, an object of `section_1` and so on; or the
    columns of the package's data sets, with `twin_windows` and `turning_points`.

    Raises ShortWindowError if a window of the story or the twin has fewer than `min_window`
    sentences. If that is None, it is `MIN_WINDOW` for rows as published, a story and a twin in
    sentences with an `alignment`, and not checked for others.
    """
    story = require_column(row, where, *STORY_NAMES)
    twin = require_column(row, where, "twin", "translated_narrative_twin")
    if (
        min_window is None
        and not is_nested(story)
        and not is_nested(twin)
        and row.get("twin_windows") is None
    ):
        min_window = MIN_WINDOW
    if (
        min_window is not None
        and not is_nested(story)
        and len(check_sentences(story, "story", where)) < windows
    ):
        raise ShortWindowError(
            where, f"'story' has {len(story)} sentence(s), too few for {windows} windows"
        )
    story = _to_windows(story, "story", where, windows)
    negative = find_column(row, "negative", "negative_narrative")
    if isinstance(negative, Mapping):
        negative = _sections(negative, where)
    negative = None if negative is None else _to_windows(negative, "negative", where, windows)
    windows_of = find_column(row, "twin_windows")
    if windows_of is None and not is_nested(twin):
        windows_of = _windows_by_alignment(
            require_column(row, where, "alignment", "twin_windows"), story, twin, where
        )
    try:
        check_twins_row(
            {"story": story, "twin": twin, "twin_windows": windows_of, "negative": negative}, where
        )
    except ShortWindowError as error:
        if min_window is None:
            raise RowError(where, error.problem) from None
        raise
    if windows_of is None:
        windows_of = [[w] for w, window in enumerate(twin) for _ in window]
        twin = [sentence for window in twin for sentence in window]
    points = _turning_points(row, story, where)
    if min_window is not None:
        _check_sizes([len(window) for window in story], "story", min_window, where)
        _check_sizes(window_sizes(windows_of, len(story)), "twin", min_window, where)
    return {
        "title": _title(row),
        "story": story,
        "twin": twin,
        "twin_windows": windows_of,
        "negative": negative,
        "turning_points": points,
    }


def twin_windows(
    pairs: Iterable[tuple[int, int]], story: Sequence[Sequence[str]], sentences: int
) -> list[list[int]]:
    """For each sentence of a twin of this many sentences, the windows of the story that it is
    aligned to. A pair is a sentence of the story, counted from 0 across all its windows, and a
    sentence of the twin."""
    window_of = [w for w, window in enumerate(story) for _ in window]
    windows_of: list[set[int]] = [set() for _ in range(sentences)]
    for i, j in pairs:
        windows_of[j].add(window_of[i])
    return [sorted(windows) for windows in windows_of]


def window_sizes(windows_of: Sequence[Sequence[int]], windows: int) -> list[int]:
    """The number of sentences in each of `windows` windows, given the windows that each sentence
    may belong to."""
    return [sum(w in indices for indices in windows_of) for w in range(windows)]


def story_salience(row: Mapping[str, Any], where: str) -> Row:
    """Convert a row of human labels: `story` (or `sentences`), optionally `title` (or `storytitle`)
    and `windows`, and

    - of each annotator the `choices` (or `most_important`): a sentence or a list of sentences,
      counted from 1, as integers or strings; or
    - the `votes` (or `story_votes`), the number of annotators that chose each sentence; or
    - the `labels`, one number a sentence, or `annotations`, a list with these of each annotator; or
    - `spans` (or `highlights`), `[start, end]` ranges of characters of the `text`, which is split
      into sentences if the row has none, as one list or a list for each annotator; or
    - `turning_points`, counted from 0; sentences that are empty are dropped; and
    - `summaries` (or `summary`), besides labels or alone.
    """
    column, summaries = label_column(row, where), find_column(row, "summaries", "summary")
    if column is None and summaries is None:
        require_column(row, where, *LABEL_COLUMNS, "summaries", "summary")
    if isinstance(summaries, str):
        summaries = [summaries]
    spans: tuple[Span, ...] = ()
    if column in HIGHLIGHTS:
        located = _text_with_sentences(row, where)
        story, spans = list(located.sentences), located.spans
    elif column == "turning_points":
        story, points = _synopsis(row, where)
        row = {**row, "turning_points": points}
    else:
        story = check_sentences(require_column(row, where, "story", "sentences"), "story", where)
    found = read_labels(row, len(story), spans, where)
    windows = row.get("windows")
    return {
        "title": _title(row),
        "story": story,
        "windows": (
            None
            if windows is None
            else [list(span) for span in _partition(story, "windows", where, windows)]
        ),
        "labels": found.labels,
        "annotations": found.annotations,
        "choices": found.choices,
        "counts": found.votes if found.choices is None else vote_counts(found.choices, len(story)),
        "summaries": None if summaries is None else check_sentences(summaries, "summaries", where),
    }


def roc_story(row: Mapping[str, Any], where: str) -> Row:
    """Convert a row of ROCStories: as `story_salience` if it has human labels, otherwise without
    them."""
    if find_column(row, "choices", "most_important", "summaries", "summary") is not None:
        return story_salience(row, where)
    if row.get("turning_points") is not None:
        raise RowError(where, "is a synopsis with turning points; load it with load_turning_points")
    story = check_sentences(require_column(row, where, "story", "sentences"), "story", where)
    return {
        "title": _title(row),
        "story": story,
        "choices": None,
        "counts": None,
        "summaries": None,
    }


def turning_points(row: Mapping[str, Any], where: str, windows: int) -> Row:
    """Convert a row of `story` (or `sentences`) and five `turning_points`, counted from 0; drops
    empty sentences."""
    story, points = _synopsis(row, where)
    if len(points) != 5:
        raise RowError(where, f"{len(points)} turning points; five are needed")
    return {
        "story": story,
        "windows": [list(span) for span in _partition(story, "story", where, windows)],
        "turning_points": points,
    }


def _synopsis(row: Mapping[str, Any], where: str) -> tuple[list[str], list[int]]:
    """The sentences that are not empty, and the indices of the turning points among them."""
    sentences = check_list(
        require_column(row, where, "story", "sentences"), "story", where, "sentences"
    )
    numbers = to_integers(require_column(row, where, "turning_points"))
    points = check_integers(numbers, "turning_points", where, 0, len(sentences) - 1)
    kept = [
        i
        for i, sentence in enumerate(sentences)
        if not isinstance(sentence, str) or sentence.strip()
    ]
    for number, point in enumerate(points, start=1):
        if point not in kept:
            raise RowError(
                where, f"turning point {number} is sentence {point}, which is empty; choose another"
            )
    story = check_sentences([sentences[i] for i in kept], "story", where)
    return story, [kept.index(point) for point in points]


def _text_with_sentences(row: Mapping[str, Any], where: str) -> Story:
    """The story of a raw `text`, with the sentences of the row, or split."""
    text = require_column(row, where, "text")
    if not isinstance(text, str):
        raise RowError(
            where, f"'text' is {type(text).__name__}; highlights need the text that they are in"
        )
    sentences = find_column(row, "sentences", "story")
    if sentences is not None:
        sentences = check_sentences(sentences, "sentences", where)
    try:
        return Story.parse({"text": text, "sentences": sentences}, windows=1)
    except StoryError as error:
        raise RowError(where, f"'text': {error.problem}") from None


def _title(row: Mapping[str, Any]) -> str | None:
    title = find_column(row, "title", "storytitle")
    return None if title is None else str(title)


def _partition(sentences: Sequence[str], column: str, where: str, windows: Any) -> tuple[Span, ...]:
    try:
        return partition(sentences, windows)
    except StoryError as error:
        raise RowError(where, f"'{column}': {error.problem}") from None


def _to_windows(content: Any, column: str, where: str, windows: int) -> list[list[str]]:
    """A list of windows unchanged, or a list of sentences split into even windows."""
    if is_nested(content):
        return check_windows(content, column, where)
    sentences = check_sentences(content, column, where)
    return [sentences[lo:hi] for lo, hi in _partition(sentences, column, where, windows)]


def _check_sizes(sizes: Sequence[int], column: str, least: int, where: str) -> None:
    """Raise ShortWindowError if a window has fewer than `least` sentences."""
    for w, size in enumerate(sizes):
        if size < least:
            raise ShortWindowError(
                where, f"window {w} of '{column}' has {size} sentence(s), fewer than {least}"
            )


def _sections(sections: Mapping[str, Any], where: str) -> list[Any]:
    names = [f"section_{number}" for number in range(1, len(sections) + 1)]
    if set(names) != set(sections):
        found = ", ".join(map(repr, sections))
        raise RowError(
            where,
            f"'negative' has the sections {found}; name them 'section_1', 'section_2' and so on",
        )
    return [sections[name] for name in names]


def _windows_by_alignment(
    pairs: Any, story: list[list[str]], twin: Any, where: str
) -> list[list[int]]:
    sentences = sum(map(len, story))
    checked = []
    check_sentences(twin, "twin", where)
    for number, pair in enumerate(check_list(pairs, "alignment", where, "pairs")):
        name = f"alignment[{number}] = {pair}"
        if len(check_list(pair, name, where, "two sentences")) != 2:
            raise RowError(
                where,
                f"'{name}' is not a pair of a sentence of the story and a sentence of the twin",
            )
        (i,) = check_integers(pair[:1], f"{name}, of the story", where, 0, sentences - 1)
        (j,) = check_integers(pair[1:], f"{name}, of the twin", where, 0, len(twin) - 1)
        checked.append((i, j))
    return twin_windows(checked, story, len(twin))


def _turning_points(row: Mapping[str, Any], story: list[list[str]], where: str) -> list[int] | None:
    """The turning points as indices of sentences, counted across all windows of the story."""
    points, key = find_column(row, "turning_points"), find_column(row, "key")
    if points is not None:
        return check_integers(points, "turning_points", where, 0, sum(map(len, story)) - 1)
    if key is None:
        return None
    if len(check_list(key, "key", where, "whole numbers")) != len(story):
        raise RowError(
            where,
            f"'key' has {len(key)} index(es); one for each of the {len(story)} windows is needed",
        )
    # An index within a window, plus the number of sentences before the window.
    starts = accumulate(map(len, story), initial=0)
    indices = (
        check_integers([key[w]], f"key[{w}]", where, 0, len(window) - 1)[0]
        for w, window in enumerate(story)
    )
    return list(map(sum, zip(starts, indices, strict=False)))


def vote_counts(choices: Iterable[int], sentences: int) -> list[int]:
    """How many annotators chose each sentence of a story of this many sentences, given the sentence
    that each annotator chose, counted from 1 as in the ROCStories salience data; ValueError for
    other choices."""
    counts = [0] * sentences
    for choice in choices:
        if not 1 <= int(choice) <= sentences:
            raise ValueError(f"choice {choice} is not a sentence number from 1 to {sentences}")
        counts[int(choice) - 1] += 1
    return counts
