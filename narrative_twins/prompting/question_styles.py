"""Styles, the ways to ask a language model for salience: which sentences a question is about, and
how its answer is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrative_twins.prompting.templates import AnswerError, Form, answer_form, integer, list_of
from narrative_twins.stories.sentences import Span

READERS = 10
"""The number of readers whose votes the style `"shares"` asks for."""

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Style:
    """A way to ask for salience.

    Attributes:
        score: the name of its scores in a result.
        by_window: whether a question is about one window; if not, it is about the whole story.
        sampled: whether a question is asked several times, with a sample of answers.
        form: makes the form of the answer to a question about the sentences `[lo, hi)`.
        read: makes scores of an answer in this form, one for each sentence of the windows that the
            question is about; the scores of several answers are added up. Raises `AnswerError` if
            the answer is invalid.
    """

    score: str
    by_window: bool
    sampled: bool
    form: Callable[[int, int], Form]
    read: Callable[..., list[float]]


def read_choice(answer: Answer, windows: Sequence[Span]) -> list[float]:
    """Return 1 for the chosen sentence of the only window and 0 for the others. The last property
    of the answer is the number of the sentence in the story, counted from 1."""
    ((lo, hi),) = windows
    *_, choice = answer.values()
    return [float(index + 1 == choice) for index in range(lo, hi)]


def read_scores(answer: Answer, windows: Sequence[Span]) -> list[float]:
    """Return the scores in an answer about a story: the list `scores`, or else the values of all
    properties. Raise `AnswerError` unless all are above 0, below 1 and distinct within a window."""
    scores = list(answer["scores"] if "scores" in answer else answer.values())
    if not all(0 < score < 1 for score in scores):
        raise AnswerError("a score is not a number above 0 and below 1")
    for lo, hi in windows:
        if len(set(scores[lo:hi])) < hi - lo:
            raise AnswerError(f"two scores of the sentences {lo + 1} to {hi} are equal")
    return scores


def read_votes(answer: Answer, windows: Sequence[Span]) -> list[float]:
    """Return the votes in an answer, one number for each sentence of a window. Raise `AnswerError`
    unless they add up to `READERS`."""
    if sum(answer["votes"]) != READERS:
        raise AnswerError(f"the votes add up to {sum(answer['votes'])} instead of {READERS}")
    return [float(number) for number in answer["votes"]]


def _named_scores(_: int, hi: int) -> Form:
    """Return a form with a number for each of `hi` sentences: `sentence_1`, `sentence_2`, ..."""
    return answer_form(**dict.fromkeys((f"sentence_{index + 1}" for index in range(hi)), float))


# Models write the properties in this order, so the summary comes before the choice.
STYLES = {
    "choose": Style(
        *("prompted_choice", True, True),
        lambda lo, hi: answer_form(summary=str, most_important=integer(lo + 1, hi)),
        read_choice,
    ),
    "rate": Style("prompted_rating", False, False, _named_scores, read_scores),
    "choose-loss": Style(
        *("prompted_choice_loss", True, True),
        lambda lo, hi: answer_form(sentence=integer(lo + 1, hi)),
        read_choice,
    ),
    "rate-loss": Style(
        *("prompted_rating_loss", False, False),
        lambda lo, hi: answer_form(scores=list_of(float, hi - lo, hi - lo)),
        read_scores,
    ),
    "shares": Style(
        *("prompted_shares", True, False),
        lambda lo, hi: answer_form(
            summary=str, votes=list_of(integer(0, READERS), hi - lo, hi - lo)
        ),
        read_votes,
    ),
}
"""Registry of the styles by name, which is also the name of their template.

After the paper, `"choose"` asks for a summary of the window in fewer than 12 words and then for the
most surprising of the sentences that it uses, as annotators are asked: the score of a sentence is
the number of answers that choose it. `"rate"` asks once about the story, whatever its windows, how
likely somebody else who tells the story would include each sentence, above 0 and below 1.
`"choose-loss"` and `"rate-loss"` ask instead how much the story would lose without the sentence.
`"shares"` asks once about each window how many of ten readers, who are asked as by `"choose"`,
would choose each sentence."""
