"""Plans of windows: a window that needs too many tokens is refused before it fills the memory."""

from __future__ import annotations

import numpy as np
import pytest

from narrative_twins import Operation, StoryEncoder, StoryError, score_stories

from support.scoring import TALE, score_story


def test_window_with_too_many_tokens_raises(encoder, monkeypatch):
    monkeypatch.setattr("narrative_twins.salience.plans.WINDOW_TOKENS", 2_000)
    with pytest.raises(
        StoryError,
        match="window of sentences 0 to 11 needs more than 2,000 tokens for shifting; use",
    ):
        score_story(TALE, encoder, windows=1)
    assert score_story(TALE, encoder, windows=1, operations="summarization").scores
    # None of its variants is encoded.
    sizes = []
    encode = StoryEncoder.encode
    monkeypatch.setattr(
        StoryEncoder,
        "encode",
        lambda self, variants, *rest: sizes.append(len(variants)) or encode(self, variants, *rest),
    )
    results = score_stories(["Nadia ran. It rained.", TALE], encoder, windows=1, on_error="skip")
    assert [result.index for result in results] == [0]
    assert sizes == [4]


class Invalid(Operation):
    name = "wild"
    meaning = "has an invalid order"

    def __init__(self, order):
        self.order = order

    def orders(self, window):
        return [self.order]

    def scores(self, window, vectors):
        return np.zeros(window.size)


@pytest.mark.parametrize("order", [(99,), (), [0], (-1,)], ids=str)
def test_invalid_orders_raise(encoder, order):
    with pytest.raises(ValueError, match="operation 'wild' has the order"):
        score_story("Nadia ran. It rained.", encoder, operations=Invalid(order))
