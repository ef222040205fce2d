"""What is wrong with an answer of a language model: its form, and whether it is the twin or distractor asked for.

Servers may ignore the JSON schema they are sent without a word, so every answer is held against it here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from narrative_twins.data.rows import RowError, check_sentences
from narrative_twins.llm.json_answers import AnswerError, read_object

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
"""Letters in a row; a sign of Chinese or Japanese is a word of its own."""
_EXAMPLE = ("first sentence", "second sentence")
"""What stands for sentences where a prompt shows the form of the answer."""


def read_sentences(text: str, least: int, most: int) -> list[str]:
    """The sentences of an answer, each in one line.

    Raises:
        AnswerError: it has none, those of the example in the prompt, or not as many as were asked for.
    """
    (content,) = read_object(text, ["sentences"])
    sentences = _sentences(content, "sentences")
    if any(_plain(sentence) in _EXAMPLE for sentence in sentences):
        raise AnswerError("it repeats the example of the prompt")
    if not least <= len(sentences) <= most:
        asked = f"{least}" if least == most else f"{least} to {most}"
        raise AnswerError(f"it has {len(sentences)} sentence(s) and not {asked}")
    return sentences


def about(count: int) -> tuple[int, int]:
    """How many sentences are about so many: half to twice as many."""
    return (count + 1) // 2, 2 * count


def read_sections(text: str, sizes: Sequence[int]) -> list[list[str]]:
    """The sections of an answer, each a list of `about` so many sentences.

    Raises:
        AnswerError: it has none, others, or one that is much shorter or longer.
    """
    names = section_names(len(sizes))
    sections = [_sentences(content, name) for name, content in zip(names, read_object(text, names), strict=True)]
    for name, section, size in zip(names, sections, sizes, strict=True):
        least, most = about(size)
        if not least <= len(section) <= most:
            raise AnswerError(f"{name} has {len(section)} sentence(s) and not about {size}")
    return sections


def section_names(count: int) -> list[str]:
    """`section_1` and so on."""
    return [f"section_{number}" for number in range(1, count + 1)]


def distinct_words(sentences: Sequence[str]) -> set[str]:
    """The different words of some sentences, upper and lower case alike."""
    return set(_WORD.findall(" ".join(sentences).casefold()))


def overlap(one: Sequence[str], other: Sequence[str]) -> float:
    """How many of their different words two texts share: 2 |A ∩ B| / (|A| + |B|), from 0 to 1; 0 without any."""
    a, b = distinct_words(one), distinct_words(other)
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0


def check_twin(story: Sequence[str], twin: Sequence[str], most: float) -> None:
    """Refuse a twin in the words of its story.

    Raises:
        AnswerError: a sentence is copied or there twice, or the overlap is above `most`.
    """
    check_reworded(story, twin)
    if len(set(map(_plain, twin))) < len(twin):
        raise AnswerError("a sentence is there twice")
    _compare(story, twin, "it is worded too much like the story", lambda share: share <= most, f"at most {most}")


def check_reworded(story: Sequence[str], other: Sequence[str]) -> None:
    """Refuse sentences of the story in what is to be in other words.

    Raises:
        AnswerError: a sentence is copied.
    """
    there = set(map(_plain, story))
    for number, sentence in enumerate(other, start=1):
        if _plain(sentence) in there:
            raise AnswerError(f"sentence {number} is copied from the story")


def check_distractor(story: Sequence[str], distractor: Sequence[str], least: float) -> None:
    """Refuse a distractor that is the same story, or does not look like it.

    Raises:
        AnswerError: every sentence of it stands in the story, or the overlap is below `least`.
    """
    if set(map(_plain, distractor)) <= set(map(_plain, story)):
        raise AnswerError("it is a copy: every sentence of it stands in the story")
    _compare(story, distractor, "it does not look like the story", lambda share: share >= least, f"at least {least}")


def check_sections(windows: Sequence[Sequence[str]], sections: Sequence[Sequence[str]], least: float) -> None:
    """Refuse a distractor in sections one of which is that of the story, or which does not look like the story.

    Raises:
        AnswerError: every sentence of a section stands in that of the story, or the overlap of all is below `least`.
    """
    for number, (window, section) in enumerate(zip(windows, sections, strict=True), start=1):
        if set(map(_plain, section)) <= set(map(_plain, window)):
            raise AnswerError(f"section {number} is a copy: every sentence of it stands in the story")
    check_distractor(list(chain(*windows)), list(chain(*sections)), least)


def _compare(
    one: Sequence[str], other: Sequence[str], problem: str, holds: Callable[[float], bool], bound: str
) -> None:
    share = overlap(one, other)
    if not holds(share):
        raise AnswerError(f"{problem}: word overlap {share:.2f}, {bound} is needed")


def _plain(sentence: str) -> str:
    """A sentence without regard to case, punctuation and white space."""
    return " ".join(_WORD.findall(sentence.casefold())) or sentence.strip()


def _sentences(content: Any, name: str) -> list[str]:
    try:
        return [" ".join(sentence.split()) for sentence in check_sentences(content, name, "the answer")]
    except RowError as error:
        raise AnswerError(error.problem) from None
