"""Batches of narrative twins: against a naive encoding of each text, and the random choices."""

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
from support.twins_batches import COLUMNS, texts


def collator(kind: str = "bert", epoch: int = 0, **options) -> TwinsCollator:
    collate = TwinsCollator(small(kind).tokenizer, **options)
    collate.epoch = epoch
    return collate


def texts_of(batch) -> dict[tuple[int, int], tuple[list[int], list[int]]]:
    """Token ids and windows of each text without padding, by row and side."""
    names = ("row", "side", "attention_mask", "input_ids", "window_ids")
    columns = (batch[f"texts_{name}"].tolist() for name in names)
    return {
        (row, side): (ids[: sum(mask)], windows[: sum(mask)])
        for row, side, mask, ids, windows in zip(*columns, strict=True)
    }


@st.composite
def rows(draw):
    """Rows of one window, or of several, in which each sentence of the twin belongs to one or none;
    and the sentences and their windows by side, as the collator should encode them."""
    count = draw(st.integers(1, 4))
    parts = st.lists(stories(1, 3), min_size=count, max_size=count)
    at = draw(st.permutations([*range(count), *draw(st.lists(st.integers(-1, count - 1)))]))
    at = at if count > 1 else [0] * len(at)
    twin = draw(stories(len(at), len(at)))
    row = {"twin": twin, "twin_windows": [[window] if window >= 0 else [] for window in at]}
    expected = {TWIN: (twin, at)}
    for side, column in ((STORY, "story"), (DISTRACTOR, "negative"), (3, "negative_twin")):
        windows = draw(parts if column == "story" else st.none() | parts)
        row[column] = windows and (windows if count > 1 else windows[0])
        # A twin of a distractor is for distractors of one window.
        if windows and (side < 3 or (count == 1 and row["negative"])):
            number = [at for at, window in enumerate(windows) for _ in window]
            expected[side] = [sentence for window in windows for sentence in window], number
    return row, dict(sorted(expected.items())), count > 1


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert"])
@given(st.lists(rows(), min_size=1, max_size=4))
def test_batch_matches_naive_encoding(kind, drawn):
    batch = collator(kind)([row for row, _, _ in drawn])
    tokenizer, expected = encoder_of(kind)[1], {}
    for number, (_, sides, several) in enumerate(drawn):
        for side, (sentences, at) in sides.items():
            ids, owners = tokens_of(tokenizer, sentences)
            special = -1 if several else 0
            windows = [special if owner is None else at[owner] for owner in owners]
            expected[number, side] = (ids, windows)
    assert texts_of(batch) == expected and list(texts_of(batch)) == list(expected)
    longest = max(len(ids) for ids, _ in expected.values())
    padding = batch["texts_attention_mask"] == 0
    for name, fill in (("input_ids", tokenizer.pad_token_id), ("window_ids", -1)):
        values = batch[f"texts_{name}"]
        assert values.shape == (len(expected), longest) and values.dtype == torch.int64
        assert (values[padding] == fill).all()


def test_texts_of_rows_without_distractors_or_a_twin():
    """Without a twin, story and distractor are their own dropout twins."""
    row = {column: SENTENCES[at : at + 2] for at, column in enumerate(COLUMNS)}
    assert list(texts_of(collator(distractors=False)([row]))) == [(0, STORY), (0, TWIN)]
    del row["twin"], row["negative_twin"]
    found = texts_of(collator()([row]))
    assert [side for _, side in found] == [STORY, TWIN, DISTRACTOR, DISTRACTOR_TWIN]
    assert found[0, STORY] == found[0, TWIN] and found[0, DISTRACTOR] == found[0, DISTRACTOR_TWIN]


def shared(number: int) -> dict:
    """A row whose twin has a sentence that may belong to either of two windows."""
    story = [[f"Nadia ran {number}."], ["It rained."]]
    return {"story": story, "twin": ["I was there.", "She ran."], "twin_windows": [[0], [0, 1]]}


def last_windows(collate: TwinsCollator, *numbers: int) -> list[int]:
    """Of the last sentence of the twins of rows; with several windows, special tokens are in none,
    even if all sentences are in the first."""
    found = texts_of(collate([shared(number) for number in numbers]))
    drawn = [windows for (_, side), (_, windows) in found.items() if side == TWIN]
    assert all(windows[0] == windows[-1] == -1 for windows in drawn)
    return [windows[-2] for windows in drawn]


def test_sentence_of_two_windows_is_assigned_to_either():
    """By story, seed and epoch, each of which is 0 by default."""
    drawn = last_windows(collator(), *range(200))
    assert set(drawn) == {0, 1} and 60 < sum(drawn) < 140
    assert last_windows(TwinsCollator(small().tokenizer, seed=0), *range(200)) == drawn
    for name in ("seed", "epoch"):
        assert {last_windows(collator(**{name: number}), 0)[0] for number in range(30)} == {0, 1}


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_random_choices_depend_on_seed_epoch_and_story_only(seed, epoch, number):
    first, again = collator(seed=seed, epoch=epoch), collator(seed=seed)
    last_windows(again, number, number + 1)
    again.epoch = epoch
    drawn = last_windows(again, number + 1, number)
    assert last_windows(first, number, number + 1) == drawn[::-1]


def test_dropout_twins_are_the_same_text_twice():
    """The story or the twin, each with its own distractor."""
    tokenizer, drawn = encoder_of("bert")[1], Counter()
    rows = [texts([f"{at}."], [f"b {at}."], ["c."], ["d."]) for at in range(200)]
    found = texts_of(collator(twins="dropout")(rows))
    for number, row in enumerate(rows):
        ids = [tokenizer(row[name][0])["input_ids"] for name in COLUMNS]
        encoded = [found[number, side][0] for side in range(4)]
        side = ids.index(encoded[0])
        drawn[side] += 1
        assert encoded == [ids[side]] * 2 + [ids[side + 2]] * 2
    assert 80 < drawn[TWIN] < 120 and drawn.total() == 200


@pytest.mark.parametrize(("context", "warnings"), [(8, 1), (9, 0)])
def test_text_beyond_the_context_is_cut_with_one_warning(context, warnings, caplog):
    """Nine tokens are the whole text."""
    model, tokenizer = encoder_of("bert")
    collate = TwinsCollator(StoryEncoder(model, tokenizer, context_tokens=context).tokenizer)
    row = {"story": ["Nadia swam.", "I was there."], "twin": ["Nadia."]}
    whole = tokenizer(" ".join(row["story"]))["input_ids"]
    ids, _ = texts_of(collate([row, row]))[1, STORY]
    assert ids == [*whole[: context - 1], whole[-1]]
    warning = f"are cut to the {context - 2} tokens that fit the context"
    assert caplog.text.count(warning) == warnings


def test_unknown_twins_are_refused():
    with pytest.raises(ValueError, match="twins='triplets' is unknown; use 'narrative' or 'drop"):
        collator(twins="triplets")
