"""What results say of themselves: scores with the decimals that hold, notes on how they were made,
and figures with these notes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from narrative_twins.plots.figures import salience_figure
from narrative_twins.plots.style import check_figure, save_figure
from narrative_twins.salience.operations import comparisons
from narrative_twins.salience.ranking import Scored, marked
from narrative_twins.stories.language import is_other_language
from narrative_twins.text import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DECIMALS = 3
_HOLD = {"bfloat16": 2, "float16": 3}
"""How many decimals of scores in a dtype agree with float32, give or take one in the last; in the
other dtypes at least as many as are shown, `_DECIMALS`."""
LONG_SENTENCE = 2000
"""Sentences of more characters are reported; a novel has nearly none."""
_SHORT_LINE = 60  # characters; lines of wrapped text are longer
_FEWEST_LINES = 4  # of a sentence, that are no chance


def shown_score(score: float, dtype: str | None) -> str:
    """Return a score as text, with the decimals that hold in its dtype: 2 in bfloat16, else 3."""
    return f"{score:.{_HOLD.get(dtype or '', _DECIMALS)}f}"


def precision(dtype: str | None) -> list[str]:
    """Return a note on the dtype of scores, such as `["Computed in float32."]`, for the end of
    tables and pages; empty if the dtype is unknown."""
    if dtype is None:
        return []
    hold = _HOLD.get(dtype, _DECIMALS)
    limits = f", in which only {hold} decimals hold" if hold < _DECIMALS else ""
    return [f"Computed in {dtype}{limits}."]


def other_similarity(name: str | None) -> list[str]:
    """Return a list with a note on a similarity other than cosine; empty for cosine or None."""
    return [] if name in (None, "cosine") else [f"The similarity is {name}, not cosine."]


def described(scores: Mapping[str, float], dtype: str | None) -> str:
    """Return scores by operation on one line, such as `deletion 0.120 · shifting 0.034`."""
    return " · ".join(f"{name} {shown_score(score, dtype)}" for name, score in scores.items())


def truncation(context_tokens: int | None, cut_tokens: int) -> str:
    """Return what happened to a truncated story, as `is longer than the 512 tokens that ...`."""
    return (
        f"is longer than the {context_tokens} tokens that the encoder reads at once, so its windows"
        f" were scored with a part of the story only: without up to {cut_tokens:,} of its tokens"
    )


def very_long_sentence(sentences: Sequence[str]) -> str:
    """For a story with a very long sentence, or with one of several short lines, perhaps for lack
    of full stops: the problem and its cure, to follow "The text": `has a sentence of 5,000
    characters, ...`. Else empty."""
    longest = max(map(len, sentences))
    lines = max((_short_lines(sentence) for sentence in sentences), default=0)
    if longest <= LONG_SENTENCE and lines < _FEWEST_LINES:
        return ""
    extent = counted(longest, "character") if longest > LONG_SENTENCE else f"{lines} short lines"
    return (
        f"has a sentence of {extent}, perhaps as full stops are missing;"
        " --split lines (splitter='lines' in Python) scores its lines, --split paragraphs"
        " paragraphs, and the code of a language its sentences"
    )


def _short_lines(sentence: str) -> int:
    """Return the number of lines of a sentence if all are shorter than wrapped text, else 0."""
    lines = sentence.splitlines()
    return len(lines) if max(map(len, lines), default=0) <= _SHORT_LINE else 0


def figure_of(
    units: Scored,
    path: str | os.PathLike[str] | None,
    operations: str | Iterable[str] | None,
    texts: Sequence[str],
    *,
    top: int,
    notes: Iterable[str],
    **appearance: Any,
) -> Figure:
    """Return a figure of the scores of units, with a note on how they are compared, and save it
    unless `path` is None. `texts` are the texts of the units, `appearance` is for
    `salience_figure`, and other arguments are as in `StorySalience.plot`."""
    check_figure(path)
    names = [operations] if isinstance(operations, str) else operations
    scores = {name: units.scores_of(name) for name in (units.scores if names is None else names)}
    labelled = {name: marked(units, name, top) for name in scores}
    how = comparisons(scores) if units.is_comparable else []
    appearance["notes"] = list(dict.fromkeys([*how, *notes]))
    figure = salience_figure(texts, units.windows, scores, labelled, **appearance)
    if path is not None:
        save_figure(figure, path)
    return figure


def other_language(sentences: Sequence[str]) -> str:
    """For sentences that are not in English, as far as can be told: the problem of an English
    encoder with them and its cure, to follow "The text". Else empty."""
    if not is_other_language(sentences):
        return ""
    return (
        "does not look like English, the language of this encoder; take the encoder for"
        " other languages: --model multilingual, StoryEncoder.from_pretrained('multilingual')"
    )


def single_sentences(single: int, count: int) -> str:
    """Return a note, with a cure, if most of `count` stories are a `single` sentence, perhaps as
    the rows of a table are sentences; else an empty text."""
    if single < 2 or single * 2 <= count:
        return ""
    some = f"{single:,} of the {count:,} stories are"
    return (
        f"{f'each of the {count:,} stories is' if single == count else some} one sentence, with"
        " nothing to compare it with; if a story has several rows, --group makes one story of"
        " them, as --group story_id (in Python: group_rows), and a list of sentences is passed to"
        ' Python as {"sentences": [...]}'
    )
