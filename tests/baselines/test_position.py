"""Baselines that do not read sentences, compared with naive oracles."""

import random

from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import Story
from narrative_twins.baselines import BASELINES, Random

from support.strategies import stories, window_sizes


@st.composite
def stories_in_windows(draw):
    sentences = draw(stories())
    return Story.parse(sentences, draw(window_sizes(len(sentences))))


@given(stories_in_windows())
def test_positions_and_lengths(story):
    n = len(story)
    middle = [-abs(i - (lo + hi - 1) / 2) for lo, hi in story.windows for i in range(lo, hi)]
    expected = {
        "lead": [n - i for i in range(n)],
        "trail": [i + 1 for i in range(n)],
        "centre": middle,
        "length": [len(sentence.split()) for sentence in story.sentences],
    }
    for name, scores in expected.items():
        assert BASELINES[name].scores(story).tolist() == scores


def test_random_scores_are_the_same_on_every_machine():
    """Python's generator, seeded by a text: its draws are the same in all versions."""
    draws = random.Random('[7, "Nadia ran.", "\\u00d6mer slept."]')
    scores = Random(7).scores(Story.parse(["Nadia ran.", "Ömer slept."]))
    assert scores.tolist() == [draws.random() for _ in range(2)]


@given(st.integers(-10, 2**70), st.integers(-10, 2**70), stories_in_windows())
def test_random_scores_depend_on_seed_and_sentences_only(seed, other, story):
    scores = Random(seed).scores(story).tolist()
    again = Story.parse({"sentences": story.sentences, "id": "A"}, 1)
    assert scores == Random(seed).scores(again).tolist()
    assert (scores == Random(other).scores(story).tolist()) == (seed == other)
    longer = Random(seed).scores(Story.parse([*story.sentences, "The end."])).tolist()
    assert longer[: len(story)] != scores
