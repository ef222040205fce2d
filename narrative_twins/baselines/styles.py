"""The ways to ask a language model for salience: which sentences a question is about, and how its
answer is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from narrative_twins.llm.prompts import AnswerError, Schema, list_schema, read_object, schema_of
from narrative_twins.stories.sentences import Span
from narrative_twins.stories.story import Story, shown_value

READERS = 10
"""Number of readers whose votes `"shares"` asks for."""

PLACEHOLDERS = ("story", "count", "first", "last")
"""Placeholders of the templates: the numbered sentences of the story and how many they are; the
numbers of the first and last sentence that the question is about."""


@dataclass(frozen=True)
class Style:
    """A way to ask for salience.

    Attributes:
        name: its name, which is also that of its template.
        score: the name of its scores in a result.
        by_window: a question is about one window of the story; otherwise it is about all windows.
        sampled: a question is asked several times; otherwise it is asked once.
        schema: the JSON schema of the answer to a question about these windows.
        read: the scores of the sentences of these windows by an answer; those of several answers
            are added up. Raises `AnswerError` if the answer is invalid.
    """

    name: str
    score: str
    by_window: bool
    sampled: bool
    schema: Callable[[Sequence[Span]], Schema]
    read: Callable[[str, Sequence[Span]], list[float]]

    def questions(self, story: Story, samples: int) -> list[tuple[str, tuple[Span, ...]]]:
        """The questions about a story: the step that its answer is saved with, and the windows that
        it is about."""
        if not self.by_window:
            return [(self.name, story.windows)]
        numbers = [f", sample {number}" for number in range(samples)] if self.sampled else [""]
        return [
            (f"{self.name}, sentences {lo + 1} to {hi}{number}", ((lo, hi),))
            for lo, hi in story.windows
            for number in numbers
        ]


def read_choice(text: str, windows: Sequence[Span]) -> list[float]:
    """1 for the sentence of the window that an answer chose by its number in the story, counted
    from 1, as `most_important` or `sentence`, with or without a `summary`, and 0 for the others;
    raises `AnswerError` if it is not in the window."""
    ((lo, hi),) = windows
    found = _read_with_summary(text, ("most_important", "sentence"))
    chosen = found["most_important"] if "most_important" in found else found["sentence"]
    numbers = {str(number): number for number in range(lo + 1, hi + 1)}
    number = numbers.get(chosen.strip()) if isinstance(chosen, str) else chosen
    if type(number) is not int or not lo < number <= hi:
        raise AnswerError(
            f"the choice {shown_value(chosen)} is not an integer from {lo + 1} to {hi}"
        )
    return [float(index + 1 == number) for index in range(lo, hi)]


def read_scores(text: str, windows: Sequence[Span]) -> list[float]:
    """The scores in an answer, as `sentence_1`, `sentence_2` and so on, or as a list `scores`;
    raises `AnswerError` unless they are a number between 0 and 1 for each sentence, all different
    within a window."""
    names = _names(windows)
    found = read_object(text, names, ["scores"])
    scores = found["scores"] if "scores" in found else [found[name] for name in names]
    _check_list(scores, len(names), "score(s)")
    for score in scores:
        if type(score) is not float or not 0 < score < 1:
            raise AnswerError(f"the score {shown_value(score)} is not a number above 0 and below 1")
    for lo, hi in windows:
        if len(set(scores[lo:hi])) < hi - lo:
            raise AnswerError(f"two scores of the sentences {lo + 1} to {hi} are equal")
    return list(scores)


def read_votes(text: str, windows: Sequence[Span]) -> list[float]:
    """The votes of `READERS` readers for the sentences of a window, as a list `votes`, with or
    without a `summary`; raises `AnswerError` unless they are an integer of at least 0 for each
    sentence, and add up to `READERS`.
    """
    ((lo, hi),) = windows
    votes = _read_with_summary(text, ("votes",))["votes"]
    _check_list(votes, hi - lo, "number(s) of votes")
    for number in votes:
        if type(number) is not int or not 0 <= number <= READERS:
            raise AnswerError(
                f"the number of votes {shown_value(number)} is not an integer from 0 to {READERS}"
            )
    if sum(votes) != READERS:
        raise AnswerError(f"the votes add up to {sum(votes)} instead of {READERS}")
    return [float(number) for number in votes]


def _check_list(values: Any, count: int, what: str) -> None:
    if not isinstance(values, list) or len(values) != count:
        found = f"{len(values)} {what}" if isinstance(values, list) else type(values).__name__
        raise AnswerError(f"the answer has {found} instead of a list of {count} {what}")


def _read_with_summary(text: str, names: Sequence[str]) -> dict[str, Any]:
    """The JSON object in an answer that has one of these properties, and perhaps a `summary`."""
    forms = [(*summary, name) for summary in ((), ("summary",)) for name in names]
    found = read_object(text, *forms)
    if not isinstance(found.get("summary", ""), str):
        raise AnswerError(f"the summary {shown_value(found['summary'])} is not text")
    return found


def _summary_and_choice(windows: Sequence[Span]) -> Schema:
    # Models write the properties in this order, so the summary comes before the choice.
    return schema_of({"summary": {"type": "string"}, "most_important": _number(windows)})


def _summary_and_votes(windows: Sequence[Span]) -> Schema:
    ((lo, hi),) = windows
    votes = list_schema("integer", hi - lo, hi - lo)
    return schema_of({"summary": {"type": "string"}, "votes": votes})


def _choice(windows: Sequence[Span]) -> Schema:
    return schema_of({"sentence": _number(windows)})


def _number(windows: Sequence[Span]) -> Schema:
    ((lo, hi),) = windows
    return {"type": "integer", "minimum": lo + 1, "maximum": hi}


def _named_scores(windows: Sequence[Span]) -> Schema:
    return schema_of(dict.fromkeys(_names(windows), {"type": "number"}))


def _list_of_scores(windows: Sequence[Span]) -> Schema:
    count = windows[-1][1]
    return schema_of({"scores": list_schema("number", count, count)})


def _names(windows: Sequence[Span]) -> list[str]:
    return [f"sentence_{number}" for number in range(1, windows[-1][1] + 1)]


STYLES = {
    style.name: style
    for style in (
        Style("choose", "prompted_choice", True, True, _summary_and_choice, read_choice),
        Style("rate", "prompted_rating", False, False, _named_scores, read_scores),
        Style("choose-loss", "prompted_choice_loss", True, True, _choice, read_choice),
        Style("rate-loss", "prompted_rating_loss", False, False, _list_of_scores, read_scores),
        Style("shares", "prompted_shares", True, False, _summary_and_votes, read_votes),
    )
}
"""Registry of the styles by name.

After the paper, `"choose"` asks for a short summary and then for the most surprising of the
sentences that it uses, as annotators are asked, and `"rate"` how likely somebody else who tells the
story would include each sentence. `"choose-loss"` and `"rate-loss"` ask instead how much the story
would lose without the sentence. `"shares"` asks once how ten readers, who are asked as by
`"choose"`, would vote."""
