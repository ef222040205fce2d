"""Batches of narrative twins: against a naive encoding of each text, and the random choices."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import StoryEncoder
from narrative_twins.training.losses import DISTRACTOR, DISTRACTOR_TWIN, STORY, TWIN, TwinsCollator

from support.models import SENTENCES, encoder_of, small
from support.oracle import tokens_of
from support.strategies import stories

COLUMNS = ("story", "twin", "negative", "negative_twin")


def collator(kind: str = "bert", **options) -> TwinsCollator:
    return TwinsCollator(small(kind).tokenizer, **options)


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
    more = draw(st.lists(st.integers(-1, count - 1), max_size=3))
    window_ids = draw(st.permutations([*range(count), *more]))
    return {
        "story": draw(windows),
        "twin": draw(stories(len(window_ids), len(window_ids))),
        "twin_windows": [[window] if window >= 0 else [] for window in window_ids],
        "negative": draw(st.none() | windows),
        # Distractors of several windows have no twin, so it is left out.
        "negative_twin": draw(st.none() | windows),
    }


def texts_of(row):
    """Yield side, sentences, window of each sentence, and whether the story has several windows,
    for each text."""
    several = isinstance(row["story"][0], list)
    for side, column in enumerate(COLUMNS):
        content = row.get(column)
        if content is None or (side == DISTRACTOR_TWIN and (several or row["negative"] is None)):
            continue
        windows = [0] * len(content)
        if isinstance(content[0], list):
            windows = [number for number, window in enumerate(content) for _ in window]
            content = [sentence for window in content for sentence in window]
        elif several:
            windows = [ids[0] if ids else -1 for ids in row[f"{column}_windows"]]
        yield side, content, windows, several


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert"])
@given(st.lists(short_rows() | long_rows(), min_size=1, max_size=4))
def test_batch_matches_naive_encoding(kind, rows):
    batch = collator(kind)(rows)
    tokenizer = encoder_of(kind)[1]
    expected = [(number, *found) for number, row in enumerate(rows) for found in texts_of(row)]
    assert sides(batch) == [(number, side) for number, side, *_ in expected]
    longest = 0
    for number, side, sentences, windows, several in expected:
        ids, owners = tokens_of(tokenizer, sentences)
        window_ids = [0] * len(ids)
        if several:
            window_ids = [-1 if owner is None else windows[owner] for owner in owners]
        assert text(batch, number, side) == (ids, window_ids)
        longest = max(longest, len(ids))
    for name in ("input_ids", "attention_mask", "window_ids"):
        assert batch[f"texts_{name}"].shape == (len(expected), longest)
        assert batch[f"texts_{name}"].dtype == torch.int64
    padding = batch["texts_attention_mask"] == 0
    assert (batch["texts_input_ids"][padding] == tokenizer.pad_token_id).all()
    assert (batch["texts_window_ids"][padding] == -1).all()


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        (COLUMNS, {}, [STORY, TWIN, DISTRACTOR, DISTRACTOR_TWIN]),
        (COLUMNS, {"distractors": False}, [STORY, TWIN]),
        (("story", "twin", "negative_twin"), {}, [STORY, TWIN]),
        (("story", "negative"), {}, [STORY, TWIN, DISTRACTOR, DISTRACTOR_TWIN]),
    ],
)
def test_sides(columns, options, expected):
    row = {column: SENTENCES[at : at + 2] for at, column in enumerate(columns)}
    batch = collator(**options)([row])
    assert [side for _, side in sides(batch)] == expected
    if "twin" not in row:
        assert text(batch, 0, STORY) == text(batch, 0, TWIN), "a dropout twin"
        assert text(batch, 0, DISTRACTOR) == text(batch, 0, DISTRACTOR_TWIN)


def shared(number: int) -> dict:
    """A row whose twin has a sentence that may belong to either of two windows."""
    return {
        "story": [[f"Nadia ran {number}."], ["It rained."]],
        "twin": ["I was there.", "She ran."],
        "twin_windows": [[0], [0, 1]],
    }


def last_window(collate: TwinsCollator, row: dict) -> int:
    _, window_ids = text(collate([row]), 0, TWIN)
    # Special tokens are not pooled with several windows, even if the first one has all sentences.
    assert window_ids[0] == window_ids[-1] == -1
    return window_ids[-2]


def test_sentence_of_two_windows_is_assigned_to_either():
    """By story, seed and epoch."""
    collate = collator()
    windows = Counter(last_window(collate, shared(number)) for number in range(200))
    assert set(windows) == {0, 1} and 60 < windows[0] < 140
    for name in ("seed", "epoch"):
        found = {last_window(collator(**{name: number}), shared(0)) for number in range(30)}
        assert found == {0, 1}


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_random_choices_depend_on_seed_epoch_and_story_only(seed, epoch, number):
    rows = [shared(number), shared(number + 1)]
    first, again = collator(seed=seed, epoch=epoch), collator(seed=seed)
    again(rows)
    again.epoch = epoch
    assert text(first(rows), 0, TWIN) == text(again(rows[::-1]), 1, TWIN)


def test_dropout_twins_are_the_same_text_twice():
    """The story or the twin, each with its own distractor."""
    rows = [
        {"story": [f"{at}."], "twin": [f"b {at}."], "negative": ["c."], "negative_twin": ["d."]}
        for at in range(200)
    ]
    batch = collator(twins="dropout")(rows)
    tokenizer = encoder_of("bert")[1]
    drawn = Counter()
    for number, row in enumerate(rows):
        ids = {name: tokenizer(row[name][0])["input_ids"] for name in COLUMNS}
        story, twin, *distractors = (text(batch, number, side)[0] for side in range(4))
        column = "story" if story == ids["story"] else "twin"
        drawn[column] += 1
        assert story == twin == ids[column]
        assert distractors == [ids["negative" if column == "story" else "negative_twin"]] * 2
    assert 0.4 < drawn["twin"] / drawn.total() < 0.6


def test_text_beyond_the_context_is_cut_with_one_warning(caplog):
    encoder = StoryEncoder(*encoder_of("bert"), context_tokens=8)
    collate = TwinsCollator(encoder.tokenizer)
    row = {
        "story": [["Nadia swam across."], ["It rained all night."]],
        "twin": [["Nadia swam alone."], ["It rained all night."]],
    }
    ids, window_ids = text(collate([row]), 0, STORY)
    full = encoder_of("bert")[1](" ".join(window[0] for window in row["story"]))["input_ids"]
    assert ids == [*full[:7], full[-1]]
    assert window_ids[0] == window_ids[-1] == -1
    collate([row, row])
    assert caplog.text.count("are cut to the 6 tokens that fit the context") == 1


def test_invalid_settings_are_refused():
    with pytest.raises(ValueError, match="twins='triplets' is unknown; use 'narrative' or 'drop"):
        collator(twins="triplets")
