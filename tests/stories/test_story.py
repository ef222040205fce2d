"""Parsing of stories into sentences, spans and windows."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from narrative_twins import Story, StoryError
from narrative_twins.stories.story import even_windows, partition

from support.json_values import values

FIVE = ["One ran.", "Two fell.", "Three wept.", "Four sang.", "Five slept."]


def test_custom_splitter():
    assert Story.parse("a;b ;c", splitter=lambda text: text.split(";")).sentences == ("a", "b", "c")
    with pytest.raises(
        StoryError, match=r"sentence 0 \('A'\) is not in the text after character 0"
    ):
        Story.parse("a;b", splitter=lambda text: text.upper().split(";"))
    with pytest.raises(StoryError, match="lost text at character 1: ';b'"):
        Story.parse("a;b", splitter=lambda text: text.split(";")[:1])


@given(st.integers(1, 3000), st.integers(1, 200))
def test_even_and_auto_windows(n, count):
    assume(count <= n)
    windows = even_windows(n, count)
    assert [i for lo, hi in windows for i in range(lo, hi)] == list(range(n))
    sizes = [hi - lo for lo, hi in windows]
    assert len(sizes) == count and max(sizes) - min(sizes) <= 1
    sizes = [hi - lo for lo, hi in partition(n, "auto")]
    assert sum(sizes) == n
    assert len(sizes) == 1 if n <= 10 else all(5 <= size <= 9 for size in sizes)


def test_windows_in_all_forms():
    assert Story.parse(FIVE, 1).windows == ((0, 5),)
    assert Story.parse(FIVE, 5).windows == ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))
    pairs = [[0, 2], [2, 5]]
    for windows in ([2, 3], np.array([2, 3]), pairs, [(0, 2), (2, 5)], np.array(pairs)):
        own = {"sentences": FIVE, "windows": windows}
        assert Story.parse(FIVE, windows).windows == ((0, 2), (2, 5)) == Story.parse(own, 1).windows
    nested = [FIVE[:2], FIVE[2:]]
    for source in (nested, {"sentences": nested}):
        story = Story.parse(source, 1)  # a story's own windows take precedence
        assert story.sentences == tuple(FIVE) and story.windows == ((0, 2), (2, 5))


NAMES = [
    ({"story": ["A b.", "C d."], "twin": ["E."]}, "A b. C d."),
    ({"story": [["A b."], ["C d."]]}, "A b. | C d."),
    ({"story": ["A b.", "C d."], "windows": [[0, 1], [1, 2]]}, "A b. | C d."),
    ({"story": ["A b."], "text": "So A b."}, "A b."),
    ({"story": "A b. C d."}, "A b. C d."),
    ({"story": "The title", "text": "A b."}, "A b."),
    ({"story": 7, "text": "A b."}, "A b."),
    ({"story": ["A b."], "sentences": ["C d."]}, "C d."),
    ({"story": None, "text": "A b."}, "A b."),
    # Data sets fill missing columns with None.
    ({"sentences": None, "text": "A b.", "id": None, "windows": None}, "A b."),
]


def test_sentences_are_also_called_story():
    """As in the rows of the package's data sets; other uses of the word do not hide a text."""
    for source, sentences in NAMES:
        story = Story.parse(source)
        assert " | ".join(" ".join(story.sentences[lo:hi]) for lo, hi in story.windows) == sentences
        assert [story.text[lo:hi] for lo, hi in story.spans] == list(story.sentences)


def test_a_whole_number_may_be_a_float_as_pandas_makes_it():
    for value, id in ((3.0, 3), (np.float32(3), 3), (float("nan"), None), (np.int64(3), 3)):
        assert Story.parse({"text": "A b.", "id": value}).id == id


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("", "empty"),
        (" \n\u200b\t ", "empty"),
        ([], "empty"),
        (["A b.", " \n"], "sentence 1 is empty or white space"),
        (["A b.", 3], "sentence 1 is int, not text: 3"),
        ([["A b."], "C."], "sentence 0 is list"),
        (7, "not int"),
        (b"bytes", "not bytes"),
        ({"plot": "A b."}, r"has no 'sentences', 'story' or 'text' \(its keys: 'plot'\)"),
        ({"sentences": [["A."], ["B."]], "windows": 2}, "given twice"),
        ({"text": "A b.", "id": 1.5}, "the id is float; an id is a text or a whole number"),
        ({"text": "A b.", "id": "\udc00"}, "the id has a lone surrogate"),
        (StoryError("a page is missing"), "a page is missing"),
        ("half \ud83d a character", r"the text has a lone surrogate \(U\+D83D\) at character 5"),
        (["A b.", "\udc00"], r"sentence 1 has a lone surrogate"),
    ],
)
def test_invalid_stories_raise(source, problem):
    with pytest.raises(StoryError, match=problem):
        Story.parse(source)


def test_texts_that_are_too_long_are_refused_before_they_are_split(monkeypatch):
    monkeypatch.setattr("narrative_twins.stories.story.MAX_STORY", 20)
    split = []
    for source in ("Ran. " * 5, {"text": "Ran. " * 5}):
        with pytest.raises(StoryError, match="has 25 characters, more than the limit of 20"):
            Story.parse(source, splitter=lambda text: split.append(text) or [text])
    assert not split and len(Story.parse("Ran. " * 4)) == 4


@pytest.mark.parametrize(
    "windows",
    [0, 6, -1, True, "even", 2.5, [], [2, 2], [5, 0], [6, -1], [[0, 2], [3, 5]], [[0, 3], [2, 5]], [[0, 1], [2, 3]], [[0, 1], [2, 3, 4]], [[0, 2, 5]], [[5]],
     [[1, 0], [2, 3, 4]], [[], [0, 1, 2, 3, 4]], [FIVE[:2], FIVE[2:]], [FIVE[:2], 3], {}, [[0, None], [2, 5]], [[None, 5]]],
    ids=str,
)  # fmt: skip
def test_windows_that_do_not_partition_raise(windows):
    with pytest.raises(StoryError, match="windows="):
        Story.parse(FIVE, windows)


VALUES = values(
    st.sampled_from([b"x", range(2), {1}, {5: "A b."}])
    | st.sampled_from([np.array(5), np.array(["A b."]), np.array([[1, 2]])])
)
ROWS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("text", "sentences", "windows", "id"), VALUES)
)


@settings(max_examples=80)
@given(source=VALUES | ROWS, windows=VALUES | st.just("auto"))
@example(source={"text": ["A b.", "C d."]}, windows="auto")
@example(source={"sentences": ["A b."], "text": 5}, windows="auto")
@example(source={"sentences": ["A b."], "text": {"a": "A b."}}, windows="auto")
@example(source=["A b."], windows=[None, 10**5000])
def test_any_value_is_a_story_or_a_story_error(source, windows):
    try:
        story = Story.parse(source, windows)
    except StoryError as error:
        assert len(str(error)) < 1500
    else:
        assert len(story) and all(
            story.text[lo:hi] == story.sentences[i] for i, (lo, hi) in enumerate(story.spans)
        )
