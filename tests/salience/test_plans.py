"""Plans of a window: what asks for too much is refused before it fills the memory."""

from __future__ import annotations

import numpy as np
import pytest

from narrative_twins import Operation, StoryEncoder, StoryError, score_stories

from support.scoring import TALE, one


def test_a_window_that_asks_for_too_much_is_told(encoder, monkeypatch):
    monkeypatch.setattr("narrative_twins.salience.plans.WINDOW_TOKENS", 2_000)
    with pytest.raises(StoryError, match="window of sentences 0 to 11 asks shifting for more than 2,000 tokens; cut"):
        one(TALE, encoder, windows=1)
    assert one(TALE, encoder, windows=1, operations="summarization").scores
    # Nothing of what it asked for is encoded.
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


def test_a_window_of_three_thousand_sentences_is_told_before_it_fills_the_memory(encoder, monkeypatch):
    monkeypatch.setattr("narrative_twins.salience.plans.WINDOW_TOKENS", 1_000_000)
    with pytest.raises(StoryError, match="window of sentences 0 to 2999 asks shifting for more than 1,000,000 tokens"):
        one([f"{i}." for i in range(3000)], encoder, windows=1, operations="shifting", on_truncation="ignore")


class Wild(Operation):
    name = "wild"
    meaning = "asks for what there is not"

    def __init__(self, order):
        self.order = order

    def orders(self, window):
        return [self.order]

    def scores(self, window, vectors):
        return np.zeros(window.size)


@pytest.mark.parametrize("order", [(99,), (), [0], (-1,)], ids=str)
def test_orders_of_sentences_there_are_not_are_told(encoder, order):
    with pytest.raises(ValueError, match="operation 'wild' asked for the order"):
        one("Nadia ran. It rained.", encoder, operations=Wild(order))
