"""Approximations: equal to the naive oracle for one pass, reported in results, and off by
default."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import OPERATIONS, Operation, StoryEncoder, score_stories
from narrative_twins.salience.operations import Shifting, resolve_operations
from narrative_twins.salience.plans import one_pass_plans
from narrative_twins.stories.story import Window

from support.models import FAMILIES, encoder_of, small
from support.oracle import Oracle
from support.strategies import stories, window_sizes

STORY = [
    "Nadia ran.",
    "It rained on the old mill.",
    "She found a map under the floor.",
    "The bridge was gone!",
    "Why?",
]


def score_story(story, encoder, **options):
    (result,) = score_stories([story], encoder, **options)
    return result


@pytest.mark.parametrize("attention", ["auto", "padded"])
@pytest.mark.parametrize("windows", [1, [2, 1, 2]], ids=str)
@pytest.mark.parametrize("kind", FAMILIES)
def test_one_pass_equals_the_oracle(kind, windows, attention):
    encoder = small(kind, attention=attention)
    result = score_story({"sentences": STORY, "windows": windows}, encoder, approximate="one-pass")
    assert result.approximate == "one-pass" and result.to_dict()["approximate"] == "one-pass"
    expected = Oracle(encoder.model, encoder.tokenizer.tokenizer).score_one_pass(
        result.sentences, result.windows
    )
    assert list(result.scores) == ["deletion", "disruption", "summarization"]
    for name, scores in expected.items():
        assert result.scores[name] == pytest.approx(scores, abs=1e-5)


@given(stories(1, 8), st.data())
@settings(max_examples=20)
def test_one_pass_equals_the_oracle_on_any_stories_and_windows(sentences, data):
    sizes = data.draw(window_sizes(len(sentences)))
    encoder = small("roberta")
    result = score_story(
        {"sentences": sentences, "windows": sizes}, encoder, approximate="one-pass"
    )
    expected = Oracle(encoder.model, encoder.tokenizer.tokenizer).score_one_pass(
        sentences, result.windows
    )
    for name, scores in expected.items():
        assert result.scores[name] == pytest.approx(scores, abs=1e-5)


def record_lengths(encoder, monkeypatch):
    """A list to which the lengths of all texts passed through the encoder are added."""
    lengths, states = [], encoder.passes.states
    monkeypatch.setattr(
        encoder.passes, "states", lambda rows: lengths.extend(map(len, rows)) or states(rows)
    )
    return lengths


def test_story_that_fits_takes_one_pass(monkeypatch):
    encoder = StoryEncoder(*encoder_of("bert"))
    lengths = record_lengths(encoder, monkeypatch)
    score_story({"sentences": STORY, "windows": [2, 1, 2]}, encoder, approximate="one-pass")
    assert len(lengths) == 1


def test_windows_of_a_long_story_share_passes(monkeypatch):
    """Windows that share a pass fill half of the context, so that the other half is left for text
    around them."""
    encoder = StoryEncoder(*encoder_of("bert"), context_tokens=100)
    lengths = record_lengths(encoder, monkeypatch)
    story = {"sentences": STORY * 20, "windows": 50}
    result = score_story(story, encoder, approximate="one-pass", on_truncation="ignore")
    tokens = encoder.tokenize(result.sentences)
    assert sum(lengths) < 3 * tokens.count_tokens((0, 100)) and max(lengths) <= 100
    for name, scores in result.scores.items():
        assert len(scores) == 100 and np.isfinite(scores).all(), name
    plans = list(one_pass_plans(resolve_operations(one_pass=True), tokens, result.windows))
    assert [(plan.window.lo, plan.window.hi) for plan in plans] == list(result.windows)
    assert all(
        tokens.count_tokens((plan.window.start, plan.window.stop)) <= tokens.max_text_tokens
        for plan in plans
    )
    assert result.cut_tokens == tokens.count_tokens((0, 100)) - min(
        tokens.count_tokens((plan.window.start, plan.window.stop)) for plan in plans
    )


def test_window_longer_than_the_context_takes_several_passes():
    encoder = StoryEncoder(*encoder_of("bert"), context_tokens=12)
    result = score_story(
        {"sentences": STORY, "windows": 1}, encoder, approximate="one-pass", on_truncation="ignore"
    )
    assert result.truncated
    tokens = encoder.tokenize(result.sentences)
    (plan,) = one_pass_plans(resolve_operations(one_pass=True), tokens, [(0, 5)])
    pooled = sum(int(chunk.pooled.sum()) for chunks in plan.variants for chunk in chunks)
    texts = {chunk.ids.tobytes(): len(chunk.ids) for chunks in plan.variants for chunk in chunks}
    assert pooled == sum(texts.values()), (
        "each token is pooled once, including the special tokens of each chunk"
    )


def test_shifting_has_no_one_pass_form(encoder):
    with pytest.raises(
        ValueError, match="shifting has no one-pass form; choose from deletion, disruption"
    ):
        score_stories(["A. B."], encoder, operations=["shifting"], approximate="one-pass")
    with pytest.raises(ValueError, match="approximate='fast': choose 'one-pass'"):
        score_stories(["A. B."], encoder, approximate="fast")
    with pytest.raises(ValueError, match="max_shifts=2 has no effect with approximate='one-pass'"):
        score_stories(["A. B."], encoder, approximate="one-pass", max_shifts=2)
    with pytest.raises(ValueError, match="this encoder pools the first token"):
        score_stories(["A. B."], small("bert", pooling="first"), approximate="one-pass")


class Constant(Operation):
    name = "constant"
    meaning = "a constant"

    def orders(self, window):
        return [(i,) for i in range(window.lo, window.hi)]

    def scores(self, window, vectors):
        return np.ones(window.size)

    def one_pass(self, sums, rest):
        return np.full(len(sums), 2.0)


def test_custom_operation_in_one_pass(encoder):
    result = score_story(
        STORY, encoder, operations=[Constant(), "deletion"], approximate="one-pass"
    )
    assert result.scores["constant"] == [2.0] * 5
    assert score_story(STORY, encoder, operations=Constant()).scores["constant"] == [1.0] * 5
    with pytest.raises(NotImplementedError, match="'shifting' does not implement one_pass"):
        Shifting().one_pass(np.ones((2, 3)), np.ones(3))


@given(st.integers(2, 9), st.integers(0, 3), st.integers(0, 3), st.integers(1, 9))
def test_shifts_to_the_nearest_positions(size, before, after, max_shifts):
    window = Window(0, before, before + size, before + size + after)
    all_orders, orders = (list(Shifting(count).orders(window)) for count in (None, max_shifts))
    assert orders[0] == window.base
    count = min(max_shifts, size - 1)
    assert len(orders) == 1 + size * count
    assert set(orders) <= set(all_orders)
    for i in range(size):
        moved = before + i
        positions = [order.index(moved) for order in orders[1 + i * count : 1 + (i + 1) * count]]
        distances = sorted(
            abs(position - moved) for position in range(before, before + size) if position != moved
        )
        assert sorted(abs(position - moved) for position in positions) == distances[:count]
        assert len(set(positions)) == count


def test_max_shifts(encoder):
    exact, near, complete = (
        score_story(STORY, encoder, operations="shifting", max_shifts=n) for n in (None, 1, 4)
    )
    assert (exact.approximate, near.approximate) == (None, "max_shifts=1")
    assert complete.scores["shifting"] == pytest.approx(exact.scores["shifting"], abs=1e-6)
    # Moving the first sentence forward or the second one back swaps the same two sentences.
    assert near.scores["shifting"][0] == pytest.approx(near.scores["shifting"][1], abs=1e-6)
    assert near.scores["shifting"] != pytest.approx(exact.scores["shifting"], abs=1e-4)
    assert OPERATIONS["shifting"].max_shifts is None
    with pytest.raises(ValueError, match="max_shifts=0: choose a whole number of at least 1"):
        score_stories([STORY], encoder, max_shifts=0)
