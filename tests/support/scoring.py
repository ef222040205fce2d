"""Scoring of single stories in tests."""

import pytest

from narrative_twins import Operation, StorySalience, score_stories

from support.oracle import Oracle

TALE = """Nadia found a map under the floor of the old mill. Her brother laughed at it; he said it was a child's toy.
"Where does it lead?" asked Mr. O'Brien, who had heard them. She didn't answer. At dawn they walked to the river. I ran.
The water had risen, and the bridge was gone! Nadia swam across alone. 😀 smiled at her. Über alles stood the stone.
They never told anyone, not even in 1987. Years later the mill burned down."""
THREE = [
    "Nadia found a map under the floor of the old mill.",
    "It rained.",
    "She ran to the river, and swam across.",
]


def score_story(story, encoder, **options) -> StorySalience:
    (result,) = score_stories([story], encoder, **options)
    return result


def oracle_of(encoder, measure="cosine") -> Oracle:
    """The naive oracle with the model and the settings of an encoder."""
    tokens = encoder.tokenizer
    prompts = encoder.prompt, tokens.settings.include_prompt
    return Oracle(encoder.model, tokens.tokenizer, encoder.pooling, measure, *prompts)


def assert_close(scores, expected):
    """Scores by operation are equal but for rounding."""
    assert scores.keys() == expected.keys()
    for name, values in expected.items():
        assert scores[name] == pytest.approx(values, abs=1e-5), name


def assert_same_result(found, expected, tolerance=1e-5):
    """Plain results are equal but for rounding and their place in the input."""
    anywhere = {"scores": None, "file": None, "row": None}
    assert found | anywhere == expected | anywhere
    scores, others = found["scores"] or {}, expected["scores"] or {}
    assert scores.keys() == others.keys()
    for name, values in others.items():
        assert scores[name] == pytest.approx(values, abs=tolerance)


class FixedScores(Operation):
    name = "fixed"
    meaning = "fixed scores"

    def __init__(self, scores):
        self.fixed = scores

    def orders(self, window):
        return [window.base]

    def scores(self, window, vectors):
        return self.fixed
