"""Batches of narrative twins: against a naive encoding of each text, and the random choices."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import StoryEncoder
from narrative_twins.training.collator import (
    DISTRACTOR,
    DISTRACTOR_TWIN,
    STORY,
    TWIN,
    TwinsCollator,
)

from support.models import FAMILIES, SENTENCES, encoder_of, small
from support.oracle import tokens_of
from support.strategies import stories

WORDS = " ".join(SENTENCES).split()


def collator(kind: str = "bert", **options) -> TwinsCollator:
    return TwinsCollator(small(kind).tokens, **options)


def sides(batch) -> list[tuple[int, int]]:
    """Row and side of each text."""
    return list(zip(batch["texts_row"].tolist(), batch["texts_side"].tolist(), strict=True))


def text(batch, row: int, side: int) -> tuple[list[int], list[int]]:
    """Token ids and windows of a text, without padding."""
    at = sides(batch).index((row, side))
    length = int(batch["texts_attention_mask"][at].sum())
    return (
        batch["texts_input_ids"][at, :length].tolist(),
        batch["texts_window_ids"][at, :length].tolist(),
    )


def short_rows():
    """Rows of one window."""
    other = st.none() | stories(1, 4)
    return st.fixed_dictionaries(
        {"story": stories(1, 4), "twin": stories(1, 4), "negative": other, "negative_twin": other}
    )


@st.composite
def long_rows(draw):
    """Rows of several windows; each sentence of the twin belongs to one window or none."""
    count = draw(st.integers(2, 4))
    windows = st.lists(stories(1, 3), min_size=count, max_size=count)
    window_ids = draw(
        st.permutations([*range(count), *draw(st.lists(st.integers(-1, count - 1), max_size=3))])
    )
    return {
        "story": draw(windows),
        "twin": draw(stories(len(window_ids), len(window_ids))),
        "twin_windows": [[window] if window >= 0 else [] for window in window_ids],
        "negative": draw(st.none() | windows),
    }


def texts_of(row):
    """Yield side, sentences, window of each sentence, and whether the story has several windows,
    for each text."""
    several = isinstance(row["story"][0], list)
    for side, column in enumerate(("story", "twin", "negative", "negative_twin")):
        content = row.get(column)
        if content is None or (side == DISTRACTOR_TWIN and row.get("negative") is None):
            continue
        if isinstance(content[0], list):
            windows = [number for number, window in enumerate(content) for _ in window]
            content = [sentence for window in content for sentence in window]
        elif several:
            windows = [
                candidates[0] if candidates else -1 for candidates in row[f"{column}_windows"]
            ]
        else:
            windows = [0] * len(content)
        yield side, content, windows, several


@pytest.mark.parametrize("kind", FAMILIES)
@given(st.lists(short_rows() | long_rows(), min_size=1, max_size=4))
def test_batch_matches_naive_encoding(kind, rows):
    batch = collator(kind)(rows)
    tokenizer = encoder_of(kind)[1]
    expected = [
        (number, side, sentences, windows, several)
        for number, row in enumerate(rows)
        for side, sentences, windows, several in texts_of(row)
    ]
    assert sides(batch) == [(number, side) for number, side, *_ in expected]
    longest = 0
    for number, side, sentences, windows, several in expected:
        ids, owners = tokens_of(tokenizer, sentences)
        if several:
            window_ids = [-1 if owner is None else windows[owner] for owner in owners]
        else:
            window_ids = [0] * len(ids)
        assert text(batch, number, side) == (ids, window_ids)
        longest = max(longest, len(ids))
    shape = len(expected), longest
    for name in ("input_ids", "attention_mask", "window_ids"):
        assert batch[f"texts_{name}"].shape == shape
        assert batch[f"texts_{name}"].dtype == torch.int64
    padding = batch["texts_attention_mask"] == 0
    assert (batch["texts_input_ids"][padding] == tokenizer.pad_token_id).all()
    assert (batch["texts_window_ids"][padding] == -1).all()


def test_distractors_can_be_turned_off():
    row = {
        "story": SENTENCES[:2],
        "twin": SENTENCES[2:4],
        "negative": SENTENCES[4:5],
        "negative_twin": SENTENCES[5:6],
    }
    assert sides(collator(distractors=False)([row, row])) == [
        (0, STORY),
        (0, TWIN),
        (1, STORY),
        (1, TWIN),
    ]
    assert sides(collator()([row]))[2:] == [(0, DISTRACTOR), (0, DISTRACTOR_TWIN)]


def test_distractor_twin_needs_distractor():
    row = {"story": SENTENCES[:2], "twin": SENTENCES[2:4], "negative_twin": SENTENCES[5:6]}
    assert sides(collator()([row])) == [(0, STORY), (0, TWIN)]


def test_distractors_of_several_windows_have_no_twin():
    windows = [[sentence] for sentence in SENTENCES]
    row = {
        "story": windows[:2],
        "twin": windows[2:4],
        "negative": windows[4:6],
        "negative_twin": windows[5:7],
    }
    assert sides(collator()([row])) == [(0, STORY), (0, TWIN), (0, DISTRACTOR)]


def test_sentence_without_window_is_encoded_but_not_pooled():
    windows = [["Nadia ran."], ["It rained."]]
    row = {
        "story": windows,
        "twin": ["Nadia ran.", "I was there.", "It rained."],
        "twin_windows": [[0], [], [1]],
    }
    ids, window_ids = text(collator()([row]), 0, TWIN)
    tokenizer = encoder_of("bert")[1]
    assert ids == tokenizer("Nadia ran. I was there. It rained.")["input_ids"]
    lengths = [
        len(tokenizer(sentence, add_special_tokens=False)["input_ids"]) for sentence in row["twin"]
    ]
    assert window_ids == [-1, *[0] * lengths[0], *[-1] * lengths[1], *[1] * lengths[2], -1]


def shared(number: int) -> dict:
    """A row whose twin has a sentence that may belong to either of two windows."""
    return {
        "story": [[f"Nadia ran {number}."], ["It rained."]],
        "twin": ["I was there.", "She ran.", "It rained."],
        "twin_windows": [[0], [0, 1], [1]],
    }


def middle_window(collate: TwinsCollator, row: dict) -> int:
    _, window_ids = text(collate([row]), 0, TWIN)
    return window_ids[len(window_ids) // 2]


def test_sentence_of_two_windows_is_assigned_to_either():
    collate = collator()
    windows = Counter(middle_window(collate, shared(number)) for number in range(200))
    assert set(windows) == {0, 1}
    assert 60 < windows[0] < 140


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_random_choices_depend_on_seed_epoch_and_story_only(seed, epoch, number):
    rows = [shared(number), shared(number + 1)]
    first, again = collator(seed=seed, epoch=epoch), collator(seed=seed)
    again(rows)
    again.epoch = epoch
    assert middle_window(first, rows[0]) == middle_window(again, rows[0])
    assert text(first(rows), 0, TWIN) == text(again(rows[::-1]), 1, TWIN)


def test_random_choices_differ_between_seeds_and_epochs():
    row = shared(0)
    assert {middle_window(collator(seed=seed), row) for seed in range(30)} == {0, 1}
    assert {middle_window(collator(epoch=epoch), row) for epoch in range(30)} == {0, 1}


def test_special_tokens_are_not_pooled_with_several_windows():
    """Also if every sentence of the twin, or of the distractor, is assigned to the first window."""
    row = {
        "story": [["Nadia ran."], ["It rained."]],
        "twin": ["I was there.", "She ran."],
        "twin_windows": [[0], [0, 1]],
        "negative": ["I was there.", "She ran."],
        "negative_windows": [[0, 1], [0]],
    }
    collate = collator()
    last_windows = set()
    for epoch in range(30):
        collate.epoch = epoch
        batch = collate([row])
        for side in (STORY, TWIN, DISTRACTOR):
            _, window_ids = text(batch, 0, side)
            assert window_ids[0] == window_ids[-1] == -1
            last_windows.add(max(window_ids))
    assert last_windows == {0, 1}


def test_dropout_twins_are_the_same_text_twice():
    rows = [
        {
            "story": [f"{word} {at}."],
            "twin": [f"{at} {word}."],
            "negative": [f"no {word} {at}."],
            "negative_twin": [f"{at} no {word}."],
        }
        for at, word in enumerate(WORDS * 3)
    ]
    batch = collator(twins="dropout")(rows)
    tokenizer = encoder_of("bert")[1]
    drawn = Counter()
    for number, row in enumerate(rows):
        ids = text(batch, number, STORY)[0]
        assert text(batch, number, TWIN)[0] == ids
        column = next(
            name for name in ("story", "twin") if tokenizer(row[name][0])["input_ids"] == ids
        )
        drawn[column] += 1
        distractor = row["negative" if column == "story" else "negative_twin"][0]
        for side in (DISTRACTOR, DISTRACTOR_TWIN):
            assert text(batch, number, side)[0] == tokenizer(distractor)["input_ids"]
    assert 0.4 < drawn["twin"] / drawn.total() < 0.6
    assert drawn.total() == len(rows) > 300


def test_dropout_twins_of_several_windows():
    rows = [
        {
            "story": [[f"Nadia {at}."], ["It rained."]],
            "twin": [f"She {at}.", "A flood."],
            "twin_windows": [[0], [1]],
            "negative": [["She laughed."], ["I was there."]],
        }
        for at in range(50)
    ]
    batch = collator(twins="dropout")(rows)
    tokenizer = encoder_of("bert")[1]
    drawn = set()
    for number in range(50):
        ids, window_ids = text(batch, number, STORY)
        assert text(batch, number, TWIN) == (ids, window_ids)
        assert max(window_ids) == 1
        drawn.add(tokenizer.decode(ids[1:2]))
        # Only a distractor twin could replace the distractor, and there is none with several
        # windows.
        assert (
            text(batch, number, DISTRACTOR)[0]
            == tokenizer("She laughed. I was there.")["input_ids"]
        )
    assert len(drawn) == 2


def test_row_without_twin_gets_a_dropout_twin():
    lone = {"story": SENTENCES[:2], "twin": None, "negative": SENTENCES[2:3]}
    pair = {"story": SENTENCES[:2], "twin": SENTENCES[2:4]}
    batch = collator()([lone, pair])
    assert sides(batch) == [
        (0, STORY),
        (0, TWIN),
        (0, DISTRACTOR),
        (0, DISTRACTOR_TWIN),
        (1, STORY),
        (1, TWIN),
    ]
    assert (
        text(batch, 0, STORY)
        == text(batch, 0, TWIN)
        == text(batch, 1, STORY)
        != text(batch, 1, TWIN)
    )
    assert text(batch, 0, DISTRACTOR) == text(batch, 0, DISTRACTOR_TWIN)


def test_text_beyond_the_context_is_cut_with_one_warning(caplog):
    encoder = StoryEncoder(*encoder_of("bert"), context_tokens=8)
    collate = TwinsCollator(encoder.tokens)
    row = {
        "story": [["Nadia swam across."], ["It rained all night."]],
        "twin": [["Nadia swam alone."], ["It rained all night."]],
    }
    ids, window_ids = text(collate([row]), 0, STORY)
    full = encoder_of("bert")[1](" ".join(window[0] for window in row["story"]))["input_ids"]
    assert ids == [*full[:7], full[-1]]
    assert window_ids[0] == window_ids[-1] == -1
    assert collate.truncated_texts == 2
    collate([row, row])
    assert collate.truncated_texts == 6
    assert caplog.text.count("is cut to the 6 that fit the context") == 1


def test_invalid_settings_are_refused():
    with pytest.raises(
        ValueError, match="twins='triplets' is unknown; use 'narrative' or 'dropout'"
    ):
        collator(twins="triplets")
    with pytest.raises(ValueError, match="training needs a fast tokenizer"):
        TwinsCollator(SimpleNamespace(tokenizer=SimpleNamespace(is_fast=False)))
