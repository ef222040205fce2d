"""Checks of the answers of a language model: their form, and the wording of twins and distractors.

The form is checked here too, since servers may ignore the JSON schema of a request without an
error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from narrative_twins.data.rows import RowError, check_sentences
from narrative_twins.llm.prompts import AnswerError, read_object

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
"""A word: a run of letters and digits, or a single Chinese or Japanese character."""
_EXAMPLE = ("first sentence", "second sentence")
"""The sentences of the example answer in the prompts."""


def read_sentences(text: str, least: int, most: int) -> list[str]:
    """The sentences in an answer; raises `AnswerError` unless there are `least` to `most`, not the
    prompt's example."""
    (content,) = read_object(text, ["sentences"])
    sentences = _sentences(content, "sentences")
    if any(_normalize(sentence) in _EXAMPLE for sentence in sentences):
        raise AnswerError("the answer repeats the example in the prompt")
    if not least <= len(sentences) <= most:
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise AnswerError(f"the answer has {len(sentences)} sentence(s) instead of {expected}")
    return sentences


def about(count: int) -> tuple[int, int]:
    """The minimum and maximum number of sentences that are about `count`: half, rounded up, and
    twice as many."""
    return (count + 1) // 2, 2 * count


def read_sections(text: str, sizes: Sequence[int]) -> list[list[str]]:
    """The sections in an answer; raises `AnswerError` unless each has about as many sentences as
    `sizes` has for it."""
    names = section_names(len(sizes))
    sections = [
        _sentences(content, name)
        for name, content in zip(names, read_object(text, names), strict=True)
    ]
    for name, section, size in zip(names, sections, sizes, strict=True):
        least, most = about(size)
        if not least <= len(section) <= most:
            raise AnswerError(f"{name} has {len(section)} sentence(s) instead of about {size}")
    return sections


def section_names(count: int) -> list[str]:
    """`section_1` to `section_<count>`."""
    return [f"section_{number}" for number in range(1, count + 1)]


def distinct_words(sentences: Sequence[str]) -> set[str]:
    """The distinct words of sentences, ignoring case."""
    return set(_WORD.findall(" ".join(sentences).casefold()))


def overlap(one: Sequence[str], other: Sequence[str]) -> float:
    """The Dice coefficient of the distinct words of two texts, 2 |A ∩ B| / (|A| + |B|); 0 if there
    are no words."""
    a, b = distinct_words(one), distinct_words(other)
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0


def check_twin(story: Sequence[str], twin: Sequence[str], most: float) -> None:
    """Raise `AnswerError` if a sentence of a twin is copied or repeated, or its word overlap is
    above `most`."""
    check_reworded(story, twin)
    if len(set(map(_normalize, twin))) < len(twin):
        raise AnswerError("a sentence is repeated")
    _check_overlap(
        story,
        twin,
        "the wording is too close to the story",
        lambda share: share <= most,
        f"at most {most}",
    )


def check_reworded(story: Sequence[str], other: Sequence[str]) -> None:
    """Raise `AnswerError` if a sentence of a text that rewords the story is copied from it."""
    copies = set(map(_normalize, story))
    for number, sentence in enumerate(other, start=1):
        if _normalize(sentence) in copies:
            raise AnswerError(f"sentence {number} is copied from the story")


def check_distractor(story: Sequence[str], distractor: Sequence[str], least: float) -> None:
    """Raise `AnswerError` if all sentences of a distractor are copied, or its word overlap is below
    `least`."""
    if set(map(_normalize, distractor)) <= set(map(_normalize, story)):
        raise AnswerError("it is a copy: all its sentences are in the story")
    _check_overlap(
        story,
        distractor,
        "the wording is too far from the story",
        lambda share: share >= least,
        f"at least {least}",
    )


def check_sections(
    windows: Sequence[Sequence[str]], sections: Sequence[Sequence[str]], least: float
) -> None:
    """Raise `AnswerError` if all sentences of a section are copied, or the overlap of all sections
    is below `least`."""
    for number, (window, section) in enumerate(zip(windows, sections, strict=True), start=1):
        if set(map(_normalize, section)) <= set(map(_normalize, window)):
            raise AnswerError(f"section {number} is a copy: all its sentences are in the story")
    check_distractor(list(chain(*windows)), list(chain(*sections)), least)


def _check_overlap(
    story: Sequence[str],
    text: Sequence[str],
    problem: str,
    is_valid: Callable[[float], bool],
    bound: str,
) -> None:
    share = overlap(story, text)
    if not is_valid(share):
        raise AnswerError(f"{problem}: word overlap {share:.2f}, expected {bound}")


def _normalize(sentence: str) -> str:
    """A sentence without case, punctuation and extra white space, for comparisons."""
    return " ".join(_WORD.findall(sentence.casefold())) or sentence.strip()


def _sentences(content: Any, name: str) -> list[str]:
    try:
        return [
            " ".join(sentence.split()) for sentence in check_sentences(content, name, "the answer")
        ]
    except RowError as error:
        raise AnswerError(error.problem) from None
